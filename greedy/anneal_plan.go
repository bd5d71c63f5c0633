package greedy

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/hare-sched/hare/model"
)

// encodeStart reads a state from start: the jobs sorted by first start, then end, and a
// plan for each. It returns false if a job runs where the search would not put it.
func (ap *annealProblem) encodeStart() (order []int32, plan []jobPlan, ok bool) {
	plan = make([]jobPlan, len(ap.jobs))
	first := make([]int64, len(ap.jobs))
	for i := range ap.jobs {
		j := &ap.jobs[i]
		blocks := ap.start.Jobs[j.index]
		if len(blocks) == 0 {
			return nil, nil, false
		}
		first[i] = blocks[0].StartUs
		plan[i] = ap.planOf(j, blocks)
		for _, k := range plan[i].uses() {
			if plan[i].then == plan[i].shape && j.form(plan[i].shape).dur[k] == 0 {
				return nil, nil, false
			}
		}
		if p := &plan[i]; p.then != p.shape {
			if j.form(p.shape).dur[p.types[0]] == 0 || j.form(p.then).dur[p.types[1]] == 0 {
				return nil, nil, false
			}
		}
		order = append(order, int32(i))
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(first[a], first[b]),
			cmp.Compare(ap.start.EndUs[ap.jobs[a].index], ap.start.EndUs[ap.jobs[b].index]))
	})
	return order, plan, true
}

// planOf returns a plan that comes close to blocks.
func (ap *annealProblem) planOf(j *annealJob, blocks []Block) jobPlan {
	if j.forms != nil {
		shape := uint8(ap.start.Shapes[j.index])
		if c := ap.start.change(j.index); c.Round > 0 {
			first, last := ap.m.Classes[blocks[0].Class].Type, ap.m.Classes[blocks[len(blocks)-1].Class].Type
			return reshapedOn(int16(first), int16(last), shape, uint8(c.Shape), c.Round)
		}
		return ap.planOfShape(j.form(shape), blocks).in(shape)
	}
	return ap.planOfShape(j, blocks)
}

