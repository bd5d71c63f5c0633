package policies

import (
	"encoding/json"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
)

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
// backfill as in NewEASY. It knows how long jobs take; in sessions it goes by estimates,
// and the cluster and the greatest weight are those of the moment.
//
// [S] Factors and the default age from Slurm's documentation; larger jobs come
// first. [I] The weights, which every site sets by itself; the job's weight
// stands for its QOS; no users, so no fair share; Slurm keeps reservations for
// more than one job.
func NewSlurm(cluster *hare.Cluster, sizes JobSizes, cfg SlurmConfig) *list.Scheduler {
	cfg = cfg.withDefaults()
	heaviest, gpus := float64(max(1, sizes.MaxWeightMicro)), 0.0
	priority := func(l *list.Scheduler, j *list.JobState) float64 {
		if gpus == 0 {
			gpus = float64(max(1, len(l.Slots())))
		}
		return cfg.priority(l, j, gpus, heaviest)
	}
	return list.New(cluster, list.Rule{Name: "slurm", Hold: hare.Rigid, Backfill: true, Priority: priority,
		Rounds: sizes.Rounds})
}

func (sc SlurmConfig) withDefaults() SlurmConfig {
	if sc.Age == 0 && sc.Size == 0 && sc.QOS == 0 {
		sc.Age, sc.Size, sc.QOS = 1000, 1000, 2000
	}
	if sc.MaxAgeUs == 0 {
		sc.MaxAgeUs = 7 * 24 * 3600 * 1e6
	}
	return sc
}

// priority is minus Slurm's, for a cluster of so many GPUs and a greatest weight.
func (sc SlurmConfig) priority(l *list.Scheduler, j *list.JobState, gpus, heaviest float64) float64 {
	age := min(1, float64(l.NowUs()-j.ArrivedUs())/float64(sc.MaxAgeUs))
	size := min(1, float64(j.Width())/gpus)
	return -(sc.Age*age + sc.Size*size + sc.QOS*float64(j.Spec().WeightMicro)/heaviest)
}

// session is the rule for sessions.
func (sc SlurmConfig) session() list.Rule {
	sc = sc.withDefaults()
	gpus, heaviest := 1.0, 1.0
	return list.Rule{
		Name: "slurm", Hold: hare.Rigid, Backfill: true, LearnSizes: true,
		Priority: func(l *list.Scheduler, j *list.JobState) float64 { return sc.priority(l, j, gpus, heaviest) },
		Prepare: func(l *list.Scheduler) {
			gpus, heaviest = float64(max(1, l.GPUs())), 1
			for _, j := range l.Active() {
				heaviest = max(heaviest, float64(j.Spec().WeightMicro))
			}
		},
	}
}

// parseSlurm reads {"age": 1000, "size": 1000, "qos": 2000, "max_age_s": 604800}.
func parseSlurm(parameters []byte) (list.Rule, error) {
	form := struct {
		Age     *float64     `json:"age"`
		Size    *float64     `json:"size"`
		QOS     *float64     `json:"qos"`
		MaxAgeS *json.Number `json:"max_age_s"`
	}{}
	if err := online.DecodeParameters(parameters, &form); err != nil {
		return list.Rule{}, err
	}
	cfg := SlurmConfig{}.withDefaults()
	for _, factor := range []struct {
		name  string
		given *float64
		value *float64
	}{{"age", form.Age, &cfg.Age}, {"size", form.Size, &cfg.Size}, {"qos", form.QOS, &cfg.QOS}} {
		if factor.given == nil {
			continue
		}
		if !(*factor.given >= 0 && *factor.given <= maxFactor) {
			return list.Rule{}, online.Invalid("/"+factor.name, "out_of_range",
				"slurm: %s is %v: it must be from 0 to %d", factor.name,
				*factor.given, int64(maxFactor))
		}
		*factor.value = *factor.given
	}
	if cfg.Age == 0 && cfg.Size == 0 && cfg.QOS == 0 {
		return list.Rule{}, online.Invalid("/age", "out_of_range",
			"slurm: age, size and qos are all 0: one must be above 0")
	}
	if form.MaxAgeS != nil {
		us, err := list.PositiveMicros("/max_age_s", *form.MaxAgeS)
		if err != nil {
			return list.Rule{}, err
		}
		cfg.MaxAgeUs = us
	}
	return cfg.session(), nil
}

// maxFactor is the greatest weight of a factor, as in Slurm.
const maxFactor = 1<<32 - 1
