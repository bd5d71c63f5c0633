package solver_test

import (
	"bytes"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// fewTasks has relaxed jobs of 18 tasks, a gang and a rigid job on two types.
func fewTasks() *hare.Instance {
	job := func(id string, weight, rounds, tasks int64, sync hare.Sync, fast, slow, after int64) hare.Job {
		return hare.Job{ID: id, WeightMicro: weight, Rounds: rounds, Tasks: tasks, Sync: sync, On: []hare.Profile{
			{Type: "T4", ComputeUs: slow * 1e6, SyncUs: after * 1e6},
			{Type: "V100", ComputeUs: fast * 1e6, SyncUs: after * 1e6}}}
	}
	return &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{haretest.Node("t4", "T4", 3), haretest.Node("v100", "V100", 2)}},
		Jobs: []hare.Job{job("a", 334_253, 2, 3, hare.Relaxed, 4, 6, 1), job("b", 326_823, 1, 4, hare.Relaxed, 5, 11, 1),
			job("c", 990_272, 2, 4, hare.Relaxed, 3, 7, 0), job("d", 632_950, 2, 2, hare.Gang, 2, 5, 1),
			job("e", 471_659, 2, 2, hare.Rigid, 3, 4, 1)}}
}

// A search that ends proves its plan optimal, with the same bytes on any number of cores; without time to repeat it,
// the answer says that the plan is optimal by search alone.
func TestSearchProvesOptima(t *testing.T) {
	inst := fewTasks()
	var before []byte
	for _, workers := range []int{1, 2, 4} {
		res, err := solver.Solve(t.Context(), inst, hare.Options{WorkLimit: 4000}, solver.Config{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		if res.Termination != hare.TerminationOptimal || res.Certificate.Method != hare.MethodSearch ||
			res.OptimalBySearch || !res.Reproducible {
			t.Errorf("%d workers: %s by %s, by search %t, reproducible %t", workers, res.Termination, res.Certificate.Method,
				res.OptimalBySearch, res.Reproducible)
		}
		res.Timing = hare.Timing{}
		text := new(bytes.Buffer)
		if err := wire.EncodeResult(text, res); err != nil {
			t.Fatal(err)
		}
		if before != nil && !bytes.Equal(before, text.Bytes()) {
			t.Errorf("%d workers: another result", workers)
		}
		before = text.Bytes()
	}
	// Without prices there is no certificate.
	res, err := solver.Solve(t.Context(), inst, hare.Options{WorkLimit: 4000, Bound: hare.MethodMachine, Order: "wspt"},
		solver.Config{})
	if err != nil || !res.OptimalBySearch || res.Termination != hare.TerminationWorkLimit {
		t.Errorf("%v: optimal by search %t, %s", err, res.OptimalBySearch, res.Termination)
	}
}
