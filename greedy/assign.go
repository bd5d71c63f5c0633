package greedy

import (
	"cmp"
	"context"
	"slices"

	"github.com/hare-sched/hare"
)

// Assign places the items in their order by one rule. The error is ErrNoPlace,
// naming the job, or the context's. Relaxed jobs that are items as wholes are
// placed as runs of rounds, each to end early, under every rule.
func Assign(ctx context.Context, m *hare.Model, items []Item, rule Rule) (*Plan, error) {
	big := wholes(m, items)
	if rule != Insertion {
		return queue(ctx, m, items, rule, big)
	}
	return insert(ctx, m, items, newRunBoard(m, big))
}

// wholes marks the relaxed jobs that are items as wholes.
func wholes(m *hare.Model, items []Item) []bool {
	big := make([]bool, len(m.Jobs))
	for _, it := range items {
		if it.Round == Whole && m.Jobs[it.Job].Sync == hare.Relaxed {
			big[it.Job] = true
		}
	}
	return big
}

// checkEvery is the number of items between looks at the context.
const checkEvery = 256

// insert places the items on b, which is empty.
func insert(ctx context.Context, m *hare.Model, items []Item, b *board) (*Plan, error) {
	p := &Plan{Jobs: make([][]Block, len(m.Jobs)), EndUs: make([]int64, len(m.Jobs))}
	for i := range m.Jobs {
		p.EndUs[i] = m.Jobs[i].ReleaseUs
	}
	for n, it := range items {
		if (n%checkEvery == 0 || b.big[it.Job]) && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !b.item(it, p) {
			return nil, noPlace(m, int(it.Job))
		}
	}
	return p, nil
}

// item places an item of a new plan.
func (b *board) item(it Item, p *Plan) (ok bool) {
	i := int(it.Job)
	j := &b.m.Jobs[i]
	if b.big[i] {
		b.charge.thrift[i] = b.charge.of(b.m, i)
	}
	if it.Round == Whole {
		p.Jobs[i], p.EndUs[i], ok = b.job(i, nil)
	} else {
		p.EndUs[i], ok = b.relaxedRound(j, it.Round, p.EndUs[i], &p.Jobs[i])
	}
	if b.charge != nil && (it.Round == Whole || it.Round == j.Rounds-1) {
		b.charge.placed(b.m, i)
	}
	return ok
}

// lanes holds, for the rules without gaps, when each GPU of a class is free,
// in order.
type lanes struct {
	m    *hare.Model
	free [][]int64 // by class, ascending
	open [][]hare.Window
	by   [][]int32 // classes of a type
}

func newLanes(m *hare.Model) *lanes {
	l := &lanes{m: m, by: make([][]int32, len(m.Types))}
	for c := range m.Classes {
		l.free = append(l.free, make([]int64, len(m.Classes[c].GPUs)))
		l.open = append(l.open, m.Classes[c].Windows)
		l.by[m.Classes[c].Type] = append(l.by[m.Classes[c].Type], int32(c))
	}
	return l
}

// fit is the first start ≥ t within a window of class c as long as hold.
func (l *lanes) fit(c int32, t, hold int64) int64 {
	for _, w := range l.open[c] {
		if s := max(t, w.StartUs); w.EndUs == hare.Forever || s+hold <= w.EndUs {
			return s
		}
	}
	return never
}

// occupy sets the n first GPUs of class c free at t.
func (l *lanes) occupy(c int32, n int, t int64) {
	f := l.free[c]
	copy(f, f[n:])
	f = f[:len(f)-n]
	at, _ := slices.BinarySearch(f, t)
	l.free[c] = slices.Insert(f, at, slices.Repeat([]int64{t}, n)...)
}

