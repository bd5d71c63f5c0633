package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

// A plan is made after an event, and taken before the next one, with which it is in the
// log.
func TestPlanIsTakenWithTheNextEvent(t *testing.T) {
	s := open(t, plannedConfig(store.NewMemory(), nil))
	defer closeAll(t, s)
	e := create(t, s)
	for _, ev := range script(1, 20) {
		sendAll(t, e, []hare.Event{ev})
		untilReady(t, e)
	}
	if n := replayed(t, e); n != 19 {
		t.Errorf("%d plans in the log", n)
	}
	seq := int64(0)
	for rec := range e.Log(t.Context(), 0) {
		if seq++; seq > 1 && !strings.HasPrefix(string(rec.Plan), fmt.Sprintf(`{"of":%d, "hash":`, seq-1)) {
			t.Errorf("event %d has the plan %s", seq, rec.Plan)
		}
	}
	if r, err := e.PlanReport(t.Context()); err != nil || r.Counts.Made != 20 || r.Counts.Taken != 19 || r.Err != nil {
		t.Errorf("%+v %v", r, err)
	}
	if p, err := e.Plan(t.Context()); err != nil || !p.Due || p.MadeUs != 18 || p.Seq != 20 || p.Policy != "history" {
		t.Errorf("%+v %v", p, err)
	}
}

