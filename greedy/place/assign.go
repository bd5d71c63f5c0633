package place

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// Assign places the items in their order by one rule. The error is ErrNoPlace with the
// job's name, or the context's. Relaxed jobs that are whole items are placed as runs of
// rounds, each run to end early, under every rule.
//
// Where nodes matter or jobs wait for others, only the rule Insertion is known. Items of
// predecessors must then come first, as Order puts them.
func Assign(ctx context.Context, m *model.Model, items []Item, rule Rule) (*Plan, error) {
	if m.Placed || room.HasAfter(m) || room.HasSetups(m) {
		if rule != Insertion {
			return nil, fmt.Errorf("greedy: the rule %s does not go by nodes or dependencies", rule)
		}
		return assignOnNodes(ctx, m, items)
	}
	big := runJobsOf(m, items)
	if rule != Insertion {
		return assignWithoutGaps(ctx, m, items, rule, big)
	}
	return assignByInsertion(ctx, m, items, NewRunResidual(m, big))
}

// runJobsOf marks the relaxed jobs that are whole items.
func runJobsOf(m *model.Model, items []Item) []bool {
	big := make([]bool, len(m.Jobs))
	for _, it := range items {
		if it.Round == Whole && m.Jobs[it.Job].Sync == hare.Relaxed {
			big[it.Job] = true
		}
	}
	return big
}

// assignByInsertion places the items on the residual capacity, which must be that of an
// empty schedule.
func assignByInsertion(ctx context.Context, m *model.Model, items []Item, res *Residual) (*Plan, error) {
	p := &Plan{Jobs: make([][]room.Block, len(m.Jobs)), EndUs: make([]int64, len(m.Jobs))}
	for i := range m.Jobs {
		p.EndUs[i] = m.Jobs[i].ReleaseUs
	}
	for n, it := range items {
		if (n%CheckEvery == 0 || res.Big[it.Job]) && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !res.PlaceItem(it, p) {
			return nil, noPlace(m, int(it.Job))
		}
	}
	return p, nil
}

// PlaceItem adds the place of an item to p.
func (res *Residual) PlaceItem(it Item, p *Plan) (ok bool) {
	i := int(it.Job)
	j := &res.m.Jobs[i]
	if res.Big[i] {
		res.costs.byJob[i] = res.costs.of(res.m, i)
	}
	if it.Round == Whole {
		p.Jobs[i], p.EndUs[i], ok = res.placeJob(i, nil)
	} else {
		p.EndUs[i], ok = res.placeRound(j, it.Round, p.EndUs[i], &p.Jobs[i])
	}
	if res.costs != nil && (it.Round == Whole || it.Round == j.Rounds-1) {
		res.costs.placed(res.m, i)
	}
	return ok
}

// availability holds the times at which the GPUs of each class become free, for the
// rules that leave no gaps.
type availability struct {
	m       *model.Model
	free    [][]int64 // by class, ascending
	windows [][]hare.Window
	byType  [][]int32 // the classes of each type
}

func newAvailability(m *model.Model) *availability {
	av := &availability{m: m, byType: make([][]int32, len(m.Types))}
	for c := range m.Classes {
		av.free = append(av.free, make([]int64, len(m.Classes[c].GPUs)))
		av.windows = append(av.windows, m.Classes[c].Windows)
		av.byType[m.Classes[c].Type] = append(av.byType[m.Classes[c].Type], int32(c))
	}
	return av
}

// earliestFit returns the first start ≥ t at which a window of class c is open for hold.
func (av *availability) earliestFit(c int32, t, hold int64) int64 {
	for _, w := range av.windows[c] {
		if s := max(t, w.StartUs); w.EndUs == hare.Forever || s+hold <= w.EndUs {
			return s
		}
	}
	return room.Never
}

