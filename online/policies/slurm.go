package policies

import (
	"cmp"
	"encoding/json"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
)

// SlurmConfig are the settings of NewSlurm, by the names of slurm.conf. The zero value is useful.
type SlurmConfig struct {
	// Age, Size and QOS are weights of factors between 0 and 1 (PriorityWeightAge and the like): the time
	// waited over MaxAgeUs, the job's GPUs over the cluster's, the job's weight over the greatest. All zero
	// means 1,000, 1,000 and 2,000.
	Age, Size, QOS float64
	// MaxAgeUs is PriorityMaxAge; zero means Slurm's 7 days.
	MaxAgeUs int64
	// BackfillUs is how often backfill runs (bf_interval); zero means 30 s.
	BackfillUs int64
	// Depth is how many waiting jobs one run of backfill tests (bf_max_job_test); zero means 500.
	Depth int
	// Defer lets the main scheduler run once for all events of one time, in the tick that the policy asks
	// for then. Otherwise it runs after each event.
	Defer bool
	// Partitions are the partitions of jobs, by their IDs; jobs that are not there share one.
	Partitions map[string]string
	// LimitsUs are the time limits of jobs, by their IDs; nil means how long they take.
	LimitsUs map[string]int64
}

// NewSlurm is Slurm's multifactor priority with its two schedulers, see slurm. It knows how long jobs take, on the
// slowest type that they may use, and takes this for their time limits; in sessions it goes by estimates, and
// the cluster and the greatest weight are those of the moment.
//
// [S] Factors and the default age from Slurm's documentation; larger jobs come first. [I] The weights, which
// every site sets by itself; the job's weight stands for its QOS; no users, so no fair share.
func NewSlurm(cluster *hare.Cluster, sizes JobSizes, cfg SlurmConfig) *list.Scheduler {
	s := newSlurm(cfg)
	r := s.rule()
	r.Rounds = sizes.Rounds
	l := list.New(cluster, r)
	s.kept.GPUs, s.kept.Heaviest = float64(max(1, len(l.Slots()))), float64(max(1, sizes.MaxWeightMicro))
	return l
}

func (sc SlurmConfig) withDefaults() SlurmConfig {
	if sc.Age == 0 && sc.Size == 0 && sc.QOS == 0 {
		sc.Age, sc.Size, sc.QOS = 1000, 1000, 2000
	}
	sc.MaxAgeUs = cmp.Or(sc.MaxAgeUs, 7*24*3600*1e6)
	sc.BackfillUs = cmp.Or(sc.BackfillUs, 30e6)
	sc.Depth = cmp.Or(sc.Depth, 500)
	return sc
}

// session is the rule for sessions.
func (sc SlurmConfig) session() list.Rule {
	s := newSlurm(sc)
	r := s.rule()
	r.LearnSizes = true
	r.Prepare = func(l *list.Scheduler) {
		gpus, heaviest := float64(max(1, l.GPUs())), 1.0
		for _, j := range l.Active() {
			heaviest = max(heaviest, float64(j.Spec().WeightMicro))
		}
		s.rank = s.rank || gpus != s.kept.GPUs || heaviest != s.kept.Heaviest
		s.kept.GPUs, s.kept.Heaviest = gpus, heaviest
		s.prepare(l)
	}
	return r
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
