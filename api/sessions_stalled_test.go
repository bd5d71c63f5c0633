package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

// TestEventSource checks that a reader that resumes after its last event misses no
// event and gets none twice, and that the server sends comments while nothing
// happens.
func TestEventSource(t *testing.T) {
	s := newSessionServer(t, sessions.Config{}, func(c *api.Config) { c.Heartbeat = 10 * time.Millisecond })
	at := s.open(t, "")
	s.call(t, "POST", at+"/events", ticks(1, 5))
	read := func(last string, want ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "GET", s.URL+at+"/decisions", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		in := bufio.NewReader(resp.Body)
		for _, w := range want {
			line, err := in.ReadString('\n')
			for err == nil && !strings.HasPrefix(line, "id:") && !strings.HasPrefix(line, ":") {
				line, err = in.ReadString('\n')
			}
			if line != w+"\n" {
				t.Errorf("%q %v, want %s", line, err, w)
			}
		}
	}
	read("", "id: 1", "id: 2", "id: 3")
	read("3", "id: 4", "id: 5", ": alive")
	read("5", ": alive", ": alive")
	read("9223372036854775807", ": alive")
	if code, text, _ := s.call(t, "GET", at+"/decisions?after=9223372036854775807", ""); code != 200 || text != "" {
		t.Errorf("%d %s", code, text)
	}
	s.eventually(t, `hare_session_streams{of="decisions"} 0`)
}

// TestSlowReaders checks that readers that do not read delay nobody else, and that
// the server finally closes their connections.
func TestSlowReaders(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	impatient := s.impatient(t)
	at := s.open(t, "")
	// The answers do not fit into the buffers of a connection.
	const n = 20_000
	body := ticks(1, n)
	for _, head := range []string{
		"GET " + at + "/decisions HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n",
		"GET " + at + "/decisions?follow=true HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		c, _ := impatient.dial(t, head)
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
	}
	// This client sends and does not read: the server stops reading from it.
	c, _ := impatient.dial(t, fmt.Sprintf("POST %s/events HTTP/1.1\r\nHost: localhost\r\n"+
		"Content-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n", at,
		20*len(body)))
	_ = c.(*net.TCPConn).SetReadBuffer(4096)
	go func() {
		for range 20 {
			if _, err := io.WriteString(c, body); err != nil {
				return
			}
		}
	}()
	impatient.eventually(t, `hare_session_streams{of="decisions"} 2`)
	began := time.Now()
	if _, text, _ := s.call(t, "POST", at+"/events", body); text != ticked(1, n) {
		t.Errorf("%.300s", text)
	}
	t.Logf("%d events beside slow readers in %v", n, time.Since(began))
	for _, of := range []string{"decisions", "events"} {
		impatient.eventually(t, fmt.Sprintf("hare_session_streams{of=%q} 0", of))
	}
	_ = c.Close()
}

