package place

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// Residual is the residual capacity of a model while a schedule is built: profiles, or
// time grids if times are coarse.
type Residual struct {
	m                *model.Model
	Profiles         []*room.Profile   // by class; nil with time grids
	grid             []*room.Grid      // by class; nil with profiles
	byType           [][]int32         // the classes of each type
	Big              []bool            // by job: whether it is relaxed and placed as runs
	costs            *opportunityCosts // nil without big jobs
	candidatesBuffer []candidate       // scratch
	reservations     []reservation     // scratch
	cheapest         []int             // scratch
	spareBlocks      []room.Block      // scratch
}

// NewRunResidual returns the whole capacity of m, where big marks the jobs that are placed as runs.
func NewRunResidual(m *model.Model, big []bool) *Residual {
	res := &Residual{m: m, byType: classesOf(m), Big: big}
	if slices.Contains(big, true) {
		res.costs = newOpportunityCosts(m, 1)
	}
	for c := range m.Classes {
		res.Profiles = append(res.Profiles, room.NewProfile(&m.Classes[c]))
	}
	return res
}

// NewGridResidual is the whole capacity in time grids of up to limit units of time. It can
// place only rounds of relaxed jobs.
func NewGridResidual(m *model.Model, limit int64) *Residual {
	res := &Residual{m: m, byType: classesOf(m), Big: make([]bool, len(m.Jobs))}
	for c := range m.Classes {
		res.grid = append(res.grid, room.NewGrid(&m.Classes[c], limit))
	}
	return res
}

func classesOf(m *model.Model) [][]int32 {
	by := make([][]int32, len(m.Types))
	for c := range m.Classes {
		by[m.Classes[c].Type] = append(by[m.Classes[c].Type], int32(c))
	}
	return by
}

// NewLike returns a residual of the same kind as like. It must be reset before use.
func (res *Residual) NewLike() *Residual {
	like := &Residual{m: res.m, byType: res.byType, Big: res.Big}
	if res.costs != nil {
		like.costs = newOpportunityCosts(res.m, 1)
	}
	for range res.Profiles {
		like.Profiles = append(like.Profiles, &room.Profile{})
	}
	for range res.grid {
		like.grid = append(like.grid, &room.Grid{})
	}
	return like
}

func (res *Residual) copyFrom(o *Residual) {
	for c := range res.Profiles {
		res.Profiles[c].CopyFrom(o.Profiles[c])
	}
	for c := range res.grid {
		res.grid[c].CopyFrom(o.grid[c])
	}
}

// ReservePlan takes the GPUs of all blocks of a plan.
func (res *Residual) ReservePlan(p *Plan) {
	for i := range p.Jobs {
		for x := range p.Jobs[i] {
			res.Reserve(&p.Jobs[i][x])
		}
	}
}

// Reserve takes the GPUs of a block.
func (res *Residual) Reserve(x *room.Block) { res.change(x, -x.Width) }

// Release frees the GPUs of a block.
func (res *Residual) Release(x *room.Block) { res.change(x, x.Width) }

func (res *Residual) change(x *room.Block, n int32) {
	// The GPUs of a run are also held between its rounds.
	if res.grid != nil {
		res.grid[x.Class].Add(x.StartUs, x.EndUs(), n)
		return
	}
	res.Profiles[x.Class].Add(x.StartUs, x.EndUs(), n)
}

// candidate is the next place in a class for a task of a round.
type candidate struct {
	class, mode int32
	hold, dur   int64
	// If width > 0, start is the first start of the class, with width free GPUs. If width is
	// 0, there is no start before start. In placeRoundLate, start is the last start, or
	// there is none after it.
	start int64
	width int32
}

// candidates lists the classes that serve j in a buffer; none of them is searched yet.
func (res *Residual) candidates(j *model.Job, ready int64) []candidate {
	cands := res.candidatesBuffer[:0]
	for i := range j.Modes {
		md := &j.Modes[i]
		for _, c := range res.byType[md.Type] {
			cands = append(cands, candidate{class: c, mode: int32(i), hold: md.ComputeUs, dur: md.DurationUs(),
				start: ready})
		}
	}
	res.candidatesBuffer = cands
	return cands
}

// earliestCandidate returns the candidate whose next task ends first and, among equal
// ends, the greatest width; −1 if there is none. What was found for a class holds until
// GPUs are taken from it: its width falls, and at 0 the class is searched again.
func (res *Residual) earliestCandidate(cands []candidate) (best int) {
	best = -1
	bestEnd := room.Never
	for x := range cands {
		if c := &cands[x]; c.width > 0 && (c.start+c.dur < bestEnd || c.start+c.dur == bestEnd &&
			c.width > cands[best].width) {
			best, bestEnd = x, c.start+c.dur
		}
	}
	for x := range cands {
		c := &cands[x]
		if c.width > 0 || c.start == room.Never {
			continue
		}
		limit := room.Never
		if bestEnd != room.Never {
			if limit = bestEnd - c.dur; limit < c.start {
				continue
			}
		}
		s, n := int64(0), int32(0)
		if res.grid != nil {
			s, n = res.grid[c.class].Earliest(c.start, limit, c.hold)
		} else {
			s, n = res.Profiles[c.class].Earliest(c.start, limit, c.hold, 1)
		}
		if s == room.Never {
			if c.start = limit; limit != room.Never {
				c.start++
			}
			continue
		}
		c.start, c.width = s, n
		if e := s + c.dur; e < bestEnd || n > cands[best].width || n == cands[best].width && x < best {
			best, bestEnd = x, e
		}
	}
	return best
}