// planOfShape is planOf for a job that keeps its shape.
func (ap *annealProblem) planOfShape(j *annealJob, blocks []Block) jobPlan {
	var types []int16
	moves, gaps := 0, false
	until := blocks[0].StartUs
	for i := range blocks {
		b := &blocks[i]
		k := int16(ap.m.Classes[b.Class].Type)
		if i > 0 && b.StartUs != blocks[i-1].StartUs {
			if last := ap.m.Classes[blocks[i-1].Class].Type; int(k) != last {
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
	case (len(types) == 1 || ap.nodes != nil && ap.nodes.coupled) && (!gaps || j.rigid):
		return contiguousOn(types[0])
	case len(types) == 2 && moves == 1 && !gaps:
		s := jobPlan{kind: split, n: 2, types: [maxSet]int16{types[0], types[1]}}
		for i := range blocks {
			if ap.m.Classes[blocks[i].Class].Type == int(types[0]) {
				continue
			}
			if s.rounds = blocks[i].Round; s.rounds > blocks[0].Round {
				return s
			}
			break // the first round mixes both types
		}
	}
	if ap.nodes != nil && ap.nodes.coupled {
		types = types[:1]
	}
	return roundByRoundOver(types...)
}

// toPlan turns the decoded state into blocks on classes.
func (dec *decoder) toPlan() *Plan {
	p := dec.p
	out := &Plan{Jobs: make([][]Block, len(p.m.Jobs)), EndUs: make([]int64, len(p.m.Jobs))}
	for _, i := range p.fixed {
		out.Jobs[i], out.EndUs[i] = p.start.Jobs[i], p.start.EndUs[i]
	}
	for _, i := range p.done {
		out.EndUs[i] = p.m.Jobs[i].RunsUntilUs
	}
	if p.start != nil {
		out.Shapes = p.start.Shapes
	}
	dec.markShapes(out)
	if p.nodes != nil {
		dec.toPlanOnNodes(out)
		return out
	}
	byPool := make([][][]poolBlock, len(p.pools))
	at := make([]int32, len(p.m.Classes))
	for k, pools := range p.pools {
		byPool[k] = make([][]poolBlock, len(pools))
		for i, pl := range pools {
			for _, c := range pl.classes {
				at[c] = int32(i)
			}
		}
	}
	for i := range p.jobs {
		j := &p.jobs[i]
		out.EndUs[j.index] = dec.end[i]
		for _, s := range dec.segments[i] {
			hold := j.form(s.shape).dur[s.typ]
			b := Block{Width: int32(s.width), Tasks: 1, Round: s.round, Rounds: s.rounds, StartUs: s.start, PeriodUs: hold,
				HoldUs: hold}
			byPool[s.typ][s.pool] = append(byPool[s.typ][s.pool], poolBlock{j.index, b})
		}
	}
	// Fixed jobs may exchange their GPUs for others of the same pool.
	for _, i := range p.fixed {
		out.Jobs[i] = nil
		for _, b := range p.start.Jobs[i] {
			k := p.m.Classes[b.Class].Type
			byPool[k][at[b.Class]] = append(byPool[k][at[b.Class]], poolBlock{i, b})
		}
	}
	for k := range byPool {
		for i := range byPool[k] {
			assignClasses(p.m, p.pools[k][i].classes, byPool[k][i], out)
		}
	}
	for _, blocks := range out.Jobs {
		slices.SortStableFunc(blocks, func(a, b Block) int {
			return cmp.Or(cmp.Compare(a.Round, b.Round), cmp.Compare(a.StartUs, b.StartUs),
				cmp.Compare(a.Class, b.Class))
		})
	}
	return out
}

// toPlanOnNodes turns the decoded state into blocks on nodes.
func (dec *decoder) toPlanOnNodes(out *Plan) {
	p := dec.p
	for i := range p.jobs {
		j := &p.jobs[i]
		out.EndUs[j.index] = dec.end[i]
		for x := range dec.segments[i] {
			out.Jobs[j.index] = append(out.Jobs[j.index], p.nodes.blockOf(&dec.segments[i][x]))
		}
	}
}

// poolBlock is a block that has a pool but not yet a class.
type poolBlock struct {
	job int
	Block
}

// assignClasses splits blocks over the classes of their pool, in order of start: a GPU
// that is free at a block's start stays free until the block's end. The class that came
// last into service is preferred, because it can serve fewer blocks.
func assignClasses(m *model.Model, classes []int32, blocks []poolBlock, out *Plan) {
	slices.SortStableFunc(blocks, func(a, b poolBlock) int { return cmp.Compare(a.StartUs, b.StartUs) })
	free := make([]int32, len(classes))
	for i, c := range classes {
		free[i] = int32(len(m.Classes[c].GPUs))
	}
	var busy releaseHeap
	for _, b := range blocks {
		for len(busy) > 0 && busy[0].end <= b.StartUs {
			x := heap.Pop(&busy).(releaseEvent)
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
				heap.Push(&busy, releaseEvent{b.endUs(), int32(i), x})
			}
		}
	}
}

// releaseEvent says that width GPUs of a class of the pool become free at end.
type releaseEvent struct {
	end          int64
	class, width int32
}

// releaseHeap is a heap ordered by time, then class.
type releaseHeap []releaseEvent

func (rh releaseHeap) Len() int { return len(rh) }
func (rh releaseHeap) Less(a, b int) bool {
	return rh[a].end < rh[b].end || rh[a].end == rh[b].end && rh[a].class < rh[b].class
}
func (rh releaseHeap) Swap(a, b int) { rh[a], rh[b] = rh[b], rh[a] }
func (rh *releaseHeap) Push(x any)   { *rh = append(*rh, x.(releaseEvent)) }
func (rh *releaseHeap) Pop() any {
	old := *rh
	x := old[len(old)-1]
	*rh = old[:len(old)-1]
	return x
}
