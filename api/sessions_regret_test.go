package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/verify"
)

func TestRegretAtIntervals(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "")
	if code, text, h := s.call(t, "GET", at+"/regret?every_s=3600", ""); code != 200 ||
		!strings.HasPrefix(text, `{"seq":0,"at_s":0,"last":true,`) || h.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("no events: %d %s", code, text)
	}
	s.call(t, "POST", at+"/events", run+endOfRun)
	_, plain, _ := s.call(t, "GET", at+"/regret", "")
	code, text, h := s.call(t, "GET", at+"/regret?every_s=1.5", "", "Accept-Encoding", "gzip")
	lines := strings.SplitAfter(text, "\n")
	if code != 200 || len(lines) != 4 || h.Get("Content-Encoding") != "" {
		t.Fatalf("%d %v\n%s", code, h, text)
	}
	for i, want := range []string{
		`{"seq":3,"at_s":1.5,"last":false,"jobs":{"counted":0,"running":2,`,
		`{"seq":5,"at_s":3,"last":false,"jobs":{"counted":1,"running":1,`,
		`{"seq":7,"at_s":4.3,"last":true,"jobs":{"counted":2,"running":0,`,
	} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d: no %s in %s", i, want, lines[i])
		}
	}
	if lines[2] != plain || strings.Contains(text, "certificate") {
		t.Errorf("%s, not %s", lines[2], plain)
	}
	if _, text, _ := s.call(t, "GET", at+"/regret?every_s=3&detail=full", ""); strings.Count(text,
		`"certificate":{`) != 2 {
		t.Error(text)
	}
	if code, text, h := s.call(t, "HEAD", at+"/regret?every_s=3", ""); code != 200 || text != "" ||
		h.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%d %s %v", code, text, h)
	}
	for _, c := range []struct {
		query, accept, code string
		status              int
	}{
		{"every_s=", "", "bad_query", 400},
		{"every_s=0", "", "bad_query", 400},
		{"every_s=-1", "", "bad_query", 400},
		{"every_s=1h", "", "bad_query", 400},
		{"every_s=0.0000001", "", "bad_query", 400},
		{"every_s=NaN", "", "bad_query", 400},
		{"every_s=9e18", "", "bad_query", 400},
		{"detail=half", "", "bad_query", 400},
		{"every_s=1", "application/json", "not_acceptable", 406},
		{"every_s=0.001", "", "too_many_lines", 422},
		{"every_s=0.000001", "", "too_many_lines", 422},
	} {
		code, text, _ := s.call(t, "GET", at+"/regret?"+c.query, "", "Accept", c.accept)
		if c.accept == "" {
			code, text, _ = s.call(t, "GET", at+"/regret?"+c.query, "")
		}
		if code != c.status || !strings.Contains(text, `"code":"`+c.code+`"`) {
			t.Errorf("%s: %d %s", c.query, code, text)
		}
		if c.status == 422 && !strings.Contains(text, "and 1000 are the most: ask for every_s=1 or more") {
			t.Error(text)
		}
	}
	if code, text, _ := s.call(t, "GET", "/v1/sessions/x/regret?every_s=1", ""); code != 404 {
		t.Errorf("%d %s", code, text)
	}
	// If the log is damaged, the answer must not look complete.
	s.store.damaged.Store(1)
	if code, text, _ := s.call(t, "GET", at+"/regret?every_s=1", ""); code != 500 ||
		!strings.Contains(text, `"corrupt_log"`) {
		t.Errorf("%d %s", code, text)
	}
}