// Events do not wait for a plan. A plan that comes late is taken with the event after it.
func TestLatePlan(t *testing.T) {
	gate := make(chan struct{})
	s := open(t, plannedConfig(store.NewMemory(), &hands{answer: func(ctx context.Context, q *planQuestion) ([]byte,
		error) {
		select {
		case <-gate:
			return q.text(), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}))
	defer closeAll(t, s)
	e := create(t, s)
	events := script(2, 30)
	if got, want := sendAll(t, e, events[:10]), undisturbed(t, events[:10]); !slices.Equal(got, want) {
		t.Error("answers depend on a plan that is not made")
	}
	gate <- struct{}{}
	untilReady(t, e)
	sendAll(t, e, events[10:20])
	gate <- struct{}{}
	untilReady(t, e)
	sendAll(t, e, events[20:])
	var at []int64
	for rec := range e.Log(t.Context(), 0) {
		if rec.Plan != nil {
			at = append(at, rec.Event.Seq)
		}
	}
	if !slices.Equal(at, []int64{11, 21}) {
		t.Errorf("plans at %d", at)
	}
	replayed(t, e)
}

// A session whose plans fail goes on, counts and logs the failures, and tries again.
func TestFailingPlans(t *testing.T) {
	once := func(f func() error) func() error { // only the first call fails
		var mu sync.Mutex
		done := false
		return func() error {
			mu.Lock()
			defer mu.Unlock()
			if done {
				return nil
			}
			done = true
			return f()
		}
	}
	answers := func(plan []byte, err error) *hands {
		fail := once(func() error { return errors.New("now") })
		return &hands{answer: func(_ context.Context, q *planQuestion) ([]byte, error) {
			if fail() != nil {
				return plan, err
			}
			return q.text(), nil
		}}
	}
	defect := once(func() error { panic("a defect") })
	asks := once(func() error { panic("a defect") })
	takes := once(func() error { panic("a defect") })
	refuses := once(func() error { return errors.New("a plain error") })
	steps := once(func() error { panic("a defect") })
	for name, c := range map[string]struct {
		hands *hands
		want  sessions.PlanCounts
	}{
		"an error":  {answers(nil, errors.New("no idea")), sessions.PlanCounts{Failed: 1}},
		"no plan":   {answers(nil, nil), sessions.PlanCounts{Failed: 1}},
		"no JSON":   {answers([]byte("{"), nil), sessions.PlanCounts{Failed: 1}},
		"two lines": {answers([]byte("{\n}"), nil), sessions.PlanCounts{Failed: 1}},
		"a long plan": {answers([]byte(`{"a":"`+strings.Repeat("x", wire.MaxPlanBytes)+`"}`), nil),
			sessions.PlanCounts{Failed: 1}},
		"another state":  {answers([]byte(`{"of":77}`), nil), sessions.PlanCounts{Refused: 1}},
		"another policy": {answers([]byte(`{"jobs":[]}`), nil), sessions.PlanCounts{Refused: 1}},
		"a panic": {&hands{answer: func(_ context.Context, q *planQuestion) ([]byte, error) {
			return q.text(), defect()
		}}, sessions.PlanCounts{Panicked: 1}},
		"a panic of Ask":        {&hands{ask: func() { _ = asks() }}, sessions.PlanCounts{Panicked: 1}},
		"a panic of Take":       {&hands{take: func([]byte) error { return takes() }}, sessions.PlanCounts{Panicked: 1}},
		"a plain error of Take": {&hands{take: func([]byte) error { return refuses() }}, sessions.PlanCounts{Refused: 1}},
		"a panic with the plan": {&hands{step: func(p *planned) {
			if p.Of > 0 {
				_ = steps()
			}
		}}, sessions.PlanCounts{Panicked: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var log haretest.Buffer
			cfg := plannedConfig(store.NewMemory(), c.hands)
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			s := open(t, cfg)
			defer closeAll(t, s)
			e := create(t, s)
			for _, ev := range script(3, 12) {
				sendAll(t, e, []hare.Event{ev})
				until(t, e, "settled", func(r *sessions.PlanReport) bool { return r.State == "ready" })
			}
			r, err := e.PlanReport(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := r.Counts
			got.Made, got.Taken = 0, 0
			if got != c.want || r.Counts.Taken < 10 || r.Err != nil {
				t.Errorf("%+v, %v", r.Counts, r.Err)
			}
			replayed(t, e)
			if n := strings.Count(log.String(), "a plan of a session failed"); n != 1 {
				t.Errorf("logged %d times: %s", n, log.String())
			}
		})
	}
}

// The description of a plan may panic: the session goes on.
func TestPanicOfPlan(t *testing.T) {
	s := open(t, plannedConfig(store.NewMemory(), &hands{plan: func() { panic("a defect") }}))
	defer closeAll(t, s)
	e := create(t, s)
	events := script(4, 4)
	sendAll(t, e, events[:2])
	if _, err := e.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "a defect") {
		t.Error(err)
	}
	sendAll(t, e, events[2:])
}

// A planner that does not end is left alone. No more of them are than planners, and plans
// are made again once they have ended.
func TestHangingPlanners(t *testing.T) {
	release := make(chan struct{})
	cfg := plannedConfig(store.NewMemory(), &hands{answer: func(_ context.Context, q *planQuestion) ([]byte, error) {
		<-release
		return q.text(), nil
	}})
	cfg.PlanTime = time.Millisecond
	s := open(t, cfg)
	defer closeAll(t, s)
	var all []*sessions.Session
	events := script(5, 40)
	for i := range 3 {
		e := create(t, s)
		all = append(all, e)
		sendAll(t, e, events[:10])
		if i == 0 {
			until(t, e, "late", func(r *sessions.PlanReport) bool { return r.State == "retrying" })
		}
	}
	if w, r, a := s.Planners(); w != 2 || r != 0 || a != 1 {
		t.Errorf("%d wait, %d run, %d are abandoned", w, r, a)
	}
	for i, e := range all {
		sendAll(t, e, events[10:20])
		r, err := e.PlanReport(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 && (r.State != "retrying" || r.Counts.Late != 1 || !strings.Contains(fmt.Sprint(r.Err), "left alone")) ||
			i > 0 && r.State != "waiting" {
			t.Errorf("session %d: %+v %v", i, r, r.Err)
		}
	}
	close(release)
	for _, e := range all {
		untilReady(t, e)
		sendAll(t, e, events[20:])
		if replayed(t, e) == 0 {
			t.Error("no plan is in the log")
		}
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, _, a := s.Planners(); a == 0 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%d are abandoned for ever", a)
		}
	}
}

// A planner that keeps to its time but has no plan by then counts as late.
func TestPlannerOutOfTime(t *testing.T) {
	cfg := plannedConfig(store.NewMemory(), &hands{answer: func(ctx context.Context, _ *planQuestion) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	cfg.PlanTime = time.Millisecond
	s := open(t, cfg)
	defer closeAll(t, s)
	e := create(t, s)
	sendAll(t, e, script(6, 10))
	until(t, e, "late", func(r *sessions.PlanReport) bool { return r.Counts.Late > 2 })
	if _, _, a := s.Planners(); a != 0 {
		t.Errorf("%d are abandoned", a)
	}
}

// An event that the policy refuses is not in the log. The plan that the policy took before
// it is recorded with the next event, and is not in a snapshot before.
func TestPlanBeforeARefusedEvent(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint(restart), func(t *testing.T) {
			kept := keep{store.NewMemory()}
			s := open(t, plannedConfig(kept, nil))
			e := create(t, s)
			events := script(7, 20)
			sendAll(t, e, events[:10])
			untilReady(t, e)
			bad := hare.Event{Seq: 11, AtUs: events[10].AtUs, Type: hare.EventJobEnded, Job: "nobody"}
			if _, err := send(t.Context(), e, []hare.Event{bad}); !errors.As(err, new(*hare.InvalidError)) {
				t.Fatal(err)
			}
			if r, err := e.PlanReport(t.Context()); err != nil || r.Counts.Taken < 1 {
				t.Errorf("%+v %v", r, err)
			}
			if restart {
				closeAll(t, s)
				s = open(t, plannedConfig(kept, nil))
				id := e.ID()
				var err error
				if e, err = s.Session(t.Context(), "", id); err != nil {
					t.Fatal(err)
				}
			}
			sendAll(t, e, events[10:])
			replayed(t, e)
			closeAll(t, s)
		})
	}
}

// keep is a store that outlives its server.
type keep struct{ store.SessionStore }

func (keep) Close() error { return nil }

// After a failed write the session is loaded from the log, and a plan is asked for again.
// A question in flight and a plan that was not recorded are forgotten.
func TestPlansAndAFullDisk(t *testing.T) {
	var mu sync.Mutex
	n := 0
	s := open(t, plannedConfig(&failing{SessionStore: store.NewMemory(), fail: func() bool {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n%5 == 3
	}}, nil))
	defer closeAll(t, s)
	e := create(t, s)
	events := script(8, 200)
	failures := 0
	for _, ev := range events {
		for {
			_, err := send(t.Context(), e, []hare.Event{ev})
			if err == nil {
				break
			}
			if failures++; !errors.Is(err, store.ErrStorage) {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if ev.Seq%3 == 0 {
			untilReady(t, e)
		}
	}
	if plans := replayed(t, e); failures == 0 || plans < 20 {
		t.Errorf("%d failures, %d plans", failures, plans)
	}
}

// The end of a session cancels its question.
func TestEndCancelsTheQuestion(t *testing.T) {
	begun, cancelled := make(chan struct{}, 9), make(chan struct{}, 9)
	cfg := plannedConfig(store.NewMemory(), &hands{answer: func(ctx context.Context, _ *planQuestion) ([]byte, error) {
		begun <- struct{}{}
		<-ctx.Done()
		cancelled <- struct{}{}
		return nil, ctx.Err()
	}})
	cfg.Idle = 20 * time.Millisecond
	s := open(t, cfg)
	unloaded, deleted, open := create(t, s), create(t, s), create(t, s)
	events := script(9, 5)
	sendAll(t, unloaded, events)
	<-begun
	<-cancelled // the session leaves memory
	sendAll(t, deleted, events)
	<-begun
	if err := s.Delete(t.Context(), "", deleted.ID()); err != nil {
		t.Error(err)
	}
	<-cancelled
	sendAll(t, open, events)
	<-begun
	closeAll(t, s)
	<-cancelled
	if w, r, a := s.Planners(); w+r+a != 0 {
		t.Errorf("%d wait, %d run, %d are abandoned", w, r, a)
	}
}

// Sessions take turns: one whose plans are due all the time leaves room for the others.
func TestPlannersTakeTurns(t *testing.T) {
	gate := make(chan struct{})
	cfg := plannedConfig(store.NewMemory(), &hands{answer: func(ctx context.Context, q *planQuestion) ([]byte, error) {
		select {
		case gate <- struct{}{}:
			return q.text(), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}})
	s := open(t, cfg)
	defer closeAll(t, s)
	var all []*sessions.Session
	for range 4 {
		all = append(all, create(t, s))
	}
	events := script(10, 40)
	for i, ev := range events {
		for _, e := range all {
			sendAll(t, e, []hare.Event{ev})
		}
		if i > 0 {
			<-gate
		}
	}
	// The rest of the plans is let through until each session has a plan of its last event.
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-gate:
			case <-ended:
				return
			}
		}
	}()
	for i, e := range all {
		untilReady(t, e)
		if r, err := e.PlanReport(t.Context()); err != nil || r.Counts.Made < 9 || r.Counts.Made > 13 {
			t.Errorf("session %d: %+v %v", i, r, err)
		}
		replayed(t, e)
	}
}

// A policy without plans says so.
func TestNoPlans(t *testing.T) {
	s := open(t, sessionsConfig(store.NewMemory()))
	defer closeAll(t, s)
	e := create(t, s)
	sendAll(t, e, script(1, 3))
	if r, err := e.PlanReport(t.Context()); r != nil || err != nil {
		t.Error(r, err)
	}
	if _, err := e.Plan(t.Context()); !errors.As(err, new(*sessions.NoPlansError)) ||
		!strings.Contains(err.Error(), "history makes no plans") {
		t.Error(err)
	}
}

// A plan of the log with which the policy panics, or that the policy refuses, does not
// lose the session: the decisions of the log hold.
func TestRecordedPlanThatIsNotTaken(t *testing.T) {
	for name, take := range map[string]func([]byte) error{
		"panics":  func([]byte) error { panic("a defect of another version") },
		"refuses": func([]byte) error { return &hare.InvalidError{Code: "old_plan", Detail: "of another version"} },
	} {
		t.Run(name, func(t *testing.T) {
			kept := keep{store.NewMemory()}
			s := open(t, plannedConfig(kept, nil))
			e := create(t, s)
			events := script(11, 30)
			for _, ev := range events[:20] {
				sendAll(t, e, []hare.Event{ev})
				untilReady(t, e)
			}
			id := e.ID()
			// No snapshot is saved at the end: the next server reads the log.
			crashed := &forgetful{kept}
			s2 := open(t, plannedConfig(crashed, &hands{take: take}))
			e, err := s2.Session(t.Context(), "", id)
			if err != nil {
				t.Fatal(err)
			}
			sendAll(t, e, events[20:])
			if p, err := e.Plan(t.Context()); err != nil || p.Seq != 30 {
				t.Errorf("%+v %v", p, err)
			}
			closeAll(t, s2)
			closeAll(t, s)
		})
	}
}

// forgetful is a store without snapshots.
type forgetful struct{ store.SessionStore }

func (*forgetful) Snapshots(context.Context, string) ([]store.Snapshot, error) { return nil, nil }
