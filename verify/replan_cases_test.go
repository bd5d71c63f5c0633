package verify_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// replanCase is a plan of the solver for the rest of an earlier plan.
type replanCase struct {
	inst, before *hare.Instance
	prev, res    *hare.Result
}

func (ca *replanCase) previous() *verify.Previous {
	return &verify.Previous{Result: ca.prev, Instance: ca.before}
}

const tick = 100_000

// randomReplanInstance returns an instance of all modes with few GPUs, pauses, busy
// GPUs, long synchronisation and long runs of rounds.
func randomReplanInstance(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B"}
	for i := range 2 + r.IntN(2) {
		n := hare.Node{Name: []string{"n", "n.0", "m"}[i],
			GPUs: []hare.TypeCount{{Type: types[i%2], Count: 1 + r.IntN(3)}}}
		if r.IntN(3) == 0 {
			n.GPUs = []hare.TypeCount{{Type: "A", Count: 1 + r.IntN(2)}, {Type: "B", Count: 1 + r.IntN(2)}}
		}
		if i > 0 && r.IntN(3) == 0 {
			at := int64(20+r.IntN(60)) * tick
			n.Windows = []hare.Window{{StartUs: 0, EndUs: at},
				{StartUs: at + int64(1+r.IntN(20))*tick, EndUs: hare.Forever}}
		}
		if r.IntN(3) == 0 {
			n.Busy = []hare.Busy{{GPU: 0, UntilUs: int64(1+r.IntN(40)) * tick}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
	}
	for i := range 2 + r.IntN(4) {
		inst.Jobs = append(inst.Jobs, randomJob(r, fmt.Sprintf("j%d", i)))
	}
	return inst
}

func randomJob(r *rand.Rand, id string) hare.Job {
	j := hare.Job{ID: id, WeightMicro: int64(r.IntN(5)) * 500_000, Rounds: int64(1 + r.IntN(5)),
		Tasks: int64(1 + r.IntN(2)), Sync: hare.Sync(r.IntN(3))}
	if r.IntN(2) == 0 {
		j.ReleaseUs = int64(r.IntN(40)) * tick
	}
	switch j.Sync {
	case hare.Relaxed:
		j.Tasks = int64(1 + r.IntN(7))
	case hare.Gang:
		j.Mix = r.IntN(3) == 0
		j.Rounds *= int64(1 + r.IntN(3)*100)
	}
	for _, t := range []string{"A", "B"} {
		if r.IntN(5) == 0 && (len(j.On) > 0 || t == "A") {
			continue
		}
		p := hare.Profile{Type: t, ComputeUs: int64(1+r.IntN(20)) * tick, SyncUs: int64(r.IntN(10)) * tick}
		if j.Rounds > 20 {
			p.ComputeUs, p.SyncUs = p.ComputeUs/50+1, p.SyncUs/50
		}
		j.On = append(j.On, p)
	}
	return j
}

// changedInstance returns the instance at the instant at: nodes may have gone or go
// soon, GPUs may be busy, and jobs may be new, gone or changed.
func changedInstance(r *rand.Rand, inst *hare.Instance, at int64) *hare.Instance {
	out := *inst
	out.Jobs, out.Cluster.Nodes = slices.Clone(inst.Jobs), slices.Clone(inst.Cluster.Nodes)
	for range r.IntN(3) {
		n := &out.Cluster.Nodes[r.IntN(len(out.Cluster.Nodes))]
		until := max(1, at+int64(r.IntN(30)-10)*tick/2)
		switch r.IntN(5) {
		case 0:
			n.Windows = []hare.Window{{StartUs: 0, EndUs: until}}
		case 1:
			n.Windows = []hare.Window{{StartUs: 0, EndUs: until},
				{StartUs: until + int64(1+r.IntN(30))*tick, EndUs: hare.Forever}}
		case 2:
			n.Busy = []hare.Busy{{GPU: 0, UntilUs: until}}
		case 3:
			n.GPUs = slices.Clone(n.GPUs)
			n.GPUs[0].Count = max(1, n.GPUs[0].Count+r.IntN(3)-1)
			n.Busy = nil
		case 4:
			if r.IntN(4) == 0 && len(out.Cluster.Nodes) > 1 {
				out.Cluster.Nodes = out.Cluster.Nodes[1:]
			}
		}
	}
	for range r.IntN(3) {
		switch i := r.IntN(len(out.Jobs)); r.IntN(6) {
		case 0:
			out.Jobs = append(out.Jobs, randomJob(r, fmt.Sprintf("new%d", len(out.Jobs))))
		case 1:
			if len(out.Jobs) > 1 {
				out.Jobs = slices.Delete(slices.Clone(out.Jobs), i, i+1)
			}
		case 2:
			out.Jobs[i].WeightMicro += 700_000
		case 3:
			out.Jobs[i].Rounds = max(1, out.Jobs[i].Rounds+int64(r.IntN(4)-2))
		case 4:
			out.Jobs[0], out.Jobs[i] = out.Jobs[i], out.Jobs[0]
		case 5:
			out.Jobs[i].On = slices.Clone(out.Jobs[i].On)
			out.Jobs[i].On[0].ComputeUs += int64(r.IntN(3)) * tick / 2
		}
	}
	return &out
}

// instantOf draws an instant within a schedule, often that of a start or an end.
func instantOf(r *rand.Rand, inst *hare.Instance, s *hare.Schedule) int64 {
	_, ends, _ := verify.ScheduleValue(inst, s)
	at := 1 + r.Int64N(max(1, slices.Max(ends)))
	if len(s.Lanes) > 0 && r.IntN(3) == 0 {
		l := &s.Lanes[r.IntN(len(s.Lanes))]
		e := l.Entry(r.IntN(len(l.Job)))
		at = e.StartUs + e.PeriodUs*r.Int64N(e.Rounds) + int64(r.IntN(3)-1)
	}
	return max(1, at)
}

var quickly = hare.Options{WorkLimit: 60, Bound: hare.MethodMachine, Order: "wspt", Assign: "insertion", Seed: 1,
	Gap: 0.01}

// replansOf returns plans for the rest of a random plan, one after another; the second
// continues from the first.
func replansOf(t testing.TB, seed uint64) []*replanCase {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 29))
	before := randomReplanInstance(r)
	if before.Validate() != nil {
		return nil
	}
	opt := quickly
	if r.IntN(6) == 0 {
		opt.Bound, opt.Order = hare.MethodPrice, hare.MethodPrice
	}
	prev, err := solver.Solve(t.Context(), before, opt, solver.Config{Workers: 1})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	var out []*replanCase
	past := prev.Schedule
	for past != nil && len(out) < 2 {
		at := instantOf(r, before, past)
		if len(out) > 0 {
			at = max(at, out[0].res.Replan.AtUs)
		}
		inst := before
		if r.IntN(4) > 0 {
			inst = changedInstance(r, before, at)
		}
		if inst.Validate() != nil {
			return out
		}
		req := hare.ReplanRequest{Previous: prev, Before: before, AtUs: at, HasAt: true,
			StabilityMicro: int64(r.IntN(3)) * 50_000}
		res, err := solver.Replan(t.Context(), inst, req, opt, solver.Config{Workers: 1})
		var bad *hare.InvalidError
		if errors.As(err, &bad) {
			return out // nothing is left, or a started job has changed
		}
		if err != nil {
			t.Fatalf("seed %d at %d: %v", seed, at, err)
		}
		if res.Schedule == nil {
			return out
		}
		out = append(out, &replanCase{inst: inst, before: before, prev: prev, res: decoded(t, res)})
		before, prev, past = inst, out[len(out)-1].res, res.Replan.Whole
	}
	return out
}

// decoded returns a result as a reader of its document has it.
func decoded(t testing.TB, res *hare.Result) *hare.Result {
	t.Helper()
	var b bytes.Buffer
	if err := wire.EncodeResult(&b, res); err != nil {
		t.Fatal(err)
	}
	back, err := wire.DecodeResult(&b, wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return back
}
