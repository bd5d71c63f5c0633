package rolling

import (
	"fmt"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
)

// arrival is that of a job of one task of 3 s.
func arrival(id string) hare.Event {
	_, e := transcript.Event([]string{"0", "job_arrived", id, "gang", "x1", "A:3"})
	return e
}

// Jobs that arrive every 10 ms of a session get ten plans at once and then one for each
// second, also where the policy is restored from a snapshot after each event. Without a
// pace each arrival gets a plan.
func TestPaceOfPlans(t *testing.T) {
	cluster := transcript.Cluster("a=2A")
	plans := func(parameters string, restores bool) (n int) {
		session := Config{}
		p, err := session.Open(cluster, []byte(parameters))
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(500) {
			e := arrival(fmt.Sprint("j", i%20))
			if i/20%2 == 1 {
				e = hare.Event{Type: hare.EventJobCancelled, Job: e.Job}
			}
			if _, err := p.Step(i*1e4, []hare.Event{e}); err != nil {
				t.Fatal(err)
			}
			if q := p.Ask(); q != nil {
				plan, err := q.Answer(t.Context())
				if err == nil {
					err = p.Take(plan)
				}
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if restores {
				if p, err = session.Restore(p.AppendSnapshot(nil)); err != nil {
					t.Fatal(err)
				}
			}
		}
		return n
	}
	// 5 s of the session: ten at once, and one at 0.08, 1.08, 2.08, … s after the first.
	for _, x := range []struct {
		parameters string
		want       int
	}{
		{`{"aside": true}`, planBurst + 4},
		{`{"aside": true, "plan_every_s": 2}`, planBurst + 2},
		{`{"aside": true, "plan_every_s": 0}`, 500},
	} {
		if got, restored := plans(x.parameters, false), plans(x.parameters, true); got != x.want || restored != got {
			t.Errorf("%s: %d plans, %d where the policy is restored; want %d", x.parameters, got, restored, x.want)
		}
	}
}

// A job that arrives when the pace lets no plan be made starts by the last one, with wait_for_plan too:
// nobody would ask for a plan before the next event.
func TestPacedPlanIsNotWaitedFor(t *testing.T) {
	cluster := transcript.Cluster(fmt.Sprintf("a=%dA", 2*planBurst))
	session := Config{}
	p, err := session.Open(cluster, []byte(`{"aside": true, "wait_for_plan": true, "plan_every_s": 100}`))
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for i := range int64(planBurst + 3) {
		started, err := p.Step(i, []hare.Event{arrival(fmt.Sprint("j", i))})
		if err != nil {
			t.Fatal(err)
		}
		waits := len(started) == 0
		if q := p.Ask(); q != nil {
			plan, err := q.Answer(t.Context())
			if err == nil {
				err = p.Take(plan)
			}
			if err == nil {
				started, err = p.Step(i, []hare.Event{{Type: hare.EventTick}})
			}
			if err != nil {
				t.Fatal(err)
			}
			if !waits || len(started) == 0 {
				t.Errorf("job %d: it waits for its plan: %t; then %+v", i, waits, started)
			}
			made++
		} else if waits {
			t.Errorf("job %d waits for a plan that may not be made", i)
		}
	}
	if made != planBurst {
		t.Errorf("%d plans", made)
	}
}
