package trace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	hare "github.com/hare-sched/hare"
)

// DeadlineConfig says which jobs of a generated instance get a deadline, and when.
type DeadlineConfig struct {
	// Share is the share of the jobs that get one, from 0 to 1: of n jobs it is the nearest
	// whole number to Share · n, drawn at random.
	Share float64
	// Factor places a deadline so many least times after the release. The least time of a job
	// is that of its rounds on its fastest type, one after another, with all tasks at once.
	Factor float64
	// LateWeight times the weight of the job is the cost of a second after the deadline.
	LateWeight float64
	// Seed selects the jobs.
	Seed uint64
}

// ParseDeadlines reads a share and a factor, as in "0.5:2".
func ParseDeadlines(text string) (DeadlineConfig, error) {
	share, factor, _ := strings.Cut(text, ":")
	var cfg DeadlineConfig
	var err, err2 error
	cfg.Share, err = strconv.ParseFloat(share, 64)
	cfg.Factor, err2 = strconv.ParseFloat(factor, 64)
	if err != nil || err2 != nil || !(cfg.Share >= 0 && cfg.Share <= 1) || !(cfg.Factor > 0 && cfg.Factor <= 1e6) {
		return cfg, fmt.Errorf("trace: deadlines %.60q: write SHARE:FACTOR, a share of the jobs from 0 to 1 and how many "+
			"least times after the release the deadline is, e.g. 0.5:2", text)
	}
	return cfg, nil
}

// AddDeadlines gives jobs of inst deadlines and sets the objective jct_and_tardiness. It takes
// O(jobs · types).
func AddDeadlines(inst *hare.Instance, cfg DeadlineConfig) error {
	if !(cfg.LateWeight >= 0 && cfg.LateWeight <= 1e6) {
		return fmt.Errorf("trace: the weight of lateness is %g; it must be from 0 to 10^6", cfg.LateWeight)
	}
	inst.Objective = hare.ObjectiveJCTAndTardiness
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x44656164)) // "Dead" in ASCII
	n := int(math.Round(cfg.Share * float64(len(inst.Jobs))))
	for _, i := range rng.Perm(len(inst.Jobs))[:n] {
		j := &inst.Jobs[i]
		least := int64(math.MaxInt64)
		for _, p := range j.On {
			least = min(least, p.DurationUs())
		}
		after := cfg.Factor * float64(least) * float64(j.Rounds)
		if after > maxArrival*1e6 {
			return fmt.Errorf("trace: the deadline of job %s is more than %g seconds after its release; take a smaller factor",
				j.ID, maxArrival)
		}
		j.DeadlineUs = j.ReleaseUs + max(1, int64(after+0.5))
		j.LateWeightMicro = int64(cfg.LateWeight*float64(j.WeightMicro) + 0.5)
	}
	return nil
}
