package room

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// EarliestStart returns the time before which nothing of a job starts, whatever others do: its
// release, or the end of its work that runs at time 0.
func EarliestStart(j *model.Job) int64 { return max(j.ReleaseUs, j.RunsUntilUs) }

// IsFixed reports whether a job ends with the work that runs at time 0, so that no plan has
// anything of the job.
func IsFixed(j *model.Job) bool { return j.Rounds == 0 }

// CostAt returns what a job that ends at endUs adds to the sum that is the objective, exactly.
func CostAt(j *model.Job, endUs int64) hare.Amount {
	cost := hare.Product(j.WeightMicro, endUs-j.ReleaseUs)
	if j.LateWeightMicro > 0 && endUs > j.DeadlineUs {
		cost = cost.Add(hare.Product(j.LateWeightMicro, endUs-j.DeadlineUs))
	}
	return cost
}

// IsMakespan reports whether the objective is the greatest end instead of a sum over jobs.
func IsMakespan(m *model.Model) bool { return m.Instance.Objective == hare.ObjectiveMakespan }

// MakespanOf returns the greatest end as a value in seconds.
func MakespanOf(ends []int64) hare.Amount {
	var last int64
	for _, end := range ends {
		last = max(last, end)
	}
	return hare.Product(1e6, last)
}

// Constant returns what the jobs that end with the work that runs at time 0 add to the sum
// that is the objective, and whether there are such jobs. Under makespan there is no constant.
func Constant(m *model.Model) (constant hare.Amount, ok bool) {
	if IsMakespan(m) {
		return hare.Amount{}, false
	}
	for i := range m.Jobs {
		if j := &m.Jobs[i]; IsFixed(j) {
			constant, ok = constant.Add(CostAt(j, j.RunsUntilUs)), true
		}
	}
	return constant, ok
}

// TieShare is the weight of the mean end beside the greatest end in a search for the least
// makespan: without it, most moves would change nothing.
const TieShare = 0.05

// Weighted returns the value of the objective as a float in units of 1e-12, for comparisons
// within a search. Under makespan the mean end is added with a small weight.
func Weighted(m *model.Model, ends []int64) float64 {
	sum := 0.0
	if IsMakespan(m) {
		last := int64(0)
		for _, end := range ends {
			last = max(last, end)
			sum += float64(end)
		}
		return 1e6 * (float64(last) + TieShare*sum/float64(max(1, len(ends))))
	}
	for i := range m.Jobs {
		j := &m.Jobs[i]
		sum += float64(j.WeightMicro) * float64(ends[i]-j.ReleaseUs)
		if j.LateWeightMicro > 0 && ends[i] > j.DeadlineUs {
			sum += float64(j.LateWeightMicro) * float64(ends[i]-j.DeadlineUs)
		}
	}
	return sum
}

// SumOfEnds breaks ties between plans of equal value under makespan; it is 0 under other
// objectives.
func SumOfEnds(m *model.Model, ends []int64) float64 {
	sum := 0.0
	if IsMakespan(m) {
		for _, end := range ends {
			sum += float64(end)
		}
	}
	return sum
}
