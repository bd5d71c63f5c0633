package search

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// A decoded state says how many GPUs of a type a job has from when to when. Here these become blocks on classes: the
// sums that decoding counts in a pool are divided among the classes of the pool. Since they are within its capacity
// at each time, first fit in order of start finds GPUs for all (interval colouring). Where nodes matter, decoding has
// chosen the nodes already.

// toPlan turns the decoded state into blocks on classes.
func (dec *decoder) toPlan() *place.Plan {
	p := dec.p
	out := &place.Plan{Jobs: make([][]room.Block, len(p.m.Jobs)), EndUs: make([]int64, len(p.m.Jobs))}
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
			for _, c := range pl.Classes {
				at[c] = int32(i)
			}
		}
	}
	for i := range p.jobs {
		j := &p.jobs[i]
		out.EndUs[j.Index] = dec.end[i]
		for _, s := range dec.segments[i] {
			hold := j.Form(s.Shape).Dur[s.Type]
			b := room.Block{Width: int32(s.Width), Tasks: 1, Round: s.Round, Rounds: s.Rounds, StartUs: s.Start, PeriodUs: hold,
				HoldUs: hold}
			byPool[s.Type][s.Pool] = append(byPool[s.Type][s.Pool], poolBlock{j.Index, b})
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
			assignClasses(p.m, p.pools[k][i].Classes, byPool[k][i], out)
		}
	}
	for _, blocks := range out.Jobs {
		slices.SortStableFunc(blocks, func(a, b room.Block) int {
			return cmp.Or(cmp.Compare(a.Round, b.Round), cmp.Compare(a.StartUs, b.StartUs),
				cmp.Compare(a.Class, b.Class))
		})
	}
	return out
}

// toPlanOnNodes turns the decoded state into blocks on nodes.
func (dec *decoder) toPlanOnNodes(out *place.Plan) {
	p := dec.p
	for i := range p.jobs {
		j := &p.jobs[i]
		out.EndUs[j.Index] = dec.end[i]
		for x := range dec.segments[i] {
			out.Jobs[j.Index] = append(out.Jobs[j.Index], p.nodes.BlockOf(&dec.segments[i][x]))
		}
	}
}

// poolBlock is a block that has a pool but not yet a class.
type poolBlock struct {
	job int
	room.Block
}

// assignClasses splits blocks over the classes of their pool, in order of start: a GPU
// that is free at a block's start stays free until the block's end. The class that came
// last into service is preferred, because it can serve fewer blocks.
func assignClasses(m *model.Model, classes []int32, blocks []poolBlock, out *place.Plan) {
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
				heap.Push(&busy, releaseEvent{b.EndUs(), int32(i), x})
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

// markShapes fills in the shapes of a plan.
func (dec *decoder) markShapes(out *place.Plan) {
	if !slices.ContainsFunc(dec.p.jobs, func(a room.Job) bool { return a.Forms != nil }) {
		return
	}
	out.Shapes = slices.Clone(out.Shapes)
	changes, changed := make([]place.ShapeChange, len(dec.p.m.Jobs)), false
	for i := range dec.p.jobs {
		a, plan := &dec.p.jobs[i], &dec.plan[i]
		if a.Forms == nil {
			continue
		}
		out.Shapes[a.Index] = int32(plan.Shape)
		if plan.Then != plan.Shape {
			changes[a.Index], changed = place.ShapeChange{Round: plan.Rounds, Shape: int32(plan.Then)}, true
		}
	}
	if out.Changes = nil; changed {
		out.Changes = changes
	}
}
