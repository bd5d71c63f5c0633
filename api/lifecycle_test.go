package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/verify"
)

// held is an engine whose solves end with their context or when the test releases
// them.
type held struct {
	began chan struct{}
	free  chan struct{}
	ended chan error
}

func newHeld() *held {
	return &held{began: make(chan struct{}, 100), free: make(chan struct{}), ended: make(chan error, 100)}
}

func (h *held) Solve(ctx context.Context, _ *hare.Instance, opt hare.Options) (*hare.Result, error) {
	h.began <- struct{}{}
	res := &hare.Result{Status: hare.StatusSucceeded, Termination: hare.TerminationOptimal, Options: opt}
	select {
	case <-h.free:
	case <-ctx.Done():
		res.Termination = hare.TerminationCancelled
	}
	h.ended <- ctx.Err()
	return res, nil
}

func (h *held) Bound(ctx context.Context, _ *hare.Instance, _ string) (*hare.Relaxation, error) {
	h.began <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (h *held) Verify(*hare.Instance, *hare.Result, *verify.Previous) *verify.Report {
	panic("a defect")
}

func body(t testing.TB) string { return `{"instance":` + example(t) + `}` }

func TestQueueIsBounded(t *testing.T) {
	engine := newHeld()
	svc := service.New(service.Config{Engine: engine, Running: 2, Queue: 1})
	h := servetest.New(t, svc, api.Config{})
	text := body(t)
	var group sync.WaitGroup
	codes := make(chan int, 3)
	for range 3 {
		group.Go(func() { codes <- request(t, h, "POST", "/v1/solves", text).Code })
	}
	<-engine.began
	<-engine.began
	for waiting, _ := svc.Load(); waiting < 1; waiting, _ = svc.Load() {
		time.Sleep(time.Millisecond)
	}
	w := request(t, h, "POST", "/v1/solves", text)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" ||
		!strings.Contains(w.Body.String(), `"code":"busy"`) {
		t.Errorf("one too many: %d %s", w.Code, w.Body)
	}
	if m := request(t, h, "GET", "/metrics", "").Body.String(); !strings.Contains(m, "hare_queue_waiting 1") ||
		!strings.Contains(m, "hare_queue_running 2") {
		t.Error("the queue is not in the metrics")
	}
	close(engine.free)
	group.Wait()
	for range 3 {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("admitted: %d", code)
		}
	}
}

func TestLateInTheQueue(t *testing.T) {
	engine := newHeld()
	h := servetest.New(t, service.New(service.Config{Engine: engine, Running: 1}), api.Config{})
	text := body(t)
	var group sync.WaitGroup
	group.Go(func() { request(t, h, "POST", "/v1/solves", text) })
	<-engine.began
	w := request(t, h, "POST", "/v1/solves", strings.TrimSuffix(text, "}")+`,"options":{"time_limit_s":0.05}}`)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"code":"late"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	close(engine.free)
	group.Wait()
}

