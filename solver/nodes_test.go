package solver_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// nodesInstance has two nodes of four GPUs and jobs with tasks of one, two and four of them.
const nodesInstance = `{"hare": "instance/v1", "cluster": {"nodes": [
	{"name": "a", "count": 2, "gpus": {"A100": 4}, "cpus": 16, "labels": {"disk": "ssd"}},
	{"name": "b", "gpus": {"T4": 2}}]}, "jobs": [
	{"id": "wide", "sync": "rigid", "tasks": 2, "gpus_per_task": 4, "distinct_nodes": true,
	 "on": {"A100": {"compute_s": 10}}},
	{"id": "gang", "sync": "gang", "rounds": 1000, "tasks": 3, "gpus_per_task": 2,
	 "on": {"A100": {"compute_s": 0.02}, "T4": {"compute_s": 0.05}}},
	{"id": "hungry", "sync": "rigid", "cpus_per_task": 12, "only": {"disk": "ssd"}, "on": {"A100": {"compute_s": 30}}},
	{"id": "loose", "rounds": 3, "tasks": 4, "on": {"A100": {"compute_s": 2, "sync_s": 1}, "T4": {"compute_s": 3}}}]}`

func decodeNodes(t testing.TB, text string) *hare.Instance {
	inst, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

func TestSolveOnNodes(t *testing.T) {
	inst := decodeNodes(t, nodesInstance)
	var first []byte
	for n := range 2 {
		res, err := solver.Solve(context.Background(), inst, hare.Options{Gap: 1e-9, WorkLimit: 20_000},
			solver.Config{Workers: 1 + n})
		if err != nil {
			t.Fatal(err)
		}
		if rep := verify.Check(inst, res); !rep.OK || !res.Reproducible {
			t.Fatal(rep)
		}
		if gap, ok := res.Gap(); !ok || gap.Cmp(big.NewRat(1, 2)) > 0 {
			t.Errorf("gap %v", gap)
		}
		text := fmt.Append(nil, res.Value, res.Bound, res.Schedule.Lanes)
		if n > 0 && string(text) != string(first) {
			t.Errorf("two workers give\n%s\nand one gave\n%s", text, first)
		}
		first = text
	}
}

func TestRefusalsOnNodes(t *testing.T) {
	inst := decodeNodes(t, nodesInstance)
	for pointer, opt := range map[string]hare.Options{
		"/options/assign": {Assign: "earliest_finish"},
		"/options/order":  {Order: "paper"},
		"/options/bound":  {Bound: "queyranne"},
	} {
		for _, err := range []error{
			solver.Check(inst, opt, solver.Config{}),
			func() error { _, err := solver.Solve(context.Background(), inst, opt, solver.Config{}); return err }(),
		} {
			var bad *hare.InvalidError
			if !errors.As(err, &bad) || bad.Pointer != pointer || bad.Code != "not_supported" {
				t.Errorf("%s: %v", pointer, err)
			}
		}
	}
}

func TestInfeasibleOnNodes(t *testing.T) {
	const profile = `"on": {"A100": {"compute_s": 1}}`
	for _, c := range []struct{ job, pointer, code, says string }{
		{`"gpus_per_task": 5`, "/jobs/0/gpus_per_task", "task_too_wide", "may use ever has more than 4"},
		{`"cpus_per_task": 17`, "/jobs/0/cpus_per_task", "too_many_cpus", "needs 17 CPUs"},
		{`"memory_mib_per_task": 2049`, "/jobs/0/memory_mib_per_task", "too_much_memory", "has more than 2048"},
		{`"only": {"disk": "tape"}`, "/jobs/0/only", "not_allowed", "no node of the cluster is allowed"},
		{`"exclude": {"disk": "ssd"}`, "/jobs/0/exclude", "not_allowed", "no node of the cluster is allowed"},
		{`"sync": "gang", "tasks": 3, "gpus_per_task": 3`, "/jobs/0/tasks", "too_wide", "have room for at most 2 at once"},
		{`"sync": "rigid", "tasks": 3, "distinct_nodes": true`, "/jobs/0/tasks", "too_wide", "at most 2 at once"},
		{`"sync": "gang", "tasks": 2, "gpus_per_task": 4, "only": {"node": "a-1"}`, "/jobs/0/tasks", "too_wide",
			"at most 1 at once"},
	} {
		inst := decodeNodes(t, `{"hare": "instance/v1", "cluster": {"nodes": [{"name": "a", "count": 2, "gpus": {"A100": 4},
			"cpus": 16, "memory_mib": 2048, "labels": {"disk": "ssd"}}]}, "jobs": [{"id": "x", `+c.job+`, `+profile+`}]}`)
		res, err := solver.Solve(context.Background(), inst, hare.Options{}, solver.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if res.Termination != hare.TerminationInfeasible || len(res.Reasons) != 1 {
			t.Fatalf("%s: %s %v", c.job, res.Termination, res.Reasons)
		}
		if r := res.Reasons[0]; r.Pointer != c.pointer || r.Code != c.code || !strings.Contains(r.Detail, c.says) {
			t.Errorf("%s: %+v", c.job, r)
		}
	}
}

// Two nodes have four GPUs each. The job llm needs one whole node twice over, and runs on both
// of them first; the three small jobs then share nodes as their GPUs allow.
func ExampleSolve_nodes() {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1",
		"cluster": {"nodes": [{"name": "a", "count": 2, "gpus": {"A100": 4}}]},
		"jobs": [
		  {"id": "llm", "weight": 9, "sync": "rigid", "tasks": 2, "gpus_per_task": 4,
		   "on": {"A100": {"compute_s": 10}}},
		  {"id": "x", "weight": 2, "sync": "rigid", "gpus_per_task": 3, "on": {"A100": {"compute_s": 6}}},
		  {"id": "y", "weight": 2, "sync": "rigid", "gpus_per_task": 3, "on": {"A100": {"compute_s": 6}}},
		  {"id": "z", "sync": "rigid", "gpus_per_task": 2, "on": {"A100": {"compute_s": 5}}}]}`), wire.Limits{})
	if err != nil {
		panic(err)
	}
	res, err := solver.Solve(context.Background(), inst, hare.Options{}, solver.Config{})
	if err != nil {
		panic(err)
	}
	for _, j := range res.Jobs {
		fmt.Println(j.ID, "from", hare.FormatMicros(j.StartUs), "to", hare.FormatMicros(j.EndUs), "s")
	}
	fmt.Println(verify.Check(inst, res).OK)
	// Output:
	// llm from 0 to 10 s
	// x from 10 to 16 s
	// y from 10 to 16 s
	// z from 16 to 21 s
	// true
}
