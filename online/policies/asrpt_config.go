package policies

import (
	"encoding/json"
	"errors"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/jobgraph"
	"github.com/hare-sched/hare/online/list"
)

// ASRPTConfig tunes NewASRPT. The zero value is the default.
type ASRPTConfig struct {
	// DelayUs is τ, how long a job that is heavy on communication waits for GPUs that are near
	// together, from when it could first start on others. Zero means 300 s, below zero not at all.
	DelayUs int64
	// Heavy is the least α_max/α_min of jobs that are heavy on communication, at least 1. Zero
	// means 1.5.
	Heavy float64
	// Near is the largest α/α_min of GPUs on which such a job starts at once, at least 1. Zero
	// means 1.1.
	Near float64
	// Pass lets jobs pass one that does not fit; otherwise the first job that does not fit keeps
	// all behind it from starting.
	Pass bool
	// Eager starts jobs that the virtual machine has not completed on GPUs that no completed job
	// can use, the shortest first; otherwise such GPUs idle while other jobs run.
	Eager bool
	// Backfill lets jobs pass one that does not fit where they are expected to end before it could start,
	// or leave it GPUs enough (EASY). Pass goes before.
	Backfill bool
	// Graphs are the graphs of jobs, by ID, with the iterations of a round; nil means that there are none. A
	// job with a graph has as many tasks as the graph has vertices, and the cluster must have bandwidths.
	Graphs map[string]jobgraph.Training
	// Named are graphs for sessions, in which the label graph of a job's class names its configuration, and
	// a round has as many iterations as fit its compute time. Nil means that there are none.
	Named *jobgraph.Document
	// FirstFit places jobs with graphs by first fit and not by Heavy-Edge.
	FirstFit bool
	// Trust takes estimate_s of a job as its size, where the policy is given no sizes. Otherwise an
	// estimate counts as far as those of jobs that ended were right.
	Trust bool
	// Predict is what tells the size of a job that arrives; SizesTold is the zero value. With another value
	// the policy does not use the sizes that it is given.
	Predict SizePrediction

	mbps []int64 // by level, where there are graphs
}

// SizePrediction says by what asrpt predicts the size of a job that arrives.
type SizePrediction string

const (
	// SizesTold takes the sizes that the policy is given, or where it is given none, what is believed by the
	// sizes of the jobs that ended, their classes and estimates.
	SizesTold SizePrediction = ""
	// SizesBelief takes what is believed where the policy is given sizes, too.
	SizesBelief SizePrediction = "belief"
	// SizesForest predicts the rounds by a random forest (estimate.SizeForest) of the jobs that ended: of
	// their classes, widths and lengths of a round. A job of no class that was seen has the median.
	SizesForest SizePrediction = "forest"
	// SizesMedian takes the median of the rounds of the jobs that ended for all.
	SizesMedian SizePrediction = "none"
)

func (cfg ASRPTConfig) withDefaults() ASRPTConfig {
	if cfg.DelayUs == 0 {
		cfg.DelayUs = 300e6
	}
	if cfg.Heavy == 0 {
		cfg.Heavy = 1.5
	}
	if cfg.Near == 0 {
		cfg.Near = 1.1
	}
	return cfg
}

// NewASRPT is A-SRPT (arXiv 2501.05563): a virtual machine with the speed of all GPUs does each job by
// preemptive SRPT, and the jobs start on the cluster, as gangs that keep their GPUs until they end, in the
// order in which the virtual machine completes them. A job that is heavy on communication waits for a
// while where the GPUs at hand lie far apart. The policy knows how long jobs take; in sessions it goes by
// estimates, and those of jobs that have arrived stay what they were at the arrival.
//
// [V] The virtual machine, the start after the virtual completion, no preemption on the cluster, the delay of
// jobs that are heavy on communication. [S] The virtual size: iterations × α_min × GPUs, with α_min the time
// of an iteration on GPUs as near together as can be; α_max is that on GPUs which are all apart. [I] The
// values of the thresholds and of τ; the speed of the virtual machine is the number of GPUs in service,
// whatever their types; times on the fastest type in service that is wide enough; jobs behind one that is
// delayed may pass it, and jobs behind one that does not fit may not (ASRPTConfig.Pass); an idle cluster
// starts the job that is the first on the virtual machine at once. The policy asks for ticks at virtual
// completions and ends of delays while a GPU is free (online.Waker). A job that lost its GPUs has the place in
// the queue that it had.
//
// An event takes O(log jobs) for each job that arrives, completes or starts, and O(types) beside; with
// Pass, or where jobs are delayed, O(jobs) that are completed and wait.
//
// With graphs the cluster must have bandwidths; errors are *hare.InvalidError.
func NewASRPT(cluster *hare.Cluster, sizes JobSizes, cfg ASRPTConfig) (*list.Scheduler, error) {
	if cfg.Graphs != nil {
		net, err := jobgraph.NewNetwork(cluster)
		if err != nil {
			return nil, err
		}
		cfg.mbps = net.Mbps()
	}
	return list.NewOpened(cluster, cfg.rule(sizes.Rounds))
}

