package verify

import (
	"slices"

	"github.com/hare-sched/hare"
)

// supply is what a cluster offers to single jobs, at any time. GPUs, CPUs and memory that
// running work holds are not free until the work ends.
type supply struct {
	inst       *hare.Instance
	running    *running
	quotas     map[string][]int32 // by user: the indices in the instance
	capacities map[string]*typeCapacity
	// placed says that the modes of jobs go by the room on nodes (docs/reference/model.md, "Modes").
	placed bool
	shaped map[string]bool // the jobs with lists of shapes, for which they do so as well
	rooms  *rooms          // nil if neither nodes, pools nor shapes matter
}

// newSupply takes an instance that is plausible.
func newSupply(inst *hare.Instance, pools []hare.Pool) *supply {
	ru, err := newRunning(inst)
	if err != nil {
		panic(err) // the instance is not plausible
	}
	nodes := ru.nodes(inst)
	s := &supply{inst: inst, running: ru, capacities: capacitiesOf(nodes), placed: nodesMatter(inst),
		quotas: map[string][]int32{}}
	for q := range inst.Quota {
		s.quotas[inst.Quota[q].User] = append(s.quotas[inst.Quota[q].User], int32(q))
	}
	for i := range inst.Jobs {
		if inst.Jobs[i].Shapes != nil {
			if s.shaped == nil {
				s.shaped = map[string]bool{}
			}
			s.shaped[inst.Jobs[i].ID] = true
		}
	}
	if s.placed || len(pools) > 0 || s.shaped != nil {
		s.rooms = newRooms(inst, nodes, ru, pools)
	}
	return s
}

// quota returns the least number of GPUs that some quota allows a job on a type, or a number
// beyond all GPUs.
func (su *supply) quota(job *hare.Job, kind string) int64 {
	least := int64(2 * hare.MaxGPUs)
	for _, user := range job.Users {
		for _, q := range su.quotas[user] {
			if quota := &su.inst.Quota[q]; quota.GPUs < least && counts(quota, job, kind) {
				least = quota.GPUs
			}
		}
	}
	return least
}

// nodesMatter reports whether an instance has a rule about nodes.
func nodesMatter(inst *hare.Instance) bool {
	if len(inst.Cluster.Reservations)+len(inst.Quota) > 0 {
		return true
	}
	cpus := slices.ContainsFunc(inst.Cluster.Nodes, func(n hare.Node) bool { return n.CPUMilli > 0 })
	memory := slices.ContainsFunc(inst.Cluster.Nodes, func(n hare.Node) bool { return n.MemoryMiB > 0 })
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		wide := slices.ContainsFunc(j.Shapes, func(s hare.Shape) bool { return s.GPUsPerTask > 1 })
		if gpusOf(j) > 1 || wide || j.DistinctNodes || len(j.Only)+len(j.Exclude) > 0 || cpus && j.CPUMilliPerTask > 0 ||
			memory && j.MemoryMiBPerTask > 0 || goesByLevels(j) || j.Progress != nil && len(j.Progress.GPUs) > 0 {
			return true
		}
	}
	return false
}

// choices returns the types on which a job can run, with the greatest number of its tasks that
// find room at once. It returns none if the job may mix types and never finds room for all
// tasks.
func (su *supply) choices(job *hare.Job) []typeChoice {
	if su.rooms != nil && su.rooms.levels != nil && job.Sync != hare.Relaxed {
		return su.levelChoices(job)
	}
	out := make([]typeChoice, 0, len(job.On))
	strict := su.placed || su.shaped != nil && su.shaped[job.ID]
	for _, p := range job.On {
		n := su.capacities[p.Type].peak()
		if strict {
			n = su.rooms.of(job, p.Type).fit
			switch quota := su.quota(job, p.Type); {
			case job.Sync == hare.Relaxed:
				n = min(n, quota/gpusOf(job))
			case !job.Mix && (n < job.Tasks || quota < job.Tasks*gpusOf(job)):
				n = 0
			}
		}
		if n > 0 {
			out = append(out, typeChoice{kind: p.Type, p: p.ComputeUs, s: p.SyncUs, d: p.ComputeUs + p.SyncUs,
				count: n, setup: p.SwitchUs})
		}
	}
	if strict && job.Mix && su.rooms.together(job) < job.Tasks {
		return nil
	}
	return out
}

// levelChoices is choices of a gang or rigid job where levels matter: by type and level.
func (su *supply) levelChoices(job *hare.Job) []typeChoice {
	tp := su.rooms.levels
	var out []typeChoice
	for i := range job.On {
		p := &job.On[i]
		for _, level := range tp.modeLevels(job, p) {
			n := su.rooms.inDomain(job, job.On[i:i+1], level)
			switch {
			case !job.Mix && (n < job.Tasks || su.quota(job, p.Type) < job.Tasks*gpusOf(job)),
				job.Mix && su.rooms.inDomain(job, job.On, level) < job.Tasks:
				n = 0
			}
			if n > 0 {
				s := tp.syncAt(p, level)
				out = append(out, typeChoice{kind: p.Type, p: p.ComputeUs, s: s, d: p.ComputeUs + s, count: n,
					setup: p.SwitchUs, level: level})
			}
		}
	}
	return out
}
