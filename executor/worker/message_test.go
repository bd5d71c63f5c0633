package worker_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/hare-sched/hare/executor/worker"
)

func frame(length uint32, body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, length), body...)
}

func TestFramesThatAreNoMessagesAreRefused(t *testing.T) {
	long := strings.Repeat("x", worker.MaxFrame)
	for name, c := range map[string]struct {
		frame []byte
		says  string
	}{
		"a cut length":         {[]byte{0, 0, 1}, "ended inside a frame"},
		"a cut body":           {frame(40, `{"type":"done"`), "ended inside a frame"},
		"no body":              {frame(40, ``), "ended inside a frame"},
		"an empty frame":       {frame(0, ``), "a frame of 0 bytes"},
		"an oversized frame":   {frame(worker.MaxFrame+1, long), "a frame of 1048577 bytes"},
		"the largest length":   {frame(1<<32-1, ``), "a frame of 4294967295 bytes"},
		"garbage":              {frame(4, "\x00\xff\x01\x02"), "not a message"},
		"an array":             {frame(2, `[]`), "not a message"},
		"a second object":      {frame(4, `{}{}`), "not a message"},
		"a name twice":         {frame(35, `{"type":"done","epoch":1,"epoch":2}`), "not a message"},
		"an unknown name":      {frame(32, `{"type":"done","epoch":1,"pip":2}`)[:36], "not a message"},
		"a text for a number":  {frame(27, `{"type":"done","epoch":"1"}`), "not a message"},
		"no epoch":             {frame(15, `{"type":"done"}`), "epoch 0"},
		"a negative seq":       {frame(33, `{"type":"done","epoch":1,"seq":-1}`), "not a message"},
		"a version below zero": {frame(38, `{"type":"done","epoch":1,"version":-1}`), "below 0"},
	} {
		_, err := worker.ReadMessage(bytes.NewReader(c.frame))
		var protocol *worker.ProtocolError
		if !errors.As(err, &protocol) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, which does not say %q", name, err, c.says)
		}
	}
	if _, err := worker.ReadMessage(bytes.NewReader(nil)); !errors.Is(err, io.EOF) {
		t.Errorf("the end between frames: %v", err)
	}
	if _, err := worker.AppendMessage(nil, &worker.Message{Reason: long}); err == nil {
		t.Error("a message longer than a frame is sent")
	}
}

func FuzzReadMessage(f *testing.F) {
	f.Add(frame(24, `{"type":"done","epoch":1}`)[:28])
	f.Add(frame(25, `{"type":"done","epoch":1}`))
	f.Add(frame(worker.MaxFrame+1, `{}`))
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		m, err := worker.ReadMessage(r)
		if err != nil {
			return
		}
		again, err := worker.AppendMessage(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		back, err := worker.ReadMessage(bytes.NewReader(again))
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if fmt.Sprintf("%+v", deref(m)) != fmt.Sprintf("%+v", deref(back)) {
			t.Fatalf("%+v became %+v", m, back)
		}
	})
}

// deref replaces the pointer of a message, which differs between two equal messages.
func deref(m *worker.Message) string {
	loss := "nil"
	if m.Loss != nil {
		loss = fmt.Sprint(*m.Loss)
	}
	c := *m
	c.Loss = nil
	return fmt.Sprintf("%+v %s", c, loss)
}
