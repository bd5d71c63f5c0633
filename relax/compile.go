package relax

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// newProblem compiles m. The share beta of synchronisation is charged as compute: 0 for
// bounds, positive only for plans (docs/inside/design.md, section 3). It returns false if a job
// has no round time, since such a job is infeasible; pr.infeasible is then the error.
func newProblem(m *model.Model, beta float64) (pr *problem, ok bool) {
	return newPlanProblem(m, beta, 0)
}

// newPlanProblem is newProblem where each relaxed job pays for idle GPUs too, as Config.IdleCharge says.
func newPlanProblem(m *model.Model, beta, idle float64) (pr *problem, ok bool) {
	pr = &problem{model: m, syncAsCompute: beta, idleCharge: idle}
	return pr, pr.compile()
}

// compile fills in a problem of which model, written and syncAsCompute are given.
func (pr *problem) compile() (ok bool) {
	m, beta := pr.model, pr.syncAsCompute
	pr.caps = make([][]model.Step, len(m.Types))
	peak := make([]int64, len(m.Types))
	for k := range m.Types {
		pr.caps[k] = m.Capacity(k)
		for _, s := range pr.caps[k] {
			peak[k] = max(peak[k], s.Count)
		}
	}
	kept, ok := pr.addTimes(peak)
	if !ok {
		return false
	}
	pr.jobs = make([]job, len(pr.specs))
	all := 0
	for i := range kept {
		all += len(kept[i])
	}
	flat := make([]mode, 0, all) // of all jobs, one after another, as the oracle goes through them
	for i := range pr.specs {
		mj, modes := &pr.specs[i], kept[i]
		j := job{
			sync: mj.Sync, w: float64(mj.WeightMicro) * nano, a: float64(mj.ReleaseUs),
			late: float64(mj.LateWeightMicro) * nano,
			path: float64(pr.pathUs[i]), rounds: float64(mj.Rounds), tasks: float64(mj.Tasks),
		}
		if j.late > 0 {
			j.due = float64(mj.DeadlineUs)
		}
		gpus, counts := j.tasks*float64(mj.GPUs), 1.0
		for _, md := range modes {
			if mj.Shapes != nil {
				s := &mj.Shapes[md.shape]
				gpus, counts = float64(s.Tasks*s.GPUs), float64(s.Counts)
			}
			p, s := float64(md.ComputeUs), float64(md.SyncUs)
			if mj.Sync == hare.Relaxed {
				p, s = p+beta*s, (1-beta)*s
			}
			f := mode{kind: md.Type, level: int16(md.level), shape: int16(md.shape), top: md.Type, row: md.Type}
			f.setTimes(mj.Sync, p, s, gpus, counts)
			if mj.Sync == hare.Relaxed {
				f.held *= 1 + pr.idleCharge
			}
			flat = append(flat, f)
		}
		j.modes, flat = flat[:len(flat):len(flat)], flat[len(flat):]
		sortModes(j.modes)
		j.setPerRate()
		pr.jobs[i] = j
		if j.w > 0 {
			pr.wa += j.w * float64(pr.releaseUs(i))
		}
	}
	if m.Instance.Objective != hare.ObjectiveMakespan {
		pr.addEdges()
	}
	pr.addRows()
	pr.shareTrailing()
	pr.setShapes()
	return true
}

// setShapes splits the modes of jobs that keep their shape by shapes, and then by durations.
func (pr *problem) setShapes() {
	for i := range pr.jobs {
		pr.splitShapes(&pr.jobs[i], &pr.specs[i])
	}
	pr.setScenarios()
}

// splitShapes splits the modes of a job by shapes if it keeps its shape.
func (pr *problem) splitShapes(j *job, mj *model.Job) {
	j.shapes = nil
	if mj.Shapes == nil || mj.Reshape {
		return
	}
	var shapes []job
	for s := range mj.Shapes {
		one := *j
		one.modes, one.pathOnly, one.scenarios = nil, false, nil
		for _, md := range j.modes {
			if int(md.shape) == s {
				one.modes = append(one.modes, md)
			}
		}
		if len(one.modes) == 0 {
			continue
		}
		if one.sync == hare.Rigid {
			one.rounds = float64(mj.Shapes[s].RoundsFor(mj.Rounds))
		}
		one.setPerRate()
		shapes = append(shapes, one)
	}
	j.shapes = shapes
}

