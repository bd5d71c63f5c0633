package bench

import (
	"cmp"
	"context"
	"math"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/trace"
)

// byDeadline orders jobs by deadline; jobs without one come last, by release.
func byDeadline(m *model.Model, a, b int32) int {
	due := func(i int32) int64 {
		if d := m.Jobs[i].DeadlineUs; d > 0 {
			return d
		}
		return math.MaxInt64
	}
	return cmp.Or(cmp.Compare(due(a), due(b)), cmp.Compare(m.Jobs[a].ReleaseUs, m.Jobs[b].ReleaseUs), cmp.Compare(a, b))
}

// foresightfulEDF returns the ends under earliest deadline first with backfill that knows all
// arrivals beforehand: in the order of deadlines, each job takes the place on which it ends first
// and delays no job before it.
func foresightfulEDF(ctx context.Context, m *model.Model) ([]int64, error) {
	items := greedy.Order(m, nil, "arrival")
	slices.SortStableFunc(items, func(a, b greedy.Item) int { return byDeadline(m, a.Job, b.Job) })
	p, err := greedy.Assign(ctx, m, items, greedy.Insertion)
	if err != nil {
		return nil, err
	}
	return p.EndUs, nil
}

// edfBlock is a job on nodes of one type.
type edfBlock struct {
	job, kind  int32
	start, end int64
	nodes      []int32 // the node of each task
}

// onlineEDF returns the ends of rigid jobs under earliest deadline first with conservative
// backfill, which learns of a job when it arrives: whenever a job arrives or ends, all jobs that wait
// get a place in the order of deadlines, each where it ends first and delays no job before it, and
// those whose place begins now start.
func onlineEDF(m *model.Model) []int64 {
	ends := make([]int64, len(m.Jobs))
	var held []edfBlock
	var waiting []int32
	arrivals := make([]int32, len(m.Jobs))
	for i := range arrivals {
		arrivals[i] = int32(i)
	}
	slices.SortStableFunc(arrivals, func(a, b int32) int {
		return cmp.Compare(m.Jobs[a].ReleaseUs,
			m.Jobs[b].ReleaseUs)
	})
	for now := int64(0); len(arrivals)+len(waiting) > 0; {
		for len(arrivals) > 0 && m.Jobs[arrivals[0]].ReleaseUs <= now {
			waiting, arrivals = append(waiting, arrivals[0]), arrivals[1:]
		}
		held = slices.DeleteFunc(held, func(b edfBlock) bool { return b.end <= now })
		slices.SortFunc(waiting, func(a, b int32) int { return byDeadline(m, a, b) })
		planned, still := slices.Clone(held), waiting[:0]
		for _, i := range waiting {
			b := edfPlace(m, i, now, planned)
			planned = append(planned, b)
			if b.start > now {
				still = append(still, i)
				continue
			}
			held, ends[i] = append(held, b), b.end
		}
		waiting = still
		next := int64(math.MaxInt64)
		if len(arrivals) > 0 {
			next = m.Jobs[arrivals[0]].ReleaseUs
		}
		for _, b := range held {
			next = min(next, b.end)
		}
		now = next
	}
	return ends
}

// edfPlace returns the place from now on at which a job ends first beside what is planned.
func edfPlace(m *model.Model, i int32, now int64, planned []edfBlock) edfBlock {
	j := &m.Jobs[i]
	starts := []int64{now}
	for _, b := range planned {
		starts = append(starts, b.end)
	}
	slices.Sort(starts)
	best := edfBlock{end: math.MaxInt64}
	for x := range j.Modes {
		k, hold := j.Modes[x].Type, j.Modes[x].DurationUs()*j.Rounds
		for _, t := range slices.Compact(starts) {
			if t < now || t+hold >= best.end {
				continue
			}
			var nodes []int32
			for n := range m.Nodes {
				g := m.GPUs[m.Nodes[n].FirstGPU]
				if g.Type != k {
					continue
				}
				room := (int64(m.Instance.Cluster.Nodes[n].GPUs[0].Count) - mostHeld(m, planned, int32(n), t, t+hold)) / j.GPUs
				for ; room > 0 && int64(len(nodes)) < j.Tasks; room-- {
					nodes = append(nodes, int32(n))
				}
			}
			if int64(len(nodes)) == j.Tasks {
				best = edfBlock{i, int32(k), t, t + hold, nodes}
				break
			}
		}
	}
	return best
}

// mostHeld returns the most GPUs of a node that blocks hold at a time within [from, to).
func mostHeld(m *model.Model, blocks []edfBlock, node int32, from, to int64) int64 {
	type change struct{ at, gpus int64 }
	var changes []change
	for x := range blocks {
		b := &blocks[x]
		if b.start >= to || b.end <= from {
			continue
		}
		for _, n := range b.nodes {
			if n == node {
				g := m.Jobs[b.job].GPUs
				changes = append(changes, change{max(from, b.start), g}, change{b.end, -g})
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.gpus, b.gpus))
	})
	var now, most int64
	for _, c := range changes {
		now += c.gpus
		most = max(most, now)
	}
	return most
}

// deadlineFigures returns the deadlines that ends meet, and the cost of being late.
func deadlineFigures(m *model.Model, ends []int64) (met int, value float64) {
	for i := range m.Jobs {
		j := &m.Jobs[i]
		late := int64(0)
		if j.DeadlineUs > 0 {
			if late = max(0, ends[i]-j.DeadlineUs); late == 0 {
				met++
			}
		}
		value += float64(j.WeightMicro)*1e-12*float64(ends[i]-j.ReleaseUs) + float64(j.LateWeightMicro)*1e-12*float64(late)
	}
	return met, value
}

// The search meets more deadlines than earliest deadline first with backfill that learns of jobs when they arrive, and
// costs less than even one that knows all arrivals, which meets more.
func TestDeadlinesAgainstEDF(t *testing.T) {
	for _, seed := range []uint64{1, 2, 7} {
		inst, err := trace.PhillyNodes(trace.PhillyNodesConfig{Jobs: 200, Load: 1, Widths: []int64{1, 2, 4, 8, 16, 32},
			Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		err = trace.AddDeadlines(inst, trace.DeadlineConfig{Share: 0.5, Factor: 2, LateWeight: 3, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		m := model.New(inst)
		before, err := foresightfulEDF(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		res, err := solver.Solve(t.Context(), inst, hare.Options{WorkLimit: 300_000, Gap: 0.001}, solver.Config{})
		if err != nil {
			t.Fatal(err)
		}
		metOnline, online := deadlineFigures(m, onlineEDF(m))
		metBefore, foresight := deadlineFigures(m, before)
		met, value := res.Metrics.Deadlines.Met, res.Value.Float()
		t.Logf("seed %d: the search meets %d deadlines at %.0f (%.4f of the bound), EDF %d at %.0f, and %d at %.0f if it "+
			"knows all arrivals", seed, met, value, value/res.Bound.Float(), metOnline, online, metBefore, foresight)
		if met <= int64(metOnline) || value >= min(online, foresight) {
			t.Errorf("seed %d: earliest deadline first is better", seed)
		}
		if testing.Short() {
			break
		}
	}
}
