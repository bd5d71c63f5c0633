package rolling_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/policytest"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

// aside are the parameters of a session whose host makes the plans.
const aside = `{"aside": true, "max_age_s": 5, "moves": 20}`

// prompt is a policy whose host makes each plan right after the event, and takes it.
type prompt struct{ online.Planned }

func (pr prompt) plan() {
	if q := pr.Ask(); q != nil {
		plan, err := q.Answer(context.Background())
		if err != nil {
			panic(err)
		}
		if err := pr.Take(plan); err != nil {
			panic(err)
		}
	}
}

func (pr prompt) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	decisions, err := pr.Planned.Step(nowUs, events)
	pr.plan()
	return decisions, err
}

func (pr prompt) Adopt(nowUs int64, event hare.Event, decisions []hare.Decision) error {
	err := pr.Planned.Adopt(nowUs, event, decisions)
	pr.plan()
	return err
}

// The policy keeps its promises with plans that are taken after each event, and without
// any plan.
func TestHostileEventsWithPlansAside(t *testing.T) {
	open := func(c *hare.Cluster) (online.Planned, error) {
		p, err := registry.OpenSession("rolling", c, []byte(aside))
		if err != nil {
			return nil, err
		}
		return p.(online.Planned), nil
	}
	restore := func(snapshot []byte) (online.Planned, error) {
		p, err := registry.RestoreSession("rolling", snapshot)
		if err != nil {
			return nil, err
		}
		return p.(online.Planned), nil
	}
	runs := 12
	if testing.Short() {
		runs = 4
	}
	t.Run("plans", func(t *testing.T) {
		policytest.Run(t, policytest.Subject{Runs: runs,
			Open: func(c *hare.Cluster, _ []hare.Job) (online.Policy, error) {
				p, err := open(c)
				return prompt{p}, err
			},
			Restore: func(snapshot []byte) (online.Durable, error) {
				p, err := restore(snapshot)
				if err != nil {
					return nil, err
				}
				return prompt{p}, nil
			},
		})
	})
	t.Run("no plans", func(t *testing.T) {
		policytest.Run(t, policytest.Subject{Runs: runs,
			Open:    func(c *hare.Cluster, _ []hare.Job) (online.Policy, error) { return open(c) },
			Restore: func(snapshot []byte) (online.Durable, error) { return restore(snapshot) },
		})
	})
}

