package greedy

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare/model"
)

// hasSetups says whether some job of a model needs setups of GPUs. The searches that do not go by
// nodes do not go by setups either.
func hasSetups(m *model.Model) bool {
	return slices.ContainsFunc(m.Jobs, func(j model.Job) bool {
		setup := func(md model.Mode) bool { return md.SwitchUs > 0 }
		return slices.ContainsFunc(j.Modes, setup) ||
			slices.ContainsFunc(j.Shapes, func(s model.Shape) bool { return slices.ContainsFunc(s.Modes, setup) })
	})
}

// setupsOf returns the setup of a job by type, or nil without setups. A block of the job has a setup
// before its start, or it stays on GPUs that the job had before: it then holds them from the end
// there on, so that no other job comes in between. A setup that turns out not to be needed does no
// harm.
func setupsOf(m *model.Model, j *model.Job) []int64 {
	var setups []int64
	for _, md := range j.Modes {
		if md.SwitchUs == 0 {
			continue
		}
		if setups == nil {
			setups = make([]int64, len(m.Types))
		}
		setups[md.Type] = md.SwitchUs
	}
	return setups
}

// setupOf returns the setup of a GPU of type k for a job.
func setupOf(j *model.Job, k int) int64 {
	for _, md := range j.Modes {
		if md.Type == k {
			return md.SwitchUs
		}
	}
	return 0
}

// setup returns the setup of a GPU of type k before a block of the job.
func (aj *annealJob) setup(k int16) int64 {
	if aj.setups == nil {
		return 0
	}
	return aj.setups[k]
}

// longestSetup returns the longest setup on some types.
func (aj *annealJob) longestSetup(types []int16) (us int64) {
	for _, k := range types {
		us = max(us, aj.setup(k))
	}
	return us
}

// earliestAfterSetup returns the earliest start of a block of job j on type k that lasts hold and whose
// setup begins at from or later, as slotFinder.earliest. Where stay > hold, nodes on which the tasks
// could stay longer are preferred.
func (sf *slotFinder) earliestAfterSetup(j *annealJob, k int16, tc typeCapacity, from, hold, stay int64) int64 {
	if j.setups == nil || sf.nodes == nil {
		return sf.earliest(j, k, tc, from, hold)
	}
	ns, setup := sf.nodes, j.setup(k)
	if ns.lead = setup; stay > 0 {
		stay += setup
	}
	t := ns.earliest(j, k, tc, from, hold+setup, stay)
	if ns.lead = 0; t == never {
		return never
	}
	return t + setup
}

// earliestWithinAfterSetup is earliestAfterSetup within one domain of a level.
func (sf *slotFinder) earliestWithinAfterSetup(j *annealJob, k int16, level int, tc typeCapacity, from, hold,
	stay int64) int64 {
	ns, setup := sf.nodes, j.setup(k)
	if ns.lead = setup; stay > 0 {
		stay += setup
	}
	t := ns.earliestWithin(j, k, level, tc, from, hold+setup, stay)
	if ns.lead = 0; t == never {
		return never
	}
	return t + setup
}

// meetsOwn says whether a block of the job on chosen nodes that takes its GPUs from t on meets the
// blocks before it, which are in sf.segments and which the capacities do not know yet.
func (sf *slotFinder) meetsOwn(k int16, chosen []nodeTasks, t int64) bool {
	return slices.ContainsFunc(sf.segments, func(s segment) bool {
		return s.typ == k && s.end > t && slices.ContainsFunc(chosen, func(c nodeTasks) bool { return c.pool == s.pool })
	})
}

// runningPlace is where a gang with setups runs at time 0. It may stay there without setups.
type runningPlace struct {
	typ    int16
	until  int64
	chosen []nodeTasks
	spread int // the finest level that holds the place in one domain
}

// addRunningPlace fills in where a job runs at time 0, if this is on GPUs of a single type which stay in
// service.
func (nl *nodeLayout) addRunningPlace(j *annealJob, mj *model.Job) {
	if j.setups == nil || len(mj.RunsOn) == 0 || int64(len(mj.RunsOn)) != j.width || mj.Rounds == 0 {
		return
	}
	at := &runningPlace{typ: int16(nl.m.GPUs[mj.RunsOn[0]].Type), until: mj.RunsUntilUs}
	for _, g := range mj.RunsOn {
		gpu := &nl.m.GPUs[g]
		place := gpu.Node
		if nl.byClass {
			place = gpu.Class
		}
		if int16(gpu.Type) != at.typ || nl.poolAt[gpu.Type][place] < 0 {
			return
		}
		if nl.m.Levels != nil {
			at.spread = nl.m.Levels.Join(at.spread, nl.m.GPUs[mj.RunsOn[0]].Node, gpu.Node)
		}
		pool := nl.poolAt[gpu.Type][place]
		x := slices.IndexFunc(at.chosen, func(c nodeTasks) bool { return c.pool == pool })
		if x < 0 {
			x = len(at.chosen)
			at.chosen = append(at.chosen, nodeTasks{pool: pool})
		}
		at.chosen[x].tasks++
	}
	for x := range at.chosen {
		at.chosen[x].tasks /= int32(j.gpus)
	}
	j.runs = at
}

