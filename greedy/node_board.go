package greedy

import (
	"cmp"
	"context"
	"slices"

	"github.com/hare-sched/hare"
)

// nodeBoard is the residual capacity of single nodes while a list schedule is built. Unlike
// the annealing, a nodeBoard can place every job: relaxed jobs task by task or as runs, and
// gangs whose rounds use several types at once.
type nodeBoard struct {
	m          *hare.Model
	layout     *nodeLayout
	jobs       []annealJob // all jobs of m; the durations are those of whole rounds
	finder     *slotFinder
	capacities []typeCapacity // by column
	runs       []bool         // by job: whether it is relaxed and placed as runs
	own        [][]ownGPUs    // by relaxed job with setups: where its tasks have run
	// heads, by job, are times before which no schedule starts a job, and lastRooms what finds room
	// at the end of time. Both are only to prove that jobs can never run.
	heads     []int64
	lastRooms lastRooms
}

func newNodeBoard(m *hare.Model, layout *nodeLayout) *nodeBoard {
	nb := &nodeBoard{m: m, layout: layout, jobs: make([]annealJob, len(m.Jobs)),
		finder: newNodeFinder(layout, 0), capacities: layout.newCapacities(),
		runs: nodeRunJobs(m), own: make([][]ownGPUs, len(m.Jobs))}
	dur := make([]int64, len(m.Jobs)*len(m.Types))
	for i := range m.Jobs {
		a := newAnnealJob(m, i)
		a.dur = dur[i*len(m.Types) : (i+1)*len(m.Types)]
		for _, md := range m.Jobs[i].Modes {
			a.dur[md.Type] = roundUs(&m.Jobs[i], md)
			a.roundTypes = append(a.roundTypes, int16(md.Type))
		}
		slices.SortStableFunc(a.roundTypes, func(x, y int16) int { return cmp.Compare(a.dur[x], a.dur[y]) })
		layout.addRunningPlace(&a, &m.Jobs[i])
		nb.jobs[i] = a
	}
	return nb
}

// assignOnNodes places the items in their order, each on the nodes and the type on which it
// ends first. The error is ErrNoPlace with the job's name, or the context's.
func assignOnNodes(ctx context.Context, m *hare.Model, items []Item) (*Plan, error) {
	nb := newNodeBoard(m, newNodeLayout(m))
	if len(m.Nodes) > summedNodes {
		nb.finder.nodes.classifyHolds(listHoldClasses)
	}
	return nb.assign(ctx, items)
}

// assign places the items beside what the board holds.
func (nb *nodeBoard) assign(ctx context.Context, items []Item) (*Plan, error) {
	m := nb.m
	p := &Plan{Jobs: make([][]Block, len(m.Jobs)), EndUs: make([]int64, len(m.Jobs))}
	for i := range m.Jobs {
		p.EndUs[i] = earliestStart(&m.Jobs[i])
	}
	if err := nb.extend(ctx, items, p); err != nil {
		return nil, err
	}
	return p, nil
}

