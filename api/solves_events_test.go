package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// stream opens the stream of events of a solve.
func (s *solveServer) stream(t testing.TB, ctx context.Context, at string, header ...string) (*bufio.Reader, func()) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL+at+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(resp.Body), func() { _ = resp.Body.Close() }
}

// TestEventsOfASolve checks that a reader that resumes after its last event misses
// no event and gets none twice. The event done is the last one, also for a solve
// that has ended.
func TestEventsOfASolve(t *testing.T) {
	s := newSolveServer(t, service.Config{}, func(c *api.Config) { c.Heartbeat = 10 * time.Millisecond })
	_, _, h := s.post(t, `{"work_limit":20000}`, "Prefer", "respond-async")
	at := h.Get("Location")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	in, end := s.stream(t, ctx, at, "Accept", "text/event-stream")
	live, err := io.ReadAll(in)
	end()
	if err != nil || !strings.HasPrefix(string(live),
		"retry: 1000\n\nid: 1\nevent: status\ndata: {\"seq\":1,\"at_s\":0") {
		t.Fatalf("%v %s", err, live)
	}
	_, lines, _ := s.call(t, "GET", at+"/events", "", "Accept", "application/x-ndjson")
	var events []string
	types := map[string]int{}
	last := -1.0
	for i, line := range strings.Split(strings.TrimSuffix(lines, "\n"), "\n") {
		var e struct {
			Seq                       int
			AtS                       float64 `json:"at_s"`
			Type, Status, Termination string
			Value, Bound              *float64
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != i+1 || e.AtS < last {
			t.Fatalf("%v %s", err, line)
		}
		last = e.AtS
		types[e.Type]++
		events = append(events, fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, line))
	}
	if types["done"] != 1 || types["phase"] < 2 || types["incumbent"] < 1 || types["bound"] < 1 ||
		!strings.Contains(events[len(events)-1], `"type":"done","status":"succeeded"`) {
		t.Errorf("%v", types)
	}
	if got := strings.ReplaceAll(strings.TrimPrefix(string(live), "retry: 1000\n\n"), ": alive\n\n",
		""); got != strings.Join(events, "") {
		t.Errorf("live\n%s\nstored\n%s", got, strings.Join(events, ""))
	}
	for _, after := range []int{0, 1, 3, len(events) - 1, len(events)} {
		want := strings.Join(events[after:], "")
		_, got, _ := s.call(t, "GET", at+"/events?after=0", "", "Accept", "text/event-stream", "Last-Event-ID",
			strconv.Itoa(after))
		// While the answer is slow, the server sends comments.
		if strings.ReplaceAll(strings.TrimPrefix(got, "retry: 1000\n\n"), ": alive\n\n", "") != want {
			t.Errorf("after %d: %s", after, got)
		}
		if _, got, _ = s.call(t, "GET", fmt.Sprintf("%s/events?after=%d", at, after), "", "Accept",
			"application/x-ndjson"); strings.Count(got, "\n") != len(events)-after {
			t.Errorf("after %d: %s", after, got)
		}
	}
	if code, text, _ := s.call(t, "HEAD", at+"/events", ""); code != 200 || text != "" {
		t.Errorf("HEAD: %d %s", code, text)
	}
}

// TestEventsAreSoon checks that the first event follows soon after the request, and
// that a cancellation ends the stream.
func TestEventsAreSoon(t *testing.T) {
	engine := newHeld()
	s := newSolveServer(t, service.Config{Engine: engine}, func(c *api.Config) { c.Heartbeat = 10 * time.Millisecond })
	_, _, h := s.post(t, `{}`, "Prefer", "respond-async")
	at := h.Get("Location")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	in, end := s.stream(t, ctx, at, "Accept", "text/event-stream")
	defer end()
	until := func(want string) {
		t.Helper()
		for line := ""; line != want+"\n"; {
			var err error
			if line, err = in.ReadString('\n'); err != nil {
				t.Fatalf("%v, want %s", err, want)
			}
		}
	}
	until("id: 1")
	t.Logf("first event after %v", time.Since(began))
	until(": alive")
	until(": alive")
	s.call(t, "POST", at+"/cancel", "")
	until("event: done")
	if rest, err := io.ReadAll(in); err != nil || !strings.Contains(string(rest), `"cancelled"`) {
		t.Errorf("%q %v", rest, err)
	}
	s.eventually(t, `hare_session_streams{of="solves"} 0`)
}

// TestResultSoFar checks that the result of a running solve is the pair that was
// saved, in full.
func TestResultSoFar(t *testing.T) {
	s := newSolveServer(t, service.Config{})
	inst := example(t)
	_, _, h := s.post(t, `{"time_limit_s":20,"gap":0,"detail":"tasks"}`, "Prefer", "respond-async")
	at := h.Get("Location")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	in, end := s.stream(t, ctx, at)
	defer end()
	for line := ""; !strings.Contains(line, `"type":"checkpoint"`); {
		var err error
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	v, _ := s.look(t, at)
	if v.Status == "running" && (v.Links["result"] == "" || v.Links["cancel"] == "" || v.Value == nil || v.Bound == nil) {
		t.Errorf("%+v", v)
	}
	decoded, err := wire.DecodeInstance(strings.NewReader(inst), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	code, text, _ := s.call(t, "GET", at+"/result", "")
	res, err := wire.DecodeResult(strings.NewReader(text), wire.Limits{})
	if code != 200 || err != nil || len(res.TaskList) == 0 {
		t.Fatalf("%d %v %.300s", code, err, text)
	}
	if rep := verify.Check(decoded, res); !rep.OK {
		t.Error(rep)
	}
	if code, _, _ := s.call(t, "GET", at+"/gantt.svg", ""); code != 200 {
		t.Errorf("gantt: %d", code)
	}
	began := time.Now()
	s.call(t, "POST", at+"/cancel", "")
	last, _ := s.look(t, at+"?wait=60")
	t.Logf("cancelled to its end in %v", time.Since(began))
	if last.Status != "cancelled" && last.Termination != "optimal" || *last.Value > res.Value.Float() ||
		*last.Bound < res.Bound.Float() {
		t.Errorf("%+v after value %v, bound %v", last, res.Value, res.Bound)
	}
}
