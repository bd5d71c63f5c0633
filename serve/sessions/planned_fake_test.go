package sessions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

// planned is the policy history with plans: a plan changes all later decisions, and so
// does a plan that is lost or taken at another event.
type planned struct {
	*history
	Events int64 // events and plans that were applied
	Of     int64 // Events at the last plan's question
	hands  *hands
}

var _ online.Planned = (*planned)(nil)

// hands replaces parts of a planned policy; a nil part does what it should.
type hands struct {
	answer func(ctx context.Context, q *planQuestion) ([]byte, error)
	ask    func()
	take   func(plan []byte) error
	step   func(p *planned)
	plan   func()
}

type planQuestion struct {
	of, hash int64
	hands    *hands
}

// text is the plan that answers the question.
func (q *planQuestion) text() []byte { return fmt.Appendf(nil, `{"of":%d, "hash":%d}`, q.of, q.hash) }

func (q *planQuestion) Answer(ctx context.Context) ([]byte, error) {
	if q.hands != nil && q.hands.answer != nil {
		return q.hands.answer(ctx, q)
	}
	return q.text(), nil
}

func (p *planned) AskNow() online.PlanQuestion { return p.Ask() }

func (p *planned) Ask() online.PlanQuestion {
	if p.hands != nil && p.hands.ask != nil {
		p.hands.ask()
	}
	if p.Events == p.Of {
		return nil
	}
	return &planQuestion{p.Events, int64(p.Hash >> 12), p.hands}
}

func (p *planned) Take(plan []byte) error {
	if p.hands != nil && p.hands.take != nil {
		if err := p.hands.take(plan); err != nil {
			return err
		}
	}
	var q struct{ Of, Hash int64 }
	if err := json.Unmarshal(plan, &q); err != nil || q.Of <= p.Of || q.Of > p.Events {
		return &hare.InvalidError{Code: "old_plan", Detail: "of another state"}
	}
	p.Of = q.Of
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", p.Hash, plan)
	p.Hash = h.Sum64()
	return nil
}

func (p *planned) Plan() online.PlanStatus {
	if p.hands != nil && p.hands.plan != nil {
		p.hands.plan()
	}
	return online.PlanStatus{MadeUs: p.Of - 1, Due: p.Events != p.Of}
}

func (p *planned) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	if p.hands != nil && p.hands.step != nil {
		p.hands.step(p)
	}
	ds, err := p.history.Step(nowUs, events)
	if err == nil {
		p.Events++
	}
	return ds, err
}

func (p *planned) Adopt(nowUs int64, e hare.Event, ds []hare.Decision) error {
	p.Events++
	return p.history.Adopt(nowUs, e, ds)
}

func (p *planned) AppendSnapshot(b []byte) []byte {
	s, _ := json.Marshal(p)
	return append(b, s...)
}

// plannedConfig makes sessions of planned with the given hands.
func plannedConfig(kept store.SessionStore, h *hands) sessions.Config {
	cfg := sessionsConfig(kept)
	cfg.New = func(string, *hare.Cluster, []byte) (online.Durable, error) {
		return &planned{history: &history{}, hands: h}, nil
	}
	cfg.Restore = func(_ string, state []byte) (online.Durable, error) {
		p := &planned{history: &history{}, hands: h}
		return p, json.Unmarshal(state, p)
	}
	cfg.Planners, cfg.PlanRetry = 1, time.Millisecond
	return cfg
}

// replayed checks that the decisions of a log follow from its events and plans, and
// returns how many plans the log has.
func replayed(t testing.TB, e *sessions.Session) (plans int) {
	t.Helper()
	p := &planned{history: &history{}}
	seq := int64(0)
	for rec, err := range e.Log(context.Background(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if seq++; rec.Event.Seq != seq {
			t.Fatalf("event %d follows event %d", rec.Event.Seq, seq-1)
		}
		if rec.Plan != nil {
			plans++
			if err := p.Take(rec.Plan); err != nil {
				t.Fatalf("event %d: its plan: %v", seq, err)
			}
		}
		ds, err := p.Step(rec.Event.AtUs, []hare.Event{rec.Event})
		if err != nil {
			t.Fatal(err)
		}
		if was, is := wire.AppendDecisions(nil, rec.Decisions), wire.AppendDecisions(nil, ds); string(was) != string(is) {
			t.Fatalf("event %d: recorded %s, now %s", seq, was, is)
		}
	}
	return plans
}

// until polls the plan of a session until a condition holds.
func until(t testing.TB, e *sessions.Session, what string,
	holds func(r *sessions.PlanReport) bool) *sessions.PlanReport {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		r, err := e.PlanReport(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if holds(r) {
			return r
		}
		if time.Now().After(end) {
			t.Fatalf("the plan is never %s: %+v", what, r)
		}
	}
}

func untilReady(t testing.TB, e *sessions.Session) {
	t.Helper()
	until(t, e, "ready", func(r *sessions.PlanReport) bool { return r.State == "ready" })
}

func sendAll(t testing.TB, e *sessions.Session, events []hare.Event) []string {
	t.Helper()
	got, err := send(context.Background(), e, events)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func closeAll(t testing.TB, s *sessions.Sessions) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
