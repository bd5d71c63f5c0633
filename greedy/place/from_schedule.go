package place

import (
	"cmp"
	"context"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// FromSchedule reads the plan of a schedule, which must be feasible and may hold only
// some of m's jobs; jobs without entries get no blocks. Tasks that a GPU does one after
// another in a single round become blocks of their own if the job is placed round by
// round. It returns nil where a job has rounds in several shapes. The cost is O(entries log entries + tasks placed
// one by one).
func FromSchedule(m *model.Model, s *hare.Schedule) *Plan {
	if HasShapes(m) {
		shapes, rounds := roundsInShapes(m, s)
		if shapes == nil {
			return nil
		}
		p := FromSchedule(InShapes(m, shapes), rounds)
		p.Shapes = shapes
		return p
	}
	p := &Plan{Jobs: make([][]room.Block, len(m.Jobs)), EndUs: make([]int64, len(m.Jobs))}
	type place struct{ class, node int32 }
	places := make(map[string]place, len(m.GPUs))
	var nodes *room.Layout
	if m.Placed {
		nodes = room.NewLayout(m)
	}
	for i := range m.GPUs {
		g := &m.GPUs[i]
		at := place{class: int32(g.Class)}
		if nodes != nil {
			pool := nodes.PoolAt[g.Type][g.Node]
			if pool < 0 {
				continue // the GPU is never in service
			}
			at = place{nodes.Pools[g.Type][pool].Class, int32(g.Node)}
		}
		places[g.ID] = at
	}
	index := make(map[string]int, len(m.Jobs))
	for i := range m.Instance.Jobs {
		index[m.Instance.Jobs[i].ID] = i
	}
	jobs := make([]int, len(s.Jobs))
	for i, id := range s.Jobs {
		jobs[i] = index[id]
	}
	big := BigJobs(m, MaxTasksByRound)
	runs := runningJobs(m)
	for i := range s.Lanes {
		l := &s.Lanes[i]
		for x := range l.Job {
			e := l.Entry(x)
			j := jobs[e.Job]
			at := places[l.GPU]
			n := len(p.Jobs[j])
			p.addEntry(m, j, at.class, at.node, &e, !big[j] && nodes == nil && runs == nil)
			for ; runs != nil && n < len(p.Jobs[j]); n++ {
				p.Jobs[j][n].LeadUs = int64(i) // the lane, until addLeads
			}
		}
	}
	for i := range p.Jobs {
		if room.IsFixed(&m.Jobs[i]) {
			p.EndUs[i] = m.Jobs[i].RunsUntilUs
		}
		if m.Levels != nil && m.Jobs[i].Sync != hare.Relaxed {
			p.Jobs[i], p.EndUs[i] = holdBySpread(m, i, p.Jobs[i], p.EndUs[i])
		}
		if m.Jobs[i].Mix {
			holdTogether(p.Jobs[i])
		}
	}
	if runs != nil {
		byName := make(map[string]int32, len(m.GPUs))
		for g := range m.GPUs {
			byName[m.GPUs[g].ID] = runs[g]
		}
		ofLanes := make([]int32, len(s.Lanes))
		for i := range s.Lanes {
			ofLanes[i] = byName[s.Lanes[i].GPU]
		}
		p.addLeads(m, ofLanes)
	}
	for i := range p.Jobs {
		p.Jobs[i] = mergeEqualBlocks(p.Jobs[i])
	}
	return p
}

// addEntry adds the blocks of an entry on a GPU of class c to the job.
func (p *Plan) addEntry(m *model.Model, job int, c, node int32, e *hare.Entry, apart bool) {
	mj := &m.Jobs[job]
	var mode *model.Mode
	for k := range mj.Modes {
		if mj.Modes[k].Type == m.Classes[c].Type {
			mode = &mj.Modes[k]
		}
	}
	b := room.Block{Class: c, Node: node, Width: 1, Tasks: int32(e.Tasks), Round: e.Round - mj.FirstRound,
		Rounds:  e.Rounds,
		StartUs: e.StartUs, PeriodUs: e.PeriodUs, HoldUs: e.Tasks * mode.ComputeUs}
	p.EndUs[job] = max(p.EndUs[job], b.EndUs()+mode.SyncUs)
	switch {
	case mj.Sync != hare.Relaxed:
		b.HoldUs += mode.SyncUs
		if e.Rounds == 1 {
			b.PeriodUs = b.HoldUs
		}
	case apart && e.Rounds == 1:
		b.Tasks, b.HoldUs, b.PeriodUs = 1, mode.ComputeUs, 0
		for range e.Tasks - 1 {
			p.Jobs[job] = append(p.Jobs[job], b)
			b.StartUs += mode.ComputeUs
		}
	}
	p.Jobs[job] = append(p.Jobs[job], b)
}

// roundsInShapes returns the shapes of jobs in a schedule, as indices in model.Job.Shapes, and the
// schedule with rounds in place of units. Jobs without entries have their first shape. The shapes are nil
// where a job has several.
func roundsInShapes(m *model.Model, s *hare.Schedule) ([]int32, *hare.Schedule) {
	index := make(map[string]int, len(m.Jobs))
	for i := range m.Jobs {
		index[m.Instance.Jobs[i].ID] = i
	}
	shapes, seen := make([]int32, len(m.Jobs)), make([]bool, len(m.Jobs))
	out := &hare.Schedule{Jobs: s.Jobs, Lanes: slices.Clone(s.Lanes)}
	for i := range out.Lanes {
		l := &out.Lanes[i]
		l.Shape = nil
		l.Round = make([]int64, len(l.Job))
		for x := range l.Job {
			e := s.Lanes[i].Entry(x)
			j := index[s.Jobs[e.Job]]
			mj := &m.Jobs[j]
			if l.Round[x] = e.Round; mj.Shapes == nil {
				continue
			}
			at := slices.IndexFunc(mj.Shapes, func(s model.Shape) bool { return int64(s.Index) == e.Shape })
			if seen[j] && shapes[j] != int32(at) {
				return nil, nil
			}
			shapes[j], seen[j] = int32(at), true
			l.Round[x] = mj.FirstRound + (e.Round-mj.FirstRound)/mj.Shapes[at].Counts
		}
	}
	return shapes, out
}

// holdBySpread lets the blocks of job i, whose GPUs are held for the longest time, hold them as long
// as rounds take that are spread as those of the job. It cuts the blocks where the nodes of the
// rounds change, and returns when the job ends.
func holdBySpread(m *model.Model, i int, blocks []room.Block, end int64) ([]room.Block, int64) {
	j := &m.Jobs[i]
	if len(blocks) == 0 || !slices.ContainsFunc(j.Modes, func(md model.Mode) bool { return md.SyncByLevel != nil }) {
		return blocks, end
	}
	var cuts []int64
	for _, b := range blocks {
		cuts = append(cuts, b.Round, b.Round+b.Rounds)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	slices.SortFunc(blocks, func(a, b room.Block) int { return cmp.Compare(a.Round, b.Round) })
	var out, here []room.Block
	end = 0
	for c, round := range cuts[:len(cuts)-1] {
		here = slices.DeleteFunc(here, func(b room.Block) bool { return b.Round+b.Rounds <= round })
		for len(blocks) > 0 && blocks[0].Round == round {
			here, blocks = append(here, blocks[0]), blocks[1:]
		}
		spread := 0
		for _, b := range here {
			spread = m.Levels.Join(spread, int(here[0].Node), int(b.Node))
		}
		for _, b := range here {
			b.StartUs += (round - b.Round) * b.PeriodUs
			b.Round, b.Rounds = round, cuts[c+1]-round
			for _, md := range j.Modes {
				if md.Type == m.Classes[b.Class].Type {
					b.HoldUs = md.ComputeUs + md.SyncAtUs(spread)
				}
			}
			if b.Rounds == 1 {
				b.PeriodUs = b.HoldUs
			}
			end = max(end, b.EndUs())
			out = append(out, b)
		}
	}
	return out, end
}

// holdTogether lets the blocks of a gang job that mixes types hold their GPUs until the
// slowest task of the round has ended.
func holdTogether(blocks []room.Block) {
	slices.SortFunc(blocks, func(a, b room.Block) int { return cmp.Compare(a.Round, b.Round) })
	longest := make([]int64, len(blocks))
	for i := range blocks {
		longest[i] = max(longest[i], blocks[i].HoldUs)
		for k := i + 1; k < len(blocks) && blocks[k].Round < blocks[i].Round+blocks[i].Rounds; k++ {
			longest[i] = max(longest[i], blocks[k].HoldUs)
			longest[k] = max(longest[k], blocks[i].HoldUs)
		}
	}
	for i := range blocks {
		blocks[i].HoldUs = longest[i]
	}
}

// addLeads fills in for how long blocks hold their GPUs before they start. LeadUs is the lane of each
// block, and runs the job that the GPU of a lane has at time 0.
func (p *Plan) addLeads(m *model.Model, runs []int32) {
	lanes := make([][]jobBlock, len(runs))
	for i := range p.Jobs {
		for x := range p.Jobs[i] {
			b := &p.Jobs[i][x]
			lanes[b.LeadUs] = append(lanes[b.LeadUs], jobBlock{int32(i), int32(x), b})
		}
	}
	for l, blocks := range lanes {
		slices.SortFunc(blocks, func(a, b jobBlock) int { return cmp.Compare(a.StartUs, b.StartUs) })
		before, until := runs[l], int64(0)
		if before >= 0 {
			until = m.Jobs[before].RunsUntilUs
		}
		for _, b := range blocks {
			if b.Stays = b.job == before; b.Stays {
				b.LeadUs = b.StartUs - until
			} else {
				b.LeadUs = room.SetupOf(&m.Jobs[b.job], m.Classes[b.Class].Type)
			}
			before, until = b.job, b.EndUs()
		}
	}
}

// mergeEqualBlocks sorts blocks by round and merges blocks that differ only in width.
func mergeEqualBlocks(blocks []room.Block) []room.Block {
	slices.SortFunc(blocks, func(a, b room.Block) int {
		return cmp.Or(cmp.Compare(a.Round, b.Round), cmp.Compare(a.StartUs, b.StartUs),
			cmp.Compare(a.Class, b.Class), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Rounds, b.Rounds),
			cmp.Compare(a.PeriodUs, b.PeriodUs), cmp.Compare(a.Tasks, b.Tasks), cmp.Compare(a.LeadUs, b.LeadUs),
			compareBool(a.Stays, b.Stays))
	})
	out := blocks[:0]
	for _, b := range blocks {
		if n := len(out) - 1; n >= 0 {
			last := out[n]
			last.Width = b.Width
			if last == b {
				out[n].Width += b.Width
				continue
			}
		}
		out = append(out, b)
	}
	return out
}

// Complete leaves the jobs of p where they are and places the jobs without blocks beside
// them, each whole and as early as possible. The order is the better of two: by Smith's
// ratio (least work over weight) and by release. Where jobs wait for others, a job of p whose
// predecessors end too late for it is placed again as well. The error is ErrNoPlace or the
// context's; p does not change.
func Complete(ctx context.Context, m *model.Model, p *Plan) (*Plan, error) {
	if HasShapes(m) {
		return completeInShapes(ctx, m, p)
	}
	var best *Plan
	var err error
	complete := p.complete
	if m.Placed || room.HasAfter(m) || room.HasSetups(m) {
		complete = p.completeOnNodes
	}
	for _, kind := range []string{"wspt", "arrival"} {
		q, bad := complete(ctx, m, kind)
		if bad != nil {
			err = bad
			continue
		}
		if best == nil || q.Value(m).Cmp(best.Value(m)) < 0 {
			best = q
		}
	}
	if best == nil {
		return nil, err
	}
	return best, nil
}

// completeInShapes is Complete for a model with shapes. The jobs without blocks have the shape in
// which they end first on an empty cluster, or in which they take the least GPU-time, whichever
// gives the better plan.
func completeInShapes(ctx context.Context, m *model.Model, p *Plan) (*Plan, error) {
	fits, _ := FeasibleShapes(m)
	var best *Plan
	var fault error
	for _, shapes := range [][]int32{quickestShapes(m, fits), cheapestShapes(m, fits)} {
		for i := range shapes {
			if len(p.Jobs[i]) > 0 {
				shapes[i] = p.Shape(i)
			}
		}
		q, err := Complete(ctx, InShapes(m, shapes), &Plan{Jobs: p.Jobs, EndUs: p.EndUs})
		if err != nil {
			fault = err
			continue
		}
		q.Shapes = shapes
		if best == nil || q.Value(m).Cmp(best.Value(m)) < 0 {
			best = q
		}
	}
	if best == nil {
		return nil, fault
	}
	return best, nil
}

func (p *Plan) complete(ctx context.Context, m *model.Model, kind string) (*Plan, error) {
	out := &Plan{Jobs: slices.Clone(p.Jobs), EndUs: slices.Clone(p.EndUs)}
	res := NewRunResidual(m, BigJobs(m, MaxTasksByRound))
	res.ReservePlan(p)
	missing := make([]Item, 0, len(m.Jobs))
	for i := range m.Jobs {
		if len(p.Jobs[i]) > 0 {
			continue
		}
		key := SmithRatio(&m.Jobs[i])
		if kind == "arrival" {
			key = float64(m.Jobs[i].ReleaseUs)
		}
		missing = append(missing, Item{int32(i), Whole, key})
	}
	SortItems(missing)
	for _, it := range missing {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		i := int(it.Job)
		blocks, end, ok := res.PlaceWholeJob(i, nil)
		if !ok {
			return nil, noPlace(m, i)
		}
		out.Jobs[i], out.EndUs[i] = blocks, end
	}
	return out, nil
}

// completeOnNodes is complete where nodes matter or jobs wait for others. It takes a list
// schedule for each time that a job of p must move because of the jobs for which it waits.
func (p *Plan) completeOnNodes(ctx context.Context, m *model.Model, kind string) (*Plan, error) {
	stays := make([]bool, len(m.Jobs))
	for i := range stays {
		stays[i] = len(p.Jobs[i]) > 0
	}
	return p.CompleteInOrder(ctx, m, room.NewLayout(m), Order(m, nil, kind), stays)
}

// CompleteInOrder is completeOnNodes for some jobs of p, those that stay. Items gives the order of the
// others. It changes stays.
func (p *Plan) CompleteInOrder(ctx context.Context, m *model.Model, layout *room.Layout, items []Item,
	stays []bool) (*Plan, error) {
	for {
		out := &Plan{Jobs: make([][]room.Block, len(m.Jobs)), EndUs: make([]int64, len(m.Jobs))}
		nb := NewBoard(m, layout)
		for i := range m.Jobs {
			out.EndUs[i] = room.EarliestStart(&m.Jobs[i])
			if stays[i] {
				out.Jobs[i], out.EndUs[i] = p.Jobs[i], p.EndUs[i]
				nb.layout.ReserveBlocks(nb.Capacities, &nb.jobs[i], p.Jobs[i])
			}
		}
		missing := slices.DeleteFunc(slices.Clone(items), func(it Item) bool { return stays[it.Job] })
		if err := nb.extend(ctx, missing, out); err != nil {
			return nil, err
		}
		moves := false
		for i := range m.Jobs {
			if stays[i] && len(m.Jobs[i].After) > 0 && room.FirstSetup(m, i, p.Jobs[i]) < room.ReadyAt(m, i, out.EndUs) {
				stays[i], moves = false, true
			}
		}
		if !moves {
			return out, nil
		}
	}
}

// PlaceWholeJob places all rounds of job i and appends the blocks to out.
func (res *Residual) PlaceWholeJob(i int, out []room.Block) ([]room.Block, int64, bool) {
	if res.Big[i] {
		res.costs.byJob[i] = res.costs.of(res.m, i)
	}
	return res.placeJob(i, out)
}