// TestServeEndsStreams checks that a server ends soon although streams are open,
// and that it sends these a last line.
func TestServeEndsStreams(t *testing.T) {
	svc := service.New(service.Config{})
	all, err := sessions.Open(t.Context(), sessions.Config{Store: store.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	var cluster hare.Cluster
	if c, err := wire.DecodeCluster(strings.NewReader(twoGPUs), wire.Limits{}); err != nil {
		t.Fatal(err)
	} else {
		cluster = *c
	}
	session, err := all.Create(t.Context(), "", sessions.SessionConfig{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	h := servetest.New(t, svc, api.Config{Sessions: all})
	go func() { ended <- api.Serve(ctx, l, h, svc, 2*patience) }()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	url := "http://" + l.Addr().String() + "/v1/sessions/" + session.ID()
	r, w := io.Pipe()
	req, _ := http.NewRequestWithContext(t.Context(), "POST", url+"/events", r)
	req.Header.Set("Content-Type", "application/x-ndjson")
	events, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	req, _ = http.NewRequestWithContext(t.Context(), "GET", url+"/decisions", nil)
	req.Header.Set("Accept", "text/event-stream")
	source, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, ticks(1, 100)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(source.Body)
	for line := ""; line != "id: 100\n"; {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	stop()
	if rest, err := io.ReadAll(in); err != nil ||
		!strings.HasSuffix(string(rest), "event: end\ndata: {\"code\":\"draining\"}\n\n") {
		t.Errorf("%q %v", rest, err)
	}
	if text, err := io.ReadAll(events.Body); !strings.HasPrefix(string(text),
		ticked(1, 100)+`{"seq":null,"error":{"status":503,`) || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v %.200s", err, text)
	}
	_ = w.Close()
	_ = source.Body.Close()
	_ = events.Body.Close()
	if err := <-ended; err != nil || time.Since(began) > patience {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if err := all.Close(); err != nil {
		t.Error(err)
	}
}

// TestTooManyStreams checks that streams beyond the limit are refused and that the
// open ones continue.
func TestTooManyStreams(t *testing.T) {
	s := newSessionServer(t, sessions.Config{}, func(c *api.Config) { c.MaxStreams = 2 })
	at := s.open(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, b := s.talk(t, ctx, at), s.talk(t, ctx, at)
	for _, c := range []struct{ method, path, body string }{
		{"POST", at + "/events", tick(1)},
		{"GET", at + "/decisions?follow=true", ""},
	} {
		code, text, header := s.call(t, c.method, c.path, c.body)
		if code != 503 || header.Get("Retry-After") == "" || !strings.Contains(text, `"too_many_streams"`) {
			t.Errorf("%s: %d %s", c.path, code, text)
		}
	}
	if code, _, _ := s.call(t, "GET", at+"/decisions", ""); code != 200 {
		t.Errorf("reading: %d", code)
	}
	a.end()
	s.eventually(t, `hare_session_streams{of="events"} 1`)
	if code, text, _ := s.call(t, "POST", at+"/events", tick(1)); code != 200 || text != ticked(1, 1) {
		t.Errorf("%d %s", code, text)
	}
	if got := b.say(strings.TrimSpace(tick(2))); got+"\n" != ticked(2, 2) {
		t.Error(got)
	}
	b.end()
}

// slowDeadline is a ResponseWriter that takes some time to set a deadline.
type slowDeadline struct {
	*httptest.ResponseRecorder
	setting, returned chan struct{}
	late              atomic.Bool
}

func (w *slowDeadline) SetReadDeadline(at time.Time) error {
	if at.IsZero() || at.After(time.Now()) {
		return nil
	}
	close(w.setting)
	select {
	case <-w.returned:
		w.late.Store(true)
	case <-time.After(200 * time.Millisecond):
	}
	return nil
}

// TestEventsLeaveTheWriterAlone checks that nothing uses the ResponseWriter after
// the handler has returned, which would end the process under HTTP/2.
func TestEventsLeaveTheWriterAlone(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	h := s.Config.Handler
	at := s.open(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	body, in := io.Pipe()
	r := httptest.NewRequest("POST", at+"/events", body).WithContext(ctx)
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/x-ndjson")
	w := &slowDeadline{ResponseRecorder: httptest.NewRecorder(), setting: make(chan struct{}),
		returned: make(chan struct{})}
	go func() {
		defer close(w.returned)
		defer func() { _ = recover() }() // recovers from http.ErrAbortHandler
		h.ServeHTTP(w, r)
	}()
	if _, err := io.WriteString(in, `{"seq":1,"at_s":0,"type":"tick"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-w.setting
	_ = in.CloseWithError(context.Canceled) // as the server's connection does
	<-w.returned
	if w.late.Load() {
		t.Error("the deadline was set after the handler had returned")
	}
}

// TestDraining checks that a draining server refuses streams of events and still
// serves what is recorded.
func TestDraining(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "")
	s.call(t, "POST", at+"/events", ticks(1, 3))
	s.svc.Drain(t.Context())
	for _, c := range []struct {
		method, path, body, accept string
		code                       int
	}{
		{"POST", "/v1/sessions", `{"cluster":` + twoGPUs + `}`, "*/*", 503},
		{"POST", at + "/events", tick(4), "*/*", 503},
		{"GET", at + "/decisions", "", "text/event-stream", 503},
		{"GET", at + "/decisions?follow=true", "", "*/*", 503},
		{"GET", "/readyz", "", "*/*", 503},
		{"GET", at + "/decisions", "", "*/*", 200},
		{"GET", at, "", "*/*", 200},
		{"GET", "/healthz", "", "*/*", 200},
	} {
		code, text, header := s.call(t, c.method, c.path, c.body, "Accept", c.accept)
		if code != c.code || code == 503 && (header.Get("Retry-After") == "" || !strings.Contains(text, `"draining"`)) {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, text)
		}
	}
}