// placeRound places the K tasks of one round as early as possible from ready on: taking
// the earliest starts of the classes in order of finish time minimises the end of the
// round. It appends the blocks to *out and returns when the round has synchronised.
func (res *Residual) placeRound(j *model.Job, round, ready int64, out *[]room.Block) (end int64, ok bool) {
	left := int32(min(j.Tasks, 1<<30))
	first := len(*out)
	end = ready
	cands := res.candidates(j, ready)
	for left > 0 {
		at := res.earliestCandidate(cands)
		if at < 0 {
			res.rollback(first, out)
			return 0, false
		}
		c := &cands[at]
		x := room.Block{Class: c.class, Width: min(left, c.width), Tasks: 1, Round: round, Rounds: 1, StartUs: c.start,
			HoldUs: c.hold}
		res.Reserve(&x)
		*out = append(*out, x)
		left -= x.Width
		c.width -= x.Width
		end = max(end, c.start+c.dur)
	}
	return end, true
}

// rollback releases the blocks of *out from first on and removes them.
func (res *Residual) rollback(first int, out *[]room.Block) {
	for i := first; i < len(*out); i++ {
		res.Release(&(*out)[i])
	}
	*out = (*out)[:first]
}

// slot is a place for K GPUs that are held together.
type slot struct {
	start, hold int64
	parts       []room.Block // only class and width are set

}

// earliestSlot finds the earliest start ≥ from at which need GPUs of the given classes
// are free for hold.
func (res *Residual) earliestSlot(classes []int32, from, hold int64, need int32) (slot, bool) {
	sl := slot{hold: hold}
	if len(classes) == 1 {
		s, _ := res.Profiles[classes[0]].Earliest(from, room.Never, hold, need)
		if s == room.Never {
			return sl, false
		}
		sl.start = s
		sl.parts = []room.Block{{Class: classes[0], Width: need}}
		return sl, true
	}
	for t := from; ; {
		left := need
		for _, c := range classes {
			left -= min(left, res.Profiles[c].MinFree(t, 1))
		}
		enough := left == 0
		left = need
		sl.parts = sl.parts[:0]
		for _, c := range classes {
			if !enough {
				break
			}
			if n := min(left, res.Profiles[c].MinFree(t, hold)); n > 0 {
				sl.parts = append(sl.parts, room.Block{Class: c, Width: n})
				left -= n
			}
		}
		if left == 0 {
			sl.start = t
			return sl, true
		}
		next := room.Never
		for _, c := range classes {
			next = min(next, res.Profiles[c].NextIncrease(t))
		}
		if next == room.Never {
			return sl, false
		}
		t = next
	}
}

// slotFreeUntil returns the time until which the slot's GPUs stay free.
func (res *Residual) slotFreeUntil(sl *slot) int64 {
	end := room.Never
	for i := range sl.parts {
		end = min(end, res.Profiles[sl.parts[i].Class].FreeUntil(sl.start, sl.parts[i].Width))
	}
	return end
}

// classSets calls f with each set of classes that a gang round may use and its hold:
// each type alone and, for a job that mixes types, the two, three, … fastest types
// together.
func (res *Residual) classSets(j *model.Job, f func(classes []int32, hold int64)) {
	for i := range j.Modes {
		f(res.byType[j.Modes[i].Type], j.Modes[i].DurationUs())
	}
	if !j.Mix || len(j.Modes) < 2 {
		return
	}
	modes := append([]model.Mode(nil), j.Modes...)
	for i := 1; i < len(modes); i++ {
		for k := i; k > 0 && modes[k].DurationUs() < modes[k-1].DurationUs(); k-- {
			modes[k], modes[k-1] = modes[k-1], modes[k]
		}
	}
	classes := append([]int32(nil), res.byType[modes[0].Type]...)
	for _, md := range modes[1:] {
		classes = append(classes, res.byType[md.Type]...)
		f(classes, md.DurationUs())
	}
}

