package explain

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// The cause of a wait comes from one sweep over time. What a round finds, counted in GPUs of the cluster and in tasks
// that have room on a node, changes where windows and entries begin and end. Between two changes nothing changes, and
// the wait has one cause: the first of the counts, in the order of the fields of counts, that is less than the round
// needs. Where nodes do not matter, the sweep takes the cluster for one node that limits nothing.

// counts are what a round of a job finds at one time on the types of a pool.
type counts struct {
	// GPUs of nodes that the job may use: in service, not busy, not reserved for others, and held by no other job.
	service, usable, open, free int64
	// Tasks that find room on nodes: by free GPUs, by free CPUs too, by free memory too, and after their setups.
	onGPUs, withCPUs, withMemory, ready room
	lasting                             []room // by threshold: tasks that find room after their setups for so long
}

// room counts the tasks that find room, by domain of the level that a round may not leave.
type room struct {
	level int // noLevel where all nodes are one domain
	tasks []int64
}

// most is the room of the domain with the most of it.
func (r *room) most() int64 { return slices.Max(r.tasks) }

// siteRoom is what one site adds to the rooms of counts.
type siteRoom struct {
	onGPUs, withCPUs, withMemory, ready int64
	lasting                             []int64
}

// changes are changes of counts between two times.
type changes struct {
	from, to int64
	list     []change
}

// change says that a count changes at a time. A change without a count marks a time at which a quota leaves more or
// less.
type change struct {
	at, by int64
	count  *int64
}

// during lets a count be one more from a until b.
func (cs *changes) during(count *int64, a, b int64) {
	if a, b = max(a, cs.from), min(b, cs.to); a < b {
		cs.list = append(cs.list, change{a, 1, count}, change{b, -1, count})
	}
}

func (cs *changes) sort() {
	slices.SortFunc(cs.list, func(a, b change) int { return cmp.Compare(a.at, b.at) })
}

// apply makes the changes until t, which are sorted, and removes them from the list.
func (cs *changes) apply(t int64) {
	for len(cs.list) > 0 && cs.list[0].at <= t {
		if c := cs.list[0]; c.count != nil {
			*c.count += c.by
		}
		cs.list = cs.list[1:]
	}
}

// sweep finds the causes of a wait for a pool.
type sweep struct {
	*laneView
	job        int
	pool       *waitPool
	changes    changes
	thresholds []threshold
	longest    int64 // the last threshold
	now        counts
	quotas     []quotaLoad
}

// waits says what a round of a job waits for that could start at from and starts
// at to. waits is O(n log n) for n GPUs and entries between from and to.
func (v *laneView) waits(job int, from, to int64) []explaindoc.Wait {
	var all []explaindoc.Wait
	for _, p := range v.pools(job) {
		all = append(all, v.newSweep(job, &p, from, to).waits()...)
	}
	if v.model.Placed {
		all = append(all, v.neverWaits(job, from, to)...)
	}
	slices.SortStableFunc(all, func(a, b explaindoc.Wait) int { return cmp.Compare(a.FromS, b.FromS) })
	return all
}

// newSweep collects the changes between from and to.
func (v *laneView) newSweep(job int, p *waitPool, from, to int64) *sweep {
	s := &sweep{laneView: v, job: job, pool: p, changes: changes{from: from, to: to}, thresholds: v.thresholds(job, p)}
	s.longest = s.thresholds[len(s.thresholds)-1].us
	level := noLevel
	if v.byLevels(job) {
		level = v.model.Jobs[job].Within
	}
	for _, r := range []*room{&s.now.onGPUs, &s.now.withCPUs, &s.now.withMemory, &s.now.ready} {
		*r = v.newRoom(level)
	}
	for _, t := range s.thresholds {
		s.now.lasting = append(s.now.lasting, v.newRoom(t.level))
	}
	if !v.model.Placed {
		s.addSite(&site{job: &v.model.Jobs[job], end: len(v.model.GPUs)})
	}
	for n := range v.model.Nodes {
		if v.mayUse(job, n) {
			s.addSite(s.siteOf(n))
		}
	}
	s.quotas = v.quotaLoads(job, p, from, to+s.longest)
	for i := range s.quotas {
		for _, t := range s.quotas[i].held.at { // the cause may change here, and where a block begins that lasts until here
			s.changes.list = append(s.changes.list, change{at: t})
			for _, d := range s.thresholds {
				s.changes.list = append(s.changes.list, change{at: t - d.us + 1})
			}
		}
	}
	s.changes.sort()
	return s
}

