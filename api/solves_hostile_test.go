package api_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/wire"
)

// slowPost begins a request for a solve whose body is sent a byte at a time, until
// the server answers. It sends the status line to answers, or "" where the
// connection broke.
func (s *solveServer) slowPost(t *testing.T, answers chan<- string) net.Conn {
	t.Helper()
	c, in := s.dial(t, "POST /v1/solves HTTP/1.1\r\nHost: localhost\r\nPrefer: respond-async\r\n"+
		"Content-Type: application/json\r\nContent-Length: "+
		"1000000\r\n\r\n{\"instance\":")
	_ = c.SetDeadline(time.Time{})
	go func() {
		for {
			if _, err := io.WriteString(c, " "); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	go func() {
		line, _ := in.ReadString('\n')
		_ = c.Close()
		answers <- line
	}()
	return c
}

// TestSlowLoris checks that solves go on however many clients send a byte now and then: these hold no place, and are
// ended once the grace is over.
func TestSlowLoris(t *testing.T) {
	const running, queue, clients = 1, 3, 300
	const places = 2 * (running + queue)
	s := newSolveServer(t, service.Config{Engine: ready{&hare.Result{Status: hare.StatusSucceeded,
		Termination: hare.TerminationOptimal}}, Running: running, Queue: queue},
		func(c *api.Config) {
			c.BodyTime, c.BodyGrace = time.Hour, 2*time.Second
			c.Memory = admission.NewMemory(64<<20, false)
		})
	answers := make(chan string, clients)
	for range clients {
		s.slowPost(t, answers)
	}
	wait(t, "more clients than there are places stall", func() bool { return s.config.Memory.Used() > 2*places*(16<<10) })
	for range 3 {
		if code, text, _ := s.post(t, `{}`); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
	}
	for range clients {
		// "" means that the connection broke while the client wrote. Those beyond the limit of slow uploads get 503.
		if line := <-answers; line != "" && !strings.Contains(line, "408") && !strings.Contains(line, "503") {
			t.Errorf("%q", line)
		}
	}
	wait(t, "the memory is free", func() bool { return s.config.Memory.Used() == 0 })
}

// TestSlowBodyEnds checks that a body which takes longer than BodyTime is cut off,
// and that its place becomes free.
func TestSlowBodyEnds(t *testing.T) {
	s := newSolveServer(t, service.Config{Engine: ready{&hare.Result{Status: hare.StatusSucceeded,
		Termination: hare.TerminationOptimal}}, Running: 1, Queue: -1},
		func(c *api.Config) { c.BodyTime = 300 * time.Millisecond })
	answers := make(chan string, 2)
	for range cap(answers) { // as many answers as there are places
		s.slowPost(t, answers)
	}
	for range cap(answers) {
		if line := <-answers; line != "" && !strings.Contains(line, "408") {
			t.Errorf("%q", line)
		}
	}
	s.postUntil(t, http.StatusOK)
}

// postUntil submits solves until one gets the status want. The server sees the end
// of a connection some time after the client, and on a busy machine the body of postUntil may
// be too slow as well.
func (s *solveServer) postUntil(t *testing.T, want int) {
	t.Helper()
	for i := 0; ; i++ {
		code, text, _ := s.post(t, fmt.Sprintf(`{"seed":%d}`, i))
		if code == want {
			return
		}
		if code != http.StatusServiceUnavailable && code != http.StatusRequestTimeout {
			t.Fatalf("%d %s", code, text)
		}
		time.Sleep(time.Millisecond)
	}
}

// wide returns an instance of jobs with many rounds, and a result whose lanes have
// one entry for each round.
func wide(tb testing.TB, gpus, entries int) (*hare.Instance, *hare.Result) {
	tb.Helper()
	inst, err := wire.DecodeInstance(strings.NewReader(fmt.Sprintf(
		`{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":%d}}]},"jobs":[{"id":"x","rounds":%d,`+
			`"tasks":%d,"on":{"V100":{"compute_s":1}}}]}`, gpus, entries, gpus)), wire.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	v, b := hare.Product(1e6, int64(entries)*1e6), hare.Product(1e6, 1)
	res := &hare.Result{Status: hare.StatusSucceeded, Termination: hare.TerminationGap, InstanceSHA256: wire.SHA256(inst),
		Objective: hare.ObjectiveWeightedJCT, Value: &v, Bound: &b,
		Schedule: &hare.Schedule{Jobs: []string{"x"}}}
	for g := range gpus {
		l := hare.Lane{GPU: "a/" + strconv.Itoa(g), Job: make([]int32, entries), Round: make([]int64, entries),
			StartUs: make([]int64, entries)}
		for i := range entries {
			l.Round[i], l.StartUs[i] = int64(i), int64(i)*1e6
		}
		res.Schedule.Lanes = append(res.Schedule.Lanes, l)
	}
	return inst, res
}

// TestLargeResult checks that a large result is sent without a second copy in
// memory, whatever its form, and that the connection of a client that does not read
// is closed.
func TestLargeResult(t *testing.T) {
	gpus := 40
	if testing.Short() {
		gpus = 20
	}
	if *soak {
		gpus = 400 // there are 4,000,000 tasks
	}
	inst, res := wide(t, gpus, 10_000)
	s := newSolveServer(t, service.Config{Engine: ready{res}})
	impatient := s.impatient(t)
	var text bytes.Buffer
	_ = wire.EncodeInstance(&text, inst) // a buffer never returns an error
	code, _, h := s.call(t, "POST", "/v1/solves", `{"instance":`+text.String()+`}`, "Prefer", "wait=60",
		"Accept-Encoding", "identity")
	at := h.Get("Location")
	size, _ := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if code != 200 || size < int64(gpus)*10_000*10 {
		t.Fatalf("%d %v", code, h)
	}
	for _, coding := range []string{"identity", "gzip", "zstd"} {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL+at+"/result", nil)
		r.Header.Set("Accept-Encoding", coding)
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		runtime.ReadMemStats(&after)
		if err != nil || coding == "identity" && n != size {
			t.Errorf("%d bytes of %d: %v", n, size, err)
		}
		took := int64(after.TotalAlloc - before.TotalAlloc)
		t.Logf("%s: %d MiB of result, %d MiB sent, %.1f MiB allocated", coding, size>>20, n>>20, float64(took)/(1<<20))
		if took > size/2+(8<<20) {
			t.Errorf("%s: %d MiB allocated to send %d MiB", coding, took>>20, size>>20)
		}
	}
	// These clients do not read: the server closes their connections, and they
	// delay nobody else.
	for _, path := range []string{"/result", "/schedule", "/schedule?format=csv", "/schedule?format=ndjson"} {
		c, _ := impatient.dial(t, "GET "+at+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
	}
	for route, n := range map[string]int{"result": 1, "schedule": 3} {
		impatient.eventually(t, fmt.Sprintf(`hare_http_request_seconds_count{route="/v1/solves/{id}/%s"} %d`, route, n))
	}
	if code, _, _ := s.call(t, "GET", at, ""); code != 200 {
		t.Error(code)
	}
}

// TestVanishingClients checks that clients that disconnect at any moment leave
// nothing behind.
func TestVanishingClients(t *testing.T) {
	engine := newHeld()
	s := newSolveServer(t, service.Config{Engine: engine, Running: 1, Queue: 4},
		func(c *api.Config) { c.Heartbeat = 5 * time.Millisecond })
	_, _, h := s.post(t, `{}`, "Prefer", "respond-async")
	at := h.Get("Location")
	<-engine.began
	_, _, h = s.post(t, `{"seed":2}`, "Prefer", "respond-async")
	queued := h.Get("Location")
	var conns []net.Conn
	for _, text := range []string{
		"GET " + at + "/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n",
		"GET " + at + "/events HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET " + queued + "/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n",
		"GET " + at + "?wait=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET " + queued + "?wait=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"POST /v1/solves HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
			"Content-Length: 5000\r\n\r\n{\"instance\":",
		fmt.Sprintf("POST /v1/solves HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=3600\r\nIdempotency-Key: k\r\n"+
			"Content-Type: application/json\r\nContent-Length: "+
			"%d\r\n\r\n%s", len(body(t)), body(t)),
	} {
		c, _ := s.dial(t, text)
		conns = append(conns, c)
	}
	s.eventually(t, `hare_session_streams{of="solves"} 3`)
	s.eventually(t, `hare_session_streams{of="waits"} 2`)
	for ids, _ := s.solveIDs(t, "?status=queued"); len(ids) < 2; ids, _ = s.solveIDs(t, "?status=queued") {
		time.Sleep(time.Millisecond)
	}
	for _, c := range conns {
		_ = c.(*net.TCPConn).SetLinger(0) // closes with a reset
		_ = c.Close()
	}
	s.eventually(t, `hare_session_streams{of="solves"} 0`)
	s.eventually(t, `hare_session_streams{of="waits"} 0`)
	// A solve that was submitted with an idempotency key continues.
	if ids, _ := s.solveIDs(t, "?status=queued"); len(ids) != 2 {
		t.Errorf("%v", ids)
	}
	close(engine.free)
	if v, _ := s.look(t, queued+"?wait=20"); v.Status != "succeeded" {
		t.Errorf("%+v", v)
	}
}

// TestTooManyStreamsOfSolves checks that streams beyond the limit are refused with
// Retry-After, and that the open ones continue.
func TestTooManyStreamsOfSolves(t *testing.T) {
	engine := newHeld()
	s := newSolveServer(t, service.Config{Engine: engine}, func(c *api.Config) { c.MaxStreams = 2 })
	_, _, h := s.post(t, `{}`, "Prefer", "respond-async")
	at := h.Get("Location")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, endA := s.stream(t, ctx, at)
	defer endA()
	_, endB := s.stream(t, ctx, at, "Accept", "text/event-stream")
	defer endB()
	for _, c := range [][]string{{at + "/events", "Accept", "application/x-ndjson"},
		{at + "/events", "Accept", "text/event-stream"}, {at + "?wait=5"}} {
		code, text, h := s.call(t, "GET", c[0], "", c[1:]...)
		if code != 503 || h.Get("Retry-After") == "" || !strings.Contains(text, `"too_many_streams"`) ||
			h.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v: %d %s", c, code, text)
		}
	}
	close(engine.free)
	if rest, err := io.ReadAll(a); err != nil || !strings.Contains(string(rest), `"done"`) {
		t.Errorf("%v %s", err, rest)
	}
}

// TestIdleStreams checks that ten thousand idle streams take little memory and
// delay no other call.
func TestIdleStreams(t *testing.T) {
	streams := 10_000
	if testing.Short() {
		streams = 1000
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Skip(err)
	}
	if room := (int(min(limit.Max, 1<<20)) - 200) / 2; room < streams {
		streams = room // both ends of each connection are in this process
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Skip(err)
	}
	engine := newHeld()
	s := newSolveServer(t, service.Config{Engine: engine},
		func(c *api.Config) { c.MaxStreams = 20_000; c.Heartbeat = time.Minute })
	_, _, h := s.post(t, `{}`, "Prefer", "respond-async")
	at := h.Get("Location")
	<-engine.began
	runtime.GC()
	before := residentBytes(t)
	var mem0, mem1 runtime.MemStats
	runtime.ReadMemStats(&mem0)
	conns := make([]net.Conn, streams)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	text := "GET " + at + "/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
	began := time.Now()
	for i := range conns {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
		conns[i] = c
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
	}
	one := bufio.NewReaderSize(nil, 512)
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		one.Reset(c)
		for line := ""; !strings.HasPrefix(line, "id: "); {
			var err error
			if line, err = one.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	took := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&mem1)
	per := float64(residentBytes(t)-before) / float64(streams)
	inUse := float64(mem1.HeapInuse+mem1.StackInuse-mem0.HeapInuse-mem0.StackInuse) / float64(streams)
	began = time.Now()
	if v, _ := s.look(t, at); v.Status != "running" {
		t.Errorf("%+v", v)
	}
	t.Logf("%d streams in %v: %.1f KiB resident each, of which heap and stacks %.1f KiB; a request beside them takes %v",
		streams, took, per/1024, inUse/1024, time.Since(began))
	// Each stream needs a goroutine that writes, one that reads what is stored, one
	// of net/http that notices the end of the connection, and the buffers of the
	// connection.
	if inUse > 64<<10 {
		t.Errorf("%.0f bytes a stream", inUse)
	}
	s.eventually(t, fmt.Sprintf(`hare_session_streams{of="solves"} %d`, streams))
	close(engine.free)
	for i, c := range conns {
		one.Reset(c)
		for line := ""; line != "event: done\n"; {
			var err error
			if line, err = one.ReadString('\n'); err != nil {
				t.Fatalf("stream %d: %v", i, err)
			}
		}
		_ = c.Close()
	}
	s.eventually(t, `hare_session_streams{of="solves"} 0`)
}