// occupy makes the first n GPUs of class c free at t.
func (av *availability) occupy(c int32, n int, t int64) {
	f := av.free[c]
	copy(f, f[n:])
	f = f[:len(f)-n]
	at, _ := slices.BinarySearch(f, t)
	av.free[c] = slices.Insert(f, at, slices.Repeat([]int64{t}, n)...)
}

// assignWithoutGaps places each item after everything that its GPU already has: on the
// GPU that is available earliest (Hare, HPDC 2022, algorithm 1), or on the GPU that ends
// the item first.
func assignWithoutGaps(ctx context.Context, m *model.Model, items []Item, rule Rule, big []bool) (*Plan, error) {
	p := &Plan{Jobs: make([][]room.Block, len(m.Jobs)), EndUs: make([]int64, len(m.Jobs))}
	av := newAvailability(m)
	for i := range m.Jobs {
		p.EndUs[i] = m.Jobs[i].ReleaseUs
	}
	for n, it := range items {
		if n%CheckEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		i := int(it.Job)
		j := &m.Jobs[i]
		ok := false
		switch {
		case big[i]:
			p.Jobs[i], p.EndUs[i], ok = av.placeRuns(i, big)
		case it.Round != Whole:
			ok = av.placeRound(j, it.Round, rule, &p.Jobs[i], &p.EndUs[i])
		case j.Sync == hare.Rigid:
			ok = av.placeGang(j, 0, j.Rounds, rule, &p.Jobs[i], &p.EndUs[i])
		default:
			// A run of a gang stays on its GPUs until the end of their window.
			ok = true
			for r := int64(0); r < j.Rounds && ok; {
				before := len(p.Jobs[i])
				ok = av.placeGang(j, r, j.Rounds-r, rule, &p.Jobs[i], &p.EndUs[i])
				if ok {
					r += p.Jobs[i][before].Rounds
				}
			}
		}
		if !ok {
			return nil, noPlace(m, i)
		}
	}
	return p, nil
}

func (av *availability) placeRound(j *model.Job, round int64, rule Rule, out *[]room.Block, end *int64) bool {
	ready, last := *end, *end
	for left := j.Tasks; left > 0; {
		best, bestKey, bestTie := int32(-1), room.Never, room.Never
		var start int64
		var mode *model.Mode
		for i := range j.Modes {
			md := &j.Modes[i]
			for _, c := range av.byType[md.Type] {
				s := av.earliestFit(c, max(ready, av.free[c][0]), md.ComputeUs)
				if s == room.Never {
					continue
				}
				key, tie := av.earliestFit(c, av.free[c][0], md.ComputeUs), s+md.DurationUs()
				if rule == EarliestFinish {
					key, tie = tie, key
				}
				if key < bestKey || key == bestKey && tie < bestTie {
					best, bestKey, bestTie, start, mode = c, key, tie, s, md
				}
			}
		}
		if best < 0 {
			return false
		}
		// GPUs of the class that are free at the same time take a task each.
		n := 1
		for int64(n) < left && n < len(av.free[best]) && av.free[best][n] == av.free[best][0] {
			n++
		}
		av.occupy(best, n, start+mode.ComputeUs)
		*out = append(*out, room.Block{Class: best, Width: int32(n), Tasks: 1, Round: round, Rounds: 1, StartUs: start,
			HoldUs: mode.ComputeUs})
		left -= int64(n)
		last = max(last, start+mode.DurationUs())
	}
	*end = last
	return true
}

// placeRuns places all rounds of big job i as runs on GPUs that have nothing later.
func (av *availability) placeRuns(i int, big []bool) (blocks []room.Block, end int64, ok bool) {
	b := &Residual{m: av.m, byType: av.byType, Big: big, costs: newOpportunityCosts(av.m, 0)}
	for c := range av.m.Classes {
		b.Profiles = append(b.Profiles, av.profile(int32(c)))
	}
	if end, ok = b.placeRuns(i, av.m.Jobs[i].ReleaseUs, &blocks); !ok {
		return nil, 0, false
	}
	byStart := slices.Clone(blocks)
	slices.SortStableFunc(byStart, func(x, y room.Block) int { return cmp.Compare(x.StartUs, y.StartUs) })
	for x := range byStart {
		// At least Width GPUs are free by the run's start, and these come first.
		av.occupy(byStart[x].Class, int(byStart[x].Width), byStart[x].EndUs())
	}
	return blocks, end, true
}

