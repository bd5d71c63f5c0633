package relax

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
)

const placedTick = 1_000_000

// randomPlaced draws a tiny instance with fields of nodes: one to three nodes of up to three
// GPUs of one or two types, some with CPUs, memory, labels, windows or busy GPUs, and one to
// three jobs.
func randomPlaced(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B"}[:1+r.IntN(2)]
	left := 6
	for i := range 1 + r.IntN(3) {
		n := hare.Node{Name: fmt.Sprintf("n%d", i)}
		for _, t := range types {
			if c := min(left, r.IntN(4)); c > 0 {
				n.GPUs = append(n.GPUs, hare.TypeCount{Type: t, Count: c})
				left -= c
			}
		}
		if len(n.GPUs) == 0 {
			n.GPUs = []hare.TypeCount{{Type: types[0], Count: 1}}
		}
		if r.IntN(2) == 0 {
			n.CPUMilli = int64(1+r.IntN(4)) * 500
		}
		if r.IntN(4) == 0 {
			n.MemoryMiB = int64(1 + r.IntN(4))
		}
		if r.IntN(2) == 0 {
			n.Labels = []hare.Label{{Name: "disk", Value: []string{"hdd", "nvme"}[r.IntN(2)]}}
		}
		switch r.IntN(6) {
		case 0:
			at := int64(1+r.IntN(4)) * placedTick
			n.Windows = []hare.Window{{StartUs: 0, EndUs: at},
				{StartUs: at + int64(1+r.IntN(3))*placedTick, EndUs: hare.Forever}}
		case 1:
			n.Windows = []hare.Window{{StartUs: int64(1+r.IntN(3)) * placedTick, EndUs: hare.Forever}}
		}
		if r.IntN(5) == 0 {
			n.Busy = []hare.Busy{{GPU: 0, UntilUs: int64(1+r.IntN(3)) * placedTick}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
	}
	for i := range 1 + r.IntN(4) {
		j := hare.Job{ID: fmt.Sprintf("j%d", i), WeightMicro: int64(1+r.IntN(3)) * 1_000_000, Rounds: int64(1 + r.IntN(2)),
			Tasks: int64(1 + r.IntN(2)), Sync: hare.Sync(r.IntN(3))}
		if g := int64(1 + r.IntN(3)); g > 1 {
			j.GPUsPerTask = g
		}
		if r.IntN(3) == 0 {
			j.ReleaseUs = int64(r.IntN(5)) * placedTick / 2
		}
		if r.IntN(2) == 0 {
			j.CPUMilliPerTask = int64(1+r.IntN(3)) * 500
		}
		if r.IntN(3) == 0 {
			j.MemoryMiBPerTask = int64(1 + r.IntN(2))
		}
		switch r.IntN(5) {
		case 0:
			j.Only = []hare.LabelValues{{Label: "disk", Values: []string{"nvme"}}}
		case 1:
			j.Exclude = []hare.LabelValues{{Label: "node", Values: []string{"n0"}}}
		case 2:
			j.Only = []hare.LabelValues{{Label: "node", Values: []string{"n0", "n1"}}}
		}
		j.Mix = j.Sync == hare.Gang && r.IntN(3) == 0
		j.DistinctNodes = j.Sync != hare.Relaxed && r.IntN(4) == 0
		for _, t := range types {
			if len(types) > 1 && r.IntN(5) == 0 && len(j.On) > 0 {
				continue
			}
			p := hare.Profile{Type: t, ComputeUs: int64(1+r.IntN(3)) * placedTick}
			if r.IntN(2) == 0 {
				p.SyncUs = int64(1+r.IntN(3)) * placedTick / 2
			}
			j.On = append(j.On, p)
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// placedTask is a task that the brute force has placed: what it holds on a node, and when.
type placedTask struct {
	node, kind        int
	gpus, cpu, memory int64
	from, to          int64
}

// placedSearch tries all orders of the units of jobs (tasks of relaxed jobs, rounds of gangs,
// all rounds of rigid jobs) and all choices of nodes and types for their tasks. Each unit
// starts as early as those before it allow; some order of the units by start leads to an
// optimum.
type placedSearch struct {
	m     *hare.Model
	held  []placedTask
	best  int64
	steps int
}

const placedSteps = 150_000

// placedOptimum returns the least Σ w (C − a) in 1e-12 weight-seconds; ok is false if there is
// no schedule or the search took too long.
func placedOptimum(inst *hare.Instance) (best int64, ok bool) {
	s := placedSearch{m: hare.NewModel(inst), best: math.MaxInt64}
	state := make([]placedJob, len(s.m.Jobs))
	for i := range state {
		state[i] = placedJob{left: s.m.Jobs[i].Tasks, ready: s.m.Jobs[i].ReleaseUs}
	}
	s.try(state, 0, 0)
	return s.best, s.best < math.MaxInt64 && s.steps < placedSteps
}

type placedJob struct{ round, left, ready, end int64 }

func (ps *placedSearch) try(state []placedJob, value, last int64) {
	if ps.steps++; ps.steps >= placedSteps {
		return
	}
	done, bound := true, value
	for i, st := range state {
		mj := &ps.m.Jobs[i]
		if st.round < mj.Rounds {
			done = false
			least := int64(math.MaxInt64)
			for _, md := range mj.Modes {
				least = min(least, md.DurationUs())
			}
			if least == math.MaxInt64 {
				return
			}
			bound += mj.WeightMicro * (max(st.end, st.ready+least) + (mj.Rounds-st.round-1)*least - mj.ReleaseUs)
		}
	}
	if bound >= ps.best {
		return
	}
	if done {
		ps.best = value
		return
	}
	for i := range state {
		mj := &ps.m.Jobs[i]
		if state[i].round == mj.Rounds {
			continue
		}
		tasks := mj.Tasks
		if mj.Sync == hare.Relaxed {
			tasks = 1
		}
		ps.choose(i, tasks, nil, func(places []placedTask) { ps.place(state, value, last, i, places) })
	}
}

// choose calls f with each multiset of places for the tasks of a unit of job i.
func (ps *placedSearch) choose(i int, tasks int64, chosen []placedTask, f func([]placedTask)) {
	if tasks == 0 {
		f(chosen)
		return
	}
	mj := &ps.m.Jobs[i]
	for n := range ps.m.Nodes {
		kind := &ps.m.Kinds[ps.m.Nodes[n].Kind]
		if !kind.Allows(mj) {
			continue
		}
		for _, md := range mj.Modes {
			p := placedTask{node: n, kind: md.Type, gpus: mj.GPUs, cpu: mj.CPUMilli, memory: mj.MemoryMiB}
			if k := len(chosen); k > 0 {
				q := chosen[k-1]
				if q.node > n || q.node == n && (mj.Distinct || q.kind > md.Type) || !mj.Mix && q.kind != md.Type {
					continue
				}
			}
			if slices.ContainsFunc(kind.GPUs, func(t hare.TypeSteps) bool { return t.Type == md.Type }) {
				ps.choose(i, tasks-1, append(slices.Clone(chosen), p), f)
			}
		}
	}
}

func (ps *placedSearch) place(state []placedJob, value, last int64, i int, places []placedTask) {
	mj := &ps.m.Jobs[i]
	var hold, length, rounds int64 = 0, 0, 1
	for _, p := range places {
		for _, md := range mj.Modes {
			if md.Type == p.kind {
				length = max(length, md.DurationUs())
				hold = length
				if mj.Sync == hare.Relaxed {
					hold = md.ComputeUs
				}
			}
		}
	}
	if mj.Sync == hare.Rigid {
		rounds = mj.Rounds
	}
	start, ok := ps.earliest(places, state[i].ready, hold*rounds)
	if !ok || start < last {
		return
	}
	old, had := state[i], len(ps.held)
	for _, p := range places {
		p.from, p.to = start, start+hold*rounds
		ps.held = append(ps.held, p)
	}
	st := &state[i]
	st.end = max(st.end, start+length*rounds)
	if st.left -= int64(len(places)); st.left == 0 {
		st.round += rounds
		st.left, st.ready = mj.Tasks, st.end
		if st.round == mj.Rounds {
			value += mj.WeightMicro * (st.end - mj.ReleaseUs)
		}
	}
	ps.try(state, value, start)
	state[i], ps.held = old, ps.held[:had]
}

// earliest returns the first start from a time on at which all places fit.
func (ps *placedSearch) earliest(places []placedTask, from, hold int64) (int64, bool) {
	starts := []int64{from}
	for _, h := range ps.held {
		starts = append(starts, h.to)
	}
	for _, k := range ps.m.Kinds {
		for _, t := range k.GPUs {
			for _, s := range t.Steps {
				starts = append(starts, s.FromUs)
			}
		}
	}
	slices.Sort(starts)
	for _, t := range slices.Compact(starts) {
		if t >= from && ps.fits(places, t, hold) {
			return t, true
		}
	}
	return 0, false
}

func (ps *placedSearch) fits(places []placedTask, start, hold int64) bool {
	times := []int64{start}
	for _, h := range ps.held {
		if h.from > start && h.from < start+hold {
			times = append(times, h.from)
		}
	}
	for _, p := range places {
		node := &ps.m.Instance.Cluster.Nodes[p.node]
		inside := node.Windows == nil
		for _, w := range node.Windows {
			inside = inside || w.StartUs <= start && start+hold <= w.EndUs
		}
		if !inside {
			return false
		}
		kind := &ps.m.Kinds[ps.m.Nodes[p.node].Kind]
		for _, t := range times {
			var gpus, cpu, memory int64
			for _, q := range places {
				if q.node == p.node {
					cpu, memory = cpu+q.cpu, memory+q.memory
					if q.kind == p.kind {
						gpus += q.gpus
					}
				}
			}
			for _, q := range ps.held {
				if q.node == p.node && q.from <= t && t < q.to {
					cpu, memory = cpu+q.cpu, memory+q.memory
					if q.kind == p.kind {
						gpus += q.gpus
					}
				}
			}
			free := int64(0)
			for _, ts := range kind.GPUs {
				for _, s := range ts.Steps {
					if ts.Type == p.kind && s.FromUs <= t {
						free = s.Count
					}
				}
			}
			if gpus > free || node.CPUMilli > 0 && cpu > node.CPUMilli || node.MemoryMiB > 0 && memory > node.MemoryMiB {
				return false
			}
		}
	}
	return true
}

// checkPlaced compares the bounds of every certified method with the optimum.
func checkPlaced(t *testing.T, seed uint64) (gap float64, pools int, ok bool) {
	t.Helper()
	inst := randomPlaced(rand.New(rand.NewPCG(seed, 11)))
	if err := inst.Validate(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	m := hare.NewModel(inst)
	if !m.Placed {
		return 0, 0, false
	}
	opt, found := placedOptimum(inst)
	optimum := hare.Product(1, opt)
	for _, method := range []string{hare.MethodPrice, hare.MethodCriticalPath, hare.MethodMachine} {
		rel, err := Run(t.Context(), m, Config{Method: method, Workers: 1, Cells: 24, Effort: 0.5, Steps: 2})
		if err != nil {
			if found {
				t.Errorf("seed %d: %s: %v, but there is a schedule of %d", seed, method, err, opt)
			}
			return 0, 0, false
		}
		stated, _ := new(big.Rat).SetString(rel.Certificate.Bound)
		proved, err := verify.Bound(inst, rel.Certificate)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, method, err)
		}
		if more := new(big.Rat).Sub(proved, stated); more.Sign() < 0 || more.Cmp(big.NewRat(1, 1e6)) >= 0 {
			t.Errorf("seed %d: %s: the certificate states %s and proves %s", seed, method, rel.Certificate.Bound,
				proved.FloatString(9))
		}
		if found && rel.Bound.Cmp(optimum) > 0 {
			t.Errorf("seed %d: %s bound %v above the optimum %v", seed, method, rel.Bound, optimum)
		}
		if method == hare.MethodPrice && found && opt > 0 {
			gap, pools = 1-rel.Bound.Float()/optimum.Float(), len(rel.Certificate.Pools)
		}
	}
	return gap, pools, found
}

func TestPlacedBoundsNeverExceedTheOptimum(t *testing.T) {
	seeds := uint64(2000)
	if testing.Short() {
		seeds = 100
	}
	n, sum, withPools := 0, 0.0, 0
	for seed := range seeds {
		if gap, pools, ok := checkPlaced(t, seed); ok {
			n++
			sum += gap
			if pools > 0 {
				withPools++
			}
		}
	}
	t.Logf("%d instances, %d with pools, mean gap of the optimum to the price bound %.2f %%", n, withPools,
		100*sum/float64(n))
}