// A session is replayed under a policy that the query names, and a name that is none is
// refused with the list of policies.
func TestRegretAgainst(t *testing.T) {
	sequential(t)
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "")
	s.call(t, "POST", at+"/events", run+endOfRun)
	_, plain, _ := s.call(t, "GET", at+"/regret", "")
	for _, name := range registry.SessionNames() {
		code, text, h := s.call(t, "GET", at+"/regret?against="+name, "")
		if code != 200 || h.Get("Content-Type") != "application/json" ||
			!strings.HasPrefix(text, strings.TrimSuffix(plain, "}\n")+`,"against":{"policy":"`+name+
				`","stalled":0,"weighted_jct":`) {
			t.Fatalf("%s: %d %s", name, code, text)
		}
		var doc struct {
			Achieved float64
			Against  struct {
				WeightedJCT float64 `json:"weighted_jct"`
				Regret      float64
				Session     struct {
					WeightedJCT float64 `json:"weighted_jct"`
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		if a := doc.Against; a.Session.WeightedJCT != doc.Achieved || a.Regret < 1 ||
			name == "hlas" && a.WeightedJCT != doc.Achieved {
			t.Errorf("%s: %s", name, text)
		}
	}
	if _, text, _ := s.call(t, "GET", at+"/regret?against=fifo&detail=full", ""); !strings.Contains(text,
		`"certificate":{`) {
		t.Error(text)
	}
	list := strings.Join(registry.SessionNames(), ", ")
	for query, want := range map[string]string{
		"against=":                        list,
		"against=hlsa":                    `\"hlsa\" is not known: did you mean \"hlas\"? Use one of ` + list,
		"against=gavel:fifo":              list,
		"against=fifo&every_s=1":          "leave every_s out",
		"objective=span":                  "weighted_jct, jct_and_tardiness, makespan",
		"objective=makespan&against=fifo": "leave objective out",
		"against=hlsa&every_s=1":          list,
		"agains=fifo":                     "agains",
		"against=fifo&detail=x":           "summary or full",
	} {
		code, text, h := s.call(t, "GET", at+"/regret?"+query, "")
		if code != 400 || !strings.Contains(text, want) || h.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", query, code, text)
		}
	}
	if code, text, _ := s.call(t, "GET", "/v1/sessions/x/regret?against=fifo", ""); code != 404 {
		t.Errorf("%d %s", code, text)
	}
	empty := s.open(t, "")
	if code, text, _ := s.call(t, "GET", empty+"/regret?against=fifo", ""); code != 200 ||
		!strings.Contains(text, `"against":{"policy":"fifo","stalled":0,"weighted_jct":null,`) {
		t.Errorf("no events: %d %s", code, text)
	}
	s.store.damaged.Store(1)
	if code, text, _ := s.call(t, "GET", at+"/regret?against=fifo", ""); code != 500 ||
		!strings.Contains(text, `"corrupt_log"`) {
		t.Errorf("%d %s", code, text)
	}
}

// step is an engine whose bounds wait until the test releases them.
type step struct {
	on  chan struct{}
	out chan error // errors of bounds that their callers abandoned
}

func (e *step) Solve(context.Context, *hare.Instance, hare.Options) (*hare.Result, error) {
	return &hare.Result{}, nil
}

func (e *step) Verify(*hare.Instance, *hare.Result, *verify.Previous) *verify.Report {
	return &verify.Report{}
}

func (e *step) Bound(ctx context.Context, _ *hare.Instance, method string) (*hare.Relaxation, error) {
	select {
	case <-e.on:
		return &hare.Relaxation{Method: method}, nil
	case <-ctx.Done():
		e.out <- ctx.Err()
		return nil, ctx.Err()
	}
}

// TestRegretLinesComeOneByOne checks that each line is sent as soon as it is
// computed, that the session continues meanwhile, and that the work ends when the
// client disconnects.
func TestRegretLinesComeOneByOne(t *testing.T) {
	engine := &step{on: make(chan struct{}), out: make(chan error, 1)}
	s := newSessionServer(t, sessions.Config{})
	s.Server.Close()
	s.Server = httptest.NewServer(servetest.New(t, service.New(service.Config{Engine: engine}),
		api.Config{MaxBodyBytes: 1 << 20, Sessions: s.sessions}))
	at := s.open(t, "")
	s.call(t, "POST", at+"/events", run+endOfRun)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL+at+"/regret?every_s=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), want) {
			t.Fatalf("%s: %v, not %s", lines.Text(), lines.Err(), want)
		}
	}
	next(`{"seq":2,"at_s":1,"last":false,`) // no job has ended, so there is no bound
	next(`{"seq":3,"at_s":2,"last":false,`)
	if code, text, _ := s.call(t, "POST", at+"/events", `{"seq":8,"at_s":9,"type":"tick"}`); code != 200 ||
		text != "{\"seq\":8,\"decisions\":[]}\n" {
		t.Errorf("%d %s", code, text)
	}
	engine.on <- struct{}{}
	next(`{"seq":5,"at_s":3,"last":false,`)
	next(`{"seq":5,"at_s":4,"last":false,`) // no further job has ended, so the bound is the earlier one
	leave()
	select {
	case <-engine.out:
	case <-time.After(patience):
		t.Error("a bound goes on without a client")
	}
}
