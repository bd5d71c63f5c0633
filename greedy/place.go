package greedy

import (
	"slices"

	"github.com/hare-sched/hare"
)

// board is the free capacity of a model while a schedule is built.
type board struct {
	m        *hare.Model
	profiles []*profile // by class
	byType   [][]int32  // classes of a type
	big      []bool     // by job: relaxed, and placed as runs
	charge   *charges   // nil without big jobs
	offers   []offer    // scratch
	cheap    []int      // scratch
}

// newBoard is the whole capacity of m, without big jobs.
func newBoard(m *hare.Model) *board { return newRunBoard(m, make([]bool, len(m.Jobs))) }

// newRunBoard is newBoard where big marks the jobs placed as runs.
func newRunBoard(m *hare.Model, big []bool) *board {
	b := &board{m: m, byType: make([][]int32, len(m.Types)), big: big}
	if slices.Contains(big, true) {
		b.charge = newCharges(m, 1)
	}
	for c := range m.Classes {
		b.profiles = append(b.profiles, newProfile(&m.Classes[c]))
		b.byType[m.Classes[c].Type] = append(b.byType[m.Classes[c].Type], int32(c))
	}
	return b
}

func (b *board) copyFrom(o *board) {
	for c := range b.profiles {
		b.profiles[c].copyFrom(o.profiles[c])
	}
}

// take holds the GPUs of a block, give frees them.
func (b *board) take(x *Block) { b.change(x, -x.Width) }
func (b *board) give(x *Block) { b.change(x, x.Width) }

func (b *board) change(x *Block, n int32) {
	p := b.profiles[x.Class]
	// The GPUs of a run stay with it from round to round.
	p.add(x.StartUs, x.endUs(), n)
}

// relaxedRound places the K tasks of one round as early as possible from ready
// on: the classes' earliest starts merged by finish time minimise the round's
// end. Blocks go to *out; end is when the round has synchronised.
func (b *board) relaxedRound(j *hare.ModelJob, round, ready int64, out *[]Block) (end int64, ok bool) {
	left := int32(min(j.Tasks, 1<<30))
	first := len(*out)
	end = ready
	for left > 0 {
		bestClass, bestCount := int32(-1), int32(0)
		bestStart, bestEnd := never, never
		var bestHold int64
		for i := range j.Modes {
			md := &j.Modes[i]
			for _, c := range b.byType[md.Type] {
				limit := never
				if bestEnd != never {
					limit = bestEnd - md.DurationUs()
				}
				if limit < ready {
					continue
				}
				s, n := b.profiles[c].earliest(ready, limit, md.ComputeUs, 1)
				if s == never {
					continue
				}
				if e := s + md.DurationUs(); e < bestEnd || e == bestEnd && n > bestCount {
					bestClass, bestCount, bestStart, bestEnd, bestHold = c, n, s, e, md.ComputeUs
				}
			}
		}
		if bestClass < 0 {
			for i := first; i < len(*out); i++ {
				b.give(&(*out)[i])
			}
			*out = (*out)[:first]
			return 0, false
		}
		x := Block{Class: bestClass, Width: min(left, bestCount), Tasks: 1, Round: round, Rounds: 1, StartUs: bestStart, HoldUs: bestHold}
		b.take(&x)
		*out = append(*out, x)
		left -= x.Width
		end = max(end, bestEnd)
	}
	return end, true
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
			for i := first; i < len(*out); i++ {
				b.give(&(*out)[i])
			}
			*out = (*out)[:first]
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
				for x := range out {
					b.give(&out[x])
				}
				out = out[:0]
			}
		}
	}
	return out, end, ok
}
