package verify

import (
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// shapesOf returns the shapes of a job, which is one for a job without a list of shapes.
func shapesOf(job *hare.Job) []hare.Shape {
	if job.Shapes == nil {
		return []hare.Shape{{Tasks: job.Tasks, GPUsPerTask: job.GPUsPerTask, Counts: 1, On: job.On}}
	}
	return job.Shapes
}

// inShape returns a job as it is if all of its rounds have one shape and so many units are left:
// a job without a list of shapes.
func inShape(job *hare.Job, s *hare.Shape, units int64) hare.Job {
	one := *job
	one.Tasks, one.GPUsPerTask, one.On = s.Tasks, s.GPUsPerTask, s.On
	one.Rounds = (units-1)/s.Counts + 1
	one.Shapes, one.Reshape, one.ReshapeUs = nil, false, 0
	return one
}

// modeOf returns the number of a profile among the profiles of all shapes of a job, one shape
// after another.
func modeOf(job *hare.Job, shape, profile int) int32 {
	for i := range shape {
		profile += len(job.Shapes[i].On)
	}
	return int32(profile)
}

// profileOf returns the profile with this number, and its shape.
func profileOf(job *hare.Job, mode int32) (p *hare.Profile, shape int) {
	if job.Shapes == nil {
		return &job.On[mode], 0
	}
	for int(mode) >= len(job.Shapes[shape].On) {
		mode -= int32(len(job.Shapes[shape].On))
		shape++
	}
	return &job.Shapes[shape].On[mode], shape
}

// switches reports whether some GPU needs a setup for some job.
func switches(inst *hare.Instance) bool {
	for i := range inst.Jobs {
		for _, s := range shapesOf(&inst.Jobs[i]) {
			if slices.ContainsFunc(s.On, func(p hare.Profile) bool { return p.SwitchUs > 0 }) {
				return true
			}
		}
	}
	return false
}

// hasShapes reports whether some job has a list of shapes.
func hasShapes(inst *hare.Instance) bool {
	return slices.ContainsFunc(inst.Jobs, func(j hare.Job) bool { return j.Shapes != nil })
}

// gpusOf returns g, the number of GPUs of one task.
func gpusOf(j *hare.Job) int64 { return max(1, j.GPUsPerTask) }

// allows reports whether a job may use a node: each label of only has one of its values there,
// and no label of exclude has. It takes O(labels · log values).
func allows(j *hare.Job, n *hare.Node) bool {
	for i := range j.Only {
		if !selects(&j.Only[i], n) {
			return false
		}
	}
	for i := range j.Exclude {
		if selects(&j.Exclude[i], n) {
			return false
		}
	}
	return true
}

// selects reports whether the node has the label with one of the values. The name of a node
// counts as its label "node".
func selects(lv *hare.LabelValues, n *hare.Node) bool {
	value := n.Name
	if lv.Label != "node" {
		at := slices.IndexFunc(n.Labels, func(l hare.Label) bool { return l.Name == lv.Label })
		if at < 0 {
			return false
		}
		value = n.Labels[at].Value
	}
	_, found := slices.BinarySearch(lv.Values, value)
	return found
}

// valuesOf returns the values of a label in a selector, or nil.
func valuesOf(selector []hare.LabelValues, label string) []string {
	at := slices.IndexFunc(selector, func(lv hare.LabelValues) bool { return lv.Label == label })
	if at < 0 {
		return nil
	}
	return selector[at].Values
}

// lagOf returns the lag with which a job waits for another, or false if it does not wait.
func lagOf(job *hare.Job, before string) (int64, bool) {
	for _, p := range job.After {
		if p.Job == before {
			return p.LagUs, true
		}
	}
	return 0, false
}

// knownObjective reports whether an instance may have an objective.
func knownObjective(name string) bool {
	return slices.Contains([]string{hare.ObjectiveWeightedJCT, hare.ObjectiveJCTAndTardiness, hare.ObjectiveMakespan},
		name)
}

// lateWeight returns v, the cost of a second after the deadline of a job, which is 0 where the
// objective has no tardiness.
func lateWeight(inst *hare.Instance, job *hare.Job) int64 {
	if inst.Objective != hare.ObjectiveJCTAndTardiness || job.DeadlineUs == 0 {
		return 0
	}
	return job.LateWeightMicro
}

// indexOf returns the number of each job.
func indexOf(inst *hare.Instance) map[string]int {
	index := make(map[string]int, len(inst.Jobs))
	for i := range inst.Jobs {
		index[inst.Jobs[i].ID] = i
	}
	return index
}

// topological returns the jobs in an order in which each job comes after those for which it
// waits, or false if there is none. It takes O(jobs + predecessors).
func topological(inst *hare.Instance, index map[string]int) ([]int, bool) {
	order := make([]int, 0, len(inst.Jobs))
	waits := make([]int, len(inst.Jobs)) // for so many jobs that are not in order
	followers := make([][]int32, len(inst.Jobs))
	for i := range inst.Jobs {
		waits[i] = len(inst.Jobs[i].After)
		for _, p := range inst.Jobs[i].After {
			followers[index[p.Job]] = append(followers[index[p.Job]], int32(i))
		}
		if waits[i] == 0 {
			order = append(order, i)
		}
	}
	for at := 0; at < len(order); at++ {
		for _, i := range followers[order[at]] {
			if waits[i]--; waits[i] == 0 {
				order = append(order, int(i))
			}
		}
	}
	return order, len(order) == len(inst.Jobs)
}

// leastSync returns the least synchronisation time of a profile.
func leastSync(p *hare.Profile) int64 {
	least := p.SyncUs
	for _, s := range p.SyncAt {
		least = min(least, s.SyncUs)
	}
	return least
}

// profilesOf returns the profiles of a job, shape by shape.
func profilesOf(job *hare.Job) []hare.Profile {
	if job.Shapes == nil {
		return job.On
	}
	var all []hare.Profile
	for i := range job.Shapes {
		all = append(all, job.Shapes[i].On...)
	}
	return all
}

// goesByLevels reports whether a job must keep together, or has times by spread.
func goesByLevels(job *hare.Job) bool {
	if job.Within != "" {
		return true
	}
	for i := range job.On {
		if job.On[i].SyncAt != nil {
			return true
		}
	}
	for i := range job.Shapes {
		if slices.ContainsFunc(job.Shapes[i].On, func(p hare.Profile) bool { return p.SyncAt != nil }) {
			return true
		}
	}
	return false
}

// levelsMatter reports whether some job goes by levels.
func levelsMatter(inst *hare.Instance) bool {
	for i := range inst.Jobs {
		if goesByLevels(&inst.Jobs[i]) {
			return true
		}
	}
	return false
}

// counts reports whether a quota counts what a job holds of a GPU type.
func counts(q *hare.Quota, job *hare.Job, kind string) bool {
	return slices.Contains(job.Users, q.User) && (q.Types == nil || slices.Contains(q.Types, kind))
}

// keepsOff reports whether a reservation keeps a job off its nodes: it lists neither the job nor
// one of the job's users.
func keepsOff(r *hare.Reservation, job *hare.Job) bool {
	if _, listed := slices.BinarySearch(r.Jobs, job.ID); listed {
		return false
	}
	for _, user := range job.Users {
		if _, listed := slices.BinarySearch(r.Users, user); listed {
			return false
		}
	}
	return true
}

// endCost returns f(end) = w end + v max(0, end − d) of a job, in 1e-15 weight-seconds.
func endCost(job *hare.Job, end int64) *big.Int {
	cost := times(job.WeightMicro, 1000, end)
	if job.LateWeightMicro > 0 && end > job.DeadlineUs {
		cost.Add(cost, times(job.LateWeightMicro, 1000, end-job.DeadlineUs))
	}
	return cost
}

// endCostF is endCost in floats, with a relative error of at most 2^-50.
func endCostF(job *hare.Job, end int64) float64 {
	cost := float64(job.WeightMicro) * 1000 * float64(end)
	if job.LateWeightMicro > 0 && end > job.DeadlineUs {
		cost += float64(job.LateWeightMicro) * 1000 * float64(end-job.DeadlineUs)
	}
	return cost
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
