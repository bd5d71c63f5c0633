package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/sessions"
)

// talk is a connection on which events are sent and answers are read.
type talk struct {
	t    *testing.T
	in   *io.PipeWriter
	resp *http.Response
	out  *bufio.Reader
}

func (s *sessionServer) talk(t *testing.T, ctx context.Context, at string) *talk {
	t.Helper()
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL+at+"/events", r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := s.Client().Do(req) // the status arrives before the first event is sent
	if err != nil {
		t.Fatal(err)
	}
	return &talk{t, w, resp, bufio.NewReader(resp.Body)}
}

func (c *talk) say(line string) string {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
	answer, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSuffix(answer, "\n")
}

func (c *talk) end() string {
	_ = c.in.Close()
	rest, _ := io.ReadAll(c.out)
	_ = c.resp.Body.Close()
	return string(rest)
}

// TestFullDuplex checks that each answer arrives before the next event is sent, and
// that followers see it.
func TestFullDuplex(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	follower := func(header, value, path string) *bufio.Reader {
		req, err := http.NewRequestWithContext(ctx, "GET", s.URL+at+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header, value)
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return bufio.NewReader(resp.Body)
	}
	events := follower("Accept", "text/event-stream", "/decisions")
	lines := follower("Accept", "application/x-ndjson", "/decisions?follow=true&after=1")
	c := s.talk(t, ctx, at)
	for n := 1; n <= 20; n++ {
		want := fmt.Sprintf(`{"seq":%d,"decisions":[]}`, n)
		if got := c.say(fmt.Sprintf(`{"seq":%d,"at_s":%d,"type":"tick"}`, n, n)); got != want {
			t.Fatal(got)
		}
		for _, want := range []string{fmt.Sprintf("id: %d\n", n), "data: " + want + "\n", "\n"} {
			if got, err := events.ReadString('\n'); got != want {
				t.Fatalf("%q %v, want %q", got, err, want)
			}
		}
		if n == 1 {
			continue
		}
		if got, err := lines.ReadString('\n'); got != want+"\n" {
			t.Fatalf("%q %v", got, err)
		}
	}
	if rest := c.end(); rest != "" {
		t.Error(rest)
	}
	if code, text, _ := s.call(t, "DELETE", at, ""); code != 204 {
		t.Errorf("%d %s", code, text)
	}
	rest, err := io.ReadAll(events)
	if err != nil || string(rest) != "event: end\ndata: {\"code\":\"no_session\"}\n\n" {
		t.Errorf("%q %v", rest, err)
	}
}

// TestBrokenConnection checks that a client that reconnects after a break has each
// event applied exactly once.
func TestBrokenConnection(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	c := s.talk(t, ctx, at)
	c.say(`{"seq":1,"at_s":1,"type":"tick"}`)
	if _, err := io.WriteString(c.in, `{"seq":2,"at_s":1,"type":"ti`); err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = c.end()
	_, text, _ := s.call(t, "POST", at+"/events",
		"{\"seq\":1,\"at_s\":1,\"type\":\"tick\"}\n{\"seq\":2,\"at_s\":1,\"type\":\"tick\"}\n")
	if text != "{\"seq\":1,\"decisions\":[]}\n{\"seq\":2,\"decisions\":[]}\n" {
		t.Error(text)
	}
}

func TestServerClock(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	opened := time.Now()
	at := s.open(t, `,"clock":"server","policy":"fifo"`)
	_, text, _ := s.call(t, "POST", at+"/events",
		"{\"seq\":1,\"type\":\"tick\"}\n{\"seq\":2,\"at_s\":1,\"type\":\"tick\"}\n")
	if !strings.HasPrefix(text, "{\"seq\":1,\"decisions\":[]}\n") ||
		!strings.Contains(text, `"pointer":"/at_s","code":"not_allowed"`) {
		t.Error(text)
	}
	_, text, _ = s.call(t, "GET", at+"/log?after=0", "")
	head, records, _ := strings.Cut(text, "\n")
	var first struct {
		Event struct {
			AtS float64 `json:"at_s"`
		}
	}
	if err := json.NewDecoder(strings.NewReader(records)).Decode(&first); err != nil || first.Event.AtS <= 0 ||
		first.Event.AtS > time.Since(opened).Seconds() || !strings.Contains(head, `"clock":"server"`) {
		t.Errorf("%v %s", err, text)
	}
}

// TestFullStore checks that a full disk gives a problem before the first answer,
// and a line after it.
func TestFullStore(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "")
	s.store.full.Store(true)
	if code, text, _ := s.call(t, "POST", at+"/events",
		`{"seq":1,"at_s":0,"type":"tick"}`); code != http.StatusInsufficientStorage ||
		!strings.Contains(text, `"storage_full"`) {
		t.Errorf("%d %s", code, text)
	}
	if code, _, _ := s.call(t, "GET", at+"/log", ""); code != 200 {
		t.Errorf("reading: %d", code)
	}
	s.store.full.Store(false)
	time.Sleep(5 * time.Millisecond)
	c := s.talk(t, t.Context(), at)
	if got := c.say(`{"seq":1,"at_s":0,"type":"tick"}`); got != `{"seq":1,"decisions":[]}` {
		t.Error(got)
	}
	s.store.full.Store(true)
	if got := c.say(`{"seq":2,"at_s":0,"type":"tick"}`); !strings.HasPrefix(got,
		`{"seq":2,"error":{"status":507,"line":2,`) {
		t.Error(got)
	}
	s.store.full.Store(false)
	time.Sleep(5 * time.Millisecond)
	if got := c.say(`{"seq":2,"at_s":0,"type":"tick"}`); got != `{"seq":2,"decisions":[]}` {
		t.Error(got)
	}
	c.end()
}

// TestFullStoreAsTheBodyEnds checks that a client whose body ends while its event is
// refused still gets the problem: the server stops reading then, which net/http can
// take for a disconnect.
func TestFullStoreAsTheBodyEnds(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "")
	s.store.full.Store(true)
	for i := range 200 {
		body, in := io.Pipe()
		go func() {
			_, _ = io.WriteString(in, `{"seq":1,"at_s":0,"type":"tick"}`+"\n")
			for began := time.Now(); time.Since(began) < time.Duration(5*i)*time.Microsecond; {
			}
			_ = in.Close()
		}()
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+at+"/events", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-ndjson")
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusInsufficientStorage || err != nil {
			t.Fatalf("a body that ends after %d µs: %d %s %v", 5*i, resp.StatusCode, text, err)
		}
	}
}

// TestStreamsEndWithTheServer checks that streams end with the server, after every
// event that was sent has an answer.
func TestStreamsEndWithTheServer(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "")
	c := s.talk(t, t.Context(), at)
	c.say(`{"seq":1,"at_s":0,"type":"tick"}`)
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.svc.Drain(ctx)
	const last = `{"seq":null,"error":{"status":503,"pointer":"","code":"draining","detail":"`
	if rest, err := io.ReadAll(c.out); !strings.HasPrefix(string(rest), last) ||
		err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || time.Since(began) > patience {
		t.Errorf("%q %v after %v", rest, err, time.Since(began))
	}
	c.end()
}
