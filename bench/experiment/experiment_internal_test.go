package experiment

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/wire"
)

// A mean of several values is written with its confidence interval: the mean of 2, 4 and 6
// is 4 ± 4.302653 · 2/√3. A mean of no values is a dash.
func TestCell(t *testing.T) {
	var s sim.Stat
	for _, x := range []float64{2, 4, 6} {
		s.Add(x)
	}
	if got := cell(s, 1, true); got != "4.0 ± 5.0" {
		t.Error(got)
	}
	if got := cell(sim.Stat{}, 1, true); got != "–" {
		t.Error(got)
	}
}

// Each estimated time differs from the true time by at most the share. The deviations of
// two shares are in proportion if the seed is the same, have both signs, and differ if the
// seeds differ. The instance is not modified.
func TestEstimatedTimes(t *testing.T) {
	inst, err := set{scale: 4}.generate(setting{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	before := wire.SHA256(inst)
	small, large := estimated(inst, 0.1, 1), estimated(inst, 0.2, 1)
	below, above := 0, 0
	for i := range inst.Jobs {
		for k, p := range inst.Jobs[i].On {
			a, b := small.Jobs[i].On[k].ComputeUs-p.ComputeUs, large.Jobs[i].On[k].ComputeUs-p.ComputeUs
			if float64(max(b, -b)) > 0.2*float64(p.ComputeUs)+500 || max(b-2*a, 2*a-b) > 2000 {
				t.Fatalf("job %d: %d, estimated %d and %d", i, p.ComputeUs, small.Jobs[i].On[k].ComputeUs,
					large.Jobs[i].On[k].ComputeUs)
			}
			if b < 0 {
				below++
			} else {
				above++
			}
		}
	}
	if below < 50 || above < 50 || wire.SHA256(inst) != before {
		t.Errorf("%d below, %d above", below, above)
	}
	if other := estimated(inst, 0.2, 2); wire.SHA256(other) == wire.SHA256(large) {
		t.Error("two seeds, the same errors")
	}
}

type recordingPolicy struct{ received []hare.Event }

func (rp *recordingPolicy) Step(_ int64, events []hare.Event) ([]hare.Decision, error) {
	rp.received = append(rp.received, events...)
	return nil, nil
}

// The events that a misprofiled policy receives have estimated times where jobs arrive; all
// else in the events is unchanged.
func TestMisprofiledEvents(t *testing.T) {
	l := &recordingPolicy{}
	on := []hare.Profile{{Type: "V100", ComputeUs: 7}}
	w := &told{policy: l, on: map[string][]hare.Profile{"a": on}}
	job := hare.Job{ID: "a", Tasks: 3, On: []hare.Profile{{Type: "V100", ComputeUs: 5}}}
	events := []hare.Event{{Type: hare.EventJobArrived, Job: "a", Arrived: &job}, {Type: hare.EventTaskEnded, Job: "a",
		ComputeUs: 5}}
	if _, err := w.Step(0, events); err != nil {
		t.Fatal(err)
	}
	if got := l.received[0].Arrived; got.On[0].ComputeUs != 7 || got.Tasks != 3 || job.On[0].ComputeUs != 5 ||
		events[0].Arrived != &job {
		t.Errorf("received %+v of %+v", got, job)
	}
	if l.received[1] != events[1] {
		t.Errorf("received %+v", l.received[1])
	}
}

// A policy that follows plans gets its plans although its profiles are wrong.
func TestMisprofiledPlans(t *testing.T) {
	inst, err := set{scale: 10}.generate(setting{arrivals: arriving(), sync: "gang"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	info, ok := policies.Find("rolling")
	if !ok {
		t.Fatal("there is no policy rolling")
	}
	c := &Case{Inst: inst, Estimated: estimated(inst, 0.2, 1)}
	p, err := newPolicy(t.Context(), c, info, policies.Config{Rolling: rolling.Config{Aside: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sim.Run(t.Context(), inst, p, sim.Config{PlanLatencyUs: 1e5}); err != nil {
		t.Fatal(err)
	}
	if planned, ok := p.(*toldPlanned); !ok || planned.Plan().MadeUs < 0 {
		t.Errorf("%T has had no plan", p)
	}
}

// The instances of the three rules have the same jobs, apart from the rule. Gang and rigid
// jobs may have fewer tasks, because they are no wider than the widest type.
func TestSyncsAreTheSameJobs(t *testing.T) {
	cases, err := syncs.cases(set{scale: 10, first: 1, count: 2})
	if err != nil || len(cases) != 6 {
		t.Fatal(len(cases), err)
	}
	for i, c := range cases[2:] {
		like := cases[i%2].Inst
		for k, j := range c.Inst.Jobs {
			o := like.Jobs[k]
			if j.ID != o.ID || j.Rounds != o.Rounds || j.ReleaseUs != o.ReleaseUs || j.WeightMicro != o.WeightMicro ||
				!j.On[0].Equal(o.On[0]) || j.Tasks > o.Tasks {
				t.Fatalf("%s and %s: job %d", c.Inst.Name, like.Name, k)
			}
		}
	}
}
