package place

import (
	"cmp"
	"context"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// A list schedule leaves gaps: a round that was placed early may keep others from a better place. Justification
// shifts all jobs late and then early again, in the order of the plan, and so closes gaps without a search. After
// Valls, Ballestín and Quintanilla, "Justification and RCPSP: a technique that pays" (European J. Operational
// Research 165, 2005); what departs from it is that only relaxed jobs that are placed round by round are shifted
// late, and that a job keeps its place where shifting would end it later.

// Justify is double justification: it shifts every relaxed job that is placed round by
// round right, in order of falling C and so that the job still ends by its C; then it
// shifts every job left, in order of start. No C_j grows. p and its blocks change in
// place, and the residual capacity must hold p. When ctx ends, justify stops between two
// jobs.
func (res *Residual) Justify(ctx context.Context, p *Plan) {
	n := len(res.m.Jobs)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(p.EndUs[y], p.EndUs[x]) })
	for _, i := range order {
		if ctx.Err() != nil {
			return
		}
		if res.m.Jobs[i].Sync == hare.Relaxed && !res.Big[i] {
			res.justifyRight(p, i)
		}
	}
	res.JustifyAllLeft(ctx, p)
}

// JustifyAllLeft shifts every job left, in order of start, until ctx ends.
func (res *Residual) JustifyAllLeft(ctx context.Context, p *Plan) {
	n := len(res.m.Jobs)
	order, start := make([]int, n), make([]int64, n)
	for i := range order {
		order[i], start[i] = i, room.FirstStart(p.Jobs[i])
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(start[x], start[y]) })
	for _, i := range order {
		if ctx.Err() != nil {
			return
		}
		res.justifyLeft(p, i)
	}
}

// justifyLeft removes job i and places it again to end as early as possible. The old
// place is kept if the new one is worse.
func (res *Residual) justifyLeft(p *Plan, i int) {
	old, oldEnd := p.Jobs[i], p.EndUs[i]
	for x := range old {
		res.Release(&old[x])
	}
	blocks, end, ok := res.placeJob(i, res.spareBlocks[:0])
	if ok && end <= oldEnd {
		p.Jobs[i], p.EndUs[i], res.spareBlocks = blocks, end, old
		return
	}
	res.restore(old, blocks)
}

// restore puts the old blocks of a job back in place of new ones.
func (res *Residual) restore(old, blocks []room.Block) {
	res.spareBlocks = blocks
	for x := range blocks {
		res.Release(&blocks[x])
	}
	for x := range old {
		res.Reserve(&old[x])
	}
}

// justifyRight removes relaxed job i and places it again to start as late as possible
// and end by its C: it mirrors earliest finish, round by round from the last.
func (res *Residual) justifyRight(p *Plan, i int) {
	j := &res.m.Jobs[i]
	old := p.Jobs[i]
	for x := range old {
		res.Release(&old[x])
	}
	blocks := res.spareBlocks[:0]
	by := p.EndUs[i]
	ok := true
	for r := j.Rounds - 1; r >= 0 && ok; r-- {
		by, ok = res.placeRoundLate(j, r, by, &blocks)
	}
	if !ok || by < j.ReleaseUs {
		res.restore(old, blocks)
		return
	}
	p.Jobs[i], res.spareBlocks = blocks, old
	// The job may end before its C if no GPU is free until then.
	p.EndUs[i] = res.endOf(j, blocks)
}

// endOf returns the time at which the last of some blocks of a relaxed job has
// synchronised.
func (res *Residual) endOf(j *model.Job, blocks []room.Block) int64 {
	end := int64(0)
	for x := range blocks {
		for _, md := range j.Modes {
			if md.Type == res.m.Classes[blocks[x].Class].Type {
				end = max(end, blocks[x].EndUs()+md.SyncUs)
			}
		}
	}
	return end
}

// latestCandidate returns the candidate with the last start and, among equal starts, the
// greatest width; −1 if there is none. It mirrors earliestCandidate.
func (res *Residual) latestCandidate(cands []candidate, release int64) (best int) {
	best = -1
	from := release
	for x := range cands {
		if c := &cands[x]; c.width > 0 && (c.start > from ||
			c.start == from && (best < 0 || c.width > cands[best].width)) {
			best, from = x, c.start
		}
	}
	for x := range cands {
		c := &cands[x]
		if c.width != 0 || c.start < from {
			continue
		}
		s, n := int64(0), int32(0)
		if res.grid != nil {
			s, n = res.grid[c.class].Latest(from, c.start+c.hold, c.hold)
		} else {
			s, n = res.Profiles[c.class].Latest(from, c.start+c.hold, c.hold, 1)
		}
		if s == room.Never {
			c.start = from - 1
			continue
		}
		c.start, c.width = s, n
		if best < 0 || s > from || n > cands[best].width || n == cands[best].width && x < best {
			best, from = x, s
		}
	}
	return best
}

// placeRoundLate places one round to start as late as possible with every task
// synchronised by the time by. It returns the first start of the round.
func (res *Residual) placeRoundLate(j *model.Job, round, by int64, out *[]room.Block) (start int64, ok bool) {
	left := int32(min(j.Tasks, 1<<30))
	start = by
	cands := res.candidates(j, 0)
	for x := range cands {
		cands[x].start = by - cands[x].dur
	}
	for left > 0 {
		at := res.latestCandidate(cands, j.ReleaseUs)
		if at < 0 {
			return 0, false
		}
		c := &cands[at]
		x := room.Block{Class: c.class, Width: min(left, c.width), Tasks: 1, Round: round, Rounds: 1, StartUs: c.start,
			HoldUs: c.hold}
		res.Reserve(&x)
		*out = append(*out, x)
		left -= x.Width
		c.width -= x.Width
		start = min(start, c.start)
	}
	return start, true
}
