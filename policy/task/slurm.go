package task

import "github.com/hare-sched/hare"

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
func NewSlurm(cluster *hare.Cluster, sizes JobSizes, cfg SlurmConfig) *ListScheduler {
	if cfg.Age == 0 && cfg.Size == 0 && cfg.QOS == 0 {
		cfg.Age, cfg.Size, cfg.QOS = 1000, 1000, 2000
	}
	if cfg.MaxAgeUs == 0 {
		cfg.MaxAgeUs = 7 * 24 * 3600 * 1e6
	}
	heaviest, gpus := float64(max(1, sizes.MaxWeightMicro)), 0.0
	priority := func(l *ListScheduler, j *JobState) float64 {
		if gpus == 0 {
			gpus = float64(max(1, len(l.gpus)))
		}
		age := min(1, float64(l.nowUs-j.arrivedUs)/float64(cfg.MaxAgeUs))
		size := min(1, float64(j.spec.Tasks)/gpus)
		return -(cfg.Age*age + cfg.Size*size + cfg.QOS*float64(j.spec.WeightMicro)/heaviest)
	}
	return NewListScheduler(cluster, Rule{Name: "slurm", Hold: hare.Rigid, Backfill: true, Priority: priority,
		Rounds: sizes.Rounds})
}
