package greedy

import "math"

// makespanPriorities returns orders for the least makespan: the longest way to the last end
// first, the most GPU time first, and the widest first.
func (ap *annealProblem) makespanPriorities(release []float64) [][]float64 {
	n := len(ap.jobs)
	tails, areas, widths := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range ap.jobs {
		j := &ap.m.Jobs[ap.jobs[i].index]
		tail := float64(leastTime(j))
		if ap.dependencies != nil {
			tail = float64(ap.dependencies.tail[ap.jobs[i].index])
		}
		width := float64(ap.jobs[i].width)
		tails[i], areas[i] = -tail, -float64(leastTime(j))*width
		widths[i] = -width - tail/(1+tail) // tails break ties
	}
	all := [][]float64{tails, areas, widths}
	if ap.spread {
		all = append(all, release)
	}
	return all
}

// deadlinePriorities returns orders that go by deadlines: Smith's ratio with the cost of being
// late as part of the weight, and the last start at which a job is not late; jobs without a
// deadline then go by Smith's ratio between the others.
func (ap *annealProblem) deadlinePriorities() [][]float64 {
	n, late := len(ap.jobs), 0
	smith, starts := make([]float64, n), make([]float64, n)
	var work, weight float64
	for i := range ap.jobs {
		a, j := &ap.jobs[i], &ap.m.Jobs[ap.jobs[i].index]
		area := float64(leastTime(j)) * float64(a.width)
		if smith[i] = math.Inf(1); a.weight+a.late > 0 {
			smith[i] = area / (a.weight + a.late)
		}
		work += area
		weight += a.weight
		if a.late > 0 {
			late++
		}
	}
	if late == 0 {
		return nil
	}
	for i := range ap.jobs {
		a, j := &ap.jobs[i], &ap.m.Jobs[ap.jobs[i].index]
		last := 0.0
		if ap.gridUs != nil {
			last = float64(ap.gridUs[len(ap.gridUs)-1])
		}
		starts[i] = float64(a.deadline - leastTime(j))
		if a.late == 0 {
			// The share of the horizon at which jobs of this ratio begin is about that of the ratio.
			starts[i] = last
			if a.weight > 0 && work > 0 {
				starts[i] = last * min(1, float64(leastTime(j))*float64(a.width)*weight/(a.weight*work)/2)
			}
		}
	}
	return [][]float64{smith, starts}
}

// chainPriorities returns an order for jobs that wait for others: Smith's ratio of each job
// with all that must be done before it.
func (ap *annealProblem) chainPriorities() [][]float64 {
	if !ap.ordered {
		return nil
	}
	work := make([]float64, len(ap.m.Jobs))
	for _, i := range ap.dependencies.topological {
		j := &ap.m.Jobs[i]
		work[i] = float64(leastTime(j)) * float64(j.Tasks*j.GPUs)
		for _, p := range j.After {
			work[i] += work[p.Job]
		}
	}
	rank := make([]float64, len(ap.jobs))
	for i := range ap.jobs {
		a := &ap.jobs[i]
		if rank[i] = math.Inf(1); a.weight > 0 {
			rank[i] = work[a.index] / a.weight
		}
	}
	return [][]float64{rank}
}