func TestBoundTakesTooLong(t *testing.T) {
	h := servetest.New(t, service.New(service.Config{Engine: newHeld(), MaxTime: 10 * time.Millisecond}), api.Config{})
	if w := request(t, h, "POST", "/v1/bounds", body(t)); w.Code != http.StatusServiceUnavailable ||
		!strings.Contains(w.Body.String(), `"code":"deadline"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestClientLeaves(t *testing.T) {
	engine := newHeld()
	h := servetest.New(t, service.New(service.Config{Engine: engine}), api.Config{})
	server := httptest.NewServer(h)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/solves", strings.NewReader(body(t)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	go func() {
		<-engine.began
		cancel()
	}()
	resp, err := server.Client().Do(r)
	if err == nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := <-engine.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the solve ended by %v", err)
	}
	wait(t, "the metrics say that the client left", func() bool {
		m := request(t, h, "GET", "/metrics", "").Body.String()
		return strings.Contains(m, `hare_http_requests_total{code="499",method="POST",route="/v1/solves"} 1`)
	})
}

// TestBodyTime checks that a client that sends slowly is cut off, and that the same
// limit does not cut off a client that waits long for its answer.
func TestBodyTime(t *testing.T) {
	engine := newHeld()
	server := httptest.NewServer(servetest.New(t, service.New(service.Config{Engine: engine}),
		api.Config{BodyTime: 50 * time.Millisecond}))
	defer server.Close()
	slow, quick := io.Pipe()
	go func() { _, _ = quick.Write([]byte(`{"instance":`)) }()
	resp, err := server.Client().Post(server.URL+"/v1/solves", "application/json", slow)
	if err == nil {
		if resp.StatusCode != http.StatusRequestTimeout {
			t.Errorf("slow: %d", resp.StatusCode)
		}
		_ = resp.Body.Close()
	}
	_ = quick.Close()
	go func() {
		<-engine.began
		time.Sleep(150 * time.Millisecond)
		close(engine.free)
	}()
	for {
		resp, err = server.Client().Post(server.URL+"/v1/solves", "application/json", strings.NewReader(body(t)))
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusRequestTimeout {
			break
		}
		_ = resp.Body.Close() // on a busy machine this body may have been too slow as well
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(text), `"optimal"`) {
		t.Errorf("slow reader: %d %s %v", resp.StatusCode, text, err)
	}
	_ = resp.Body.Close()
}

func TestPanicIsOne500(t *testing.T) {
	var log bytes.Buffer
	h := servetest.New(t, service.New(service.Config{Engine: newHeld(), Running: 1}),
		api.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	text := strings.TrimSuffix(body(t), "}") + `,"result":{"hare":"result/v1"}}`
	for range 2 {
		w := request(t, h, "POST", "/v1/verify", text, "Accept-Encoding", "gzip")
		if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), `"code":"internal"`) ||
			strings.Contains(w.Body.String(), "a defect") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	m := request(t, h, "GET", "/metrics", "").Body.String()
	for _, want := range []string{"hare_panics_total 2",
		`hare_http_requests_total{code="500",method="POST",route="/v1/verify"} 2`, "hare_queue_running 0"} {
		if !strings.Contains(m, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if !strings.Contains(log.String(), "a defect") || !strings.Contains(log.String(), "level=ERROR msg=request") {
		t.Errorf("the log says %s", &log)
	}
}

// TestShutdown checks what the end of the context does, which SIGTERM causes:
// running solves get the grace period and then answer with their best pair;
// meanwhile new work is refused, and /readyz reports that the server drains.
func TestShutdown(t *testing.T) {
	t.Run("within the grace", func(t *testing.T) {
		s := newShutdown(t, time.Hour)
		resp, err := s.client.Get(s.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("/readyz: %d", resp.StatusCode)
		}
		if got := s.post(body(t)); !strings.Contains(got, `"draining"`) {
			t.Errorf("new work: %s", got)
		}
		close(s.engine.free)
		s.end(t, hare.TerminationOptimal)
	})
	t.Run("after the grace", func(t *testing.T) {
		newShutdown(t, time.Millisecond).end(t, hare.TerminationCancelled)
	})
	// Clients that stall keep nobody from the answer, and the end of the server is no error.
	t.Run("with clients that stall", func(t *testing.T) {
		const post = "POST /v1/solves HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
		s := newShutdown(t, 100*time.Millisecond,
			"", "GET /v1/ver", post+"Content-Length: 1000\r\n\r\n{", post+"Content-Length: 1000\r\n\r\n",
			post+"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", post+"Prefer: respond-async\r\nContent-Length: 9\r\n\r\n{",
			strings.ReplaceAll(post, "solves", "sessions/x/events")+"Transfer-Encoding: chunked\r\n\r\n",
			strings.ReplaceAll(post, "solves", "clusters/x/agents/a/sync")+"Content-Length: 9\r\n\r\n",
			post+"Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n")
		began := time.Now()
		s.end(t, hare.TerminationCancelled)
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}

// shutdown is a server whose context ends while it solves.
type shutdown struct {
	engine *held
	client *http.Client
	url    string
	answer chan string // the answer of the solve
	served chan error
}

// Of each request in part, the server gets nothing more.
func newShutdown(t *testing.T, grace time.Duration, part ...string) *shutdown {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &shutdown{engine: newHeld(), client: &http.Client{Transport: &http.Transport{}},
		url: "http://" + l.Addr().String(), answer: make(chan string, 1), served: make(chan error, 1)}
	t.Cleanup(s.client.CloseIdleConnections)
	svc := service.New(service.Config{Engine: s.engine})
	ctx, cancel := context.WithCancel(t.Context())
	h := servetest.New(t, svc, api.Config{})
	go func() { s.served <- api.Serve(ctx, l, h, svc, grace) }()
	text := body(t)
	go func() { s.answer <- s.post(text) }()
	<-s.engine.began
	for _, text := range part {
		c, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			_, err = io.WriteString(c, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	cancel()
	<-svc.Draining()
	return s
}

// post submits a solve and returns its answer or its error.
func (s *shutdown) post(text string) string {
	resp, err := s.client.Post(s.url+"/v1/solves", "application/json", strings.NewReader(text))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(got)
}

// end waits for the answer of the solve and for the end of the server.
func (s *shutdown) end(t *testing.T, termination string) {
	t.Helper()
	if got := <-s.answer; !strings.Contains(got, `"termination":"`+termination+`"`) {
		t.Errorf("what ran: %s", got)
	}
	if err := <-s.served; err != nil {
		t.Error(err)
	}
}

func TestServeFailsWithItsListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	svc := service.New(service.Config{})
	if err := api.Serve(t.Context(), l, servetest.New(t, svc, api.Config{}), svc, time.Second); err == nil {
		t.Error("no error")
	}
}