// queue places each item after all that its GPU already has: on the GPU that
// is available earliest (Hare, HPDC 2022, algorithm 1), or ends it first.
func queue(ctx context.Context, m *hare.Model, items []Item, rule Rule, big []bool) (*Plan, error) {
	p := &Plan{Jobs: make([][]Block, len(m.Jobs)), EndUs: make([]int64, len(m.Jobs))}
	l := newLanes(m)
	for i := range m.Jobs {
		p.EndUs[i] = m.Jobs[i].ReleaseUs
	}
	for n, it := range items {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		i := int(it.Job)
		j := &m.Jobs[i]
		ok := false
		switch {
		case big[i]:
			p.Jobs[i], p.EndUs[i], ok = l.run(i, big)
		case it.Round != Whole:
			ok = l.round(j, it.Round, rule, &p.Jobs[i], &p.EndUs[i])
		case j.Sync == hare.Rigid:
			ok = l.gang(j, 0, j.Rounds, rule, &p.Jobs[i], &p.EndUs[i])
		default:
			// A run of a gang stays where it starts, window by window.
			ok = true
			for r := int64(0); r < j.Rounds && ok; {
				before := len(p.Jobs[i])
				ok = l.gang(j, r, j.Rounds-r, rule, &p.Jobs[i], &p.EndUs[i])
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

func (l *lanes) round(j *hare.ModelJob, round int64, rule Rule, out *[]Block, end *int64) bool {
	ready, last := *end, *end
	for left := j.Tasks; left > 0; {
		best, bestKey, bestTie := int32(-1), never, never
		var start int64
		var mode *hare.Mode
		for i := range j.Modes {
			md := &j.Modes[i]
			for _, c := range l.by[md.Type] {
				s := l.fit(c, max(ready, l.free[c][0]), md.ComputeUs)
				if s == never {
					continue
				}
				key, tie := l.fit(c, l.free[c][0], md.ComputeUs), s+md.DurationUs()
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
		// GPUs of the class that are free by then take a task each.
		n := 1
		for int64(n) < left && n < len(l.free[best]) && l.free[best][n] == l.free[best][0] {
			n++
		}
		l.occupy(best, n, start+mode.ComputeUs)
		*out = append(*out, Block{Class: best, Width: int32(n), Tasks: 1, Round: round, Rounds: 1, StartUs: start, HoldUs: mode.ComputeUs})
		left -= int64(n)
		last = max(last, start+mode.DurationUs())
	}
	*end = last
	return true
}

// run places all rounds of big job i as runs on GPUs that have nothing later.
func (l *lanes) run(i int, big []bool) (blocks []Block, end int64, ok bool) {
	b := &board{m: l.m, byType: l.by, big: big, charge: newCharges(l.m, 0)}
	for c := range l.m.Classes {
		b.profiles = append(b.profiles, l.profile(int32(c)))
	}
	if end, ok = b.run(i, l.m.Jobs[i].ReleaseUs, &blocks); !ok {
		return nil, 0, false
	}
	byStart := slices.Clone(blocks)
	slices.SortStableFunc(byStart, func(x, y Block) int { return cmp.Compare(x.StartUs, y.StartUs) })
	for x := range byStart {
		// As many are free by its start, and those come first.
		l.occupy(byStart[x].Class, int(byStart[x].Width), byStart[x].endUs())
	}
	return blocks, end, true
}

// profile is what class c has free after all that its GPUs have.
func (l *lanes) profile(c int32) *profile {
	p := &profile{times: []int64{0}, free: []int32{0}}
	step := func(t int64, free int) {
		last := len(p.times) - 1
		switch {
		case p.times[last] == t:
			p.free[last] = int32(free)
		case p.free[last] != int32(free):
			p.times, p.free = append(p.times, t), append(p.free, int32(free))
		}
	}
	free := l.free[c]
	for _, w := range l.open[c] {
		n, _ := slices.BinarySearch(free, w.StartUs+1)
		step(w.StartUs, n)
		for ; n < len(free) && free[n] < w.EndUs; n++ {
			step(free[n], n+1)
		}
		if w.EndUs != hare.Forever {
			step(w.EndUs, 0)
		}
	}
	return p
}

// gang starts rounds first … first+rounds−1 together: all of them for a rigid
// job, as many as the window holds for a gang.
func (l *lanes) gang(j *hare.ModelJob, first, rounds int64, rule Rule, out *[]Block, end *int64) bool {
	type option struct {
		start, hold, key int64
		classes          []int32
	}
	best := option{key: never}
	try := func(classes []int32, hold int64) {
		length := hold
		if j.Sync == hare.Rigid {
			length = hold * rounds
		}
		// The K GPUs that are free first among the classes.
		var frees []int64
		for _, c := range classes {
			frees = append(frees, l.free[c][:min(int64(len(l.free[c])), j.Tasks)]...)
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
				t := l.fit(c, s, length)
				if t == never {
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
	board := &board{m: l.m, byType: l.by}
	if j.Sync == hare.Rigid {
		for i := range j.Modes {
			try(l.by[j.Modes[i].Type], j.Modes[i].DurationUs())
		}
	} else {
		board.choices(j, try)
	}
	if best.key == never {
		// Several classes of a type may share no window: one alone may do.
		for i := range j.Modes {
			for _, c := range l.by[j.Modes[i].Type] {
				try([]int32{c}, j.Modes[i].DurationUs())
			}
		}
	}
	if best.key == never {
		return false
	}
	if j.Sync != hare.Rigid {
		for _, c := range best.classes {
			for _, w := range l.open[c] {
				if w.StartUs <= best.start && best.start < w.EndUs && w.EndUs != hare.Forever {
					rounds = min(rounds, (w.EndUs-best.start)/best.hold)
				}
			}
		}
	}
	left := j.Tasks
	for left > 0 {
		// The class whose next GPU is free first gives it.
		at := best.classes[0]
		for _, c := range best.classes {
			if len(l.free[c]) > 0 && l.free[c][0] < l.free[at][0] {
				at = c
			}
		}
		l.occupy(at, 1, best.start+best.hold*rounds)
		if n := len(*out); n > 0 && (*out)[n-1].Class == at && (*out)[n-1].Round == first {
			(*out)[n-1].Width++
		} else {
			*out = append(*out, Block{Class: at, Width: 1, Tasks: 1, Round: first, Rounds: rounds, StartUs: best.start, PeriodUs: best.hold, HoldUs: best.hold})
		}
		left--
	}
	*end = best.start + best.hold*rounds
	return true
}

// Infeasible lists the jobs that can never run, with the proof in words: no
// GPU in service has a profile, no window is as long as one task, round or
// rigid block, or the gang is wider than what may serve it. O(jobs · classes).
func Infeasible(m *hare.Model) []hare.Reason {
	var out []hare.Reason
	for i := range m.Jobs {
		if code, detail := cannot(m, &m.Jobs[i]); code != "" {
			out = append(out, reason(m, i, code, detail))
		}
	}
	return out
}
