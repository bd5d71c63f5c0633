package explain

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// maxWhere is how many nodes are listed for a wait, at most.
const maxWhere = 6

// The levels of levelChange where nodes matter, from countRoom on in tasks: countRoom goes
// by free GPUs, countRoomCPUs also by free CPUs, countRoomAll also by free memory.
const (
	countRoom = countReady + 1 + iota
	countRoomCPUs
	countRoomAll
	countRoomReady // after the setups of the job
	countRoomLong  // + the index of a threshold: the room lasts for as long as the threshold
)

// never says why a job never finds room on a type for which it has a profile: cause is ""
// where it does, or where the cluster lacks GPUs.
func (v *laneView) never(job, kind int) (cause string) {
	j := v.model.Jobs[job]
	tasks := j.Tasks
	if j.Sync == hare.Relaxed || j.Mix {
		tasks = 1
	}
	set, cpus, memory := j.Set, j.CPUMilli, j.MemoryMiB
	j.Set, j.CPUMilli, j.MemoryMiB = -1, 0, 0
	short := func() bool { return model.MostRoom(v.model.TaskRoom(&j, kind)) < tasks }
	if short() {
		return ""
	}
	if j.Set = set; short() {
		return waitNotAllowed
	}
	if j.CPUMilli = cpus; short() {
		return waitCPUs
	}
	if j.MemoryMiB = memory; short() {
		return waitMemory
	}
	if v.byLevels(job) && !j.Mix && v.model.LevelRoom(&j, []int{kind}, j.Within) < j.Tasks {
		return waitFragmented
	}
	return ""
}

// neverWaits returns the waits for types on which the job never finds room.
func (v *laneView) neverWaits(job int, from, to int64) []explaindoc.Wait {
	var all []explaindoc.Wait
	j := &v.model.Jobs[job]
	for _, on := range v.inst.Jobs[job].On {
		kind, known := slices.BinarySearch(v.model.Types, on.Type)
		if !known {
			continue
		}
		cause := v.never(job, kind)
		if cause == "" {
			continue
		}
		need := j.GPUs
		if j.Sync != hare.Relaxed {
			need *= j.Tasks
		}
		hold := on.DurationUs()
		switch j.Sync {
		case hare.Relaxed:
			hold = on.ComputeUs
		case hare.Rigid:
			hold *= j.Rounds
		}
		all = append(all, explaindoc.Wait{Type: on.Type, Cause: cause, FromS: hare.Seconds(from), ToS: hare.Seconds(to),
			ForS: hare.Seconds(to - from), Need: need, NeedS: hare.Seconds(hold), SetupS: hare.Seconds(on.SwitchUs),
			PerTask: perTask(j),
			Within:  v.inst.Jobs[job].Within})
	}
	return all
}

// perTask is the field PerTask of a wait of the job.
func perTask(j *model.Job) int64 {
	if j.GPUs == 1 {
		return 0
	}
	return j.GPUs
}

// load is what jobs but one hold on a node over time.
type load struct {
	at   []int64   // ascending, the first at or before all times that are asked for
	most [][]int64 // most[k][i] is the greatest load of the steps i to i + 2^k − 1
}

// newLoad adds up changes of a load.
func newLoad(from int64, changes map[int64]int64) *load {
	changes[from] += 0
	l := &load{}
	for t := range changes {
		l.at = append(l.at, t)
	}
	slices.Sort(l.at)
	sums, sum := make([]int64, len(l.at)), int64(0)
	for i, t := range l.at {
		sum += changes[t]
		sums[i] = sum
	}
	l.most = append(l.most, sums)
	for width := 1; 2*width <= len(sums); width *= 2 {
		last := l.most[len(l.most)-1]
		next := make([]int64, len(sums)-2*width+1)
		for i := range next {
			next[i] = max(last[i], last[i+width])
		}
		l.most = append(l.most, next)
	}
	return l
}

// over returns the greatest load in [from, to).
func (l *load) over(from, to int64) int64 {
	step := func(t int64) int { // the step that holds t
		i, found := slices.BinarySearch(l.at, t)
		if !found {
			i--
		}
		return max(0, i)
	}
	a, b := step(from), step(max(from, to-1))
	k := bits.Len(uint(b-a+1)) - 1
	return max(l.most[k][a], l.most[k][b-1<<k+1])
}