// extend adds the items to p beside what the board holds. p.EndUs of a job without blocks is
// its earliest start.
func (nb *nodeBoard) extend(ctx context.Context, items []Item, p *Plan) error {
	m := nb.m
	nb.forget()
	for n, it := range items {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		i, ok := int(it.Job), false
		if len(m.Jobs[i].After) > 0 && len(p.Jobs[i]) == 0 {
			p.EndUs[i] = readyAt(m, i, p.EndUs)
		}
		if len(p.Jobs[i]) == 0 {
			nb.jobs[i].begin = p.EndUs[i]
			if nb.jobs[i].setups != nil {
				nb.own[i] = nb.own[i][:0]
			}
		}
		nb.jobs[i].release = p.EndUs[i]
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
func (nb *nodeBoard) placeJob(i int) (blocks []Block, end int64, ok bool) {
	mj, j := &nb.m.Jobs[i], &nb.jobs[i]
	switch {
	case mj.Sync == hare.Relaxed && nb.runs[i]:
		return nb.placeRuns(i)
	case mj.Sync == hare.Relaxed:
		end = j.release
		for r := range mj.Rounds {
			if end, ok = nb.placeRound(i, r, end, &blocks); !ok {
				return nil, 0, false
			}
		}
		return blocks, end, true
	case mj.Sync == hare.Rigid:
		best := never
		var at []segment
		for _, k := range j.roundTypes {
			plan := contiguousOn(k)
			if e, fits := nb.finder.place(j, &plan, nb.capacities); fits && e < best {
				best = e
				at = append(at[:0], nb.finder.segments...)
			}
		}
		return nb.take(j, at), best, best != never
	}
	best := never
	var at []segment
	try := func(types ...int16) {
		plan := roundByRoundOver(types...)
		if e, fits := nb.finder.place(j, &plan, nb.capacities); fits && e < best {
			best = e
			at = append(at[:0], nb.finder.segments...)
		}
	}
	if few := j.roundTypes[:min(len(j.roundTypes), maxSet)]; len(few) > 0 {
		try(few...)
	}
	if best == never {
		for _, k := range j.roundTypes {
			try(k)
		}
	}
	if mj.Mix && len(j.roundTypes) > 1 {
		if mixed, e, fits := nb.placeMixed(i); fits && e < best {
			nl := nb.layout
			nl.reserveBlocks(nb.capacities, j, mixed)
			return mixed, e, true
		}
	}
	return nb.take(j, at), best, best != never
}

// take turns the segments of job j into blocks and takes their GPUs.
func (nb *nodeBoard) take(j *annealJob, segments []segment) []Block {
	var out []Block
	for x := range segments {
		s := &segments[x]
		nb.layout.reserve(nb.capacities[nb.layout.column[s.typ]], j, s.typ, s.pool, int64(s.width), s.start, s.end, s.lead)
		out = append(out, nb.layout.blockOf(s))
	}
	return out
}

// placeRound places the tasks of a round of relaxed job i one after another from ready on,
// each where it ends first, and takes their GPUs. It returns when the round has synchronised.
func (nb *nodeBoard) placeRound(i int, round, ready int64, out *[]Block) (end int64, ok bool) {
	mj, j := &nb.m.Jobs[i], &nb.jobs[i]
	ns := nb.finder.nodes
	first, before := len(*out), slices.Clone(nb.own[i])
	end = ready
	from := make([]int64, len(mj.Modes)) // there is no place before
	for x := range from {
		// A setup may begin before the round before has synchronised.
		if from[x] = ready; j.setups != nil {
			from[x] = max(j.begin, ready-mj.Modes[x].SwitchUs)
		}
	}
	for left := mj.Tasks; left > 0; {
		best, bestEnd := -1, never
		var pool int32
		for x := range mj.Modes {
			md := &mj.Modes[x]
			if from[x] == never || bestEnd != never && from[x]+md.SwitchUs+md.DurationUs() >= bestEnd {
				continue
			}
			k := int16(md.Type)
			ns.lead = md.SwitchUs
			from[x] = ns.earliestTask(j, k, nb.capacities[nb.layout.column[k]], from[x],
				md.ComputeUs+md.SwitchUs, 0)
			ns.lead = 0
			if from[x] != never && from[x]+md.SwitchUs+md.DurationUs() < bestEnd {
				best, bestEnd, pool = x, from[x]+md.SwitchUs+md.DurationUs(), ns.chosen[0].pool
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
		tc := nb.capacities[nb.layout.column[k]]
		ns.lead = md.SwitchUs
		n := min(left, max(1, ns.roomAt(j, k, tc, pool, from[best], md.ComputeUs+md.SwitchUs).room))
		n = max(1, min(n, ns.quotaRoom(j, k, tc, from[best], md.ComputeUs+md.SwitchUs)))
		ns.lead = 0
		p := &nb.layout.pools[k][pool]
		b := Block{Class: p.class, Node: p.node, Width: int32(n * j.gpus), Tasks: 1, Round: round, Rounds: 1,
			StartUs: from[best] + md.SwitchUs, HoldUs: md.ComputeUs, LeadUs: md.SwitchUs}
		nb.layout.reserve(tc, j, k, pool, int64(b.Width), b.StartUs, b.endUs(), b.LeadUs)
		*out = append(*out, b)
		if j.setups != nil {
			nb.own[i] = append(nb.own[i], ownGPUs{k, pool, n, b.endUs()})
		}
		left -= n
		end = max(end, bestEnd)
	}
	return end, true
}

// forget must be called when GPUs become free.
func (nb *nodeBoard) forget() {
	for c := range nb.capacities {
		nb.finder.forget(int16(c))
	}
}

// release gives back the GPUs of blocks of job i.
func (nb *nodeBoard) release(i int, blocks []Block) {
	nb.forget()
	for x := range blocks {
		blocks[x].Width = -blocks[x].Width
	}
	nb.layout.reserveBlocks(nb.capacities, &nb.jobs[i], blocks)
	for x := range blocks {
		blocks[x].Width = -blocks[x].Width
	}
}

// placeRuns places relaxed job i as runs of rounds on GPUs of one type: so many tasks at once
// that its rounds end first, and the others back to back behind them. It takes
// O(types · log tasks) searches for gangs.
func (nb *nodeBoard) placeRuns(i int) (blocks []Block, end int64, ok bool) {
	mj := &nb.m.Jobs[i]
	best := never
	var at []segment
	var bestMode *hare.Mode
	var bestEach, bestWidth int64
	gang := nb.jobs[i]
	gang.dur = make([]int64, len(nb.m.Types))
	for x := range mj.Modes {
		md := &mj.Modes[x]
		for width := mj.Tasks; width > 0; width /= 2 {
			each := (mj.Tasks + width - 1) / width
			n := (mj.Tasks + each - 1) / each
			gang.tasks, gang.width = n, n*gang.gpus
			gang.dur[md.Type] = each*md.ComputeUs + md.SyncUs
			plan := roundByRoundOver(int16(md.Type))
			e, fits := nb.finder.place(&gang, &plan, nb.capacities)
			if fits && e < best {
				best, bestMode, bestEach, bestWidth = e, md, each, n
				at = append(at[:0], nb.finder.segments...)
			}
		}
	}
	if best == never {
		return nil, 0, false
	}
	gang.dur[bestMode.Type] = bestEach*bestMode.ComputeUs + bestMode.SyncUs
	rest := mj.Tasks - (bestWidth-1)*bestEach // the tasks of the last GPUs of each run
	for x := range at {
		b := nb.layout.blockOf(&at[x])
		b.Tasks, b.HoldUs = int32(bestEach), bestEach*bestMode.ComputeUs
		if b.Rounds == 1 {
			b.PeriodUs = 0
		}
		last := x+1 == len(at) || at[x+1].round != at[x].round
		if last && rest < bestEach {
			less := b
			less.Width, less.Tasks, less.HoldUs = int32(gang.gpus), int32(rest), rest*bestMode.ComputeUs
			if b.Width -= less.Width; b.Width > 0 {
				blocks = append(blocks, b)
			}
			b = less
		}
		blocks = append(blocks, b)
	}
	nb.layout.reserveBlocks(nb.capacities, &nb.jobs[i], blocks)
	return blocks, best, true
}

// placeMixed finds places for the rounds of gang i that may use several types at once: all
// tasks of a round start together and hold their GPUs until the slowest has synchronised. It
// takes nothing. A run of rounds stays as long as its GPUs are free.
func (nb *nodeBoard) placeMixed(i int) (blocks []Block, end int64, ok bool) {
	mj := &nb.m.Jobs[i]
	t := nb.jobs[i].release
	for round := int64(0); round < mj.Rounds; {
		var best []Block
		bestEnd, bestUntil, bestHold := never, never, int64(0)
		types := nb.jobs[i].roundTypes
		for n := 1; n <= len(types); n++ {
			if nb.jobs[i].levels != nil {
				start, until, hold, at := nb.earliestMixedByLevel(i, types[:n], t)
				if start != never && start+hold < bestEnd {
					best, bestEnd, bestUntil, bestHold = at, start+hold, until, hold
				}
				continue
			}
			hold := nb.jobs[i].dur[types[n-1]]
			setup := nb.jobs[i].longestSetup(types[:n])
			nb.finder.nodes.lead = setup
			start, until, at := nb.earliestMixed(i, types[:n], t, hold+setup, nil)
			nb.finder.nodes.lead = 0
			if start != never {
				start += setup
			}
			if start != never && start+hold < bestEnd {
				best, bestEnd, bestUntil, bestHold = at, start+hold, until, hold
			}
		}
		if best == nil {
			return nil, 0, false
		}
		rounds := mj.Rounds - round
		if bestUntil != never {
			rounds = min(rounds, (bestUntil-(bestEnd-bestHold))/bestHold)
		}
		for _, b := range best {
			b.Round, b.Rounds, b.StartUs, b.PeriodUs, b.HoldUs = round, rounds, bestEnd-bestHold, bestHold, bestHold
			b.LeadUs = nb.jobs[i].setup(int16(nb.m.Classes[b.Class].Type))
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
func (nb *nodeBoard) earliestMixed(i int, types []int16, t, hold int64, in func(node int) bool) (start, until int64,
	at []Block) {
	j, ns := &nb.jobs[i], nb.finder.nodes
	for {
		left := j.tasks
		until, at = never, at[:0]
		next := never
		limits := nb.newQuotaLimits(j, types, t+ns.lead, hold-ns.lead)
		if limits.next != never {
			next = min(next, limits.next-ns.lead)
		}
		for n := range nb.layout.places {
			if in != nil && !in(n) {
				continue
			}
			// The types of a node share its CPUs and memory, and distinct tasks share its name.
			limit, taken := j.tasks, int64(0)
			var shared *nodeGPUs
			for _, k := range types {
				p := nb.layout.poolAt[k][n]
				if p < 0 || !slices.Contains(nb.layout.poolsFor(j.set, k), p) {
					continue
				}
				pool, tc := &nb.layout.pools[k][p], nb.capacities[nb.layout.column[k]]
				if j.distinct {
					limit = 1
				}
				if pool.cpus >= 0 && j.cpus > 0 {
					limit = min(limit, tc[pool.cpus].minFree(t+ns.lead, t+hold)/j.cpus)
				}
				if pool.memory >= 0 && j.memory > 0 {
					limit = min(limit, tc[pool.memory].minFree(t+ns.lead, t+hold)/j.memory)
				}
				next = min(next, tc[pool.gpus].nextIncrease(t))
				for _, fn := range []int32{pool.cpus, pool.memory} {
					if fn < 0 {
						continue
					}
					if u := tc[fn].nextIncrease(t + ns.lead); u != never {
						next = min(next, u-ns.lead)
					}
				}
				if open := nb.layout.openTo(j.set, pool.node); open != nil {
					next = min(next, open.nextIncrease(t))
				}
				m := min(left, ns.roomAt(j, k, tc, p, t, hold).room, limit-taken, limits.room(k)/j.gpus)
				if m <= 0 {
					continue
				}
				limits.take(k, m*j.gpus)
				at = append(at, Block{Class: pool.class, Node: pool.node, Width: int32(m * j.gpus), Tasks: 1})
				left -= m
				taken += m
				until = min(until, ns.freeUntil(j, k, tc, p, m, t))
				shared = pool
			}
			// The tasks of all types add up on the node.
			if taken > 0 {
				tc := nb.capacities[nb.layout.column[nb.m.Classes[shared.class].Type]]
				if shared.cpus >= 0 && j.cpus > 0 {
					fn := tc[shared.cpus]
					until = min(until, fn.freeUntil(fn.index(t+ns.lead), taken*j.cpus))
				}
				if shared.memory >= 0 && j.memory > 0 {
					fn := tc[shared.memory]
					until = min(until, fn.freeUntil(fn.index(t+ns.lead), taken*j.memory))
				}
			}
		}
		if left == 0 {
			return t, min(until, limits.until()), at
		}
		if next == never {
			return never, 0, nil
		}
		t = next
	}
}

// earliestMixedByLevel is earliestMixed for a gang to which levels matter: in the domain in which
// a round ends first. It also returns how long the round takes there.
func (nb *nodeBoard) earliestMixedByLevel(i int, types []int16, t int64) (start, until, hold int64, at []Block) {
	jl := nb.jobs[i].levels
	start = never
	longest := func(used []int16, level int) (us int64) {
		for _, k := range used {
			us = max(us, jl.roundUs(k, level))
		}
		return us
	}
	setup := nb.jobs[i].longestSetup(types)
	for _, level := range jl.allLevels(types) {
		us := longest(types, level)
		domains, count := nb.layout.domainsOf(level)
		for d := range count {
			var in func(int) bool
			if domains != nil {
				in = func(n int) bool { return domains[n] == int32(d) }
			}
			s, u, blocks := nb.earliestMixed(i, types, t, us+setup, in)
			if s == never {
				continue
			}
			s += setup
			// The round may use fewer types, or nodes that are nearer to each other.
			spread := 0
			var used []int16
			for _, b := range blocks {
				spread = jl.levels.Join(spread, int(blocks[0].Node), int(b.Node))
				used = append(used, int16(nb.m.Classes[b.Class].Type))
			}
			if real := longest(used, spread); start == never || s+real < start+hold {
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
func (nb *nodeBoard) stay(i int, ready, left, latest int64) (b Block, tasks, end int64) {
	own := nb.own[i]
	if len(own) == 0 {
		return Block{}, 0, never
	}
	mj, j, ns := &nb.m.Jobs[i], &nb.jobs[i], nb.finder.nodes
	best, start, end := -1, never, never
	kept := own[:0]
	for _, o := range own {
		md := &mj.Modes[slices.IndexFunc(mj.Modes, func(md hare.Mode) bool { return md.Type == int(o.typ) })]
		pool, tc := &nb.layout.pools[o.typ][o.pool], nb.capacities[nb.layout.column[o.typ]]
		s := max(ready, o.until)
		if tc[pool.gpus].minFree(o.until, s+md.ComputeUs) < j.gpus {
			continue // others have taken the GPUs
		}
		kept = append(kept, o)
		if ns.roomAt(j, o.typ, tc, o.pool, s, md.ComputeUs).room == 0 || ns.quotaRoom(j, o.typ, tc, s, md.ComputeUs) == 0 {
			continue
		}
		if e := s + md.DurationUs(); e < end {
			best, start, end = len(kept)-1, s, e
		}
	}
	if nb.own[i] = kept; best < 0 || end > latest {
		return Block{}, 0, never
	}
	o := &kept[best]
	md := &mj.Modes[slices.IndexFunc(mj.Modes, func(md hare.Mode) bool { return md.Type == int(o.typ) })]
	pool, tc := &nb.layout.pools[o.typ][o.pool], nb.capacities[nb.layout.column[o.typ]]
	tasks = min(left, o.tasks, tc[pool.gpus].minFree(o.until, start+md.ComputeUs)/j.gpus,
		ns.roomAt(j, o.typ, tc, o.pool, start, md.ComputeUs).room, ns.quotaRoom(j, o.typ, tc, start, md.ComputeUs))
	b = Block{Class: pool.class, Node: pool.node, Width: int32(tasks * j.gpus), Tasks: 1, Rounds: 1, StartUs: start,
		HoldUs: md.ComputeUs, LeadUs: start - o.until, Stays: true}
	nb.layout.reserve(tc, j, o.typ, o.pool, int64(b.Width), b.StartUs, b.endUs(), b.LeadUs)
	typ, at := o.typ, o.pool
	if o.tasks -= tasks; o.tasks == 0 {
		nb.own[i] = slices.Delete(kept, best, best+1)
	}
	nb.own[i] = append(nb.own[i], ownGPUs{typ, at, tasks, b.endUs()})
	return b, tasks, end
}

// quotaLimits is what the quotas of a job leave for a round on several types.
type quotaLimits struct {
	layout *nodeLayout
	tc     []typeCapacity // by quota of the job: the column in which the quota is
	quotas []int32
	free   []int64
	taken  []int64
	t      int64
	next   int64 // when a quota next has more
}

// newQuotaLimits is for a round that holds GPUs of types within [t, t + hold).
func (nb *nodeBoard) newQuotaLimits(j *annealJob, types []int16, t, hold int64) quotaLimits {
	ql := quotaLimits{layout: nb.layout, t: t, next: never}
	for _, q := range j.quotas {
		for _, k := range types {
			if !nb.m.Quotas[q].Types[k] {
				continue
			}
			tc := nb.capacities[nb.layout.column[k]]
			fn := tc[nb.layout.quota[q]]
			ql.quotas, ql.tc = append(ql.quotas, q), append(ql.tc, tc)
			ql.free, ql.taken = append(ql.free, fn.minFree(t, t+hold)), append(ql.taken, 0)
			ql.next = min(ql.next, fn.nextIncrease(t))
			break
		}
	}
	return ql
}

// room returns how many GPUs of type k the quotas still leave.
func (ql *quotaLimits) room(k int16) int64 {
	room := never
	for x, q := range ql.quotas {
		if ql.layout.m.Quotas[q].Types[k] {
			room = min(room, ql.free[x]-ql.taken[x])
		}
	}
	return room
}

// take counts n GPUs of type k.
func (ql *quotaLimits) take(k int16, n int64) {
	for x, q := range ql.quotas {
		if ql.layout.m.Quotas[q].Types[k] {
			ql.taken[x] += n
		}
	}
}

// until returns the time until which what was taken fits into the quotas.
func (ql *quotaLimits) until() int64 {
	until := never
	for x, q := range ql.quotas {
		if ql.taken[x] > 0 {
			fn := ql.tc[x][ql.layout.quota[q]]
			until = min(until, fn.freeUntil(fn.index(ql.t), ql.taken[x]))
		}
	}
	return until
}