// stream draws jobs of all kinds that arrive while GPUs leave and join.
func stream(seed uint64, jobs int) *hare.Instance {
	rng := rand.New(rand.NewPCG(seed, 7))
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{
		{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 2}}},
		{Name: "b", GPUs: []hare.TypeCount{{Type: "T4", Count: 3}}},
		{Name: "c", GPUs: []hare.TypeCount{{Type: "K80", Count: 1}}, Windows: []hare.Window{{StartUs: 5e6, EndUs: 40e6},
			{StartUs: 60e6, EndUs: hare.Forever}}},
	}}}
	atUs := int64(0)
	for i := range jobs {
		atUs += rng.Int64N(4e6)
		j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: rng.Int64N(3) * 1e6, ReleaseUs: atUs, Rounds: 1 + rng.Int64N(6),
			Tasks: 1 + rng.Int64N(3), Sync: hare.Sync(rng.IntN(3))}
		j.Mix = j.Sync == hare.Gang && rng.IntN(3) == 0
		for t, name := range []string{"K80", "T4", "V100"} {
			if name == "T4" || rng.IntN(3) > 0 {
				p := hare.Profile{Type: name, ComputeUs: (1 + rng.Int64N(6)) * 5e5 / int64(1+t)}
				if j.Sync == hare.Relaxed && rng.IntN(2) == 0 {
					p.SyncUs = 1 + rng.Int64N(5e5)
				}
				j.On = append(j.On, p)
			}
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// With late plans, a policy that replays the log, plans and decisions, has the same state
// after every event as the one that lived through it, and so has one that was restored
// between a plan and the event behind it.
func TestReplayWithLatePlans(t *testing.T) {
	taken := 0
	for seed := range uint64(6) {
		for _, latencyUs := range []int64{1, 2e5, 3e6, 30e6} {
			inst := stream(seed, 12)
			lived := newAside(t, sim.Cluster(inst))
			replayed := newAside(t, sim.Cluster(inst))
			var restored online.Planned
			_, err := sim.Run(t.Context(), inst, lived, sim.Config{PlanLatencyUs: latencyUs, Seed: seed,
				FaultRate: sim.FaultRate{GPUMeanUs: 60e6, GPURepairUs: 5e6}, Failures: sim.FailureRate{Probability: 0.05},
				Log: func(rec wire.Record) error {
					if rec.Plan != nil {
						taken++
						if err := replayed.Take(rec.Plan); err != nil {
							return err
						}
					}
					restored = restore(t, replayed)
					if err := replayed.Adopt(rec.Event.AtUs, rec.Event, rec.Decisions); err != nil {
						return err
					}
					decisions, err := restored.Step(rec.Event.AtUs, []hare.Event{rec.Event})
					if err != nil || !slices.Equal(decisions, rec.Decisions) {
						return fmt.Errorf("restored: %v, %w; want %v", decisions, err, rec.Decisions)
					}
					want := lived.AppendSnapshot(nil)
					if !bytes.Equal(replayed.AppendSnapshot(nil), want) || !bytes.Equal(restored.AppendSnapshot(nil), want) {
						return fmt.Errorf("event %d: another state", rec.Event.Seq)
					}
					return nil
				}})
			if err != nil {
				t.Fatalf("seed %d, %d µs: %v", seed, latencyUs, err)
			}
		}
	}
	if taken < 300 {
		t.Errorf("%d plans were taken: the streams show little", taken)
	}
}

func newAside(t *testing.T, c *hare.Cluster) online.Planned {
	t.Helper()
	p, err := registry.OpenSession("rolling", c, []byte(aside))
	if err != nil {
		t.Fatal(err)
	}
	return p.(online.Planned)
}

func restore(t *testing.T, p online.Durable) online.Planned {
	t.Helper()
	snapshot := p.AppendSnapshot(nil)
	again, err := registry.RestoreSession("rolling", snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.AppendSnapshot(nil), snapshot) {
		t.Fatal("restored, the policy has another snapshot")
	}
	return again.(online.Planned)
}

// With wait_for_plan, jobs start by the plan that has seen all of them, and by hgittins when no
// plan has come for max_age_s.
func TestWaitForPlan(t *testing.T) {
	s := openAside(t, `{"aside": true, "wait_for_plan": true, "max_age_s": 5, "plan_every_s": 0}`, v100)
	tick := hare.Event{Type: hare.EventTick}
	started := func(decisions []hare.Decision) (jobs []string) {
		for _, d := range decisions {
			if !slices.Contains(jobs, d.Job) {
				jobs = append(jobs, d.Job)
			}
		}
		return jobs
	}
	if got := append(s.arrive(0, "long", 1, 2, hare.Profile{Type: "V100", ComputeUs: 1000e6}),
		s.arrive(0, "short", 1, 2, onV)...); len(got) > 0 {
		t.Errorf("before the plan: %+v", got)
	}
	s.take(s.answer())
	if got := started(s.step(0, tick)); !slices.Equal(got, []string{"short"}) {
		t.Errorf("the plan starts %v, want the short job", got)
	}
	s.step(1, hare.Event{Type: hare.EventJobCancelled, Job: "short"})
	if got := s.step(6, tick); len(got) > 0 {
		t.Errorf("5 s after the change: %+v", got)
	}
	if got := started(s.step(7, tick)); !slices.Equal(got, []string{"long"}) {
		t.Errorf("6 s after the change: %v, want the long job", got)
	}
	if _, err := registry.OpenSession("rolling", &hare.Cluster{}, []byte(`{"wait_for_plan": true}`)); err == nil {
		t.Error("wait_for_plan is taken without aside")
	}
}

// Plans that come late, twice or in the wrong order are refused, and a question that is
// lost is asked again.
func TestPlansOutOfOrder(t *testing.T) {
	s := openAside(t, aside, v100)
	if s.Ask() != nil {
		t.Error("a plan is due before the first event")
	}
	s.arrive(0, "a", 1, 2, onV)
	first := s.answer()
	if again := s.answer(); again != first {
		t.Errorf("the same question has the answers %s and %s", first, again)
	}
	frozen := s.Ask()
	s.arrive(1, "b", 1, 2, onV)
	second := s.answer()
	if late, err := frozen.Answer(t.Context()); err != nil || string(late) != first {
		t.Errorf("after an event the question has the answer %s, %v; before it had %s", late, err, first)
	}
	s.take(second)
	if s.Ask() != nil {
		t.Error("a plan is due, and nothing has changed")
	}
	s.refuse(second, "/number", "old_plan")
	s.refuse(first, "/number", "old_plan")
	s.refuse(strings.Replace(second, `"number":2`, `"number":3`, 1), "/number", "unknown_question")
	if got := s.Plan(); got.Due || got.Fallback != "" || got.MadeUs != 1e6 {
		t.Errorf("%+v", got)
	}
	inline, err := registry.OpenSession("rolling", &hare.Cluster{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if in := inline.(online.Planned); in.Ask() != nil || in.Take([]byte(first)) == nil {
		t.Error("a policy that plans in Step asks for plans, or takes one")
	}
}

// Plans of jobs that are gone, also where another job has the ID, and of GPUs that have
// left.
func TestPlansOfWhatIsGone(t *testing.T) {
	s := openAside(t, aside, v100, t4)
	started := s.arrive(0, "a", 1, 2, onV)
	s.arrive(0, "b", 1, 2, onT)
	s.arrive(0, "c", 1, 2, onV)
	plan := s.answer()
	s.step(1, hare.Event{Type: hare.EventJobCancelled, Job: "c"})
	s.step(1, hare.Event{Type: hare.EventJobCancelled, Job: "b"})
	s.arrive(1, "b", 1, 1, onV) // on another type, of another width
	s.step(1, hare.Event{Type: hare.EventGPULeft, GPU: started[0].GPU})
	s.step(1, hare.Event{Type: hare.EventGPULeft, GPU: "n/2"})
	s.take(plan)
	for _, j := range s.Plan().Jobs {
		if (j.EndUs >= 0) != (j.Job == "a") {
			t.Errorf("%+v", j)
		}
	}
	restore(t, s)
	s.take(s.answer())
	restore(t, s)
}

// A plan that contradicts itself or the session is refused, with the place of the fault.
func TestPlansThatLie(t *testing.T) {
	s := openAside(t, aside, v100, t4)
	s.arrive(3, "a", 1, 2, onV, onT)
	s.arrive(3, "b", 2, 1, onV)
	plan := s.answer()
	for _, c := range []struct{ old, new, pointer, code string }{
		{`"plan/v1"`, `"plan/v2"`, "/hare", "unknown_form"},
		{`"number":2`, `"number":-1`, "/number", "out_of_range"},
		{`"number":2,`, ``, "", "missing_field"},
		{`"at_s":3`, `"at_s":4`, "/at_s", "unknown_question"},
		{`"arrivals":2`, `"arrivals":3`, "/arrivals", "unknown_question"},
		{`"arrivals":2`, `"arrivals":1`, "/jobs/1/arrival", "contradiction"},
		{`"bound":`, `"bound":9`, "/bound", "contradiction"},
		{`"value":`, `"value":-`, "/value", "bad_amount"},
		{`"grid_us":[0,`, `"grid_us":[1,`, "/grid_us", "contradiction"},
		{`"grid_us":[0,`, `"grid_us":[0,0,`, "/grid_us", "contradiction"},
		{`"V100":[`, `"V100":[5,`, "/prices", "contradiction"},
		{`"prices":{"T4"`, `"prices":{"A100"`, "/prices", "unknown_type"},
		{`"arrival":1`, `"arrival":0`, "/jobs", "duplicate_id"},
		{`"arrival":1,"rounds":8`, `"arrival":1,"rounds":9`, "/jobs/1/rounds", "contradiction"},
		{`"gpus":{"V100":2}`, `"gpus":{"V100":1}`, "/jobs/0/rows/1/gpus", "contradiction"},
		{`"gpus":{"V100":2}`, `"gpus":{"V100":0}`, "/jobs/0/rows/1/gpus/V100", "out_of_range"},
		{`"gpus":{"V100":2}`, `"gpus":{"V100":1,"T4":1}`, "/jobs/0/rows/1/gpus", "contradiction"},
		{`"gpus":{"V100":2}`, `"gpus":{"P100":2}`, "/jobs/0/rows/1/gpus", "unknown_type"},
		{`"gpus":{"V100":1}`, `"gpus":{"T4":1}`, "/jobs/1/rows/0/gpus", "contradiction"},
		{`"round":1,`, `"round":2,`, "/jobs/0/rows/0/round", "contradiction"},
		{`"start_s":13`, `"start_s":2`, "/jobs/0/rows/0/start_s", "contradiction"},
		{`"start_s":13`, `"start_s":1e99`, "/jobs/0/rows/0/start_s", "too_large"},
		{`"start_s":13`, `"start_s":13,"start_s":13`, "/jobs/0/rows/0/start_s", "duplicate_name"},
		{`"start_s":13`, `"start_s":13,"gpu":"n/0"`, "/jobs/0/rows/0/gpu", "unknown_field"},
	} {
		if !strings.Contains(plan, c.old) {
			t.Errorf("%s has no %s", plan, c.old)
			continue
		}
		s.refuse(strings.Replace(plan, c.old, c.new, 1), c.pointer, c.code)
	}
	for _, garbage := range []string{"", "null", "{}", "{", strings.Repeat("[", 1000), "\x00", plan + plan} {
		if err := s.Take([]byte(garbage)); err == nil {
			t.Errorf("%.40q is taken", garbage)
		}
	}
	s.take(plan)
}

// Without a plan hgittins decides, and again once a change that the last plan has not seen
// is too old, until the next plan.
func TestOldPlans(t *testing.T) {
	s := openAside(t, aside, v100)
	if s.Plan().Fallback != "hgittins" {
		t.Errorf("without a plan: %+v", s.Plan())
	}
	if len(s.arrive(0, "a", 1, 2, onV)) != 2 {
		t.Error("without a plan nothing starts")
	}
	s.take(s.answer())
	s.step(100, hare.Event{Type: hare.EventTick})
	if got := s.Plan(); got.Fallback != "" || got.Due || got.MadeUs != 0 {
		t.Errorf("nothing has changed since the plan, and %+v", got)
	}
	s.arrive(101, "b", 1, 2, onV)
	q := s.Ask()
	s.step(106, hare.Event{Type: hare.EventTick})
	if got := s.Plan(); got.Fallback != "" || !got.Due {
		t.Errorf("5 s after a change: %+v", got)
	}
	s.arrive(107, "c", 1, 2, onV)
	if got := s.Plan(); got.Fallback != "hgittins" {
		t.Errorf("6 s after a change: %+v", got)
	}
	plan, err := q.Answer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.take(string(plan)) // it has not seen c, which came now
	restore(t, s)
	if got := s.Plan(); got.Fallback != "" || !got.Due || got.MadeUs != 101e6 {
		t.Errorf("after a late plan: %+v", got)
	}
}

// A newcomer goes before a planned job with less weight for its GPU time, and after one
// with more.
func TestNewcomers(t *testing.T) {
	for _, weight := range []int64{1, 9} {
		s := openAside(t, aside, v100)
		running := s.arrive(0, "runs", 5, 2, onV)
		s.arrive(0, "waits", 3, 2, onV)
		s.take(s.answer())
		s.arrive(1, "new", weight, 2, onV)
		for _, j := range s.Plan().Jobs {
			if j.Job == "new" && (strings.Contains(j.Reason.Text, `"waits"`) != (weight == 1) || j.EndUs != -1) {
				t.Errorf("weight %d: %+v", weight, j)
			}
		}
		s.ended(2, running[0])
		s.ended(2, running[1])
		s.step(2, hare.Event{Type: hare.EventJobEnded, Job: "runs"})
		first := "waits"
		if weight == 9 {
			first = "new"
		}
		for _, j := range s.Plan().Jobs {
			if j.Running != (j.Job == first) {
				t.Errorf("weight %d: %+v", weight, j)
			}
		}
	}
}

// What a plan says of its jobs.
func TestPlanStatus(t *testing.T) {
	s := openAside(t, aside, v100)
	s.arrive(0, "a", 1, 2, onV)
	s.arrive(0, "b", 1, 1, onV)
	s.arrive(0, "wide", 1, 3, onV)
	s.arrive(0, "other", 1, 1, onT)
	s.take(s.answer())
	got := s.Plan()
	// Eight rounds of 10 s are believed of each; b comes second, and shares no time with a.
	want := []online.PlannedJob{
		{Job: "a", Running: true, Rounds: 8, Types: []string{"V100"}, StartUs: 0, EndUs: 80e6, EarliestEndUs: 80e6},
		{Job: "b", Rounds: 8, Types: []string{"V100"}, StartUs: 80e6, EndUs: 160e6, EarliestEndUs: 80e6,
			Reason: online.Reason{Code: online.Busy, Short: "1 V100 busy",
				Text: `It waits for 1 GPU of type V100, of which 0 are free. Before it stands "a".`}},
		{Job: "wide", Rounds: 8, StartUs: -1, EndUs: -1, EarliestEndUs: 80e6,
			Reason: online.Reason{Code: online.NoService, Short: "needs 3 GPUs, 2 in service",
				Text: "It waits for GPUs that join: it needs 3 at once, and no type that it may use has that many in service."}},
		{Job: "other", Rounds: 8, StartUs: -1, EndUs: -1, EarliestEndUs: 160e6,
			Reason: online.Reason{Code: online.NoService, Short: "no T4 in service",
				Text: "It waits for a GPU of a type that it has a profile for: none is in service."}},
	}
	for i := range want {
		if i >= len(got.Jobs) || fmt.Sprintf("%+v", got.Jobs[i]) != fmt.Sprintf("%+v", want[i]) {
			t.Errorf("%+v\nwant %+v", got.Jobs, want)
			break
		}
	}
	if got.Value.String() != "240" || got.Bound.Cmp(got.Value) > 0 || got.Bound.Float() < 160 {
		t.Errorf("value %s, bound %s", got.Value, got.Bound)
	}
}

var _ online.Planned = (*rolling.Policy)(nil)