// placeGang places all rounds of a gang job from ready on, run by run. Each run takes
// the type whose next round ends first and stays while its GPUs are free, or until a
// faster type would end the next round earlier. The cost grows with the steps of the
// profiles and not with the rounds.
func (res *Residual) placeGang(j *model.Job, ready int64, out *[]room.Block) (end int64, ok bool) {
	first := len(*out)
	round := int64(0)
	t := ready
	for round < j.Rounds {
		var best slot
		bestEnd := room.Never
		switchAt := room.Never // the earliest end of a round on a faster type
		res.classSets(j, func(classes []int32, hold int64) {
			sl, ok := res.earliestSlot(classes, t, hold, int32(j.Tasks))
			if !ok {
				return
			}
			if e := sl.start + hold; e < bestEnd || e == bestEnd && hold < best.hold {
				if bestEnd != room.Never && best.hold < hold {
					switchAt = min(switchAt, bestEnd)
				}
				best, bestEnd = sl, e
			} else if hold < best.hold {
				switchAt = min(switchAt, e)
			}
		})
		if bestEnd == room.Never {
			res.rollback(first, out)
			return 0, false
		}
		n := j.Rounds - round
		if open := res.slotFreeUntil(&best); open != room.Never {
			n = min(n, (open-best.start)/best.hold)
		}
		if switchAt != room.Never {
			n = min(n, max(1, (switchAt-best.start)/best.hold))
		}
		n = max(n, 1)
		for i := range best.parts {
			x := room.Block{Class: best.parts[i].Class, Width: best.parts[i].Width, Tasks: 1, Round: round, Rounds: n,
				StartUs: best.start, PeriodUs: best.hold, HoldUs: best.hold}
			res.Reserve(&x)
			*out = append(*out, x)
		}
		round += n
		t = best.start + n*best.hold
	}
	return t, true
}

// placeRigid places the whole block of a rigid job where it ends first.
func (res *Residual) placeRigid(j *model.Job, ready int64, out *[]room.Block) (end int64, ok bool) {
	var best slot
	end = room.Never
	var hold int64
	for i := range j.Modes {
		d := j.Modes[i].DurationUs()
		sl, ok := res.earliestSlot(res.byType[j.Modes[i].Type], ready, d*j.Rounds, int32(j.Tasks))
		if ok && sl.start+d*j.Rounds < end {
			best, end, hold = sl, sl.start+d*j.Rounds, d
		}
	}
	if end == room.Never {
		return 0, false
	}
	for i := range best.parts {
		x := room.Block{Class: best.parts[i].Class, Width: best.parts[i].Width, Tasks: 1, Rounds: j.Rounds,
			StartUs: best.start, PeriodUs: hold, HoldUs: hold}
		res.Reserve(&x)
		*out = append(*out, x)
	}
	return end, true
}

// Reset makes the residual equal to empty.
func (res *Residual) Reset(empty *Residual) {
	res.copyFrom(empty)
	if res.costs != nil {
		res.costs.rest = empty.costs.rest
	}
}

// placeJob places all rounds of job i from its release on. It replaces the contents of
// out by the job's blocks.
func (res *Residual) placeJob(i int, out []room.Block) (blocks []room.Block, end int64, ok bool) {
	j := &res.m.Jobs[i]
	switch {
	case res.Big[i]:
		end, ok = res.placeRuns(i, j.ReleaseUs, &out)
	case j.Sync == hare.Gang:
		end, ok = res.placeGang(j, j.ReleaseUs, &out)
	case j.Sync == hare.Rigid:
		end, ok = res.placeRigid(j, j.ReleaseUs, &out)
	default:
		end, ok = j.ReleaseUs, true
		for r := int64(0); r < j.Rounds && ok; r++ {
			if end, ok = res.placeRound(j, r, end, &out); !ok {
				res.rollback(0, &out)
			}
		}
	}
	return out, end, ok
}

// PlaceTail places the rounds of job i from round on early; the rounds before are at
// kept, which the residual capacity holds. It returns false, with kept still reserved,
// if there is no place.
func (res *Residual) PlaceTail(i int, round int64, kept []room.Block) (blocks []room.Block, end int64, ok bool) {
	j := &res.m.Jobs[i]
	end = j.ReleaseUs
	for x := range kept {
		e := kept[x].EndUs()
		if j.Sync == hare.Relaxed {
			for k := range j.Modes {
				if j.Modes[k].Type == res.m.Classes[kept[x].Class].Type {
					e += j.Modes[k].SyncUs
				}
			}
		}
		end = max(end, e)
	}
	blocks = kept
	if j.Sync == hare.Relaxed {
		for r := round; r < j.Rounds; r++ {
			if end, ok = res.placeRound(j, r, end, &blocks); !ok {
				res.rollback(len(kept), &blocks)
				return nil, 0, false
			}
		}
		return blocks, end, true
	}
	rest := *j
	rest.Rounds -= round
	var more []room.Block
	if end, ok = res.placeGang(&rest, end, &more); !ok {
		return nil, 0, false
	}
	for _, x := range more {
		x.Round += round
		blocks = append(blocks, x)
	}
	return blocks, end, true
}
