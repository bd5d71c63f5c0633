package explain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// Causes of a wait.
const (
	waitNoService = "no_service" // fewer GPUs are in service than a round needs
	waitBusy      = "busy"       // enough GPUs are in service, and too many of them busy
	waitHeld      = "held"       // other jobs hold too many GPUs
	waitTooShort  = "too_short"  // enough GPUs are free, but not for long enough
	waitChoice    = "choice"     // the round could have started: the plan waits for better GPUs
	waitAfter     = "after"      // another job, for which the job waits, has not ended, or its lag has not passed
	waitReserved  = "reserved"   // enough GPUs are available, and too many of them reserved for others
	waitQuota     = "quota"      // the jobs of a user hold too many GPUs for a quota

	waitSetup   = "setup"   // enough GPUs are free, but for too short a time to be set up for the job
	waitReshape = "reshape" // the job changes its shape, which takes this time
	waitShape   = "shape"   // the round could have started in another shape

	// Where nodes matter:
	waitNotAllowed = "not_allowed" // the nodes that the job may use never have room for a round
	waitFragmented = "fragmented"  // enough GPUs are free in all, but not together on nodes
	waitCPUs       = "cpus"        // the nodes with free GPUs have too few free CPUs
	waitMemory     = "memory"      // the nodes with free GPUs have too little free memory
)

var waitCauses = [...]string{waitNoService, waitBusy, waitReserved, waitHeld, waitQuota, waitFragmented, waitCPUs,
	waitMemory, waitSetup, waitTooShort, waitChoice}

// waitPool is a set of types on which a round could run.
type waitPool struct {
	name string
	each map[int]int64
	need int64 // GPUs
	// tasks of a job of several GPUs a task are on one node each.
	tasks int64
}

// has reports whether a type is in the pool.
func (p *waitPool) has(kind int) bool {
	_, ok := p.each[kind]
	return ok
}

// needOf returns how many tasks of a job start together, and for how long each needs its GPUs at least: a task's
// compute time for a relaxed job, a round for a gang, all rounds for a rigid job.
func needOf(j *model.Job, computeUs, durationUs int64) (tasks, us int64) {
	switch j.Sync {
	case hare.Relaxed:
		return 1, computeUs
	case hare.Rigid:
		return j.Tasks, durationUs * j.Rounds
	}
	return j.Tasks, durationUs
}

// pools returns the sets of types that a round of a job could use, with the need of each type.
func (v *laneView) pools(job int) []waitPool {
	j := &v.model.Jobs[job]
	var all []waitPool
	for _, md := range j.Modes {
		need, hold := needOf(j, md.ComputeUs, md.DurationUs())
		if name := v.model.Types[md.Type]; j.Mix && len(all) > 0 {
			all[0].name += "+" + name
			all[0].each[md.Type] = hold
		} else {
			all = append(all, waitPool{name: name, each: map[int]int64{md.Type: hold}, need: need * j.GPUs, tasks: need})
		}
	}
	return slices.DeleteFunc(all, func(p waitPool) bool {
		if v.byLevels(job) {
			return v.model.LevelRoom(j, slices.Sorted(maps.Keys(p.each)), j.Within) < p.tasks
		}
		var peak int64
		for k := range p.each {
			peak += model.MostRoom(v.model.TaskRoom(j, k))
		}
		return peak < p.tasks // a round can never run on this pool
	})
}

// perTask is the field PerTask of a wait of the job.
func perTask(j *model.Job) int64 {
	if j.GPUs == 1 {
		return 0
	}
	return j.GPUs
}

// threshold is a time for which GPUs may have to be free for a round to start within a level. A gang that mixes types
// holds all GPUs until its slowest task ends: GPUs of all types that need no more than a threshold go together.
type threshold struct {
	us    int64
	level int
}

// noLevel is the level of thresholds and rooms where levels do not matter to a job.
const noLevel = -1

// thresholds returns the thresholds of a pool, ascending: the times that the types need within each level that
// shortens a round, and within the level that a round may not leave.
func (v *laneView) thresholds(job int, p *waitPool) (all []threshold) {
	for kind := range p.each {
		levels := []int{noLevel}
		if v.byLevels(job) {
			levels = v.model.Jobs[job].LevelModes(v.modes[job][kind])
		}
		for _, level := range levels {
			for other := range p.each {
				all = append(all, threshold{v.needWithin(job, p, other, level), level})
			}
		}
	}
	slices.SortFunc(all, func(a, b threshold) int {
		return cmp.Or(cmp.Compare(a.us, b.us), cmp.Compare(a.level, b.level))
	})
	return slices.Compact(all)
}

// needWithin returns for how long a round needs GPUs of a type of a pool within a level.
func (v *laneView) needWithin(job int, p *waitPool, kind, level int) int64 {
	if level == noLevel {
		return p.each[kind]
	}
	return v.needAt(job, kind, level)
}

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
		tasks, hold := needOf(j, on.ComputeUs, on.DurationUs())
		all = append(all, explaindoc.Wait{Type: on.Type, Cause: cause, FromS: hare.Seconds(from), ToS: hare.Seconds(to),
			ForS: hare.Seconds(to - from), Need: tasks * j.GPUs, NeedS: hare.Seconds(hold), SetupS: hare.Seconds(on.SwitchUs),
			PerTask: perTask(j), Within: v.inst.Jobs[job].Within})
	}
	return all
}
