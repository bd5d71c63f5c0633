package rolling

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
)

// HGittinsConfig tunes NewHGittins. The zero value is good. Each switch undoes one
// repair, to measure what the repair is worth.
type HGittinsConfig struct {
	// SlowestFactor is how many times slower than on its best type in service a job may
	// run; zero means 4, and a negative number any. Rounds that mix types may use all.
	SlowestFactor float64
	// Strict lets no job pass one that does not fit.
	Strict bool
	// NotSticky does not prefer the GPUs of a job's last round.
	NotSticky bool
	// Guard is the guard against starvation.
	Guard list.GuardConfig
	// ByArrival orders jobs by arrival instead of by their index.
	ByArrival bool
}

// NewHGittins is HLAS repaired: the job that is most likely to end for the GPU-time that
// it will get goes first, on its own GPUs, and never on a type that is far slower than
// its best. It knows nothing but the events, and learns the distribution of sizes from
// jobs that end.
//
// The priority is weight × the Gittins index of what the job has attained / tasks a round
// (Gittins 1979; for unknown distributions, the index of the Kaplan-Meier estimate). Alike
// sizes give first come, first served, heavy tails give least attained service, and no
// threshold is chosen. HLAS (IEEE TCC 2024) instead has queues by attained service, in
// which a gang that does not fit holds up the others, and moves jobs to slow types.
func NewHGittins(cluster *hare.Cluster, cfg HGittinsConfig) *list.Scheduler {
	return list.New(cluster, cfg.Rule())
}

// hgittins is the state beyond that of list scheduling.
type hgittins struct {
	cfg    HGittinsConfig
	belief *list.SizeBelief
	index  func(*list.JobState) *gittinsIndexOfJob
}

// gittinsIndexOfJob is the Gittins index of a job after some rounds, by versions of the belief and the job's times.
type gittinsIndexOfJob struct {
	value                         float64
	rounds, version, timesVersion int64
}

func (cfg HGittinsConfig) Rule() list.Rule {
	return cfg.ruleWith(&list.SizeBelief{}, func(j *list.JobState) *gittinsIndexOfJob {
		x, ok := j.Own.(*gittinsIndexOfJob)
		if !ok {
			x = &gittinsIndexOfJob{}
			j.Own = x
		}
		return x
	})
}

// ruleWith is the rule with a belief, and a place for the index of each job, that may be another rule's too.
func (cfg HGittinsConfig) ruleWith(belief *list.SizeBelief, index func(*list.JobState) *gittinsIndexOfJob) list.Rule {
	if cfg.SlowestFactor == 0 {
		cfg.SlowestFactor = 4
	}
	h := &hgittins{cfg: cfg, belief: belief, index: index}
	rule := list.Rule{
		Name: "hgittins", Hold: hare.Gang, Strict: cfg.Strict, Sticky: !cfg.NotSticky, Slowest: cfg.SlowestFactor,
		Priority: h.priority,
		Prepare:  h.belief.Learn,
		Left:     func(_ *list.Scheduler, j *list.JobState, ended bool) { h.belief.Observe(j, ended) },
		State:    h.belief.Encode,
		Restore:  h.belief.Decode,
		Guard:    cfg.Guard.Rule(h.belief, true),
	}
	if !cfg.Strict {
		rule.Version = func() int64 { return belief.Version() }
	}
	return rule
}

// priority is from −∞ to 0, and falls with the index.
func (h *hgittins) priority(l *list.Scheduler, j *list.JobState) float64 {
	if h.cfg.ByArrival {
		return float64(j.Number())
	}
	sb, x := h.belief, h.index(j)
	if x.version != sb.Version() || x.rounds != j.Round() || x.timesVersion != j.TimesVersion() {
		*x = gittinsIndexOfJob{sb.Gittins(j), j.Round(), sb.Version(), j.TimesVersion()}
	}
	weight := max(1, float64(j.Spec().WeightMicro))
	weight = max(weight, float64(l.AgedInOrder(j)))
	return -weight * x.value / float64(j.Width())
}

// ParseHGittins reads {"slowest_factor": 4, "strict": false, "sticky": true, "by_arrival":
// false, "guard": true, "kappa": 8, "fifo_slowdown": 1}.
func ParseHGittins(parameters []byte) (list.Rule, error) {
	form := struct {
		SlowestFactor *float64 `json:"slowest_factor"`
		Strict        bool     `json:"strict"`
		Sticky        *bool    `json:"sticky"`
		ByArrival     bool     `json:"by_arrival"`
		list.GuardForm
	}{}
	if err := online.DecodeParameters(parameters, &form); err != nil {
		return list.Rule{}, err
	}
	guard, err := form.GuardForm.Config("hgittins")
	if err != nil {
		return list.Rule{}, err
	}
	cfg := HGittinsConfig{Strict: form.Strict, ByArrival: form.ByArrival, NotSticky: form.Sticky != nil && !*form.Sticky,
		Guard: guard}
	if form.SlowestFactor != nil {
		if !(*form.SlowestFactor >= 1) {
			return list.Rule{}, online.Invalid("/slowest_factor", "out_of_range",
				"hgittins: slowest_factor is %v: it must be at least 1", *form.SlowestFactor)
		}
		cfg.SlowestFactor = *form.SlowestFactor
	}
	return cfg.Rule(), nil
}
