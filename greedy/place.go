package greedy

import (
	"slices"

	"github.com/hare-sched/hare"
)

// board is the free capacity of a model while a schedule is built: step
// functions, or cells where times are coarse.
type board struct {
	m        *hare.Model
	profiles []*profile // by class; nil with cells
	grid     []*cells   // by class; nil with profiles
	byType   [][]int32  // classes of a type
	big      []bool     // by job: relaxed, and placed as runs
	charge   *charges   // nil without big jobs
	cands    []cand     // scratch
	offers   []offer    // scratch
	cheap    []int      // scratch
	spare    []Block    // scratch
}

// newBoard is the whole capacity of m, without big jobs.
func newBoard(m *hare.Model) *board { return newRunBoard(m, make([]bool, len(m.Jobs))) }

// newRunBoard is newBoard where big marks the jobs placed as runs.
func newRunBoard(m *hare.Model, big []bool) *board {
	b := &board{m: m, byType: classesOf(m), big: big}
	if slices.Contains(big, true) {
		b.charge = newCharges(m, 1)
	}
	for c := range m.Classes {
		b.profiles = append(b.profiles, newProfile(&m.Classes[c]))
	}
	return b
}

// newGridBoard is newBoard in cells, up to limit units of time. It places
// rounds of relaxed jobs alone.
func newGridBoard(m *hare.Model, limit int64) *board {
	b := &board{m: m, byType: classesOf(m), big: make([]bool, len(m.Jobs))}
	for c := range m.Classes {
		b.grid = append(b.grid, newCells(&m.Classes[c], limit))
	}
	return b
}

func classesOf(m *hare.Model) [][]int32 {
	by := make([][]int32, len(m.Types))
	for c := range m.Classes {
		by[m.Classes[c].Type] = append(by[m.Classes[c].Type], int32(c))
	}
	return by
}

// fresh is a board of the same kind as b, to be reset.
func (b *board) fresh() *board {
	o := &board{m: b.m, byType: b.byType, big: b.big}
	if b.charge != nil {
		o.charge = newCharges(b.m, 1)
	}
	for range b.profiles {
		o.profiles = append(o.profiles, &profile{})
	}
	for range b.grid {
		o.grid = append(o.grid, &cells{})
	}
	return o
}

func (b *board) copyFrom(o *board) {
	for c := range b.profiles {
		b.profiles[c].copyFrom(o.profiles[c])
	}
	for c := range b.grid {
		b.grid[c].copyFrom(o.grid[c])
	}
}

// hold takes all blocks of a plan.
func (b *board) hold(p *Plan) {
	for i := range p.Jobs {
		for x := range p.Jobs[i] {
			b.take(&p.Jobs[i][x])
		}
	}
}

// take holds the GPUs of a block, give frees them.
func (b *board) take(x *Block) { b.change(x, -x.Width) }
func (b *board) give(x *Block) { b.change(x, x.Width) }

func (b *board) change(x *Block, n int32) {
	// The GPUs of a run stay with it from round to round.
	if b.grid != nil {
		b.grid[x.Class].add(x.StartUs, x.endUs(), n)
		return
	}
	b.profiles[x.Class].add(x.StartUs, x.endUs(), n)
}

// cand is where a class has its next place for a task of a round.
type cand struct {
	class, mode int32
	hold, dur   int64
	// at is the first start, with width GPUs, or before which there is none
	// where width is 0 (in lateRound the last, or after which).
	at    int64
	width int32
}

// candidates lists the classes that serve j, none looked at, in b.cands.
func (b *board) candidates(j *hare.ModelJob, ready int64) []cand {
	cands := b.cands[:0]
	for i := range j.Modes {
		md := &j.Modes[i]
		for _, c := range b.byType[md.Type] {
			cands = append(cands, cand{class: c, mode: int32(i), hold: md.ComputeUs, dur: md.DurationUs(), at: ready})
		}
	}
	b.cands = cands
	return cands
}

