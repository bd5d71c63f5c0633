package greedy

import (
	"cmp"
	"context"
	"slices"

	"github.com/hare-sched/hare"
)

// justify pushes every relaxed job that is placed round by round late, in order of falling C, each
// to end by its C, and then every job early, in order of start. C_j never
// grows (notes: double justification). The plan is changed in place; the board
// must hold it. When ctx ends it stops between two jobs.
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
	start := make([]int64, n)
	for i := range start {
		start[i] = firstStart(p.Jobs[i])
	}
	for i := range order {
		order[i] = i
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
	blocks, end, ok := b.job(i, make([]Block, 0, len(old)))
	if ok && end <= oldEnd {
		p.Jobs[i], p.EndUs[i] = blocks, end
		return
	}
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
	blocks := make([]Block, 0, len(old))
	by := p.EndUs[i]
	ok := true
	for r := j.Rounds - 1; r >= 0 && ok; r-- {
		by, ok = b.lateRound(j, r, by, &blocks)
	}
	if !ok || by < j.ReleaseUs {
		for x := range blocks {
			b.give(&blocks[x])
		}
		for x := range old {
			b.take(&old[x])
		}
		return
	}
	p.Jobs[i] = blocks
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

// lateRound places one round to start as late as possible with every task
// synchronised by the time by; it returns the round's first start.
func (b *board) lateRound(j *hare.ModelJob, round, by int64, out *[]Block) (start int64, ok bool) {
	left := int32(j.Tasks)
	start = by
	for left > 0 {
		bestClass, bestCount := int32(-1), int32(0)
		bestStart := int64(-1)
		var bestHold int64
		for i := range j.Modes {
			md := &j.Modes[i]
			if by-md.SyncUs-md.ComputeUs <= bestStart {
				continue
			}
			for _, c := range b.byType[md.Type] {
				s, n := b.profiles[c].latest(max(j.ReleaseUs, bestStart), by-md.SyncUs, md.ComputeUs, 1)
				if s != never && (s > bestStart || s == bestStart && n > bestCount) {
					bestClass, bestCount, bestStart, bestHold = c, n, s, md.ComputeUs
				}
			}
		}
		if bestClass < 0 {
			return 0, false
		}
		x := Block{Class: bestClass, Width: min(left, bestCount), Tasks: 1, Round: round, Rounds: 1, StartUs: bestStart, HoldUs: bestHold}
		b.take(&x)
		*out = append(*out, x)
		left -= x.Width
		start = min(start, bestStart)
	}
	return start, true
}
