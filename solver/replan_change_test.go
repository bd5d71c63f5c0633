package solver_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// scenario reads an instance on node a with two V100 and node b with two T4.
func scenario(t *testing.T, nodeB, jobs string) *hare.Instance {
	t.Helper()
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1", "cluster": {"nodes": [{"name": "a", `+
		`"gpus": {"V100": 2}}, {"name": "b", "gpus": {"T4": 2}`+nodeB+`}]}, "jobs": [`+jobs+`]}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

const (
	relaxedOnB = `{"id": "r", "rounds": 3, "tasks": 2, "on": {"T4": {"compute_s": 2, "sync_s": 1}}}`
	gangOnB    = `{"id": "g", "rounds": 1000000, "tasks": 2, "sync": "gang", "on": {"T4": {"compute_s": 2, ` +
		`"sync_s": 1}, "V100": {"compute_s": 3}}}`
	rigidOnB = `{"id": "s", "rounds": 2, "tasks": 2, "sync": "rigid", "on": {"T4": {"compute_s": 2, "sync_s": 1},` +
		` "V100": {"compute_s": 3}}}`
)

// If a GPU leaves, the round that has started on it must be repeated; of a rigid job, all
// rounds must be repeated.
func TestWorkOnAGoneGPUIsRepeated(t *testing.T) {
	for _, c := range []struct {
		name, job, after string // after holds the windows of node b
		at               int64
		round, rounds    int64 // the lost round, and the number of rounds of the rest
		release          int64
		whole            bool
	}{
		{"relaxed", relaxedOnB, `, "in_service_s": [[0, 4], [10, null]]`, 4_000_000, 1, 2, 0, true},
		{"gang", gangOnB, `, "in_service_s": [[0, 4], [10, null]]`, 4_000_000, 1, 999_999, 0, true},
		{"rigid", rigidOnB, `, "in_service_s": [[0, 4], [10, null]]`, 4_000_000, 0, 2, 0, true},
		// The GPU leaves when the computation is over, and synchronisation goes on.
		{"synchronising", relaxedOnB, `, "in_service_s": [[0, 5.5], [10, null]]`, 5_500_000, -1, 1, 500_000, true},
		// The GPU is announced to leave before the started round would end.
		{"drained", gangOnB, `, "in_service_s": [[0, 5]]`, 4_000_000, 1, 999_999, 0, true},
	} {
		before := scenario(t, "", c.job)
		prev := planned(t, before)
		if prev.Schedule.Lanes[0].GPU != "b/0" {
			t.Fatalf("%s: the plan is not on b", c.name)
		}
		after := scenario(t, c.after, c.job)
		res := replan(t, after, hare.ReplanRequest{Previous: prev, Before: before, AtUs: c.at,
			StabilityMicro: 1 << 50})
		p := res.Replan
		switch {
		case c.round < 0:
			if len(p.Lost) != 0 || len(p.Started) != 1 {
				t.Errorf("%s: lost %+v, started %+v", c.name, p.Lost, p.Started)
			}
		case len(p.Lost) != 1 || p.Lost[0].Round != c.round || p.Lost[0].GPU != "b/0":
			t.Errorf("%s: lost %+v", c.name, p.Lost)
		case len(p.Moved) != 1 || p.Moved[0].Why != hare.MovedLost:
			t.Errorf("%s: moved %+v", c.name, p.Moved)
		}
		if j := p.Rest.Jobs[0]; j.Rounds != c.rounds || j.ReleaseUs != c.release {
			t.Errorf("%s: the rest has %d rounds from %d on", c.name, j.Rounds, j.ReleaseUs)
		}
		if (p.Whole != nil) != c.whole {
			t.Errorf("%s: whole schedule: %q", c.name, p.WholeMissing)
		}
		if rep := verify.CheckReplan(after, res, &verify.Previous{Result: prev, Instance: before}); !rep.OK {
			t.Errorf("%s: %s", c.name, rep)
		}
	}
}

// A job whose started round is lost, and which has no such round any more, has ended with the round before.
func TestLostRoundThatIsNoLongerAsked(t *testing.T) {
	for _, job := range []string{relaxedOnB, gangOnB} {
		before := scenario(t, "", job)
		prev := planned(t, before)
		after := scenario(t, `, "in_service_s": [[0, 4], [10, null]]`, job)
		after.Jobs[0].Rounds = 1
		res := replan(t, after, hare.ReplanRequest{Previous: prev, Before: before, AtUs: 4_000_000})
		p := res.Replan
		if cost := hare.Product(after.Jobs[0].WeightMicro, 3_000_000); p.Constant.Cmp(cost) != 0 || len(p.Lost) != 1 {
			t.Errorf("%v: the constant is %v and not %v, the cost of an end at 3 s; lost %+v", after.Jobs[0].Sync,
				p.Constant, cost, p.Lost)
		}
		if rep := verify.CheckReplan(after, res, &verify.Previous{Result: prev, Instance: before}); !rep.OK {
			t.Errorf("%v: %s", after.Jobs[0].Sync, rep)
		}
	}
}

// A job whose setup has begun is set up again, and a job with shapes keeps one, also where moves have a price.
func TestStabilityWithSetupsAndShapes(t *testing.T) {
	for _, job := range []string{
		`{"id": "setup", "tasks": 2, "on": {"V100": {"compute_s": 3, "switch_s": 1}}}`,
		`{"id": "shapes", "rounds": 2, "release_s": 1, "shapes": [{"tasks": 2, "counts": 2, "on": {"V100": ` +
			`{"compute_s": 3}}}, {"tasks": 3, "counts": 3, "on": {"V100": {"compute_s": 3}}}]}`,
	} {
		inst := scenario(t, "", job)
		prev := planned(t, inst)
		for _, stability := range []int64{0, 50_000, 1_000_000} {
			res := replan(t, inst, hare.ReplanRequest{Previous: prev, AtUs: 500_000, StabilityMicro: stability})
			if rep := verify.CheckReplan(inst, res, &verify.Previous{Result: prev}); !rep.OK {
				t.Errorf("%s, stability %d: %s", inst.Jobs[0].ID, stability, rep)
			}
		}
	}
}

// A job moves where the setup of its GPU would begin before the job for which it waits has ended.
func TestSetupWaitsForAPredecessorThatMoves(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1", "cluster": {"nodes": [`+
		`{"name": "a", "cpus": 3, "gpus": {"A": 2}}]}, "jobs": [`+
		`{"id": "first", "cpus_per_task": 2, "on": {"A": {"compute_s": 4, "switch_s": 2}}},`+
		`{"id": "next", "after": ["first"], "weight": 0, "on": {"A": {"compute_s": 1, "switch_s": 1}}}]}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	prev := &hare.Result{Objective: inst.Objective, Schedule: &hare.Schedule{Jobs: []string{"first", "next"},
		Lanes: []hare.Lane{{GPU: "a/0", Job: []int32{0}, StartUs: []int64{2_000_000}},
			{GPU: "a/1", Job: []int32{1}, StartUs: []int64{7_500_000}}}}}
	// The setup of the first job begins again at 1 s, so that the job ends at 7 s and not at 6 s.
	res := replan(t, inst, hare.ReplanRequest{Previous: prev, AtUs: 1_000_000, StabilityMicro: 1_000_000})
	if rep := verify.CheckReplan(inst, res, &verify.Previous{Result: prev}); !rep.OK {
		t.Error(rep)
	}
}

// If a node has been removed from the instance, there is no schedule of the whole, and the
// result says why. The rest can be planned again.
func TestNodeTakenOut(t *testing.T) {
	before := scenario(t, "", gangOnB)
	prev := planned(t, before)
	after := scenario(t, "", gangOnB)
	after.Cluster.Nodes = after.Cluster.Nodes[:1]
	res := replan(t, after, hare.ReplanRequest{Previous: prev, Before: before, AtUs: 4_000_000})
	if res.Replan.Whole != nil || !strings.Contains(res.Replan.WholeMissing, "b/0") {
		t.Errorf("whole %v, %q", res.Replan.Whole, res.Replan.WholeMissing)
	}
	if rep := verify.CheckReplan(after, res, &verify.Previous{Result: prev, Instance: before}); !rep.OK {
		t.Error(rep)
	}
	if rep := verify.CheckReplan(after, res, nil); rep.OK ||
		!strings.Contains(rep.String(), "nothing says what had started") {
		t.Errorf("without the previous result: %s", rep)
	}
	if rep := verify.CheckReplan(after, res, &verify.Previous{Result: prev}); rep.OK {
		t.Error("the previous result is of another instance, and it is accepted")
	}
	var bad *hare.InvalidError
	again := hare.ReplanRequest{Previous: res, AtUs: 5_000_000, HasAt: true}
	if _, err := solver.Replan(t.Context(), after, again, hare.Options{}, solver.Config{}); !errors.As(err, &bad) ||
		bad.Pointer != "/previous/replan/schedule" {
		t.Errorf("going on from there: %v", err)
	}
	again = hare.ReplanRequest{Previous: res, AtUs: 1_000_000}
	if next := replan(t, res.Replan.Rest, again); next.Replan.Rest.Jobs[0].Rounds >= res.Replan.Rest.Jobs[0].Rounds {
		t.Errorf("%d rounds are left", next.Replan.Rest.Jobs[0].Rounds)
	}
}

// If jobs are added and removed and weights change, the plan for the rest is accepted. At an
// enormous price of moves nothing moves that need not.
func TestInstancesThatChange(t *testing.T) {
	if testing.Short() {
		t.Skip("random instances are for the run without the race detector")
	}
	moved, free := 0, 0
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 17))
		before := mixture(r)
		prev := planned(t, before)
		if prev == nil {
			continue
		}
		at := r.Int64N(makespan(prev))
		after := *before
		after.Jobs = slices.Clone(before.Jobs)
		extra := mixture(r).Jobs[0]
		extra.ID, extra.ReleaseUs = "new", at*int64(r.IntN(3))/2
		after.Jobs = append(after.Jobs, extra)
		gone := r.IntN(len(before.Jobs))
		after.Jobs = slices.Delete(after.Jobs, gone, gone+1)
		for i := range after.Jobs {
			after.Jobs[i].WeightMicro += int64(r.IntN(2)) * 300_000
		}
		if after.Validate() != nil {
			continue
		}
		stability := int64(1<<50) * int64(r.IntN(2))
		req := hare.ReplanRequest{Previous: prev, Before: before, AtUs: at, StabilityMicro: stability}
		res := replan(t, &after, req)
		p := res.Replan
		if !slices.Equal(p.Added, []string{"new"}) || !slices.Equal(p.Removed, []string{before.Jobs[gone].ID}) {
			t.Errorf("seed %d: added %v, removed %v", seed, p.Added, p.Removed)
		}
		if res.Schedule == nil {
			continue // the new job may be wider than its type
		}
		if p.Whole == nil {
			t.Fatalf("seed %d: %s", seed, p.WholeMissing)
		}
		if rep := verify.CheckReplan(&after, res, &verify.Previous{Result: prev, Instance: before}); !rep.OK {
			t.Errorf("seed %d: %s", seed, rep)
		}
		if stability > 0 && p.KeptValue != nil && p.MovedGPU.Sign() != 0 {
			t.Errorf("seed %d: %v GPU-seconds moved", seed, p.MovedGPU)
		}
		if stability == 0 {
			free++
			moved += min(1, len(p.Moved))
		}
		if res.Value.Cmp(*p.KeptValue) > 0 {
			t.Errorf("seed %d: %v is worse than keeping, %v", seed, res.Value, p.KeptValue)
		}
	}
	if moved < free/4 {
		t.Errorf("moves happen in %d of %d", moved, free)
	}
}

// The value of the answer plus the price of its moves is at most that of the plan that moves
// only what must move.
func TestStabilityPricesMoves(t *testing.T) {
	if testing.Short() {
		t.Skip("random instances are for the run without the race detector")
	}
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 19))
		inst := mixture(r)
		prev, err := solver.Solve(t.Context(), inst, hare.Options{Bound: hare.MethodMachine, Order: "arrival",
			Assign: "earliest_available"}, solver.Config{})
		if err != nil || prev.Schedule == nil {
			continue
		}
		at := makespan(prev) / 3
		cost := func(res *hare.Result, micro int64) float64 {
			return res.Value.Float() + float64(micro)/1e6*res.Replan.MovedGPU.Float()
		}
		for _, micro := range []int64{50_000, 500_000, 5_000_000} {
			res := replan(t, inst, hare.ReplanRequest{Previous: prev, AtUs: at, StabilityMicro: micro})
			if got, kept := cost(res, micro), res.Replan.KeptValue.Float(); got > kept*(1+1e-9) {
				t.Errorf("seed %d at %d: %v with the price of moves, %v without moves", seed, micro, got, kept)
			}
			if res.Replan.MovedGPU.Cmp(res.Replan.PlannedGPU) > 0 {
				t.Errorf("seed %d: more moved than planned", seed)
			}
		}
	}
}

func TestReplansAreReproducible(t *testing.T) {
	for seed := range uint64(6) {
		inst := mixture(rand.New(rand.NewPCG(seed, 23)))
		prev := planned(t, inst)
		if prev == nil {
			continue
		}
		var first []byte
		for _, workers := range []int{1, 3} {
			req := hare.ReplanRequest{Previous: prev, AtUs: makespan(prev) / 2, HasAt: true, StabilityMicro: 10_000}
			res, err := solver.Replan(t.Context(), inst, req, hare.Options{WorkLimit: 500},
				solver.Config{Workers: workers})
			if err != nil {
				t.Fatal(err)
			}
			if !res.Reproducible {
				t.Error("not reproducible")
			}
			if got := text(t, res); first == nil {
				first = got
			} else if !bytes.Equal(first, got) {
				t.Errorf("seed %d: %d workers give other bytes", seed, workers)
			}
		}
	}
}

// A start that is better than what the search finds is the answer. A start that is not a
// schedule is ignored.
func TestStart(t *testing.T) {
	inst := instance(t, "traps")
	good, err := solver.Solve(t.Context(), inst, hare.Options{WorkLimit: 3000}, solver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	quick := hare.Options{Bound: hare.MethodMachine, Order: "wspt", WorkLimit: 1}
	alone, err := solver.Solve(t.Context(), inst, quick, solver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	led, err := solver.Solve(t.Context(), inst, quick, solver.Config{Start: good.Schedule})
	if err != nil {
		t.Fatal(err)
	}
	if led.Value.Cmp(*good.Value) > 0 {
		t.Errorf("%v from a start of %v", led.Value, good.Value)
	}
	broken := *good.Schedule
	broken.Lanes = broken.Lanes[:1]
	passed, err := solver.Solve(t.Context(), inst, quick, solver.Config{Start: &broken})
	if err != nil || passed.Value.Cmp(*alone.Value) != 0 {
		t.Errorf("%v from a start that is no schedule, %v without: %v", passed.Value, alone.Value, err)
	}
}

func TestStartedJobsAreNotChanged(t *testing.T) {
	before := scenario(t, "", relaxedOnB+","+rigidOnB)
	prev := planned(t, before)
	at := makespan(prev) / 2
	for field, change := range map[string]func(*hare.Job){
		"rounds":    func(j *hare.Job) { j.Rounds = 1 },
		"tasks":     func(j *hare.Job) { j.Tasks = 1 },
		"sync":      func(j *hare.Job) { j.Sync = hare.Gang },
		"release_s": func(j *hare.Job) { j.ReleaseUs = 1 },
	} {
		after := *before
		after.Jobs = slices.Clone(before.Jobs)
		change(&after.Jobs[0])
		_, err := solver.Replan(t.Context(), &after, hare.ReplanRequest{Previous: prev, Before: before, AtUs: at,
			HasAt: true}, hare.Options{}, solver.Config{})
		var bad *hare.InvalidError
		if !errors.As(err, &bad) || bad.Pointer != "/instance/jobs/0/"+field || bad.Code != "changed_job" {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// At instant 0 the rest is the whole instance.
func TestRestAtTheBeginning(t *testing.T) {
	if testing.Short() {
		t.Skip("random instances are for the run without the race detector")
	}
	for seed := range uint64(20) {
		inst := mixture(rand.New(rand.NewPCG(seed, 29)))
		prev := planned(t, inst)
		if prev == nil {
			continue
		}
		res := replan(t, inst, hare.ReplanRequest{Previous: prev, StabilityMicro: 1 << 50})
		if p := res.Replan; wire.SHA256(p.Rest) != wire.SHA256(inst) || p.Constant.Sign() != 0 || len(p.Started) != 0 {
			t.Errorf("seed %d: constant %v, started %v", seed, p.Constant, p.Started)
		}
		if res.Value.Cmp(*prev.Value) > 0 {
			t.Errorf("seed %d: %v from %v", seed, res.Value, prev.Value)
		}
	}
}

// A replan of a run of a hundred million rounds takes no more memory than a replan of ten
// rounds.
func TestLongRunsAreNotCounted(t *testing.T) {
	long := strings.Replace(gangOnB, "1000000", "100000000", 1)
	inst := scenario(t, "", long+","+strings.Replace(strings.Replace(rigidOnB, `"rounds": 2`, `"rounds": 100000000`,
		1),
		`"s"`, `"t"`, 1))
	prev := planned(t, inst)
	bytes := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			req := hare.ReplanRequest{Previous: prev, AtUs: makespan(prev) / 3, HasAt: true, StabilityMicro: 1000}
			if _, err := solver.Replan(t.Context(), inst, req, hare.Options{WorkLimit: 10, Bound: hare.MethodMachine,
				Order: "wspt"}, solver.Config{}); err != nil {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	if bytes > 32<<20 {
		t.Errorf("%d bytes", bytes)
	}
}