// first is the candidate whose next task ends first, the widest of those that
// end together; −1 where there is none. What was found for a class holds until
// it is taken from: then its width falls, and at 0 it is looked for again.
func (b *board) first(cands []cand) (best int) {
	best = -1
	bestEnd := never
	for x := range cands {
		if c := &cands[x]; c.width > 0 && (c.at+c.dur < bestEnd || c.at+c.dur == bestEnd && c.width > cands[best].width) {
			best, bestEnd = x, c.at+c.dur
		}
	}
	for x := range cands {
		c := &cands[x]
		if c.width > 0 || c.at == never {
			continue
		}
		limit := never
		if bestEnd != never {
			if limit = bestEnd - c.dur; limit < c.at {
				continue
			}
		}
		s, n := int64(0), int32(0)
		if b.grid != nil {
			s, n = b.grid[c.class].earliest(c.at, limit, c.hold)
		} else {
			s, n = b.profiles[c.class].earliest(c.at, limit, c.hold, 1)
		}
		if s == never {
			if c.at = limit; limit != never {
				c.at++
			}
			continue
		}
		c.at, c.width = s, n
		if e := s + c.dur; e < bestEnd || n > cands[best].width || n == cands[best].width && x < best {
			best, bestEnd = x, e
		}
	}
	return best
}

// relaxedRound places the K tasks of one round as early as possible from ready
// on: the classes' earliest starts merged by finish time minimise the round's
// end. Blocks go to *out; end is when the round has synchronised.
func (b *board) relaxedRound(j *hare.ModelJob, round, ready int64, out *[]Block) (end int64, ok bool) {
	left := int32(min(j.Tasks, 1<<30))
	first := len(*out)
	end = ready
	cands := b.candidates(j, ready)
	for left > 0 {
		at := b.first(cands)
		if at < 0 {
			b.undo(first, out)
			return 0, false
		}
		c := &cands[at]
		x := Block{Class: c.class, Width: min(left, c.width), Tasks: 1, Round: round, Rounds: 1, StartUs: c.at, HoldUs: c.hold}
		b.take(&x)
		*out = append(*out, x)
		left -= x.Width
		c.width -= x.Width
		end = max(end, c.at+c.dur)
	}
	return end, true
}

// undo gives back the blocks of *out from first on.
func (b *board) undo(first int, out *[]Block) {
	for i := first; i < len(*out); i++ {
		b.give(&(*out)[i])
	}
	*out = (*out)[:first]
}

// slot is a place for K GPUs held together.
type slot struct {
	start, hold int64
	parts       []Block // class and width alone

}

// together finds the earliest start ≥ from at which need GPUs of the given
// classes are free for hold.
func (b *board) together(classes []int32, from, hold int64, need int32) (slot, bool) {
	sl := slot{hold: hold}
	if len(classes) == 1 {
		s, _ := b.profiles[classes[0]].earliest(from, never, hold, need)
		if s == never {
			return sl, false
		}
		sl.start = s
		sl.parts = []Block{{Class: classes[0], Width: need}}
		return sl, true
	}
	for t := from; ; {
		left := need
		for _, c := range classes {
			left -= min(left, b.profiles[c].least(t, 1))
		}
		enough := left == 0
		left = need
		sl.parts = sl.parts[:0]
		for _, c := range classes {
			if !enough {
				break
			}
			if n := min(left, b.profiles[c].least(t, hold)); n > 0 {
				sl.parts = append(sl.parts, Block{Class: c, Width: n})
				left -= n
			}
		}
		if left == 0 {
			sl.start = t
			return sl, true
		}
		next := never
		for _, c := range classes {
			next = min(next, b.profiles[c].rise(t))
		}
		if next == never {
			return sl, false
		}
		t = next
	}
}

// until is how long the slot's GPUs stay free from its start on.
func (b *board) until(sl *slot) int64 {
	end := never
	for i := range sl.parts {
		end = min(end, b.profiles[sl.parts[i].Class].until(sl.start, sl.parts[i].Width))
	}
	return end
}

