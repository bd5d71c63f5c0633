package api_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/serve/sessions"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

// untilPlanned asks for a session until its description contains one of want.
func (s *sessionServer) untilPlanned(t *testing.T, at string, want ...string) string {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		code, text, _ := s.call(t, "GET", at, "")
		if code != 200 || time.Now().After(end) {
			t.Fatalf("%d %s, not %s", code, text, want)
		}
		if slices.ContainsFunc(want, func(w string) bool { return strings.Contains(text, w) }) {
			return text
		}
	}
}

// A session without a policy of its own follows plans that are made aside, and shows
// them.
func TestPlan(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	_, text, header := s.call(t, "POST", "/v1/sessions", `{"cluster":`+twoGPUs+`}`)
	if !strings.Contains(text, `"policy":"rolling","parameters":{"aside":true}`) {
		t.Fatal(text)
	}
	at := header.Get("Location")
	code, text, _ := s.call(t, "GET", at+"/plan", "")
	if code != 200 || !strings.Contains(text, `"made_at_s":null,"due":false,"fallback":"hgittins","value":null,`+
		`"bound":null,"gap":null,"jobs":[]}`) {
		t.Errorf("%d %s", code, text)
	}
	lines := strings.SplitAfter(run, "\n")
	for i, line := range lines[:2] {
		if code, text, _ := s.call(t, "POST", at+"/events", line); code != 200 || !strings.Contains(text, `"decisions"`) {
			t.Fatalf("%d %s", code, text)
		}
		s.untilPlanned(t, at, `"planning":{"state":"ready",`)
		if i == 0 {
			continue
		}
		if code, text, _ := s.call(t, "GET", at+"/log", ""); code != 200 || strings.Count(text, `,"plan":{"hare":`) != i {
			t.Errorf("%d %s", code, text)
		}
	}
	code, text, _ = s.call(t, "GET", at+"/plan", "")
	plan, err := wire.DecodeSessionPlan([]byte(text))
	if code != 200 || err != nil || plan.Seq != 2 || plan.MadeUs != 0 || !plan.Due || plan.Fallback != "" ||
		plan.Value == nil || len(plan.Jobs) != 2 {
		t.Errorf("%d %s %v", code, text, err)
	}
	at = s.open(t, `,"policy":"fifo"`)
	if code, text, _ := s.call(t, "GET", at+"/plan", ""); code != 404 || !strings.Contains(text, `"code":"no_plan"`) ||
		!strings.Contains(text, "open a session with the policy rolling") {
		t.Errorf("%d %s", code, text)
	}
	if _, text, _ := s.call(t, "GET", at, ""); strings.Contains(text, "planning") {
		t.Error(text)
	}
	_, text, _ = s.call(t, "GET", "/metrics", "")
	for _, want := range []string{`hare_session_plans_total{outcome="taken"} 1`,
		`hare_session_plans_total{outcome="made"} 2`,
		"hare_session_plan_seconds_count 2", "hare_session_plan_age_seconds_count 1", "hare_session_plans_abandoned 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}

// unplannable is rolling with a planner that has no plan.
type unplannable struct{ *rolling.Policy }

type noAnswer struct{}

func (noAnswer) Answer(context.Context) ([]byte, error) { return nil, errors.New("no idea") }

func (u unplannable) Ask() online.PlanQuestion {
	if u.Policy.Ask() == nil {
		return nil
	}
	return noAnswer{}
}

// A session whose plans fail says so, and goes on.
func TestPlansThatFail(t *testing.T) {
	s := newSessionServer(t, sessions.Config{PlanRetry: time.Millisecond,
		Restore: func(name string, state []byte) (online.Durable, error) {
			p, err := registry.RestoreSession(name, state)
			if err != nil {
				return nil, err
			}
			return unplannable{p.(*rolling.Policy)}, nil
		},
		New: func(name string, cluster *hare.Cluster, parameters []byte) (online.Durable, error) {
			return registry.OpenSession(name, cluster, parameters)
		}})
	at := s.open(t, `,"policy":"rolling"`)
	lines := strings.SplitAfter(run, "\n")
	s.call(t, "POST", at+"/events", lines[0])
	text := s.untilPlanned(t, at, `"error":"failed: no idea"`)
	if !strings.Contains(text, `"made":0,"taken":0`) || strings.Contains(text, `"failed":0`) {
		t.Error(text)
	}
	if code, text, _ := s.call(t, "POST", at+"/events", lines[1]); code != 200 || !strings.Contains(text, `"decisions"`) {
		t.Errorf("%d %s", code, text)
	}
	if _, text, _ := s.call(t, "GET", at+"/plan", ""); !strings.Contains(text, `"fallback":"hgittins"`) {
		t.Error(text)
	}
}
