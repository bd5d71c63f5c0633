package solver_test

import (
	"compress/gzip"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// The six instances of nine rigid jobs are proved optimal, with a limit of work and without a clock.
func TestNineRigidJobsAreProvedOptimal(t *testing.T) {
	for name, optimum := range map[string]string{"rigid-9-1": "2987.262303", "rigid-9-2": "674.700576",
		"rigid-9-3": "1448.537145", "rigid-9-4": "1052.687993", "rigid-9-5": "2676.532143", "rigid-9-6": "1652.902924"} {
		if testing.Short() && name != "rigid-9-6" {
			continue // one is enough for the race detector
		}
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

// A tree follows where GPUs stay, also beside one that never comes into service. Where one GPU leaves as another comes
// the blocks of its schedules might find no GPU, and only one leaf follows.
func TestTreesWhereGPUsComeAndGo(t *testing.T) {
	for _, test := range []struct {
		nodes, jobs, value string
		divided            bool
	}{
		{`{"name":"a","gpus":{"A":3},"in_service_s":[[0,10]]},{"name":"b","gpus":{"A":3},"in_service_s":[[10,null]]}`,
			`{"id":"x","sync":"rigid","tasks":2,"on":{"A":{"compute_s":8}}},
			{"id":"y","sync":"rigid","tasks":2,"on":{"A":{"compute_s":8}}}`, "26", false},
		{`{"name":"a","gpus":{"A":1},"in_service_s":[[0,5]],"busy":[{"gpu":0,"until_s":9}]},{"name":"b","gpus":{"A":3}}`,
			`{"id":"x","sync":"rigid","tasks":2,"on":{"A":{"compute_s":8}}},
			{"id":"y","sync":"rigid","on":{"A":{"compute_s":3}}},
			{"id":"z","weight":3,"sync":"rigid","tasks":2,"on":{"A":{"compute_s":5}}}`, "31", true},
	} {
		inst, err := wire.DecodeInstance(strings.NewReader(`{"hare":"instance/v1","cluster":{"nodes":[`+test.nodes+
			`]},"jobs":[`+test.jobs+`]}`), wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		res, err := solver.Solve(context.Background(), inst, hare.Options{WorkLimit: 20_000}, solver.Config{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if res.Value.String() != test.value || res.Certificate.Method != hare.MethodBranch ||
			len(res.Certificate.Tree) > 1 != test.divided {
			t.Errorf("value %v by %s with %d nodes, want %s, divided: %v", res.Value, res.Certificate.Method,
				len(res.Certificate.Tree), test.value, test.divided)
		}
		if rep := verify.Check(inst, res); !rep.OK {
			t.Error(rep)
		}
	}
}

// Wide relaxed jobs have prices of their own under a time limit, which raise the bound: of five GPUs two jobs of three
// tasks cannot both hold three. Narrow jobs, and results that the clock does not end, have none. A busy machine needs
// more time for them.
func TestWideRelaxedJobsHavePrices(t *testing.T) {
	for _, test := range []struct {
		tasks  string
		opt    hare.Options
		priced bool
	}{
		{"3", hare.Options{TimeLimit: time.Second}, true},
		{"3", hare.Options{WorkLimit: 20_000}, false},
		{"1", hare.Options{TimeLimit: time.Second}, false},
	} {
		if testing.Short() && test.opt.WorkLimit > 0 {
			continue // takes half a minute under the race detector
		}
		job := `{"id":"x","rounds":20,"tasks":` + test.tasks + `,"on":{"A":{"compute_s":1.003,"sync_s":0.1}}}`
		inst, err := wire.DecodeInstance(strings.NewReader(`{"hare":"instance/v1","cluster":{"nodes":[`+
			`{"name":"n","gpus":{"A":5}}]},"jobs":[`+job+","+strings.Replace(job, "x", "y", 1)+`]}`), wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if wide := relax.WideRounds(model.New(inst)); wide != (test.tasks == "3") {
			t.Errorf("%s tasks on five GPUs are wide: %v", test.tasks, wide)
		}
		res, err := solver.Solve(context.Background(), inst, test.opt, solver.Config{Workers: 1})
		for err == nil && test.priced && res.Certificate.Method != hare.MethodBranch && test.opt.TimeLimit < time.Minute {
			test.opt.TimeLimit *= 3
			res, err = solver.Solve(context.Background(), inst, test.opt, solver.Config{Workers: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
		if priced := res.Certificate.Method == hare.MethodBranch; priced != test.priced {
			t.Errorf("%s tasks, %+v: a bound of %v by %s", test.tasks, test.opt, res.Bound, res.Certificate.Method)
		}
		if rep := verify.Check(inst, res); !rep.OK {
			t.Error(rep)
		}
	}
}
