package policies

import (
	"github.com/hare-sched/hare"
)

// JobSizes is the knowledge of policies that know sizes.
type JobSizes struct {
	// Rounds are those of each job, by its ID.
	Rounds map[string]int64
	// MaxWeightMicro is the greatest weight of a job.
	MaxWeightMicro int64
}

// SizesOf is the sizes of the jobs of inst.
func SizesOf(inst *hare.Instance) JobSizes {
	s := JobSizes{Rounds: make(map[string]int64, len(inst.Jobs))}
	for i := range inst.Jobs {
		s.Rounds[inst.Jobs[i].ID] = inst.Jobs[i].Rounds
		s.MaxWeightMicro = max(s.MaxWeightMicro, inst.Jobs[i].WeightMicro)
	}
	return s
}
