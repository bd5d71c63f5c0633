package solver_test

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// A place where tasks could stay, but would end later than on other GPUs with a setup, takes no GPUs.
func TestTasksThatCouldStayAndDoNot(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1", "cluster": {"nodes": [`+
		`{"name": "a", "gpus": {"A": 3}, "cpus": 3, "labels": {"disk": "ssd"}}, `+
		`{"name": "b", "gpus": {"A": 1}}]}, "jobs": [`+
		`{"id": "relaxed", "rounds": 4, "cpus_per_task": 1.5, "shapes": [`+
		`{"tasks": 3, "on": {"A": {"compute_s": 2, "switch_s": 2}}},`+
		`{"tasks": 2, "gpus_per_task": 2, "on": {"A": {"compute_s": 2}}}]},`+
		`{"id": "rigid", "sync": "rigid", "cpus_per_task": 0.5, "only": {"disk": "ssd"}, "shapes": [`+
		`{"tasks": 2, "counts": 3, "on": {"A": {"compute_s": 2, "sync_s": 2, "switch_s": 2}}},`+
		`{"tasks": 1, "counts": 3, "on": {"A": {"compute_s": 3, "sync_s": 2}}}]}]}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range []string{"wspt", hare.MethodPrice} {
		opt := hare.Options{WorkLimit: 60, Bound: hare.MethodMachine, Order: order, Assign: "insertion", Seed: 1, Gap: 0.01}
		if order == hare.MethodPrice {
			opt.Bound = hare.MethodPrice
		}
		if _, err := solver.Solve(t.Context(), inst, opt, solver.Config{Workers: 1}); err != nil {
			t.Errorf("order %s: %v", order, err)
		}
	}
}
