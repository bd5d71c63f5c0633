package verify_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
)

// nodeReading is one way to read docs/reference/model.md. The zero value is the right reading, and each
// field makes it false in one point.
type nodeReading struct {
	gangUnit      bool // the whole gang is a unit in each node, too
	meanNode      bool // F of the mean node, times the number of nodes
	noSingles     bool // F without GPUs alone
	dearestFirst  bool // F by the dearest good first
	unitsMixing   bool // whole gangs as units of jobs that mix types
	unitsRelaxed  bool // whole rounds as units of relaxed jobs
	gangOnOneNode bool // all tasks of a round on one node
	fitAtZero     bool // room at time 0 alone
	cpusAtZero    bool // CPUs of nodes in service at time 0 alone
	leftEnd       bool // M at the cell's left end
	leftOfAll     bool // M at the left end of the grid
	ownByNode     bool // m_k by one node
	firstClass    bool // one class taken for all, that of the first node
	lastClass     bool // one class taken for all, that of the last node
	subsetGang    bool // gang units in a pool that lacks some of the job's nodes
	poolOfFirst   bool // M of the nodes that the first job may use
	of            reading

	reservedGone  bool // M without the GPUs that are reserved
	afterSum      bool // a' from the sum of the predecessors' P
	keepsWeight   bool // weight that is moved to a predecessor counts for the job, too
	fromRelease   bool // P − a in place of ℓ in what moved weight adds
	shortCapacity bool // no capacity in the last cell before T
	quotaForGood  bool // running work counts for a quota for ever
	quotaAllTypes bool // a quota of some types counts all
	busyForGood   bool // GPUs of running work are never free
	runningAgain  bool // the running round is left
	noElapsed     bool // running work begins at 0

	syncWidest   bool // every round takes the longest time by spread
	mixFitByType bool // a gang that mixes types must find room for all tasks on each

	windowOfJob   bool // a gang stays in one window for all rounds
	windowOfSync  bool // a relaxed task holds its GPU while it synchronises
	windowOfNode  bool // all tasks of a round are on one node
	windowOfAll   bool // all nodes are open together, and none before
	closedForUser bool // a reservation closes its nodes to those whom it lists as well
}

