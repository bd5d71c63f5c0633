package task

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// NewEASY is first come, first served with EASY backfill (Lifka, JSSPP 1995): the
// first job that does not fit gets a reservation for when enough GPUs will be
// free; others start where they end before that, or use GPUs that it will not
// need. It knows how long jobs take.
//
// [V] One reservation, for the first in line. [I] Run times are exact, where
// users' limits are mostly too long; the reservation is on the type where the
// job is expected to end first; the fastest type with room is taken.
func NewEASY(inst *hare.Instance) online.Policy {
	return newDesk(inst, rule{hold: hare.Rigid, easy: true, key: byArrival, rounds: knowing(inst)})
}

// SlurmConfig weighs the factors of NewSlurm, as PriorityWeightAge and the like
// of slurm.conf.
type SlurmConfig struct {
	// Age, Size and QOS are weights of factors between 0 and 1: the time waited
	// over MaxAgeUs, the job's GPUs over the cluster's, the job's weight over
	// the greatest. All zero means 1,000, 1,000 and 2,000.
	Age, Size, QOS float64
	// MaxAgeUs is PriorityMaxAge; zero means Slurm's 7 days.
	MaxAgeUs int64
}

// NewSlurm is Slurm's multifactor priority with backfill: jobs by priority, and
// backfill as in NewEASY. It knows how long jobs take.
//
// [S] Factors and the default age from Slurm's documentation; larger jobs come
// first. [I] The weights, which every site sets by itself; the job's weight
// stands for its QOS; no users, so no fair share; Slurm keeps reservations for
// more than one job.
func NewSlurm(inst *hare.Instance, cfg SlurmConfig) online.Policy {
	if cfg.Age == 0 && cfg.Size == 0 && cfg.QOS == 0 {
		cfg.Age, cfg.Size, cfg.QOS = 1000, 1000, 2000
	}
	if cfg.MaxAgeUs == 0 {
		cfg.MaxAgeUs = 7 * 24 * 3600 * 1e6
	}
	var heaviest, gpus float64 = 1, 0
	for i := range inst.Jobs {
		heaviest = max(heaviest, float64(inst.Jobs[i].WeightMicro))
	}
	priority := func(d *desk, s *seat) float64 {
		if gpus == 0 {
			gpus = float64(max(1, len(d.gpus)))
		}
		age := min(1, float64(d.nowUs-s.arrivedUs)/float64(cfg.MaxAgeUs))
		size := min(1, float64(s.spec.Tasks)/gpus)
		return -(cfg.Age*age + cfg.Size*size + cfg.QOS*float64(s.spec.WeightMicro)/heaviest)
	}
	return newDesk(inst, rule{hold: hare.Rigid, easy: true, key: priority, rounds: knowing(inst)})
}
