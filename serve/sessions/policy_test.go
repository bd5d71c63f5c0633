package sessions_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store/sqlite"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

// world simulates the cluster: it ends the started tasks in any order.
type world struct {
	rng     *rand.Rand
	seq, at int64
	jobs    int
	running []hare.Decision
}

func (w *world) next() hare.Event {
	w.seq++
	w.at += w.rng.Int64N(1_000_000)
	e := hare.Event{Seq: w.seq, AtUs: w.at}
	if w.jobs < 3 || len(w.running) == 0 || w.rng.IntN(4) == 0 {
		w.jobs++
		e.Type, e.Job = hare.EventJobArrived, fmt.Sprintf("job-%d", w.jobs)
		e.Arrived = &hare.Job{ID: e.Job, WeightMicro: 1e6, Tasks: 1 + w.rng.Int64N(3), Sync: hare.Sync(w.rng.IntN(2)),
			On: []hare.Profile{{Type: "V100", ComputeUs: 1_000_000 * w.rng.Int64N(3), SyncUs: 0}}}
		return e
	}
	i := w.rng.IntN(len(w.running))
	d := w.running[i]
	e.Job, e.Round, e.Task, e.GPU = d.Job, d.Round, d.Task, d.GPU
	if w.rng.IntN(5) == 0 {
		e = hare.Event{Seq: e.Seq, AtUs: e.AtUs, Type: hare.EventJobCancelled, Job: d.Job}
		return e
	}
	e.Type, e.ComputeUs, e.SyncUs = hare.EventTaskEnded, 1_000_000, 1000
	if w.rng.IntN(10) == 0 {
		e.Type, e.ComputeUs, e.SyncUs = hare.EventTaskFailed, 0, 0
	}
	return e
}

func (w *world) obey(e hare.Event, ds []hare.Decision) {
	same := func(d, o hare.Decision) bool { return d.Job == o.Job && d.Round == o.Round && d.Task == o.Task }
	if e.Type == hare.EventTaskEnded || e.Type == hare.EventTaskFailed {
		w.drop(func(d hare.Decision) bool { return same(d, hare.Decision{Job: e.Job, Round: e.Round, Task: e.Task}) })
	}
	if e.Type == hare.EventJobCancelled {
		w.drop(func(d hare.Decision) bool { return d.Job == e.Job })
	}
	for _, d := range ds {
		if d.Type == hare.DecisionStart {
			w.running = append(w.running, d)
		} else {
			w.drop(func(o hare.Decision) bool { return same(d, o) })
		}
	}
}

func (w *world) drop(gone func(hare.Decision) bool) {
	kept := w.running[:0]
	for _, d := range w.running {
		if !gone(d) {
			kept = append(kept, d)
		}
	}
	w.running = kept
}

// relaxing are the policies that solve relaxations, which takes minutes under the race detector.
var relaxing = map[string]bool{"hare_offline": true, "hare_paper": true, "rolling": true, "sched_homo": true}

// TestPoliciesComeBack runs the policies of package sim/policies through restarts and compares
// with the same policies outside a session.
func TestPoliciesComeBack(t *testing.T) {
	ctx := context.Background()
	for i, name := range registry.SessionNames() {
		for seed := range uint64(2) { // the first replays, the second begins with snapshots
			if testing.Short() && (i%3 != 0 || seed != uint64(i%2)) {
				continue // one actor runs them all
			}
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				t.Parallel() // it waits for disks
				var parameters []byte
				if name == "rolling" { // TestRollingComesBack has the plans that are made aside
					parameters = []byte(`{"aside":false}`)
				}
				plain, err := registry.OpenSession(name, &cluster, parameters)
				if err != nil {
					t.Fatal(err)
				}
				dir, id := t.TempDir(), ""
				w := &world{rng: rand.New(rand.NewPCG(seed, 6))}
				restarts := 12
				if testing.Short() && relaxing[name] {
					restarts = 4
				}
				for range restarts {
					store, err := sqlite.Open(ctx, dir)
					if err != nil {
						t.Fatal(err)
					}
					s := open(t, sessions.Config{Store: store, SnapshotEvery: 30})
					if id == "" {
						e, err := s.Create(ctx, "", sessions.SessionConfig{Cluster: cluster, Policy: name,
							Parameters: parameters})
						if err != nil {
							t.Fatal(err)
						}
						id = e.ID()
					}
					e, err := s.Session(ctx, "", id)
					if err != nil {
						t.Fatal(err)
					}
					for range w.rng.IntN(40) {
						ev := w.next()
						ds, err := plain.Step(ev.AtUs, []hare.Event{ev})
						if err != nil {
							t.Fatal(err)
						}
						want := line(hare.Answer{Seq: ev.Seq, Decisions: ds})
						w.obey(ev, ds)
						got, err := send(ctx, e, []hare.Event{ev})
						if err != nil || got[0] != want {
							t.Fatalf("got %v %v\nwant %s", got, err, want)
						}
					}
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					if seed%2 == 0 { // replay, not snapshots alone
						alter(t, dir, "DELETE FROM snapshot WHERE seq % 3 > 0")
					}
				}
			})
		}
	}
}

