package place

import (
	"cmp"
	"context"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// Board is the residual capacity of single nodes while a list schedule is built. Unlike
// the annealing, a Board can place every job: relaxed jobs task by task or as runs, and
// gangs whose rounds use several types at once.
type Board struct {
	Model      *model.Model
	layout     *room.Layout
	jobs       []room.Job // all jobs of m; the durations are those of whole rounds
	finder     *room.Finder
	Capacities []room.Capacity // by column
	Runs       []bool          // by job: whether it is relaxed and placed as runs
	own        [][]ownGPUs     // by relaxed job with setups: where its tasks have run
	// heads, by job, are times before which no schedule starts a job, and LastRooms what finds room
	// at the end of time. Both are only to prove that jobs can never run.
	heads     []int64
	lastRooms room.LastRooms
}

// NewBoard returns a board on which nothing is placed.
func NewBoard(m *model.Model, layout *room.Layout) *Board {
	nb := &Board{Model: m, layout: layout, jobs: make([]room.Job, len(m.Jobs)),
		finder: room.NewNodeFinder(layout, 0), Capacities: layout.NewCapacities(),
		Runs: nodeRunJobs(m), own: make([][]ownGPUs, len(m.Jobs))}
	dur := make([]int64, len(m.Jobs)*len(m.Types))
	for i := range m.Jobs {
		a := room.NewJob(m, i)
		a.Dur = dur[i*len(m.Types) : (i+1)*len(m.Types)]
		for _, md := range m.Jobs[i].Modes {
			a.Dur[md.Type] = room.RoundUs(&m.Jobs[i], md)
			a.RoundTypes = append(a.RoundTypes, int16(md.Type))
		}
		slices.SortStableFunc(a.RoundTypes, func(x, y int16) int { return cmp.Compare(a.Dur[x], a.Dur[y]) })
		layout.AddRunningPlace(&a, &m.Jobs[i])
		nb.jobs[i] = a
	}
	return nb
}

// assignOnNodes places the items in their order, each on the nodes and the type on which it
// ends first. The error is ErrNoPlace with the job's name, or the context's.
func assignOnNodes(ctx context.Context, m *model.Model, items []Item) (*Plan, error) {
	nb := NewBoard(m, room.NewLayout(m))
	if len(m.Nodes) > room.SummedNodes {
		nb.finder.Nodes.ClassifyHolds(room.ListHoldClasses)
	}
	return nb.Assign(ctx, items)
}

// Assign places the items beside what the board holds.
func (nb *Board) Assign(ctx context.Context, items []Item) (*Plan, error) {
	m := nb.Model
	p := &Plan{Jobs: make([][]room.Block, len(m.Jobs)), EndUs: make([]int64, len(m.Jobs))}
	for i := range m.Jobs {
		p.EndUs[i] = room.EarliestStart(&m.Jobs[i])
	}
	if err := nb.extend(ctx, items, p); err != nil {
		return nil, err
	}
	return p, nil
}

// extend adds the items to p beside what the board holds. p.EndUs of a job without blocks is
// its earliest start.
func (nb *Board) extend(ctx context.Context, items []Item, p *Plan) error {
	m := nb.Model
	nb.forget()
	for n, it := range items {
		if n%CheckEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		i, ok := int(it.Job), false
		if len(m.Jobs[i].After) > 0 && len(p.Jobs[i]) == 0 {
			p.EndUs[i] = room.ReadyAt(m, i, p.EndUs)
		}
		if len(p.Jobs[i]) == 0 {
			nb.jobs[i].Begin = p.EndUs[i]
			if nb.jobs[i].Setups != nil {
				nb.own[i] = nb.own[i][:0]
			}
		}
		nb.jobs[i].Release = p.EndUs[i]
		if it.Round == Whole {
			p.Jobs[i], p.EndUs[i], ok = nb.placeJob(i)
		} else {
			p.EndUs[i], ok = nb.placeRound(i, it.Round, p.EndUs[i], &p.Jobs[i])
		}
		if !ok || p.EndUs[i] > hare.MaxExact {
			return noPlace(m, i)
		}
	}
	return nil
}

// placeJob places all rounds of job i early and takes their GPUs.
func (nb *Board) placeJob(i int) (blocks []room.Block, end int64, ok bool) {
	mj, j := &nb.Model.Jobs[i], &nb.jobs[i]
	switch {
	case mj.Sync == hare.Relaxed && nb.Runs[i]:
		return nb.placeRuns(i)
	case mj.Sync == hare.Relaxed:
		end = j.Release
		for r := range mj.Rounds {
			if end, ok = nb.placeRound(i, r, end, &blocks); !ok {
				return nil, 0, false
			}
		}
		return blocks, end, true
	case mj.Sync == hare.Rigid:
		best := room.Never
		var at []room.Segment
		for _, k := range j.RoundTypes {
			plan := room.ContiguousOn(k)
			if e, fits := nb.finder.Place(j, &plan, nb.Capacities); fits && e < best {
				best = e
				at = append(at[:0], nb.finder.Segments...)
			}
		}
		return nb.take(j, at), best, best != room.Never
	}
	best := room.Never
	var at []room.Segment
	try := func(types ...int16) {
		plan := room.RoundByRoundOver(types...)
		if e, fits := nb.finder.Place(j, &plan, nb.Capacities); fits && e < best {
			best = e
			at = append(at[:0], nb.finder.Segments...)
		}
	}
	if few := j.RoundTypes[:min(len(j.RoundTypes), room.MaxTypes)]; len(few) > 0 {
		try(few...)
	}
	if best == room.Never {
		for _, k := range j.RoundTypes {
			try(k)
		}
	}
	if mj.Mix && len(j.RoundTypes) > 1 {
		if mixed, e, fits := nb.placeMixed(i); fits && e < best {
			nl := nb.layout
			nl.ReserveBlocks(nb.Capacities, j, mixed)
			return mixed, e, true
		}
	}
	return nb.take(j, at), best, best != room.Never
}

// take turns the segments of job j into blocks and takes their GPUs.
func (nb *Board) take(j *room.Job, segments []room.Segment) []room.Block {
	var out []room.Block
	for x := range segments {
		s := &segments[x]
		nb.layout.Reserve(nb.Capacities[nb.layout.Column[s.Type]], j, s.Type, s.Pool, int64(s.Width), s.Start, s.End,
			s.Lead)
		out = append(out, nb.layout.BlockOf(s))
	}
	return out
}

// placeRound places the tasks of a round of relaxed job i one after another from ready on,
// each where it ends first, and takes their GPUs. It returns when the round has synchronised.
func (nb *Board) placeRound(i int, round, ready int64, out *[]room.Block) (end int64, ok bool) {
	mj, j := &nb.Model.Jobs[i], &nb.jobs[i]
	ns := nb.finder.Nodes
	first, before := len(*out), slices.Clone(nb.own[i])
	end = ready
	from := make([]int64, len(mj.Modes)) // there is no place before
	for x := range from {
		// A setup may begin before the round before has synchronised.
		if from[x] = ready; j.Setups != nil {
			from[x] = max(j.Begin, ready-mj.Modes[x].SwitchUs)
		}
	}
	for left := mj.Tasks; left > 0; {
		best, bestEnd := -1, room.Never
		var pool int32
		for x := range mj.Modes {
			md := &mj.Modes[x]
			if from[x] == room.Never || bestEnd != room.Never && from[x]+md.SwitchUs+md.DurationUs() >= bestEnd {
				continue
			}
			k := int16(md.Type)
			ns.Lead = md.SwitchUs
			from[x] = ns.EarliestTask(j, k, nb.Capacities[nb.layout.Column[k]], from[x],
				md.ComputeUs+md.SwitchUs, 0)
			ns.Lead = 0
			if from[x] != room.Never && from[x]+md.SwitchUs+md.DurationUs() < bestEnd {
				best, bestEnd, pool = x, from[x]+md.SwitchUs+md.DurationUs(), ns.Chosen[0].Pool
			}
		}
		if b, n, e := nb.stay(i, ready, left, bestEnd); n > 0 {
			b.Round = round
			*out = append(*out, b)
			left -= n
			end = max(end, e)
			continue
		}
		if best < 0 {
			nb.release(i, (*out)[first:])
			*out, nb.own[i] = (*out)[:first], before
			return 0, false
		}
		md := &mj.Modes[best]
		k := int16(md.Type)
		tc := nb.Capacities[nb.layout.Column[k]]
		ns.Lead = md.SwitchUs
		n := min(left, max(1, ns.RoomAt(j, k, tc, pool, from[best], md.ComputeUs+md.SwitchUs).Room))
		n = max(1, min(n, ns.QuotaRoom(j, k, tc, from[best], md.ComputeUs+md.SwitchUs)))
		ns.Lead = 0
		p := &nb.layout.Pools[k][pool]
		b := room.Block{Class: p.Class, Node: p.Node, Width: int32(n * j.GPUs), Tasks: 1, Round: round, Rounds: 1,
			StartUs: from[best] + md.SwitchUs, HoldUs: md.ComputeUs, LeadUs: md.SwitchUs}
		nb.layout.Reserve(tc, j, k, pool, int64(b.Width), b.StartUs, b.EndUs(), b.LeadUs)
		*out = append(*out, b)
		if j.Setups != nil {
			nb.own[i] = append(nb.own[i], ownGPUs{k, pool, n, b.EndUs()})
		}
		left -= n
		end = max(end, bestEnd)
	}
	return end, true
}

// forget must be called when GPUs become free.
func (nb *Board) forget() {
	for c := range nb.Capacities {
		nb.finder.Forget(int16(c))
	}
}

// release gives back the GPUs of blocks of job i.
func (nb *Board) release(i int, blocks []room.Block) {
	nb.forget()
	for x := range blocks {
		blocks[x].Width = -blocks[x].Width
	}
	nb.layout.ReserveBlocks(nb.Capacities, &nb.jobs[i], blocks)
	for x := range blocks {
		blocks[x].Width = -blocks[x].Width
	}
}

// placeRuns places relaxed job i as runs of rounds on GPUs of one type: so many tasks at once
// that its rounds end first, and the others back to back behind them. It takes
// O(types · log tasks) searches for gangs.
func (nb *Board) placeRuns(i int) (blocks []room.Block, end int64, ok bool) {
	mj := &nb.Model.Jobs[i]
	best := room.Never
	var at []room.Segment
	var bestMode *model.Mode
	var bestEach, bestWidth int64
	gang := nb.jobs[i]
	gang.Dur = make([]int64, len(nb.Model.Types))
	for x := range mj.Modes {
		md := &mj.Modes[x]
		for width := mj.Tasks; width > 0; width /= 2 {
			each := (mj.Tasks + width - 1) / width
			n := (mj.Tasks + each - 1) / each
			gang.Tasks, gang.Width = n, n*gang.GPUs
			gang.Dur[md.Type] = each*md.ComputeUs + md.SyncUs
			plan := room.RoundByRoundOver(int16(md.Type))
			e, fits := nb.finder.Place(&gang, &plan, nb.Capacities)
			if fits && e < best {
				best, bestMode, bestEach, bestWidth = e, md, each, n
				at = append(at[:0], nb.finder.Segments...)
			}
		}
	}
	if best == room.Never {
		return nil, 0, false
	}
	gang.Dur[bestMode.Type] = bestEach*bestMode.ComputeUs + bestMode.SyncUs
	rest := mj.Tasks - (bestWidth-1)*bestEach // the tasks of the last GPUs of each run
	for x := range at {
		b := nb.layout.BlockOf(&at[x])
		b.Tasks, b.HoldUs = int32(bestEach), bestEach*bestMode.ComputeUs
		if b.Rounds == 1 {
			b.PeriodUs = 0
		}
		last := x+1 == len(at) || at[x+1].Round != at[x].Round
		if last && rest < bestEach {
			less := b
			less.Width, less.Tasks, less.HoldUs = int32(gang.GPUs), int32(rest), rest*bestMode.ComputeUs
			if b.Width -= less.Width; b.Width > 0 {
				blocks = append(blocks, b)
			}
			b = less
		}
		blocks = append(blocks, b)
	}
	nb.layout.ReserveBlocks(nb.Capacities, &nb.jobs[i], blocks)
	return blocks, best, true
}

// placeMixed finds places for the rounds of gang i that may use several types at once: all
// tasks of a round start together and hold their GPUs until the slowest has synchronised. It
// takes nothing. A run of rounds stays as long as its GPUs are free.
func (nb *Board) placeMixed(i int) (blocks []room.Block, end int64, ok bool) {
	mj := &nb.Model.Jobs[i]
	t := nb.jobs[i].Release
	for round := int64(0); round < mj.Rounds; {
		var best []room.Block
		bestEnd, bestUntil, bestHold := room.Never, room.Never, int64(0)
		types := nb.jobs[i].RoundTypes
		for n := 1; n <= len(types); n++ {
			if nb.jobs[i].Levels != nil {
				start, until, hold, at := nb.earliestMixedByLevel(i, types[:n], t)
				if start != room.Never && start+hold < bestEnd {
					best, bestEnd, bestUntil, bestHold = at, start+hold, until, hold
				}
				continue
			}
			hold := nb.jobs[i].Dur[types[n-1]]
			setup := nb.jobs[i].LongestSetup(types[:n])
			nb.finder.Nodes.Lead = setup
			start, until, at := nb.earliestMixed(i, types[:n], t, hold+setup, nil)
			nb.finder.Nodes.Lead = 0
			if start != room.Never {
				start += setup
			}
			if start != room.Never && start+hold < bestEnd {
				best, bestEnd, bestUntil, bestHold = at, start+hold, until, hold
			}
		}
		if best == nil {
			return nil, 0, false
		}
		rounds := mj.Rounds - round
		if bestUntil != room.Never {
			rounds = min(rounds, (bestUntil-(bestEnd-bestHold))/bestHold)
		}
		for _, b := range best {
			b.Round, b.Rounds, b.StartUs, b.PeriodUs, b.HoldUs = round, rounds, bestEnd-bestHold, bestHold, bestHold
			b.LeadUs = nb.jobs[i].Setup(int16(nb.Model.Classes[b.Class].Type))
			blocks = append(blocks, b)
		}
		t = bestEnd - bestHold + rounds*bestHold
		round += rounds
	}
	return blocks, t, true
}

// earliestMixed returns the earliest start ≥ t at which the tasks of gang i find room on GPUs
// of several types for hold, the time until which they can stay, and blocks with class, node
// and width. It looks only at nodes that in admits; nil admits all.
func (nb *Board) earliestMixed(i int, types []int16, t, hold int64, in func(node int) bool) (start, until int64,
	at []room.Block) {
	j, ns := &nb.jobs[i], nb.finder.Nodes
	for {
		left := j.Tasks
		until, at = room.Never, at[:0]
		next := room.Never
		limits := nb.newQuotaLimits(j, types, t+ns.Lead, hold-ns.Lead)
		if limits.next != room.Never {
			next = min(next, limits.next-ns.Lead)
		}
		for n := range nb.layout.Places {
			if in != nil && !in(n) {
				continue
			}
			// The types of a node share its CPUs and memory, and distinct tasks share its name.
			limit, taken := j.Tasks, int64(0)
			var shared *room.NodeGPUs
			for _, k := range types {
				p := nb.layout.PoolAt[k][n]
				if p < 0 || !slices.Contains(nb.layout.PoolsFor(j.Set, k), p) {
					continue
				}
				pool, tc := &nb.layout.Pools[k][p], nb.Capacities[nb.layout.Column[k]]
				if j.Distinct {
					limit = 1
				}
				if pool.CPUs >= 0 && j.CPUs > 0 {
					limit = min(limit, tc[pool.CPUs].MinFree(t+ns.Lead, t+hold)/j.CPUs)
				}
				if pool.Memory >= 0 && j.Memory > 0 {
					limit = min(limit, tc[pool.Memory].MinFree(t+ns.Lead, t+hold)/j.Memory)
				}
				next = min(next, tc[pool.GPUs].NextIncrease(t))
				for _, fn := range []int32{pool.CPUs, pool.Memory} {
					if fn < 0 {
						continue
					}
					if u := tc[fn].NextIncrease(t + ns.Lead); u != room.Never {
						next = min(next, u-ns.Lead)
					}
				}
				if open := nb.layout.OpenTo(j.Set, pool.Node); open != nil {
					next = min(next, open.NextIncrease(t))
				}
				m := min(left, ns.RoomAt(j, k, tc, p, t, hold).Room, limit-taken, limits.room(k)/j.GPUs)
				if m <= 0 {
					continue
				}
				limits.take(k, m*j.GPUs)
				at = append(at, room.Block{Class: pool.Class, Node: pool.Node, Width: int32(m * j.GPUs), Tasks: 1})
				left -= m
				taken += m
				until = min(until, ns.FreeUntil(j, k, tc, p, m, t))
				shared = pool
			}
			// The tasks of all types add up on the node.
			if taken > 0 {
				tc := nb.Capacities[nb.layout.Column[nb.Model.Classes[shared.Class].Type]]
				if shared.CPUs >= 0 && j.CPUs > 0 {
					fn := tc[shared.CPUs]
					until = min(until, fn.FreeUntil(fn.Index(t+ns.Lead), taken*j.CPUs))
				}
				if shared.Memory >= 0 && j.Memory > 0 {
					fn := tc[shared.Memory]
					until = min(until, fn.FreeUntil(fn.Index(t+ns.Lead), taken*j.Memory))
				}
			}
		}
		if left == 0 {
			return t, min(until, limits.until()), at
		}
		if next == room.Never {
			return room.Never, 0, nil
		}
		t = next
	}
}

// earliestMixedByLevel is earliestMixed for a gang to which levels matter: in the domain in which
// a round ends first. It also returns how long the round takes there.
func (nb *Board) earliestMixedByLevel(i int, types []int16, t int64) (start, until, hold int64, at []room.Block) {
	jl := nb.jobs[i].Levels
	start = room.Never
	longest := func(used []int16, level int) (us int64) {
		for _, k := range used {
			us = max(us, jl.RoundUs(k, level))
		}
		return us
	}
	setup := nb.jobs[i].LongestSetup(types)
	for _, level := range jl.AllLevels(types) {
		us := longest(types, level)
		domains, count := nb.layout.DomainsOf(level)
		for d := range count {
			var in func(int) bool
			if domains != nil {
				in = func(n int) bool { return domains[n] == int32(d) }
			}
			s, u, blocks := nb.earliestMixed(i, types, t, us+setup, in)
			if s == room.Never {
				continue
			}
			s += setup
			// The round may use fewer types, or nodes that are nearer to each other.
			spread := 0
			var used []int16
			for _, b := range blocks {
				spread = jl.Levels.Join(spread, int(blocks[0].Node), int(b.Node))
				used = append(used, int16(nb.Model.Classes[b.Class].Type))
			}
			if real := longest(used, spread); start == room.Never || s+real < start+hold {
				start, until, hold, at = s, u, real, blocks
			}
		}
	}
	return start, until, hold, at
}

// ownGPUs are GPUs of so many tasks of a relaxed job, on which it may go on without a setup as long as
// nothing else takes them.
type ownGPUs struct {
	typ          int16
	pool         int32
	tasks, until int64
}

// stay places tasks of a round of relaxed job i, at most left, where the job ran before, and takes their
// GPUs: those that end first. It returns no tasks, and takes nothing, where none can end by latest.
func (nb *Board) stay(i int, ready, left, latest int64) (b room.Block, tasks, end int64) {
	own := nb.own[i]
	if len(own) == 0 {
		return room.Block{}, 0, room.Never
	}
	mj, j, ns := &nb.Model.Jobs[i], &nb.jobs[i], nb.finder.Nodes
	best, start, end := -1, room.Never, room.Never
	kept := own[:0]
	for _, o := range own {
		md := &mj.Modes[slices.IndexFunc(mj.Modes, func(md model.Mode) bool { return md.Type == int(o.typ) })]
		pool, tc := &nb.layout.Pools[o.typ][o.pool], nb.Capacities[nb.layout.Column[o.typ]]
		s := max(ready, o.until)
		if tc[pool.GPUs].MinFree(o.until, s+md.ComputeUs) < j.GPUs {
			continue // others have taken the GPUs
		}
		kept = append(kept, o)
		if ns.RoomAt(j, o.typ, tc, o.pool, s, md.ComputeUs).Room == 0 || ns.QuotaRoom(j, o.typ, tc, s,
			md.ComputeUs) == 0 {
			continue
		}
		if e := s + md.DurationUs(); e < end {
			best, start, end = len(kept)-1, s, e
		}
	}
	if nb.own[i] = kept; best < 0 || end > latest {
		return room.Block{}, 0, room.Never
	}
	o := &kept[best]
	md := &mj.Modes[slices.IndexFunc(mj.Modes, func(md model.Mode) bool { return md.Type == int(o.typ) })]
	pool, tc := &nb.layout.Pools[o.typ][o.pool], nb.Capacities[nb.layout.Column[o.typ]]
	tasks = min(left, o.tasks, tc[pool.GPUs].MinFree(o.until, start+md.ComputeUs)/j.GPUs,
		ns.RoomAt(j, o.typ, tc, o.pool, start, md.ComputeUs).Room, ns.QuotaRoom(j, o.typ, tc, start, md.ComputeUs))
	b = room.Block{Class: pool.Class, Node: pool.Node, Width: int32(tasks * j.GPUs), Tasks: 1, Rounds: 1,
		StartUs: start,
		HoldUs:  md.ComputeUs, LeadUs: start - o.until, Stays: true}
	nb.layout.Reserve(tc, j, o.typ, o.pool, int64(b.Width), b.StartUs, b.EndUs(), b.LeadUs)
	typ, at := o.typ, o.pool
	if o.tasks -= tasks; o.tasks == 0 {
		nb.own[i] = slices.Delete(kept, best, best+1)
	}
	nb.own[i] = append(nb.own[i], ownGPUs{typ, at, tasks, b.EndUs()})
	return b, tasks, end
}

// quotaLimits is what the quotas of a job leave for a round on several types.
type quotaLimits struct {
	layout *room.Layout
	tc     []room.Capacity // by quota of the job: the column in which the quota is
	quotas []int32
	free   []int64
	taken  []int64
	t      int64
	next   int64 // when a quota next has more
}

// newQuotaLimits is for a round that holds GPUs of types within [t, t + hold).
func (nb *Board) newQuotaLimits(j *room.Job, types []int16, t, hold int64) quotaLimits {
	ql := quotaLimits{layout: nb.layout, t: t, next: room.Never}
	for _, q := range j.Quotas {
		for _, k := range types {
			if !nb.Model.Quotas[q].Types[k] {
				continue
			}
			tc := nb.Capacities[nb.layout.Column[k]]
			fn := tc[nb.layout.Quota[q]]
			ql.quotas, ql.tc = append(ql.quotas, q), append(ql.tc, tc)
			ql.free, ql.taken = append(ql.free, fn.MinFree(t, t+hold)), append(ql.taken, 0)
			ql.next = min(ql.next, fn.NextIncrease(t))
			break
		}
	}
	return ql
}

// room returns how many GPUs of type k the quotas still leave.
func (ql *quotaLimits) room(k int16) int64 {
	room := room.Never
	for x, q := range ql.quotas {
		if ql.layout.M.Quotas[q].Types[k] {
			room = min(room, ql.free[x]-ql.taken[x])
		}
	}
	return room
}

// take counts n GPUs of type k.
func (ql *quotaLimits) take(k int16, n int64) {
	for x, q := range ql.quotas {
		if ql.layout.M.Quotas[q].Types[k] {
			ql.taken[x] += n
		}
	}
}

// until returns the time until which what was taken fits into the quotas.
func (ql *quotaLimits) until() int64 {
	until := room.Never
	for x, q := range ql.quotas {
		if ql.taken[x] > 0 {
			fn := ql.tc[x][ql.layout.Quota[q]]
			until = min(until, fn.FreeUntil(fn.Index(ql.t), ql.taken[x]))
		}
	}
	return until
}