func (v *laneView) newRoom(level int) room {
	if level == noLevel {
		return room{level, make([]int64, 1)}
	}
	return room{level, make([]int64, v.model.Levels.Domains(level))}
}

// site is a node as a job sees it, or the whole cluster where nodes do not matter.
type site struct {
	job          *model.Job
	node         int
	first, end   int     // its GPUs in the model
	cpus, memory *supply // nil where the node or the job does not limit them
	kinds        []*siteGPUs
}

// supply is what a node has of something, and what a task needs of it.
type supply struct {
	has, each int64
	used      *load
}

// tasks returns how many tasks have enough from t to until.
func (sp *supply) tasks(t, until int64) int64 {
	if sp == nil {
		return math.MaxInt64
	}
	return (sp.has - sp.used.over(t, until)) / sp.each
}

// siteGPUs counts the GPUs of one type of a site.
type siteGPUs struct {
	kind        int
	free, ready int64   // held by no other job; free, and a setup for the job could be over
	lasting     []int64 // ready, and free for as long as each threshold
}

// siteOf returns a node as the job sees it.
func (s *sweep) siteOf(node int) *site {
	n, j := &s.inst.Cluster.Nodes[node], &s.model.Jobs[s.job]
	first := s.model.Nodes[node].FirstGPU
	st := &site{job: j, node: node, first: first, end: first + int(n.GPUCount())}
	byCPUs, byMemory := n.CPUMilli > 0 && j.CPUMilli > 0, n.MemoryMiB > 0 && j.MemoryMiB > 0
	if byCPUs || byMemory {
		cpus, memory := s.loadsOf(s.job, node, s.changes.from, s.changes.to+s.longest)
		if byCPUs {
			st.cpus = &supply{n.CPUMilli, j.CPUMilli, cpus}
		}
		if byMemory {
			st.memory = &supply{n.MemoryMiB, j.MemoryMiB, memory}
		}
	}
	return st
}

// gpus returns the counts of the GPUs of a type.
func (st *site) gpus(kind, thresholds int) *siteGPUs {
	for _, k := range st.kinds {
		if k.kind == kind {
			return k
		}
	}
	st.kinds = append(st.kinds, &siteGPUs{kind: kind, lasting: make([]int64, thresholds)})
	return st.kinds[len(st.kinds)-1]
}

// tasks returns for how many tasks the site has GPUs.
func (st *site) tasks(gpus func(*siteGPUs) int64) (n int64) {
	for _, k := range st.kinds {
		n += gpus(k) / st.job.GPUs
	}
	if st.job.Distinct {
		n = min(n, 1)
	}
	return n
}