// naiveOnNodes evaluates the price bound by the text of docs/reference/model.md in floats, second by
// second and node by node. All times of inst and of the grid are multiples of half a second.
func naiveOnNodes(inst *hare.Instance, c *hare.Certificate, r nodeReading) float64 {
	const half = 500_000
	levels := brute.Reading{}
	_, placed := inst.Placed()
	nodes := inst.Cluster.Nodes
	run := naiveRunning(inst, r)
	cells := len(c.GridUs) - 1
	type place struct {
		node int
		kind string
		us   int64
	}
	counted := map[place]int64{} // what free has found
	free := func(n int, kind string, t int64) int64 {
		at := place{n, kind, t}
		if count, known := counted[at]; known {
			return count
		}
		node, number, count := &nodes[n], 0, int64(0)
		open := node.Windows == nil || slices.ContainsFunc(node.Windows,
			func(w hare.Window) bool { return w.StartUs <= t && t < w.EndUs })
		for _, g := range node.GPUs {
			for range g.Count {
				busy := slices.ContainsFunc(node.Busy, func(b hare.Busy) bool { return b.GPU == number && t < b.UntilUs }) ||
					run.holds(inst, node.Name+"/"+strconv.Itoa(number), t)
				if g.Type == kind && open && !busy {
					count++
				}
				number++
			}
		}
		counted[at] = count
		return count
	}
	has := func(n int, kind string) bool {
		return slices.ContainsFunc(nodes[n].GPUs, func(g hare.TypeCount) bool { return g.Type == kind })
	}
	matches := func(selector []hare.LabelValues, n int) (count int) {
		for _, lv := range selector {
			value, ok := nodes[n].Label(lv.Label)
			if ok && slices.Contains(lv.Values, value) {
				count++
			}
		}
		return count
	}
	allowed := func(j *hare.Job, n int) bool {
		return matches(j.Only, n) == len(j.Only) && matches(j.Exclude, n) == 0
	}
	const last = 20 * 2 * half // nothing changes later
	reserved := func(j *hare.Job, n int, t int64) bool {
		return slices.ContainsFunc(inst.Cluster.Reservations, func(v hare.Reservation) bool {
			return v.FromUs <= t && t < v.UntilUs && matches(v.Nodes, n) == len(v.Nodes) &&
				(j == nil || !slices.Contains(v.Jobs, j.ID) && !overlap(v.Users, j.Users))
		})
	}
	counts := func(q *hare.Quota, j *hare.Job, kind string) bool {
		return slices.Contains(j.Users, q.User) && (q.Types == nil || r.quotaAllTypes || slices.Contains(q.Types, kind))
	}
	room := func(j *hare.Job, kind string, n int, t int64) int64 {
		x := free(n, kind, t) / j.TaskGPUs()
		if j.CPUMilliPerTask > 0 && nodes[n].CPUMilli > 0 {
			cpus := nodes[n].CPUMilli
			if r.cpusAtZero && nodes[n].Windows != nil && nodes[n].Windows[0].StartUs > 0 {
				cpus = 0
			}
			x = min(x, (cpus-run.tasks(inst, n, t, func(o *hare.Job) int64 { return o.CPUMilliPerTask }))/j.CPUMilliPerTask)
		}
		if j.MemoryMiBPerTask > 0 && nodes[n].MemoryMiB > 0 {
			x = min(x, (nodes[n].MemoryMiB-run.tasks(inst, n, t,
				func(o *hare.Job) int64 { return o.MemoryMiBPerTask }))/j.MemoryMiBPerTask)
		}
		if j.DistinctNodes {
			x = min(x, 1)
		}
		if !allowed(j, n) || reserved(j, n, t) {
			x = 0
		}
		return max(0, x)
	}
	most := func(j *hare.Job, level string, kinds ...string) (fit int64) {
		for t := int64(0); t < last; t += half {
			if r.fitAtZero && t > 0 {
				break
			}
			sums := map[string]int64{}
			for n := range nodes {
				domain := levels.Domain(inst, level, n)
				if r.gangOnOneNode && j.Sync != hare.Relaxed {
					domain = nodes[n].Name
				}
				for _, kind := range kinds {
					sums[domain] += room(j, kind, n, t)
				}
			}
			for _, sum := range sums {
				fit = max(fit, sum)
			}
		}
		return fit
	}
	inPool := func(p *hare.Pool, n int) bool { return has(n, p.Type) && matches(p.Only, n) == len(p.Only) }
	// The prices and sizes of the certificate are pools of all nodes.
	var pools []hare.Pool
	for _, p := range c.Prices {
		pool := hare.Pool{Type: p.Type, Per: hare.PerAll, Nanos: p.Nanos}
		for _, s := range c.Sizes {
			if s.Type == p.Type {
				pool.Sizes = append(pool.Sizes, hare.PoolSize{GPUs: s.Tasks, Nanos: s.Nanos})
			}
		}
		pools = append(pools, pool)
	}
	pools = append(pools, c.Pools...)
	price := func(p *hare.Pool, size int64, cell int) float64 {
		for _, s := range p.Sizes {
			if s.GPUs == size {
				return float64(s.Nanos[cell]) * 1e-9
			}
		}
		if p.Nanos == nil {
			return 0
		}
		return float64(size) * float64(p.Nanos[cell]) * 1e-9
	}
	total := 0.0
	for i := range pools {
		p := &pools[i]
		for cell := range cells {
			if r.shortCapacity && cell == cells-1 {
				continue
			}
			for t := c.GridUs[cell]; t < c.GridUs[cell+1]; t += half {
				t := t
				if r.leftEnd {
					t = c.GridUs[cell]
				}
				if r.leftOfAll {
					t = 0
				}
				if p.Resource == hare.PoolQuota {
					whole := *p
					whole.Per = hare.PerAll
					left := inst.Quota[p.Quota].GPUs
					for x := range inst.Jobs {
						job := &inst.Jobs[x]
						if job.Progress == nil || !r.quotaForGood && t >= run.until[x] {
							continue
						}
						for _, gpu := range job.Progress.GPUs {
							if counts(&inst.Quota[p.Quota], job, typeOf(inst, gpu)) {
								left--
							}
						}
					}
					total -= naiveCost(inst, &whole, 1, cell, r, func(int) int64 { return max(0, left) }) / 2
					continue
				}
				total -= naiveCost(inst, p, len(nodes), cell, r, func(n int) int64 {
					switch {
					case !inPool(p, n) || r.poolOfFirst && !allowed(&inst.Jobs[0], n):
						return 0
					case p.Resource == hare.PoolGPUs && r.reservedGone && reserved(nil, n, t):
						return 0
					case p.Resource == hare.PoolGPUs:
						return free(n, p.Type, t)
					case nodes[n].Windows != nil && !slices.ContainsFunc(nodes[n].Windows,
						func(w hare.Window) bool { return w.StartUs <= t && t < w.EndUs }):
						return 0
					case p.Resource == hare.PoolCPUs:
						return nodes[n].CPUMilli - run.tasks(inst, n, t, func(o *hare.Job) int64 { return o.CPUMilliPerTask })
					}
					return nodes[n].MemoryMiB - run.tasks(inst, n, t, func(o *hare.Job) int64 { return o.MemoryMiBPerTask })
				}) / 2
			}
		}
	}
	moved := make([]int64, len(inst.Jobs)) // λ to each job less λ from it
	for _, a := range c.After {
		for i := range inst.Jobs {
			switch inst.Jobs[i].ID {
			case a.Job:
				if !r.keepsWeight {
					moved[i] -= a.Micro
				}
			case a.Before:
				moved[i] += a.Micro
			}
		}
	}
	horizon := c.GridUs[cells]
	ends := map[string]int64{} // P by job; predecessors come first
	for i := range inst.Jobs {
		job := inst.Jobs[i]
		arrival, weight := job.ReleaseUs, job.WeightMicro
		if inst.Objective != hare.ObjectiveJCTAndTardiness {
			job.LateWeightMicro = 0
		}
		if run.first[i] == job.Rounds {
			ends[job.ID] = run.until[i]
			for _, a := range c.After {
				if a.Before == job.ID {
					total += float64(a.Micro) * 1e-12 * float64(run.until[i])
				}
			}
			if inst.Objective == hare.ObjectiveMakespan && run.until[i] > horizon {
				return math.Inf(1)
			}
			continue
		}
		job.Rounds -= run.first[i]
		job.ReleaseUs = max(job.ReleaseUs, run.until[i])
		sum := int64(0)
		for _, p := range job.After {
			job.ReleaseUs = max(job.ReleaseUs, ends[p.Job]+p.LagUs)
			sum += ends[p.Job] + p.LagUs
		}
		if r.afterSum {
			job.ReleaseUs = max(job.ReleaseUs, sum)
		}
		job.WeightMicro += moved[i]
		if inst.Objective == hare.ObjectiveMakespan {
			job.WeightMicro, weight = 0, 0
		}
		alone := job // with a profile for each mode
		alone.On = nil
		peaks, rows, units := map[string]int64{}, map[string][]int64{}, map[string]int64{}
		types := job
		types.On = nil
		fits := map[string]int64{}
		perTask := map[string][]int64{} // the least of the classes, cell by cell
		plain := true                   // each type has one class
		var serving []hare.Profile      // of the modes
		var kinds []string
		for _, p := range job.On {
			kinds = append(kinds, p.Type)
		}
		for _, md := range naiveModes(inst, &job, r) {
			p := md.Profile
			fit := most(&job, md.level, p.Type)
			for x := range inst.Quota {
				if q := &inst.Quota[x]; counts(q, &job, p.Type) {
					if job.Sync == hare.Relaxed {
						fit = min(fit, q.GPUs/job.TaskGPUs())
					} else if !job.Mix && q.GPUs < job.Tasks*job.TaskGPUs() {
						fit = 0
					}
				}
			}
			if fit == 0 || placed && job.Sync != hare.Relaxed && (!job.Mix || r.mixFitByType) && fit < job.Tasks ||
				placed && job.Mix && most(&job, md.level, kinds...) < job.Tasks {
				continue
			}
			types.On, serving = append(types.On, p), append(serving, p)
			types.On[len(types.On)-1].Type = md.key
			fits[md.key] = fit
			var mine []int
			for n := range nodes {
				for t := int64(0); t < last; t += half {
					if room(&job, p.Type, n, t) > 0 {
						mine = append(mine, n)
						break
					}
				}
			}
			for x, n := range mine {
				if r.firstClass && x > 0 || r.lastClass && x < len(mine)-1 {
					continue
				}
				nanos := make([]int64, cells)
				for cell := range cells {
					theta := 0.0
					for y := range pools {
						pool := &pools[y]
						if pool.Resource == hare.PoolQuota {
							switch {
							case !counts(&inst.Quota[pool.Quota], &job, p.Type):
							case job.Sync != hare.Relaxed && !job.Mix:
								theta += price(pool, job.Tasks*job.TaskGPUs(), cell)
							default:
								theta += float64(job.Tasks) * price(pool, job.TaskGPUs(), cell)
							}
							continue
						}
						if !inPool(pool, n) || pool.Resource == hare.PoolGPUs && pool.Type != p.Type {
							continue
						}
						tasks, g := float64(job.Tasks), job.TaskGPUs()
						switch pool.Resource {
						case hare.PoolCPUs:
							theta += tasks * float64(job.CPUMilliPerTask) / 1000 * price(pool, 1, cell)
							continue
						case hare.PoolMemory:
							theta += tasks * float64(job.MemoryMiBPerTask) * price(pool, 1, cell)
							continue
						}
						whole := (job.Sync != hare.Relaxed || r.unitsRelaxed) && (!job.Mix || r.unitsMixing) &&
							(pool.Per == hare.PerAll || r.gangUnit || md.rank <= naiveRank(inst, pool.Per))
						for _, o := range mine {
							whole = whole && (inPool(pool, o) || r.subsetGang)
						}
						if whole {
							theta += price(pool, job.Tasks*g, cell)
						} else {
							theta += tasks * price(pool, g, cell)
						}
					}
					nanos[cell] = int64(math.Round(theta * 1e9))
				}
				name := fmt.Sprint(md.key, " ", n)
				alone.On = append(alone.On, hare.Profile{Type: name, ComputeUs: p.ComputeUs, SyncUs: p.SyncUs})
				rows[name], peaks[name], units[name] = nanos, fit, 1
				if x > 0 && !r.lastClass && !slices.Equal(nanos, rows[fmt.Sprint(md.key, " ", mine[0])]) {
					plain = false
				}
				each := make([]int64, cells)
				for cell := range each {
					each[cell] = nanos[cell] / job.Tasks
				}
				perTask[md.key] = each
			}
		}
		if len(types.On) == 0 {
			return math.Inf(1) // the job has no bound
		}
		tau := naiveRound(&types, func(kind string) int64 { return fits[kind] })
		before := job.ReleaseUs
		if ends[job.ID] = before + job.Rounds*tau; placed {
			job.ReleaseUs, ends[job.ID] = naiveWindows(&job, serving, tau, r, func(kind string, n int, t int64) int64 {
				if r.closedForUser && reserved(nil, n, t) {
					return 0
				}
				return room(&job, kind, n, t)
			}, len(nodes), last)
			if ends[job.ID] < 0 {
				return math.Inf(1)
			}
			alone.ReleaseUs, types.ReleaseUs = job.ReleaseUs, job.ReleaseUs
		}
		for _, a := range c.After {
			for _, p := range job.After {
				if a.Job != job.ID || a.Before != p.Job {
					continue
				}
				apart := p.LagUs + job.Rounds*tau
				if r.fromRelease {
					apart = ends[job.ID] - arrival
				}
				total += float64(a.Micro) * 1e-12 * float64(apart)
			}
		}
		as := r.of
		as.noPath = !c.Path
		if inst.Objective == hare.ObjectiveMakespan {
			if ends[job.ID] > horizon {
				return math.Inf(1)
			}
			as.endsBy = horizon
		}
		as.path = ends[job.ID]
		phi := naivePhi(&alone, c.GridUs, rows, units, func(kind string) int64 { return peaks[kind] }, tau, as)
		if job.Sync == hare.Relaxed && c.StepUs > 0 && inst.Objective != hare.ObjectiveMakespan {
			if !plain {
				return math.NaN() // the recursion is for one class
			}
			own := func(kind string) (n int64) {
				if !r.ownByNode {
					return fits[kind]
				}
				for x := range nodes {
					for t := int64(0); t < last; t += half {
						n = max(n, room(&job, kind, x, t))
					}
				}
				return n
			}
			phi = max(phi, float64(naiveV(&types, c.GridUs, c.StepUs, perTask, own, c.Path, tau, len(inst.Jobs), as))*1e-15)
		}
		total += phi - float64(weight)*1e-12*float64(arrival)
	}
	return total
}
