package solver_test

import (
	"compress/gzip"
	"context"
	"os"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// The six instances of nine rigid jobs are proved optimal, with a limit of work and without a clock.
func TestNineRigidJobsAreProvedOptimal(t *testing.T) {
	for name, optimum := range map[string]string{"rigid-9-1": "2987.262303", "rigid-9-2": "674.700576",
		"rigid-9-3": "1448.537145", "rigid-9-4": "1052.687993", "rigid-9-5": "2676.532143", "rigid-9-6": "1652.902924"} {
		f, err := os.Open("../testdata/instances/" + name + ".json.gz")
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		inst, err := wire.DecodeInstance(z, wire.Limits{})
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		nodes := 0
		res, err := solver.Solve(context.Background(), inst, hare.Options{WorkLimit: 150_000, Seed: 1}, solver.Config{
			Workers: 2, Progress: func(e solver.Event) { nodes = max(nodes, e.Nodes) }})
		if err != nil {
			t.Fatal(err)
		}
		if res.Termination != hare.TerminationOptimal || res.Value.String() != optimum || !res.Reproducible ||
			res.Certificate.Method != hare.MethodBranch || nodes == 0 {
			t.Errorf("%s: %s, value %v, bound %v by %s, %d nodes", name, res.Termination, res.Value, res.Bound,
				res.Certificate.Method, nodes)
		}
		if rep := verify.Check(inst, res); !rep.OK {
			t.Errorf("%s: %s", name, rep)
		}
	}
}