// maxSharedTrailing limits the memory for shared trailing minima, which take some 2 KB
// each.
const maxSharedTrailing = 4096

// shareTrailing numbers the trailing minima that several jobs share. Rigid jobs need none.
func (pr *problem) shareTrailing() {
	type key struct {
		row         int
		s, ahead, a float64
	}
	of := func(j *job, md *mode) key {
		if j.sync != hare.Relaxed {
			return key{md.row, 0, 0, j.a}
		}
		return key{md.row, md.s, md.ahead, j.a}
	}
	seen := map[key]int{}
	each := func(f func(j *job, md *mode)) {
		for i := range pr.jobs {
			for m := range pr.jobs[i].modes {
				if md := &pr.jobs[i].modes[m]; pr.jobs[i].sync == hare.Rigid {
					md.trailingID = -1
				} else {
					f(&pr.jobs[i], md)
				}
			}
		}
	}
	each(func(j *job, md *mode) { seen[of(j, md)]++ })
	ids := map[key]int{}
	each(func(j *job, md *mode) {
		k := of(j, md)
		if md.trailingID = -1; seen[k] > 1 {
			id, ok := ids[k]
			if !ok && len(ids) < maxSharedTrailing {
				id, ok = len(ids), true
				ids[k] = id
			}
			if ok {
				md.trailingID = id
			}
		}
	})
}

// setScenarios gives the jobs of uncertain durations the job at each of these.
func (pr *problem) setScenarios() {
	for i, written := range pr.writtenModes {
		if written == nil {
			continue
		}
		j, mj := &pr.jobs[i], &pr.specs[i]
		durations := factors(&pr.written.Instance.Jobs[pr.index[i]])
		scenarios := make([]job, len(durations))
		for x, d := range durations {
			modes := scaledModes(written, d.FactorMicro)
			least, ok := leastTime(mj, modes)
			one := *j
			if one.scenarios, one.micro = nil, d.Micro; ok {
				one.path = float64(mj.ReleaseUs + least)
			}
			one.modes = slices.Clone(j.modes)
			for m := range one.modes {
				md := &one.modes[m]
				at := slices.IndexFunc(modes, func(r roundMode) bool {
					return r.Type == md.kind && r.level == int(md.level) && r.shape == int(md.shape)
				})
				tasks, gpus, counts := pr.shapeOf(i, md)
				md.setTimes(mj.Sync, float64(modes[at].ComputeUs), float64(modes[at].SyncUs), float64(tasks*gpus),
					float64(counts))
				md.trailingID = -1
			}
			sortModes(one.modes)
			one.setPerRate()
			pr.splitShapes(&one, mj)
			scenarios[x] = one
		}
		j.scenarios = scenarios
	}
}

// addPools chooses the pools that may raise the bound, and splits the modes of jobs by the
// classes of nodes that the pools make.
func (pr *problem) addPools() {
	if !pr.model.Placed {
		return
	}
	for k := range pr.caps {
		for _, level := range pr.poolLevels(k) {
			pr.addDomainPool(k, level)
		}
	}
	pr.addSetPools()
	for k := range pr.caps {
		pr.addResourcePool(k, hare.PoolCPUs)
		pr.addResourcePool(k, hare.PoolMemory)
	}
	pr.addQuotaPools()
	if len(pr.pools.list) == 0 {
		return
	}
	for p := range pr.pools.list {
		pr.pools.list[p].firstRow = pr.pools.rows
		pr.pools.rows += 1 + len(pr.pools.list[p].sizes)
	}
	pr.splitModes()
	pr.shareTrailing()
	pr.setShapes()
}

// dropSizes lets every job pay its type's price for each GPU.
func (pr *problem) dropSizes() {
	pr.rows, pr.dualFeasible = pr.rows[:len(pr.caps)], nil
	for i := range pr.jobs {
		for m := range pr.jobs[i].modes {
			md := &pr.jobs[i].modes[m]
			md.top, md.row = md.kind, md.kind
		}
	}
	pr.shareTrailing()
	pr.setShapes()
}
