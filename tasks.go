package hare

import "strconv"

// Task is one task of a schedule in a form for people.
type Task struct {
	Job                          string
	Round                        int64
	GPU                          string
	StartUs, ComputeEndUs, EndUs int64
}

// Tasks lists the tasks of a schedule of inst, lane by lane, up to limit.
func (s *Schedule) Tasks(inst *Instance, limit int) []Task {
	kinds := inst.Cluster.gpuTypes()
	jobs := map[string]*Job{}
	for i := range inst.Jobs {
		jobs[inst.Jobs[i].ID] = &inst.Jobs[i]
	}
	var out []Task
	for i := range s.Lanes {
		l := &s.Lanes[i]
		for x := range l.Job {
			e := l.Entry(x)
			if e.Job < 0 || int(e.Job) >= len(s.Jobs) {
				continue
			}
			id := s.Jobs[e.Job]
			if jobs[id] == nil || e.Shape < 0 || e.Shape >= int64(jobs[id].ShapeCount()) {
				continue
			}
			shape := jobs[id].Shape(int(e.Shape))
			p, ok := shape.Profile(kinds[l.GPU])
			if !ok {
				continue
			}
			for r := range e.Rounds {
				for n := range e.Tasks {
					if len(out) == limit {
						return out
					}
					start := e.StartUs + r*e.PeriodUs + n*p.ComputeUs
					out = append(out, Task{id, e.Round + r*shape.Counts, l.GPU, start, start + p.ComputeUs, start + p.DurationUs()})
				}
			}
		}
	}
	return out
}

// gpuTypes returns the type of each GPU.
func (c *Cluster) gpuTypes() map[string]string {
	kinds := map[string]string{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		at := 0
		for _, g := range n.GPUs {
			for range g.Count {
				kinds[n.Name+"/"+strconv.Itoa(at)] = g.Type
				at++
			}
		}
	}
	return kinds
}

// Setups returns how often a GPU is set up for a job in a schedule of the instance, and the GPU-time
// that this takes, or false where no job has a setup. It takes O(GPUs + entries).
func (inst *Instance) Setups(s *Schedule) (count, timeUs int64, ok bool) {
	jobs := make(map[string]*Job, len(inst.Jobs))
	runs := map[string]*Job{} // by GPU
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		jobs[j.ID] = j
		ok = ok || j.firstSwitch() != ""
		if j.Running() {
			for _, gpu := range j.Progress.GPUs {
				runs[gpu] = j
			}
		}
	}
	if !ok {
		return 0, 0, false
	}
	kinds := inst.Cluster.gpuTypes()
	for i := range s.Lanes {
		l := &s.Lanes[i]
		before := runs[l.GPU]
		for x := range l.Job {
			e := l.Entry(x)
			j := jobs[s.Jobs[e.Job]]
			if j != before && int(e.Shape) < j.ShapeCount() {
				shape := j.Shape(int(e.Shape))
				if p, _ := shape.Profile(kinds[l.GPU]); p.SwitchUs > 0 {
					count++
					timeUs += p.SwitchUs
				}
			}
			before = j
		}
	}
	return count, timeUs, true
}