// choices lists the sets of classes that a gang round may use, with its hold:
// one type each, and with mix the m fastest types together.
func (b *board) choices(j *hare.ModelJob, f func(classes []int32, hold int64)) {
	for i := range j.Modes {
		f(b.byType[j.Modes[i].Type], j.Modes[i].DurationUs())
	}
	if !j.Mix || len(j.Modes) < 2 {
		return
	}
	modes := append([]hare.Mode(nil), j.Modes...)
	for i := 1; i < len(modes); i++ {
		for k := i; k > 0 && modes[k].DurationUs() < modes[k-1].DurationUs(); k-- {
			modes[k], modes[k-1] = modes[k-1], modes[k]
		}
	}
	classes := append([]int32(nil), b.byType[modes[0].Type]...)
	for _, md := range modes[1:] {
		classes = append(classes, b.byType[md.Type]...)
		f(classes, md.DurationUs())
	}
}

// gang places all rounds of a gang job from ready on, run after run: each run
// takes the type whose next round ends first and stays while its GPUs are free,
// or until a faster type's slot is worth the move. The cost grows with the
// steps of the profiles, not with the rounds.
func (b *board) gang(j *hare.ModelJob, ready int64, out *[]Block) (end int64, ok bool) {
	first := len(*out)
	round := int64(0)
	t := ready
	for round < j.Rounds {
		var best slot
		bestEnd := never
		switchAt := never // a faster slot's start plus hold
		b.choices(j, func(classes []int32, hold int64) {
			sl, ok := b.together(classes, t, hold, int32(j.Tasks))
			if !ok {
				return
			}
			if e := sl.start + hold; e < bestEnd || e == bestEnd && hold < best.hold {
				if bestEnd != never && best.hold < hold {
					switchAt = min(switchAt, bestEnd)
				}
				best, bestEnd = sl, e
			} else if hold < best.hold {
				switchAt = min(switchAt, e)
			}
		})
		if bestEnd == never {
			b.undo(first, out)
			return 0, false
		}
		n := j.Rounds - round
		if open := b.until(&best); open != never {
			n = min(n, (open-best.start)/best.hold)
		}
		if switchAt != never {
			n = min(n, max(1, (switchAt-best.start)/best.hold))
		}
		n = max(n, 1)
		for i := range best.parts {
			x := Block{Class: best.parts[i].Class, Width: best.parts[i].Width, Tasks: 1, Round: round, Rounds: n,
				StartUs: best.start, PeriodUs: best.hold, HoldUs: best.hold}
			b.take(&x)
			*out = append(*out, x)
		}
		round += n
		t = best.start + n*best.hold
	}
	return t, true
}

// rigid places the whole block of a rigid job where it ends first.
func (b *board) rigid(j *hare.ModelJob, ready int64, out *[]Block) (end int64, ok bool) {
	var best slot
	end = never
	var hold int64
	for i := range j.Modes {
		d := j.Modes[i].DurationUs()
		sl, ok := b.together(b.byType[j.Modes[i].Type], ready, d*j.Rounds, int32(j.Tasks))
		if ok && sl.start+d*j.Rounds < end {
			best, end, hold = sl, sl.start+d*j.Rounds, d
		}
	}
	if end == never {
		return 0, false
	}
	for i := range best.parts {
		x := Block{Class: best.parts[i].Class, Width: best.parts[i].Width, Tasks: 1, Rounds: j.Rounds,
			StartUs: best.start, PeriodUs: hold, HoldUs: hold}
		b.take(&x)
		*out = append(*out, x)
	}
	return end, true
}

// reset empties b, whose profiles are those of empty then.
func (b *board) reset(empty *board) {
	b.copyFrom(empty)
	if b.charge != nil {
		b.charge.rest = empty.charge.rest
	}
}

// job places all rounds of job i from ready on; its blocks replace those of
// *out from the start.
func (b *board) job(i int, out []Block) (blocks []Block, end int64, ok bool) {
	j := &b.m.Jobs[i]
	switch {
	case b.big[i]:
		end, ok = b.run(i, j.ReleaseUs, &out)
	case j.Sync == hare.Gang:
		end, ok = b.gang(j, j.ReleaseUs, &out)
	case j.Sync == hare.Rigid:
		end, ok = b.rigid(j, j.ReleaseUs, &out)
	default:
		end, ok = j.ReleaseUs, true
		for r := int64(0); r < j.Rounds && ok; r++ {
			if end, ok = b.relaxedRound(j, r, end, &out); !ok {
				b.undo(0, &out)
			}
		}
	}
	return out, end, ok
}
