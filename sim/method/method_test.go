package method_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/sim/method"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// TestNames holds the names of the interface to the registry.
func TestNames(t *testing.T) {
	var names []string
	for _, m := range method.All() {
		names = append(names, m.Name)
	}
	if !slices.Equal(names, wire.PlanMethods()) {
		t.Errorf("the methods are %q, and wire.PlanMethods has %q", names, wire.PlanMethods())
	}
}

// solveBy solves an instance twice by a method and checks both results. It returns the first, or nil and why
// there is none.
func solveBy(t interface {
	Helper()
	Fatalf(string, ...any)
}, inst *hare.Instance, name string) (res *hare.Result, why string) {
	t.Helper()
	var texts [2]bytes.Buffer
	for i := range texts {
		var err error
		res, err = solver.Solve(context.Background(), inst, hare.Options{Method: name, WorkLimit: 200, Seed: 3},
			solver.Config{Methods: method.All()})
		var refused *hare.InvalidError
		switch {
		case errors.As(err, &refused) && refused.Pointer != "":
			return nil, refused.Code
		case err != nil:
			t.Fatalf("%s: %v", name, err)
		case res.Value == nil && len(res.Reasons) == 0:
			t.Fatalf("%s: no schedule and no reason: %+v", name, res)
		case res.Value == nil:
			return nil, res.Termination
		}
		if rep := verify.Check(inst, res); !rep.OK {
			t.Fatalf("%s: %s", name, rep)
		}
		if res.Options.Method != name || res.Bound == nil || res.Value.Cmp(*res.Bound) < 0 {
			t.Fatalf("%s: %+v, value %v, bound %v", name, res.Options, res.Value, res.Bound)
		}
		timed := *res
		timed.Timing = hare.Timing{}
		if err := wire.EncodeResult(&texts[i], &timed); err != nil {
			t.Fatalf("%v", err)
		}
	}
	if texts[0].String() != texts[1].String() {
		t.Fatalf("%s: the second result differs", name)
	}
	return res, ""
}

// TestEveryMethod solves random instances by each method: the result passes the verifier and is the same the
// second time, or the instance is refused with a pointer, or there is a reason for no schedule.
func TestEveryMethod(t *testing.T) {
	for _, name := range wire.PlanMethods() {
		rapid.Check(t, func(t *rapid.T) { _, _ = solveBy(t, haretest.Instance(t), name) })
		for _, sync := range []string{"relaxed", "gang", "rigid"} {
			inst, err := trace.Generate(trace.GenerateConfig{Jobs: 12, Sync: sync, Seed: 5, Arrivals: "uniform:300",
				GPUs: []hare.TypeCount{{Type: "V100", Count: 6}, {Type: "T4", Count: 8}}})
			if err != nil {
				t.Fatal(err)
			}
			if _, why := solveBy(t, inst, name); why != "" {
				t.Errorf("%s, %s jobs: %s", name, sync, why)
			}
		}
	}
}

// TestMethodsByHand compares the plans of three jobs of 10, 5 and 1 s on one GPU with those that were made by
// hand. The first job is there first, if only by an event, and runs to its end.
func TestMethodsByHand(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a",
		GPUs: []hare.TypeCount{{Type: "A", Count: 1}}}}}}
	for i, us := range []int64{10e6, 5e6, 1e6} {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint(i), WeightMicro: 1e6, Rounds: 1, Tasks: 1, Sync: hare.Rigid,
			On: []hare.Profile{{Type: "A", ComputeUs: us}}})
	}
	for name, want := range map[string]struct{ value, termination string }{
		"fifo": {"41", hare.TerminationMethod}, "srtf": {"37", hare.TerminationMethod},
		"hare_offline": {"23", hare.TerminationOptimal},
	} {
		res, why := solveBy(t, inst, name)
		if why != "" || res.Value.String() != want.value || res.Termination != want.termination {
			t.Errorf("%s: %v %s, want %+v", name, res, why, want)
		}
	}
}

// TestSlowMethod checks that a method which is not done when the time is over leaves a bound and a reason.
func TestSlowMethod(t *testing.T) {
	slow := solver.Method{Name: "fifo", Plan: func(ctx context.Context, _ *hare.Instance, _ solver.MethodInput) (
		*hare.Schedule, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	inst := haretest.Gangs(5, 1)
	res, err := solver.Solve(context.Background(), inst, hare.Options{Method: "fifo", TimeLimit: 50 * time.Millisecond},
		solver.Config{Methods: []solver.Method{slow}})
	if err != nil || res.Termination != hare.TerminationNoSchedule || len(res.Reasons) != 1 || res.Bound == nil {
		t.Errorf("%+v, %v", res, err)
	}
}
