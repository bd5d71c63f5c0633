package greedy

import (
	"cmp"
	"context"
	"slices"

	"github.com/hare-sched/hare"
)

// justify pushes every relaxed job that is placed round by round late, in order
// of falling C, each to end by its C, and then every job early, in order of
// start. C_j never
// grows (notes: double justification). The plan is changed in place, its blocks
// too; the board must hold it. When ctx ends it stops between two jobs.
func (b *board) justify(ctx context.Context, p *Plan) {
	n := len(b.m.Jobs)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(p.EndUs[y], p.EndUs[x]) })
	for _, i := range order {
		if ctx.Err() != nil {
			return
		}
		if b.m.Jobs[i].Sync == hare.Relaxed && !b.big[i] {
			b.late(p, i)
		}
	}
	b.allEarly(ctx, p)
}

// allEarly starts every job early, in order of start, until ctx ends.
func (b *board) allEarly(ctx context.Context, p *Plan) {
	n := len(b.m.Jobs)
	order, start := make([]int, n), make([]int64, n)
	for i := range order {
		order[i], start[i] = i, firstStart(p.Jobs[i])
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(start[x], start[y]) })
	for _, i := range order {
		if ctx.Err() != nil {
			return
		}
		b.early(p, i)
	}
}

func firstStart(blocks []Block) int64 {
	s := never
	for i := range blocks {
		s = min(s, blocks[i].StartUs)
	}
	return s
}

// early takes job i out and puts it back to end as early as possible; what it
// had stays where that is no worse.
func (b *board) early(p *Plan, i int) {
	old, oldEnd := p.Jobs[i], p.EndUs[i]
	for x := range old {
		b.give(&old[x])
	}
	blocks, end, ok := b.job(i, b.spare[:0])
	if ok && end <= oldEnd {
		p.Jobs[i], p.EndUs[i], b.spare = blocks, end, old
		return
	}
	b.restore(old, blocks)
}

// restore puts the old blocks of a job back in place of new ones.
func (b *board) restore(old, blocks []Block) {
	b.spare = blocks
	for x := range blocks {
		b.give(&blocks[x])
	}
	for x := range old {
		b.take(&old[x])
	}
}

// late takes relaxed job i out and puts it back to start as late as possible,
// ending by its C: the mirror of earliest finish, round by round from the last.
func (b *board) late(p *Plan, i int) {
	j := &b.m.Jobs[i]
	old := p.Jobs[i]
	for x := range old {
		b.give(&old[x])
	}
	blocks := b.spare[:0]
	by := p.EndUs[i]
	ok := true
	for r := j.Rounds - 1; r >= 0 && ok; r-- {
		by, ok = b.lateRound(j, r, by, &blocks)
	}
	if !ok || by < j.ReleaseUs {
		b.restore(old, blocks)
		return
	}
	p.Jobs[i], b.spare = blocks, old
	// It may end before its C, where no GPU is free until then.
	p.EndUs[i] = b.endOf(j, blocks)
}

// endOf is when the last of some blocks of a relaxed job has synchronised.
func (b *board) endOf(j *hare.ModelJob, blocks []Block) int64 {
	end := int64(0)
	for x := range blocks {
		for _, md := range j.Modes {
			if md.Type == b.m.Classes[blocks[x].Class].Type {
				end = max(end, blocks[x].endUs()+md.SyncUs)
			}
		}
	}
	return end
}

// last is the candidate with the last start, of those that start together the
// widest; −1 where there is none. It is the mirror of first.
func (b *board) last(cands []cand, release int64) (best int) {
	best = -1
	from := release
	for x := range cands {
		if c := &cands[x]; c.width > 0 && (c.at > from || c.at == from && (best < 0 || c.width > cands[best].width)) {
			best, from = x, c.at
		}
	}
	for x := range cands {
		c := &cands[x]
		if c.width != 0 || c.at < from {
			continue
		}
		s, n := int64(0), int32(0)
		if b.grid != nil {
			s, n = b.grid[c.class].latest(from, c.at+c.hold, c.hold)
		} else {
			s, n = b.profiles[c.class].latest(from, c.at+c.hold, c.hold, 1)
		}
		if s == never {
			c.at = from - 1
			continue
		}
		c.at, c.width = s, n
		if best < 0 || s > from || n > cands[best].width || n == cands[best].width && x < best {
			best, from = x, s
		}
	}
	return best
}

// lateRound places one round to start as late as possible with every task
// synchronised by the time by; it returns the round's first start.
func (b *board) lateRound(j *hare.ModelJob, round, by int64, out *[]Block) (start int64, ok bool) {
	left := int32(min(j.Tasks, 1<<30))
	start = by
	cands := b.candidates(j, 0)
	for x := range cands {
		cands[x].at = by - cands[x].dur
	}
	for left > 0 {
		at := b.last(cands, j.ReleaseUs)
		if at < 0 {
			return 0, false
		}
		c := &cands[at]
		x := Block{Class: c.class, Width: min(left, c.width), Tasks: 1, Round: round, Rounds: 1, StartUs: c.at, HoldUs: c.hold}
		b.take(&x)
		*out = append(*out, x)
		left -= x.Width
		c.width -= x.Width
		start = min(start, c.at)
	}
	return start, true
}
