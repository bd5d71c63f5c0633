package advice_test

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/adapters/advice"
	"github.com/hare-sched/hare/history"
)

// TestDemand lets jobs of 6 of 8 CPUs, or of 6 of 8 GiB, wait for a node with room for both by its GPUs. One
// starts; without CPUs and memory both do.
func TestDemand(t *testing.T) {
	for _, c := range []struct {
		name         string
		cpus, memory bool
		now          int
	}{{"GPUs alone", false, false, 2}, {"CPUs", true, false, 1}, {"memory", false, true, 1}} {
		t.Run(c.name, func(t *testing.T) {
			session, now := demandingJobs(c.cpus, c.memory, advice.Waiting)
			plan, err := session.Plan(t.Context(), now)
			if err != nil {
				t.Fatal(err)
			}
			order := session.Order(plan)
			starts := 0
			for _, p := range order {
				if p.Now {
					starts++
				}
			}
			if len(order) != 2 || starts != c.now {
				t.Errorf("%+v", order)
			}
		})
	}
}

// TestRunningJobsThatCannotBe tells a session of running jobs with more CPUs than their node has, with
// unlike numbers of GPUs on their nodes, on two types at once, and on a node whose labels they do not allow:
// a plan comes nevertheless, and the waiting job gets the GPUs that are free.
func TestRunningJobsThatCannotBe(t *testing.T) {
	session, now := demandingJobs(true, true, advice.Running)
	now.Nodes = append(now.Nodes,
		advice.Node{Name: "b", GPUs: []hare.TypeCount{{Type: "V100", Count: 4}}, CPUMilli: 8000})
	uneven := advice.Spec(&history.Job{ID: "uneven", GPUs: 4, Nodes: 2}, []string{"V100"}, history.ShippedSpeeds())
	now.Nodes = append(now.Nodes, advice.Node{Name: "c", GPUs: []hare.TypeCount{{Type: "V100", Count: 4}}})
	elsewhere := advice.Spec(&history.Job{ID: "elsewhere", GPUs: 2, Nodes: 1}, []string{"V100"}, history.ShippedSpeeds())
	elsewhere.Only = []hare.LabelValues{{Label: "feature.fast", Values: []string{"yes"}}}
	now.Nodes = append(now.Nodes, advice.Node{Name: "d", GPUs: []hare.TypeCount{{Type: "T4", Count: 1}}},
		advice.Node{Name: "e", GPUs: []hare.TypeCount{{Type: "V100", Count: 1}}})
	mixed := advice.Spec(&history.Job{ID: "mixed", GPUs: 2, Nodes: 2}, []string{"T4", "V100"}, history.ShippedSpeeds())
	last := advice.Spec(&history.Job{ID: "last", GPUs: 2, Nodes: 1}, []string{"V100"}, history.ShippedSpeeds())
	now.Jobs = append(now.Jobs,
		advice.Job{Spec: uneven, State: advice.Running, StartUs: now.NowUs, On: []history.Held{
			{Node: "b", Type: "V100", GPUs: 3}, {Node: "c", Type: "V100", GPUs: 1}}},
		advice.Job{Spec: elsewhere, State: advice.Running, StartUs: now.NowUs, On: []history.Held{
			{Node: "c", Type: "V100", GPUs: 1}, {Node: "b", Type: "V100", GPUs: 1}}},
		advice.Job{Spec: mixed, State: advice.Running, StartUs: now.NowUs, On: []history.Held{
			{Node: "d", Type: "T4", GPUs: 1}, {Node: "e", Type: "V100", GPUs: 1}}},
		advice.Job{Spec: last})
	for range 2 { // the second time, nothing has changed
		plan, err := session.Plan(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		order := session.Order(plan)
		if len(order) != 1 || !order[0].Now || !slices.Equal(order[0].GPUs[0], []string{"c/2", "c/3"}) {
			t.Errorf("%+v", order)
		}
		now.NowUs += 30e6
	}
}

// demandingJobs makes two jobs of one GPU, 6 CPUs and 6 GiB, which wait for a node of two GPUs, 8 CPUs and
// 8 GiB or run there.
func demandingJobs(cpus, memory bool, state advice.JobState) (*advice.Session, *advice.State) {
	node := advice.Node{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 2}}, CPUMilli: 8000, MemoryMiB: 8 << 10}
	now := &advice.State{NowUs: 1_800_000_000e6, Nodes: []advice.Node{node}}
	for _, id := range []string{"x", "y"} {
		j := &history.Job{ID: id, GPUs: 1, Nodes: 1, CPUMilli: 6000, MemoryMiB: 6 << 10}
		spec := advice.Spec(j, []string{"V100"}, history.ShippedSpeeds())
		advice.Demand(spec, j, cpus, memory)
		now.Jobs = append(now.Jobs, advice.Job{Spec: spec, State: state, StartUs: now.NowUs,
			On: []history.Held{{Node: "a", Type: "V100", GPUs: 1}}})
	}
	return &advice.Session{Advisor: &advice.InProcess{}, Logger: slog.New(slog.DiscardHandler)}, now
}

// Seconds may be given by the whole name of a type, or by the word for it.
func TestSecondsByShortNames(t *testing.T) {
	types := []string{"Tesla-T4", "Tesla-V100-SXM2-16GB", "Tesla-V100-SXM2-32GB"}
	j := &history.Job{ID: "j", GPUs: 1, Seconds: []history.TypeSeconds{{Type: "V100", Us: 40e6}, {Type: "t4", Us: 90e6},
		{Type: "tesla-v100-sxm2-32gb", Us: 30e6}}}
	spec := advice.Spec(j, types, history.ShippedSpeeds())
	for i, want := range []int64{90, 40, 30} {
		if p := spec.On[i]; p.Type != types[i] || p.ComputeUs*40 != spec.On[1].ComputeUs*want {
			t.Errorf("%+v", spec.On)
		}
	}
}