// loadsOf returns the CPUs and the memory that jobs other than job hold on a node between
// from and to. An entry holds from its first start to its last end.
func (v *laneView) loadsOf(job, node int, from, to int64) (cpus, memory *load) {
	type block struct {
		job, shape       int
		start, end, name int64
	}
	lanes := map[block]int64{} // the number of lanes with such an entry
	n := &v.inst.Cluster.Nodes[node]
	for g := v.model.Nodes[node].FirstGPU; g < v.model.Nodes[node].FirstGPU+int(n.GPUCount()); g++ {
		l := v.lanes[g]
		if l == nil {
			continue
		}
		for e := v.first(g, from); e < len(l.Job) && l.StartUs[e] < to; e++ {
			if other := v.jobOf[l.Job[e]]; other != job {
				x := l.Entry(e)
				lanes[block{other, int(x.Shape), x.StartUs, v.until(g, e), x.Round}]++
			}
		}
	}
	changes := [2]map[int64]int64{{}, {}}
	for b, count := range lanes {
		j := &v.model.Jobs[b.job]
		tasks := count / v.jobIn(b.job, b.shape).GPUs
		for i, each := range [2]int64{j.CPUMilli, j.MemoryMiB} {
			changes[i][max(from, b.start)] += tasks * each
			changes[i][b.end] -= tasks * each
		}
	}
	return newLoad(from, changes[0]), newLoad(from, changes[1])
}

// mayUse reports whether the job may use the node.
func (v *laneView) mayUse(job, node int) bool {
	return !v.model.Placed || v.model.Kinds[v.model.Nodes[node].Kind].Allows(&v.model.Jobs[job])
}

// nodeChanges adds the changes of the levels from countRoom on: how many tasks of the job
// find room on each node that it may use, or, where levelOf has a level for each threshold, in the
// domain of the level with the most room. It takes O(n log n) for n entries of the nodes.
func (v *laneView) nodeChanges(job int, p *waitPool, thresholds []int64, levelOf []int, from, to int64) []levelChange {
	var all []nodeChange
	longest := thresholds[len(thresholds)-1]
	j := &v.model.Jobs[job]
	for ni := range v.inst.Cluster.Nodes {
		if !v.mayUse(job, ni) {
			continue
		}
		n := &v.inst.Cluster.Nodes[ni]
		// By type of the pool: GPUs that are free, that could be set up, and that are free for as long as each threshold.
		kinds := map[int]int{}
		var changes []levelChange // level is type · (2 + thresholds) + 0, 1 or 2 + threshold
		width := 2 + len(thresholds)
		count := func(level int, a, b int64) {
			if a, b = max(a, from), min(b, to); a < b {
				changes = append(changes, levelChange{a, level, 1}, levelChange{b, level, -1})
			}
		}
		for g := v.model.Nodes[ni].FirstGPU; g < v.model.Nodes[ni].FirstGPU+int(n.GPUCount()); g++ {
			kind := v.model.GPUs[g].Type
			hold, ok := p.each[kind]
			if !ok {
				continue
			}
			if _, known := kinds[kind]; !known {
				kinds[kind] = len(kinds)
			}
			base := kinds[kind] * width
			v.open(job, g, func(w hare.Window) {
				v.gaps(job, g, w, from, to, longest, func(free gap) {
					count(base, free.from, free.to)
					count(base+1, free.ready, free.to)
					for i, d := range thresholds {
						need := hold
						if levelOf != nil {
							need = v.needAt(job, kind, levelOf[i])
						}
						if d >= need {
							count(base+2+i, free.ready, free.until-d+1)
						}
					}
				})
			})
		}
		if len(kinds) == 0 {
			continue
		}
		at := []int64{from}
		for _, c := range changes {
			at = append(at, c.at)
		}
		limits := n.CPUMilli > 0 && j.CPUMilli > 0 || n.MemoryMiB > 0 && j.MemoryMiB > 0
		var cpus, memory *load
		if limits {
			cpus, memory = v.loadsOf(job, ni, from, to+longest)
			for _, l := range []*load{cpus, memory} {
				for _, t := range l.at {
					at = append(at, t)
					for _, d := range thresholds {
						at = append(at, t-d+1) // from here on, a block of this length holds at t
					}
				}
			}
		}
		slices.Sort(at)
		at = slices.Compact(at)
		slices.SortFunc(changes, func(a, b levelChange) int { return cmp.Compare(a.at, b.at) })
		levels := make([]int64, len(kinds)*width)
		before := make([]int64, len(thresholds)+4)
		next := 0
		for _, t := range at {
			if t < from || t >= to {
				continue
			}
			for ; next < len(changes) && changes[next].at <= t; next++ {
				levels[changes[next].level] += changes[next].by
			}
			room := func(column int, until int64, byCPUs, byMemory bool) int64 {
				sum := int64(0)
				for k := range len(kinds) {
					sum += levels[k*width+column] / j.GPUs
				}
				if byCPUs && n.CPUMilli > 0 && j.CPUMilli > 0 {
					sum = min(sum, (n.CPUMilli-cpus.over(t, until))/j.CPUMilli)
				}
				if byMemory && n.MemoryMiB > 0 && j.MemoryMiB > 0 {
					sum = min(sum, (n.MemoryMiB-memory.over(t, until))/j.MemoryMiB)
				}
				if j.Distinct {
					sum = min(sum, 1)
				}
				return max(0, sum)
			}
			now := []int64{room(0, t+1, false, false), room(0, t+1, true, false), room(0, t+1, true, true),
				room(1, t+1, true, true)}
			for i, d := range thresholds {
				now = append(now, room(2+i, t+d, true, true))
			}
			for i, x := range now {
				if x != before[i] {
					all = append(all, nodeChange{levelChange{t, countRoom + i, x - before[i]}, ni})
				}
			}
			before = now
		}
	}
	if levelOf != nil {
		within := j.Within
		return v.fullestDomains(all, append([]int{within, within, within, within}, levelOf...))
	}
	sums := make([]levelChange, len(all))
	for i := range all {
		sums[i] = all[i].levelChange
	}
	return sums
}

