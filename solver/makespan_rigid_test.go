package solver_test

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// A rigid job that finds room on its node only from 1 s on, whose path is therefore longer than its
// rounds from 0.5 s on. The price of its work by the makespan is proved as the verifiers read it,
// which do not know the path there.
func TestMakespanOfRigidJobThatWaitsForRoom(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1", "objective": "makespan", "cluster": {
	  "nodes": [{"name": "n", "gpus": {"A": 3, "B": 1}, "busy": [{"gpu": 0, "until_s": 1}]}],
	  "reservations": [{"nodes": {"node": "n"}, "until_s": 0.5}]},
	  "jobs": [{"id": "x", "on": {"A": {"compute_s": 1}}},
	    {"id": "r", "sync": "gang", "on": {"A": {"compute_s": 1, "sync_s": 1.5}},
	     "progress": {"gpus": ["n/2"], "elapsed_s": 2}},
	    {"id": "y", "sync": "rigid", "rounds": 2, "shapes": [{"tasks": 3, "counts": 2, "on": {"A": {"compute_s": 3}}},
	     {"gpus_per_task": 2, "on": {"A": {"compute_s": 3}}}]}]}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, work := range []int64{30, 100, 1000} {
		res, err := solver.Solve(t.Context(), inst, hare.Options{WorkLimit: work, Gap: 1e-9}, solver.Config{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if rep := verify.Check(inst, res); !rep.OK || res.Bound.Cmp(*res.Value) > 0 {
			t.Error(rep)
		}
	}
}