// roundUs returns how long a round of job j takes where the job runs.
func (rp *runningPlace) roundUs(j *annealJob) int64 {
	if j.levels == nil {
		return j.dur[rp.typ]
	}
	return j.levels.roundUs(rp.typ, rp.spread)
}

// earliestStay returns the earliest start from on of a block that lasts hold and stays where job j runs at
// time 0, or never.
func (sf *slotFinder) earliestStay(j *annealJob, capacities []typeCapacity, from, hold int64) int64 {
	rp, ns := j.runs, sf.nodes
	if rp == nil || j.dur[rp.typ] == 0 {
		return never
	}
	tc := sf.capacityOf(rp.typ, capacities)
	start := max(from, rp.until)
	for again := true; again && start != never; {
		before := start
		for _, c := range rp.chosen {
			pool := &ns.layout.pools[rp.typ][c.pool]
			if start != never {
				start = ns.earliestTasks(j, pool, tc, start, hold, int64(c.tasks))
			}
		}
		for _, q := range j.quotas {
			if start != never && ns.layout.m.Quotas[q].Types[rp.typ] {
				start, _ = tc[ns.layout.quota[q]].earliest(start, hold, j.width)
			}
		}
		again = start != before
	}
	if start == never {
		return never
	}
	for _, c := range rp.chosen {
		pool := &ns.layout.pools[rp.typ][c.pool]
		if tc[pool.gpus].minFree(rp.until, start+hold) < int64(c.tasks)*j.gpus {
			return never
		}
	}
	return start
}

// appendBlock appends a run of rounds with a setup before it, as appendOnNodes.
func (sf *slotFinder) appendBlock(k int16, j *annealJob, chosen []nodeTasks, round, rounds, start, end int64) {
	n := len(sf.segments)
	sf.appendOnNodes(k, j, chosen, round, rounds, start, end)
	for x := n; x < len(sf.segments); x++ {
		sf.segments[x].lead = j.setup(k)
	}
}

// appendStay appends a run of rounds where the job runs at time 0.
func (sf *slotFinder) appendStay(j *annealJob, round, rounds, start, end int64) {
	n := len(sf.segments)
	sf.appendOnNodes(j.runs.typ, j, j.runs.chosen, round, rounds, start, end)
	for x := n; x < len(sf.segments); x++ {
		sf.segments[x].lead, sf.segments[x].stays = start-j.runs.until, true
	}
}

// placeBlock is placeContiguous for a job with setups. No setup begins before ready, and the rounds start
// at from or later.
func (sf *slotFinder) placeBlock(j *annealJob, k int16, capacities []typeCapacity, round, rounds, ready,
	from int64) (end int64, ok bool) {
	var stay, us int64 = never, 0
	if j.runs != nil && j.runs.typ == k && round == 0 {
		us = j.runs.roundUs(j)
		stay = sf.earliestStay(j, capacities, from, rounds*us)
	}
	tc := sf.capacityOf(k, capacities)
	find := func(taken int64) (start, d int64) {
		if j.levels != nil {
			return sf.earliestByLevel(j, k, tc, taken, rounds)
		}
		return sf.earliestAfterSetup(j, k, tc, taken, rounds*j.dur[k], 0), j.dur[k]
	}
	chosen := func() []nodeTasks {
		if j.levels != nil {
			return sf.together
		}
		return sf.nodes.chosen
	}
	taken := max(ready, from-j.setup(k))
	start, d := find(taken)
	if start != never && taken < from && sf.meetsOwn(k, chosen(), start-j.setup(k)) {
		start, d = find(from)
	}
	if stay != never && (start == never || stay+rounds*us <= start+rounds*d) {
		sf.appendStay(j, round, rounds, stay, stay+rounds*us)
		return stay + rounds*us, true
	}
	if start == never {
		return 0, false
	}
	sf.appendBlock(k, j, chosen(), round, rounds, start, start+rounds*d)
	return start + rounds*d, true
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
		md := &mj.Modes[slices.IndexFunc(mj.Modes, func(md model.Mode) bool { return md.Type == int(o.typ) })]
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
	md := &mj.Modes[slices.IndexFunc(mj.Modes, func(md model.Mode) bool { return md.Type == int(o.typ) })]
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

// compareHeld orders blocks by the time from which they hold their GPUs. Blocks that stay come first, because
// they need the very GPUs that the job has.
func compareHeld(a, b jobBlock) int {
	return cmp.Or(cmp.Compare(a.takenFromUs(), b.takenFromUs()), -compareBool(a.Stays, b.Stays),
		cmp.Compare(a.job, b.job), cmp.Compare(a.index, b.index))
}

// runningJobs returns the job that runs on each GPU at time 0, −1 where there is none. It is nil where no job
// needs setups.
func runningJobs(m *model.Model) []int32 {
	if !hasSetups(m) {
		return nil
	}
	runs := slices.Repeat([]int32{-1}, len(m.GPUs))
	for i := range m.Jobs {
		for _, g := range m.Jobs[i].RunsOn {
			runs[g] = int32(i)
		}
	}
	return runs
}