// causeOnNodes is causeOf where nodes matter, for a round of so many tasks.
func causeOnNodes(levels []int64, need, tasks int64, long, overQuota bool) string {
	switch {
	case long:
		return waitChoice
	case levels[countService] < need:
		return waitNoService
	case levels[countUsable] < need:
		return waitBusy
	case levels[countOpen] < need:
		return waitReserved
	case levels[countFree] < need:
		return waitHeld
	case overQuota:
		return waitQuota
	case levels[countRoom] < tasks:
		return waitFragmented
	case levels[countRoomCPUs] < tasks:
		return waitCPUs
	case levels[countRoomAll] < tasks:
		return waitMemory
	case levels[countRoomReady] < tasks:
		return waitSetup
	}
	return waitTooShort
}

// where returns what is free at t on the nodes that the job may use, those with the most
// free GPUs of the pool first, and the number of further nodes with free GPUs.
func (v *laneView) where(job int, p *waitPool, t int64) ([]explaindoc.NodeFree, int) {
	var all []explaindoc.NodeFree
	for ni := range v.inst.Cluster.Nodes {
		if !v.mayUse(job, ni) {
			continue
		}
		n := &v.inst.Cluster.Nodes[ni]
		x := explaindoc.NodeFree{Node: n.Name}
		for g := v.model.Nodes[ni].FirstGPU; g < v.model.Nodes[ni].FirstGPU+int(n.GPUCount()); g++ {
			if _, ok := p.each[v.model.GPUs[g].Type]; !ok {
				continue
			}
			v.open(job, g, func(w hare.Window) { v.gaps(job, g, w, t, t+1, 1, func(gap) { x.GPUs++ }) })
		}
		if x.GPUs > 0 {
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(a, b explaindoc.NodeFree) int { return cmp.Compare(b.GPUs, a.GPUs) })
	few := slices.Clone(all[:min(len(all), maxWhere)])
	for i := range few {
		ni := slices.IndexFunc(v.inst.Cluster.Nodes, func(n hare.Node) bool { return n.Name == few[i].Node })
		n := &v.inst.Cluster.Nodes[ni]
		cpus, memory := v.loadsOf(job, ni, t, t+1)
		if n.CPUMilli > 0 {
			free := hare.Seconds((n.CPUMilli - cpus.over(t, t+1)) * 1000)
			few[i].CPUs = &free
		}
		if n.MemoryMiB > 0 {
			free := n.MemoryMiB - memory.over(t, t+1)
			few[i].MemoryMiB = &free
		}
	}
	return few, len(all) - len(few)
}
