package worker

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A process of another user is not let in, even where the file system would let it.
func TestForeignProcessesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has the mode %v, %v", info.Mode(), err)
	}
	accepted := make(chan error, 1)
	go func() {
		_, err := Accept(l, os.Geteuid()+1)
		accepted <- err
	}()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("a foreign process read %d bytes", n)
	}
	_ = l.Close()
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
}

func TestGreetingsOfOtherWorkersAreRefused(t *testing.T) {
	good := Message{Type: Hello, Epoch: 3, Protocol: Protocol}
	if err := checkHello(&good, 3); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Message){
		"another epoch":    func(m *Message) { m.Epoch = 2 },
		"another protocol": func(m *Message) { m.Protocol = 1 },
		"an answer":        func(m *Message) { m.Type, m.Seq = Done, 1 },
	} {
		m := good
		change(&m)
		if err := checkHello(&m, 3); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestAnswersThatNobodyWaitsForAreRefused(t *testing.T) {
	for name, m := range map[string]Message{
		"another epoch":      {Type: Done, Epoch: 1, Seq: 1, Job: "j"},
		"another seq":        {Type: Done, Epoch: 2, Seq: 7, Job: "j"},
		"before the earlier": {Type: Evicted, Epoch: 2, Seq: 2, Job: "j"},
		"another type":       {Type: Evicted, Epoch: 2, Seq: 1, Job: "j"},
		"another job":        {Type: Done, Epoch: 2, Seq: 1, Job: "i"},
		"a request":          {Type: Run, Epoch: 2, Seq: 1, Job: "j"},
	} {
		p := &process{epoch: 2, pending: map[int64]call{}}
		for seq, request := range map[int64]Type{1: Run, 2: Evict} {
			p.pending[seq] = call{request: request, job: "j", then: func(*Message, error) {}}
		}
		var protocol *ProtocolError
		if err := p.give(&m); !errors.As(err, &protocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBackoffDoubles(t *testing.T) {
	for deaths, want := range []time.Duration{0, 0, 100, 200, 400, 800} {
		if got := backoff(100, deaths); got != want {
			t.Errorf("after %d deaths %v, not %v", deaths, got, want)
		}
	}
	if got := backoff(time.Second, 1000); got != maxBackoff {
		t.Errorf("after many deaths %v", got)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var w tail
	for range 1000 {
		if _, err := w.Write([]byte("a line that is not kept\n")); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = w.Write([]byte("the last line \xff\n\n"))
	if len(w.kept) > tailBytes || w.last() != "the last line ?" {
		t.Errorf("%d bytes, %q", len(w.kept), w.last())
	}
}

func TestSegmentsCannotBeResized(t *testing.T) {
	s, err := newSegment("j", 100, 10, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	for _, size := range []int64{0, 1 << 20} {
		if err := s.file.Truncate(size); err == nil {
			t.Errorf("the memory can be made %d bytes", size)
		}
	}
	for _, bad := range [][2]int64{{0, 1}, {1, 0}, {1 << 60, 1}, {1, 1 << 50}} {
		if _, err := newSegment("j", bad[0], bad[1], 1<<20); err == nil {
			t.Errorf("%v bytes are accepted", bad)
		}
	}
}