// TestRollingComesBack runs rolling with plans that are made aside through restarts. The
// decisions must follow from the events and plans of the log, and the state after each
// restart must be that of a policy that took them all.
func TestRollingComesBack(t *testing.T) {
	ctx := t.Context()
	seeds := uint64(4)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir, id := t.TempDir(), ""
			w := &world{rng: rand.New(rand.NewPCG(seed, 7))}
			plans := 0
			for range 12 {
				store, err := sqlite.Open(ctx, dir)
				if err != nil {
					t.Fatal(err)
				}
				s := open(t, sessions.Config{Store: store, SnapshotEvery: 30})
				if id == "" {
					id = createRolling(t, s).ID()
				}
				e, err := s.Session(ctx, "", id)
				if err != nil {
					t.Fatal(err)
				}
				var again online.Planned
				again, plans = followLog(t, e)
				err = e.View(ctx, func(p online.Durable) {
					if got, want := p.AppendSnapshot(nil), again.AppendSnapshot(nil); !bytes.Equal(got, want) {
						t.Errorf("the state is not that of the log\n%s\n%s", got, want)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				for range w.rng.IntN(40) {
					ev := w.next()
					p, err := e.Submit(ctx, ev)
					if err != nil {
						t.Fatal(err)
					}
					a, err := p.Wait(ctx)
					if err != nil {
						t.Fatal(err)
					}
					w.obey(ev, a.Decisions)
					if w.rng.IntN(3) == 0 {
						time.Sleep(time.Duration(w.rng.IntN(2000)) * time.Microsecond)
					}
				}
				closeAll(t, s)
				if seed%2 == 0 { // replay, not snapshots alone
					alter(t, dir, "DELETE FROM snapshot WHERE seq % 3 > 0")
				}
			}
			if plans == 0 {
				t.Error("no plan is in the log")
			}
			t.Logf("%d events, %d plans", w.seq, plans)
		})
	}
}

func createRolling(t testing.TB, s *sessions.Sessions) *sessions.Session {
	t.Helper()
	e, err := s.Create(context.Background(), "", sessions.SessionConfig{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	if c := e.Info().Config; c.Policy != "rolling" || string(c.Parameters) != `{"aside":true}` {
		t.Fatalf("the default is %s %s", c.Policy, c.Parameters)
	}
	return e
}

// followLog makes the decisions of a log of rolling again from its events and plans, and
// returns the policy then, and how many plans there are.
func followLog(t testing.TB, e *sessions.Session) (p online.Planned, plans int) {
	t.Helper()
	cfg := e.Info().Config
	opened, err := registry.OpenSession(cfg.Policy, &cfg.Cluster, cfg.Parameters)
	if err != nil {
		t.Fatal(err)
	}
	p = opened.(online.Planned)
	for rec, err := range e.Log(context.Background(), 0) {
		if err == nil && rec.Plan != nil {
			plans++
			err = p.Take(rec.Plan)
		}
		if err != nil {
			t.Fatal(err)
		}
		ds, err := p.Step(rec.Event.AtUs, []hare.Event{rec.Event})
		if err != nil {
			t.Fatal(err)
		}
		if was, is := wire.AppendDecisions(nil, rec.Decisions), wire.AppendDecisions(nil, ds); !bytes.Equal(was, is) {
			t.Fatalf("event %d: recorded %s, now %s", rec.Event.Seq, was, is)
		}
	}
	return p, plans
}