// rule is the rule for the rounds of each job; nil means that they are learned.
func (cfg ASRPTConfig) rule(rounds map[string]int64) list.Rule {
	if cfg.Predict != SizesTold {
		rounds = nil
	}
	if cfg.Predict == SizesBelief {
		cfg.Predict = SizesTold
	}
	a := &asrpt{cfg: cfg.withDefaults()}
	r := list.Rule{
		Name: "asrpt", Hold: hare.Rigid, Strict: !cfg.Pass && !cfg.Backfill, Rounds: rounds, LearnSizes: rounds == nil,
		Priority: func(_ *list.Scheduler, j *list.JobState) float64 { return float64(j.Number()) },
		Prepare:  a.prepare, Assign: a.assign, Touched: a.touched, Left: a.left, Wake: a.wake, After: a.after,
		State: a.encode, Restore: a.decode,
	}
	if cfg.Graphs != nil || cfg.Named != nil {
		r.Picks = a.pick
	}
	if cfg.Named != nil {
		r.Opened = a.open
	}
	return r
}

// parseASRPT is the rule for the parameters of a session.
func parseASRPT(parameters []byte) (list.Rule, error) {
	cfg, err := readASRPT(parameters)
	if err != nil {
		return list.Rule{}, err
	}
	return cfg.rule(nil), nil
}

// readASRPT reads {"delay_s": 300, "heavy": 1.5, "near": 1.1, "pass": false, "backfill": false, "eager": false,
// "trust": false, "predict": "belief", "first_fit": false, "graphs": {…}}.
func readASRPT(parameters []byte) (cfg ASRPTConfig, err error) {
	form := struct {
		DelayS   *json.Number `json:"delay_s"`
		Heavy    *float64     `json:"heavy"`
		Near     *float64     `json:"near"`
		Pass     bool         `json:"pass"`
		Backfill bool         `json:"backfill"`
		Eager    bool         `json:"eager"`
		Trust    bool         `json:"trust"`
		Predict  string       `json:"predict"`
		FirstFit bool         `json:"first_fit"`

		Graphs json.RawMessage `json:"graphs"`
	}{}
	if err = online.DecodeParameters(parameters, &form); err != nil {
		return cfg, err
	}
	cfg = ASRPTConfig{Pass: form.Pass, Backfill: form.Backfill, Eager: form.Eager, Trust: form.Trust,
		Predict: SizePrediction(form.Predict), FirstFit: form.FirstFit}
	if form.Graphs != nil && string(form.Graphs) != "null" {
		if cfg.Named, err = jobgraph.ReadPart(form.Graphs, "/graphs"); err != nil {
			return cfg, firstFault(err)
		}
	}
	switch form.Predict {
	case "", string(SizesBelief), string(SizesForest), string(SizesMedian):
	default:
		return cfg, online.Invalid("/predict", "out_of_range", "asrpt: predict is %q: use belief, forest or none",
			hare.Clip(form.Predict))
	}
	if form.DelayS != nil {
		us, err := hare.ParseMicros(form.DelayS.String())
		if err != nil || us < 0 || us > hare.MaxExact {
			return cfg, online.Invalid("/delay_s", "out_of_range",
				"asrpt: delay_s is %.60s: it must be from 0 to %s, with at "+
					"most six decimals", *form.DelayS, hare.FormatMicros(hare.MaxExact))
		}
		if cfg.DelayUs = us; us == 0 {
			cfg.DelayUs = -1
		}
	}
	for _, ratio := range []struct {
		name  string
		given *float64
		value *float64
	}{{"heavy", form.Heavy, &cfg.Heavy}, {"near", form.Near, &cfg.Near}} {
		if ratio.given == nil {
			continue
		}
		if !(*ratio.given >= 1 && *ratio.given <= maxRatio) {
			return cfg, online.Invalid("/"+ratio.name, "out_of_range", "asrpt: %s is %v: it must be from 1 to %d", ratio.name,
				*ratio.given, int64(maxRatio))
		}
		*ratio.value = *ratio.given
	}
	return cfg, nil
}

// firstFault is the first of several faults: sessions report one.
func firstFault(err error) error {
	var all hare.InvalidErrors
	if errors.As(err, &all) && len(all) > 0 {
		return all[0]
	}
	return err
}

// maxRatio is the greatest ratio of times of an iteration.
const maxRatio = 1_000_000