// profile returns the free GPUs of class c after everything that is placed on them.
func (av *availability) profile(c int32) *room.Profile {
	p := room.FullyBusy()
	free := av.free[c]
	for _, w := range av.windows[c] {
		n, _ := slices.BinarySearch(free, w.StartUs+1)
		p.AppendStep(w.StartUs, int32(n))
		for ; n < len(free) && free[n] < w.EndUs; n++ {
			p.AppendStep(free[n], int32(n+1))
		}
		if w.EndUs != hare.Forever {
			p.AppendStep(w.EndUs, 0)
		}
	}
	return p
}

// placeGang starts the rounds from first on together: all remaining rounds of a rigid
// job, or as many rounds of a gang as the window holds.
func (av *availability) placeGang(j *model.Job, first, rounds int64, rule Rule, out *[]room.Block,
	end *int64) bool {
	type option struct {
		start, hold, key int64
		classes          []int32
	}
	best := option{key: room.Never}
	try := func(classes []int32, hold int64) {
		length := hold
		if j.Sync == hare.Rigid {
			length = hold * rounds
		}
		// The job takes the K GPUs that are free first among the classes.
		var frees []int64
		for _, c := range classes {
			frees = append(frees, av.free[c][:min(int64(len(av.free[c])), j.Tasks)]...)
		}
		if int64(len(frees)) < j.Tasks {
			return
		}
		slices.Sort(frees)
		available := frees[j.Tasks-1]
		s := max(*end, available)
		for moved := true; moved; {
			moved = false
			for _, c := range classes {
				t := av.earliestFit(c, s, length)
				if t == room.Never {
					return
				}
				if t > s {
					s, moved = t, true
				}
			}
		}
		key := s + length
		if rule == EarliestAvailable {
			key = available
		}
		if key < best.key || key == best.key && s+length < best.start+best.hold {
			best = option{s, hold, key, classes}
		}
	}
	board := &Residual{m: av.m, byType: av.byType}
	if j.Sync == hare.Rigid {
		for i := range j.Modes {
			try(av.byType[j.Modes[i].Type], j.Modes[i].DurationUs())
		}
	} else {
		board.classSets(j, try)
	}
	if best.key == room.Never {
		// Several classes of a type may have no common window, although one class alone has a
		// place.
		for i := range j.Modes {
			for _, c := range av.byType[j.Modes[i].Type] {
				try([]int32{c}, j.Modes[i].DurationUs())
			}
		}
	}
	if best.key == room.Never {
		return false
	}
	if j.Sync != hare.Rigid {
		for _, c := range best.classes {
			for _, w := range av.windows[c] {
				if w.StartUs <= best.start && best.start < w.EndUs && w.EndUs != hare.Forever {
					rounds = min(rounds, (w.EndUs-best.start)/best.hold)
				}
			}
		}
	}
	left := j.Tasks
	for left > 0 {
		// The class whose next GPU is free first gives the GPU.
		at := best.classes[0]
		for _, c := range best.classes {
			if len(av.free[c]) > 0 && av.free[c][0] < av.free[at][0] {
				at = c
			}
		}
		av.occupy(at, 1, best.start+best.hold*rounds)
		if n := len(*out); n > 0 && (*out)[n-1].Class == at && (*out)[n-1].Round == first {
			(*out)[n-1].Width++
		} else {
			*out = append(*out, room.Block{Class: at, Width: 1, Tasks: 1, Round: first, Rounds: rounds, StartUs: best.start,
				PeriodUs: best.hold, HoldUs: best.hold})
		}
		left--
	}
	*end = best.start + best.hold*rounds
	return true
}
