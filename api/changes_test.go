package api_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/sessions"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// changesAt follows the changes of a path; each call of the result returns the next event without its comments.
func (s *sessionServer) changesAt(t *testing.T, path, lastID string) (next func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	in := bufio.NewReader(resp.Body)
	return func() string {
		t.Helper()
		event := ""
		for {
			line, err := in.ReadString('\n')
			switch {
			case err != nil:
				t.Fatalf("%v after %q", err, event)
			case line != "\n":
				event += line
			case strings.HasPrefix(event, ":"), strings.HasPrefix(event, "retry"):
				event = ""
			default:
				return strings.TrimSuffix(event, "\n")
			}
		}
	}
}

func TestClusterChanges(t *testing.T) {
	s := newClusterServer(t, clusters.Config{Tick: time.Hour})
	s.ask(t, http.StatusCreated, "POST", "/v1/clusters", `{"name":"lab","policy":"fifo"}`, nil)
	const path = "/v1/clusters/lab/changes"
	next := s.changesAt(t, path, "")
	if got := next(); got != "id: 0\nevent: reset\ndata: {\"seq\":0}" {
		t.Fatal(got)
	}
	s.ask(t, http.StatusCreated, "POST", "/v1/clusters/lab/jobs", `{"command":["true"]}`, nil)
	if got := next(); got != "id: 1\nevent: changes\n"+
		`data: {"seq":1,"jobs":["j1"]}` {
		t.Fatal(got)
	}
	s.ask(t, http.StatusAccepted, "POST", "/v1/clusters/lab/jobs/j1/cancel", "", nil)
	s.ask(t, http.StatusOK, "POST", "/v1/clusters/lab/agents", labAgent, nil)
	if got := s.changesAt(t, path+"?after=1", "")(); !strings.HasSuffix(got,
		`"removed":["j1"],"agents":["a"]}`) {
		t.Fatal(got)
	}
	if got := s.changesAt(t, path, "1000")(); !strings.Contains(got, "reset") {
		t.Fatal(got)
	}
	s.ask(t, http.StatusNoContent, "DELETE", "/v1/clusters/lab", "", nil)
	for got := next(); got != `event: end`+"\n"+`data: {"code":"no_cluster"}`; got = next() {
		if !strings.Contains(got, "changes") {
			t.Fatal(got)
		}
	}
	s.ask(t, http.StatusNotFound, "GET", path, "", nil)
	s.eventually(t, `hare_session_streams{of="changes"} 0`)
}

// TestPlanChanges checks that readers learn of a plan that a session has begun to follow.
func TestPlanChanges(t *testing.T) {
	s := newClusterServer(t, clusters.Config{Tick: time.Millisecond})
	s.ask(t, http.StatusOK, "POST", "/v1/clusters/lab/agents", labAgent, nil)
	var c clusterdoc.Cluster
	s.ask(t, http.StatusOK, "GET", "/v1/clusters/lab", "", &c)
	both := []func() string{s.changesAt(t, "/v1/clusters/lab/changes", ""), s.changesAt(t, "/v1/sessions/"+c.Session+
		"/changes", "")}
	for range 3 {
		s.ask(t, http.StatusCreated, "POST", "/v1/clusters/lab/jobs", `{"command":["true"],"on":{"V100":100}}`, nil)
	}
	for _, next := range both {
		for got := next(); !strings.Contains(got, `"plan":true`); got = next() {
		}
	}
}

func TestSessionChanges(t *testing.T) {
	s := newSessionServer(t, sessions.Config{}, func(c *api.Config) { c.Heartbeat = 10 * time.Millisecond })
	at := s.open(t, `,"policy":"fifo"`)
	next := s.changesAt(t, at+"/changes", "")
	if got := next(); got != "id: 0\nevent: reset\ndata: {\"seq\":0}" {
		t.Fatal(got)
	}
	c := s.talk(t, t.Context(), at)
	c.say(`{"seq":1,"at_s":1,"type":"node_joined","node":"n","gpus":{"T4":2}}`)
	if got := next(); got != "id: 1\nevent: changes\n"+
		`data: {"seq":1,"gpus":["n/0","n/1"]}` {
		t.Fatal(got)
	}
	c.say(`{"seq":2,"at_s":2,"type":"node_left","node":"n"}`)
	if got := next(); !strings.HasSuffix(got, `"gpus":["n"]}`) {
		t.Fatal(got)
	}
	c.end()
	s.ask(t, http.StatusNoContent, "DELETE", at, "", nil)
	if got := next(); got != `event: end`+"\n"+`data: {"code":"no_session"}` {
		t.Fatal(got)
	}
}
