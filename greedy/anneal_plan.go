package greedy

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/hare-sched/hare"
)

// adopt reads the order and the plans of start's jobs: by first start, then
// end. It reports false when a job runs where the search would not put it.
func (p *annealProblem) adopt() (order []int32, plan []jobPlan, ok bool) {
	plan = make([]jobPlan, len(p.jobs))
	first := make([]int64, len(p.jobs))
	for i := range p.jobs {
		j := &p.jobs[i]
		blocks := p.start.Jobs[j.index]
		if len(blocks) == 0 {
			return nil, nil, false
		}
		first[i] = blocks[0].StartUs
		plan[i] = p.planOf(j, blocks)
		for _, k := range plan[i].uses() {
			if j.dur[k] == 0 {
				return nil, nil, false
			}
		}
		order = append(order, int32(i))
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(first[a], first[b]),
			cmp.Compare(p.start.EndUs[p.jobs[a].index], p.start.EndUs[p.jobs[b].index]))
	})
	return order, plan, true
}

// planOf is a plan that comes close to blocks.
func (p *annealProblem) planOf(j *annealJob, blocks []Block) jobPlan {
	var types []int16
	moves, gaps := 0, false
	until := blocks[0].StartUs
	for i := range blocks {
		b := &blocks[i]
		k := int16(p.m.Classes[b.Class].Type)
		if i > 0 && b.StartUs != blocks[i-1].StartUs {
			if last := p.m.Classes[blocks[i-1].Class].Type; int(k) != last {
				moves++
			} else {
				gaps = gaps || b.StartUs > until
			}
		}
		until = b.endUs()
		if !slices.Contains(types, k) {
			types = append(types, k)
		}
	}
	switch {
	case len(types) == 1 && (!gaps || j.rigid):
		return wholeOn(types[0])
	case len(types) == 2 && moves == 1 && !gaps:
		s := jobPlan{kind: split, n: 2, types: [maxSet]int16{types[0], types[1]}}
		for i := range blocks {
			if p.m.Classes[blocks[i].Class].Type != int(types[0]) {
				s.rounds = blocks[i].Round
				return s
			}
		}
	}
	return chainOver(types...)
}

// plan turns a decoded state into blocks on classes.
func (d *decoder) blocks() *Plan {
	p := d.p
	out := &Plan{Jobs: make([][]Block, len(p.m.Jobs)), EndUs: make([]int64, len(p.m.Jobs))}
	for _, i := range p.fixed {
		out.Jobs[i], out.EndUs[i] = p.start.Jobs[i], p.start.EndUs[i]
	}
	byPool := make([][][]pooled, len(p.pools))
	at := make([]int32, len(p.m.Classes))
	for k, pools := range p.pools {
		byPool[k] = make([][]pooled, len(pools))
		for i, pl := range pools {
			for _, c := range pl.classes {
				at[c] = int32(i)
			}
		}
	}
	for i := range p.jobs {
		j := &p.jobs[i]
		out.EndUs[j.index] = d.end[i]
		for _, s := range d.segs[i] {
			hold := j.dur[s.typ]
			b := Block{Width: s.width, Tasks: 1, Round: s.round, Rounds: s.rounds, StartUs: s.start, PeriodUs: hold, HoldUs: hold}
			byPool[s.typ][s.pool] = append(byPool[s.typ][s.pool], pooled{j.index, b})
		}
	}
	// Jobs that stay give up their GPUs for others of the same pool.
	for _, i := range p.fixed {
		out.Jobs[i] = nil
		for _, b := range p.start.Jobs[i] {
			k := p.m.Classes[b.Class].Type
			byPool[k][at[b.Class]] = append(byPool[k][at[b.Class]], pooled{i, b})
		}
	}
	for k := range byPool {
		for i := range byPool[k] {
			giveClasses(p.m, p.pools[k][i].classes, byPool[k][i], out)
		}
	}
	for _, blocks := range out.Jobs {
		slices.SortStableFunc(blocks, func(a, b Block) int {
			return cmp.Or(cmp.Compare(a.Round, b.Round), cmp.Compare(a.StartUs, b.StartUs), cmp.Compare(a.Class, b.Class))
		})
	}
	return out
}

// pooled is a block whose class is still open.
type pooled struct {
	job int
	Block
}

// giveClasses splits blocks over the classes of their pool, in order of start:
// whatever is free at a block's start stays free until its end. It prefers the
// class that came last into service, which serves fewer blocks.
func giveClasses(m *hare.Model, classes []int32, blocks []pooled, out *Plan) {
	slices.SortStableFunc(blocks, func(a, b pooled) int { return cmp.Compare(a.StartUs, b.StartUs) })
	free := make([]int32, len(classes))
	for i, c := range classes {
		free[i] = int32(len(m.Classes[c].GPUs))
	}
	var busy releases
	for _, b := range blocks {
		for len(busy) > 0 && busy[0].end <= b.StartUs {
			x := heap.Pop(&busy).(giveBack)
			free[x.class] += x.width
		}
		left := b.Width
		for i := len(classes) - 1; i >= 0 && left > 0; i-- {
			c := classes[i]
			if m.Classes[c].Windows[0].StartUs > b.StartUs {
				continue
			}
			if x := min(left, free[i]); x > 0 {
				part := b.Block
				part.Class, part.Width = c, x
				out.Jobs[b.job] = append(out.Jobs[b.job], part)
				free[i] -= x
				left -= x
				heap.Push(&busy, giveBack{b.endUs(), int32(i), x})
			}
		}
	}
}

// giveBack returns width GPUs to a class of a pool.
type giveBack struct {
	end          int64
	class, width int32
}

// releases is a heap by time, then class.
type releases []giveBack

func (h releases) Len() int { return len(h) }
func (h releases) Less(a, b int) bool {
	return h[a].end < h[b].end || h[a].end == h[b].end && h[a].class < h[b].class
}
func (h releases) Swap(a, b int) { h[a], h[b] = h[b], h[a] }
func (h *releases) Push(x any)   { *h = append(*h, x.(giveBack)) }
func (h *releases) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
