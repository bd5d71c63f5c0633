package solver_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// mixture returns an instance of all modes with pauses, busy GPUs and long runs of rounds.
func mixture(r *rand.Rand) *hare.Instance {
	const tick = 100_000
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B"}
	for i := range 2 + r.IntN(2) {
		n := hare.Node{Name: fmt.Sprintf("n%d", i), GPUs: []hare.TypeCount{{Type: types[i%2], Count: 1 + r.IntN(4)}}}
		if r.IntN(3) == 0 {
			n.GPUs = []hare.TypeCount{{Type: "A", Count: 1 + r.IntN(2)}, {Type: "B", Count: 1 + r.IntN(2)}}
		}
		if i > 0 && r.IntN(3) == 0 {
			at := int64(50+r.IntN(100)) * tick
			n.Windows = []hare.Window{{StartUs: 0, EndUs: at},
				{StartUs: at + int64(1+r.IntN(40))*tick, EndUs: hare.Forever}}
		}
		if r.IntN(3) == 0 {
			n.Busy = []hare.Busy{{GPU: 0, UntilUs: int64(1+r.IntN(60)) * tick}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
	}
	only := r.IntN(6) // below 3, all jobs are of one mode
	for i := range 2 + r.IntN(7) {
		j := hare.Job{ID: fmt.Sprintf("j%d", i), WeightMicro: int64(r.IntN(5)) * 500_000, Rounds: int64(1 + r.IntN(5)),
			Tasks: int64(1 + r.IntN(3)), Sync: hare.Sync(r.IntN(3))}
		if only < 3 {
			j.Sync = hare.Sync(only)
		}
		if r.IntN(2) == 0 {
			j.ReleaseUs = int64(r.IntN(100)) * tick
		}
		switch j.Sync {
		case hare.Relaxed:
			j.Tasks = int64(1 + r.IntN(7))
		case hare.Gang:
			j.Mix = r.IntN(3) == 0
			j.Rounds *= int64(1 + r.IntN(3)*100)
			fallthrough
		default:
			j.Tasks = min(j.Tasks, 2)
		}
		for _, t := range types {
			if r.IntN(5) == 0 && (len(j.On) > 0 || t == "A") {
				continue
			}
			p := hare.Profile{Type: t, ComputeUs: int64(1+r.IntN(20)) * tick, SyncUs: int64(r.IntN(10)) * tick}
			if j.Rounds > 20 {
				p.ComputeUs, p.SyncUs = p.ComputeUs/50+1, p.SyncUs/50
			}
			j.On = append(j.On, p)
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// planned returns the result of a solve with a schedule, or nil if the solve found none.
func planned(t *testing.T, inst *hare.Instance) *hare.Result {
	t.Helper()
	if err := inst.Validate(); err != nil {
		t.Fatal(err)
	}
	res, err := solver.Solve(t.Context(), inst, hare.Options{WorkLimit: 300, Seed: 3}, solver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Schedule == nil {
		return nil
	}
	return res
}

func makespan(res *hare.Result) (end int64) {
	for _, j := range res.Jobs {
		end = max(end, j.EndUs)
	}
	return end
}

func replan(t *testing.T, inst *hare.Instance, req hare.ReplanRequest) *hare.Result {
	t.Helper()
	req.HasAt = true
	res, err := solver.Replan(t.Context(), inst, req, hare.Options{WorkLimit: 400, Seed: 5}, solver.Config{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return res
}

func text(t *testing.T, res *hare.Result) []byte {
	t.Helper()
	res.Timing = hare.Timing{}
	var b bytes.Buffer
	if err := wire.EncodeResult(&b, res); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What has run, what has started and the new plan form a schedule of the whole instance, in
// which the started work is where it was planned. If moves are dear, nothing moves that need
// not. The result can be decoded, and planned again later.
func TestReplannedRestFitsWhatHasStarted(t *testing.T) {
	if testing.Short() {
		t.Skip("random instances are for the run without the race detector")
	}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		inst := mixture(r)
		prev := planned(t, inst)
		if prev == nil {
			continue
		}
		end := makespan(prev)
		at := r.Int64N(end)
		if r.IntN(4) == 0 { // a quarter of the instants are starts of entries
			l := prev.Schedule.Lanes[r.IntN(len(prev.Schedule.Lanes))]
			at = min(l.StartUs[r.IntN(len(l.StartUs))], end-1)
		}
		stability := []int64{0, 100_000, 1 << 50}[r.IntN(3)]
		res := replan(t, inst, hare.ReplanRequest{Previous: prev, AtUs: at, StabilityMicro: stability})
		if res.Schedule == nil {
			t.Fatalf("seed %d: %s", seed, res.Termination)
		}
		p := res.Replan
		if p.Whole == nil {
			t.Fatalf("seed %d at %d: no whole schedule: %s", seed, at, p.WholeMissing)
		}
		if rep := verify.CheckReplan(inst, res, nil); !rep.OK {
			t.Fatalf("seed %d at %d: %s", seed, at, rep)
		}
		startedStays(t, seed, inst, prev.Schedule, p.Whole, at)
		if stability == 1<<50 && (p.MovedGPU.Sign() != 0 || len(p.Moved) != 0) {
			t.Errorf("seed %d: %v GPU-seconds moved at an endless price", seed, p.MovedGPU)
		}
		if stability == 1<<50 {
			if v, _, _ := verify.ScheduleValue(inst, p.Whole); v.Cmp(*prev.Value) > 0 {
				t.Errorf("seed %d: keeping all costs %v more", seed, v.Sub(*prev.Value))
			}
		}
		back, err := wire.DecodeResult(bytes.NewReader(text(t, res)), wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text(t, back), text(t, res)) {
			t.Fatalf("seed %d: decoding loses something", seed)
		}
		if rep := verify.CheckReplan(inst, back, nil); !rep.OK {
			t.Fatalf("seed %d after decoding: %s", seed, rep)
		}
		if rep := verify.CheckReplan(inst, back, &verify.Previous{Result: prev}); !rep.OK {
			t.Fatalf("seed %d after decoding, with the previous result: %s", seed, rep)
		}
		later := at + r.Int64N(end-at)
		again, err := solver.Replan(t.Context(), inst, hare.ReplanRequest{Previous: back, AtUs: later, HasAt: true},
			hare.Options{WorkLimit: 100}, solver.Config{})
		var bad *hare.InvalidError
		switch {
		case errors.As(err, &bad) && bad.Code == "nothing_left":
		case err != nil:
			t.Fatalf("seed %d: %v", seed, err)
		default:
			for _, prev := range []*verify.Previous{nil, {Result: back}} {
				if rep := verify.CheckReplan(inst, again, prev); !rep.OK {
					t.Fatalf("seed %d, second, %v: %s", seed, prev != nil, rep)
				}
			}
		}
	}
}

// startedStays checks that the same tasks start before at in both schedules.
func startedStays(t *testing.T, seed uint64, inst *hare.Instance, was, is *hare.Schedule, at int64) {
	t.Helper()
	started := func(s *hare.Schedule) []hare.Task {
		tasks := slices.DeleteFunc(s.Tasks(inst, 1<<30), func(x hare.Task) bool { return x.StartUs >= at })
		slices.SortFunc(tasks, func(a, b hare.Task) int {
			if c := strings.Compare(a.GPU, b.GPU); c != 0 {
				return c
			}
			return int(a.StartUs - b.StartUs)
		})
		return tasks
	}
	if a, b := started(was), started(is); !slices.Equal(a, b) {
		t.Errorf("seed %d at %d: what has started was\n%v\nand is\n%v", seed, at, a, b)
	}
}

// No bound lies above the optimum of the rest, and no value below.
func TestReplannedBoundsHold(t *testing.T) {
	if testing.Short() {
		t.Skip("random instances are for the run without the race detector")
	}
	checked := 0
	for seed := range uint64(130) {
		r := rand.New(rand.NewPCG(seed, 11))
		inst := brute.Random(r)
		prev := planned(t, inst)
		if prev == nil {
			continue
		}
		res := replan(t, inst, hare.ReplanRequest{Previous: prev, AtUs: r.Int64N(makespan(prev)),
			StabilityMicro: int64(r.IntN(3)) * 500_000})
		best, ok, done := brute.Optimum(res.Replan.Rest, 200_000)
		if !done || !ok {
			continue
		}
		checked++
		if res.Bound.Big().Int64() > best {
			t.Errorf("seed %d: bound %v above the optimum %d", seed, res.Bound, best)
		}
		if res.Value.Big().Int64() < best {
			t.Errorf("seed %d: value %v below the optimum %d", seed, res.Value, best)
		}
	}
	if checked < 65 {
		t.Errorf("only %d instances were compared", checked)
	}
}

// If moves are free, the answer is that of a plain solve of the rest, or the earlier plan if
// the earlier plan is better.
func TestFreeMovesAreAPlainSolve(t *testing.T) {
	if testing.Short() {
		t.Skip("random instances are for the run without the race detector")
	}
	same := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 13))
		inst := mixture(r)
		prev := planned(t, inst)
		if prev == nil {
			continue
		}
		res := replan(t, inst, hare.ReplanRequest{Previous: prev, AtUs: makespan(prev) / 2})
		plain, err := solver.Solve(t.Context(), res.Replan.Rest, hare.Options{WorkLimit: 400, Seed: 5},
			solver.Config{})
		if err != nil {
			t.Fatal(err)
		}
		rep := res.Replan
		switch res.Replan = nil; {
		case bytes.Equal(text(t, res), text(t, plain)):
			same++
		case plain.Value != nil && res.Value.Cmp(*plain.Value) >= 0:
			t.Errorf("seed %d: %v is no better than a plain solve's %v, and another answer", seed, res.Value,
				plain.Value)
		case res.Value.Cmp(*rep.KeptValue) != 0:
			t.Errorf("seed %d: %v is neither the plain solve's nor the earlier plan's", seed, res.Value)
		}
	}
	if same < 30 {
		t.Errorf("only %d are the plain solve's", same)
	}
}