// addSite adds the changes of the counts on a site. It takes O(n log n) for n entries of the site.
func (s *sweep) addSite(st *site) {
	here := changes{from: s.changes.from, to: s.changes.to}
	for g := st.first; g < st.end; g++ {
		if kind := s.model.GPUs[g].Type; s.pool.has(kind) {
			s.addGPU(g, st.gpus(kind, len(s.thresholds)), &here)
		}
	}
	if len(st.kinds) == 0 {
		return
	}
	at := []int64{here.from}
	for _, c := range here.list {
		at = append(at, c.at)
	}
	for _, sp := range []*supply{st.cpus, st.memory} {
		if sp == nil {
			continue
		}
		for _, t := range sp.used.at {
			at = append(at, t)
			for _, d := range s.thresholds {
				at = append(at, t-d.us+1) // from here on, a block of this length holds at t
			}
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	here.sort()
	was := siteRoom{lasting: make([]int64, len(s.thresholds))}
	for _, t := range at {
		if here.from <= t && t < here.to {
			here.apply(t)
			s.addRoom(t, st, &was)
		}
	}
}

// addGPU adds the changes of the counts of a GPU: to the sweep those of the whole pool, and to here those of its site.
func (s *sweep) addGPU(g int, of *siteGPUs, here *changes) {
	now := &s.now
	s.service(g, func(w hare.Window) { s.changes.during(&now.service, w.StartUs, w.EndUs) })
	s.usable(g, func(w hare.Window) { s.changes.during(&now.usable, w.StartUs, w.EndUs) })
	s.open(s.job, g, func(w hare.Window) {
		s.changes.during(&now.open, w.StartUs, w.EndUs)
		s.gaps(s.job, g, w, here.from, here.to, s.longest, func(free gap) {
			s.changes.during(&now.free, free.from, free.to)
			here.during(&of.free, free.from, free.to)
			here.during(&of.ready, free.ready, free.to)
			for i, d := range s.thresholds {
				if d.us >= s.needWithin(s.job, s.pool, of.kind, d.level) {
					here.during(&of.lasting[i], free.ready, free.until-d.us+1) // a start at until − d is the latest that fits
				}
			}
		})
	})
}

// addRoom adds the changes of the room on a site at t, and writes the room that is there now to was.
func (s *sweep) addRoom(t int64, st *site, was *siteRoom) {
	set := func(r *room, was *int64, now int64) {
		if now = max(0, now); now == *was {
			return
		}
		domain := 0
		if r.level != noLevel {
			domain = s.model.Levels.Domain(r.level, st.node)
		}
		s.changes.list = append(s.changes.list, change{t, now - *was, &r.tasks[domain]})
		*was = now
	}
	cpus, memory := st.cpus.tasks(t, t+1), st.memory.tasks(t, t+1)
	gpus := st.tasks(func(k *siteGPUs) int64 { return k.free })
	set(&s.now.onGPUs, &was.onGPUs, gpus)
	set(&s.now.withCPUs, &was.withCPUs, min(gpus, cpus))
	set(&s.now.withMemory, &was.withMemory, min(gpus, cpus, memory))
	ready := st.tasks(func(k *siteGPUs) int64 { return k.ready })
	set(&s.now.ready, &was.ready, min(ready, cpus, memory))
	for i, d := range s.thresholds {
		gpus := st.tasks(func(k *siteGPUs) int64 { return k.lasting[i] })
		set(&s.now.lasting[i], &was.lasting[i], min(gpus, st.cpus.tasks(t, t+d.us), st.memory.tasks(t, t+d.us)))
	}
}

// cause returns why the round does not start at t, to which the counts go.
func (s *sweep) cause(t int64) string {
	n, gpus, tasks := &s.now, s.pool.need, s.pool.tasks
	switch {
	case s.couldStart(t):
		return waitChoice
	case n.service < gpus:
		return waitNoService
	case n.usable < gpus:
		return waitBusy
	case n.open < gpus:
		return waitReserved
	case n.free < gpus:
		return waitHeld
	case s.overQuota(t, t+1) >= 0:
		return waitQuota
	case n.onGPUs.most() < tasks:
		return waitFragmented
	case n.withCPUs.most() < tasks:
		return waitCPUs
	case n.withMemory.most() < tasks:
		return waitMemory
	case n.ready.most() < tasks:
		return waitSetup
	}
	return waitTooShort
}

// couldStart reports whether the round could have started at t.
func (s *sweep) couldStart(t int64) bool {
	for i := range s.now.lasting {
		if s.now.lasting[i].most() >= s.pool.tasks && s.overQuota(t, t+s.thresholds[i].us) < 0 {
			return true
		}
	}
	return false
}

// overQuota returns the first of the quotas that leaves too few GPUs for a round from t to until, or −1.
func (s *sweep) overQuota(t, until int64) int {
	return slices.IndexFunc(s.quotas, func(q quotaLoad) bool { return q.room(s.laneView, t, until) < s.pool.need })
}

// waits returns a wait for each cause, in the order of waitCauses.
func (s *sweep) waits() (all []explaindoc.Wait) {
	found := map[string]*explaindoc.Wait{}
	spans := map[string][]interval{}
	for t := s.changes.from; t < s.changes.to; {
		s.changes.apply(t)
		end := s.changes.to
		if left := s.changes.list; len(left) > 0 {
			end = left[0].at
		}
		cause := s.cause(t)
		w := found[cause]
		if w == nil {
			w = &explaindoc.Wait{Type: s.pool.name, Cause: cause, FromS: hare.Seconds(t), Need: s.pool.need,
				NeedS: hare.Seconds(s.thresholds[0].us), SetupS: s.longestSetup(s.job, s.pool),
				PerTask: perTask(&s.model.Jobs[s.job]), Within: s.inst.Jobs[s.job].Within}
			found[cause] = w
		}
		w.ToS = hare.Seconds(end)
		w.ForS += hare.Seconds(end - t)
		w.Free = max(w.Free, s.now.free)
		if at := spans[cause]; len(at) > 0 && at[len(at)-1].to == t {
			at[len(at)-1].to = end
		} else {
			spans[cause] = append(at, interval{t, end})
		}
		t = end
	}
	for _, cause := range waitCauses {
		if w := found[cause]; w != nil {
			s.nameHolders(w, spans[cause])
			all = append(all, *w)
		}
	}
	return all
}

// nameHolders adds to a wait what holds the GPUs, CPUs or memory that the round lacks in the spans of the wait.
func (s *sweep) nameHolders(w *explaindoc.Wait, spans []interval) {
	ofPool := func(g int) bool { return s.pool.has(s.model.GPUs[g].Type) && s.mayUse(s.job, s.model.GPUs[g].Node) }
	var holds func(g int, other *model.Job) bool
	switch w.Cause {
	case waitHeld, waitFragmented:
		holds = func(g int, _ *model.Job) bool { return ofPool(g) }
	case waitCPUs:
		holds = func(g int, other *model.Job) bool { return other.CPUMilli > 0 && s.mayUse(s.job, s.model.GPUs[g].Node) }
	case waitMemory:
		holds = func(g int, other *model.Job) bool {
			return other.MemoryMiB > 0 && s.mayUse(s.job, s.model.GPUs[g].Node)
		}
	case waitQuota:
		at := s.quotas[s.overQuota(int64(w.FromS), int64(w.FromS)+1)].quota
		w.User = s.inst.Quota[at].User
		holds = func(g int, other *model.Job) bool {
			return s.model.Quotas[at].Types[s.model.GPUs[g].Type] && slices.Contains(other.Quotas, int32(at))
		}
	case waitNoService:
		w.UntilS = s.back(int64(w.ToS), ofPool, s.service)
	case waitBusy:
		w.UntilS = s.back(int64(w.ToS), ofPool, s.usable)
	case waitReserved:
		w.UntilS = s.back(int64(w.ToS), ofPool, func(g int, f func(hare.Window)) { s.open(s.job, g, f) })
	}
	if holds != nil {
		w.Jobs, w.Others = s.holders(s.job, spans, holds)
	}
	if w.Cause == waitFragmented || w.Cause == waitCPUs || w.Cause == waitMemory {
		w.Nodes, w.OtherNodes = s.where(s.job, s.pool, int64(w.FromS))
	}
}
