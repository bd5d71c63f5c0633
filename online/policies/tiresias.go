package policies

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
)

// TiresiasConfig tunes NewTiresias. The zero value is good.
type TiresiasConfig struct {
	// ThresholdsUs are the attained GPU-microseconds after which a job leaves
	// queue 0, 1, …, ascending; nil means one GPU-hour, for two queues.
	ThresholdsUs []int64
	// Knob returns a job to the first queue when it has waited Knob times as
	// long as it has executed; zero means 8, negative never.
	Knob float64
}

// NewTiresias is Tiresias' discretised 2D-LAS (NSDI 2019): jobs lose priority as
// their GPUs × time grows past the thresholds of the queues; inside a queue they
// go by arrival. It does not know how long jobs take, and counts a second of any
// GPU alike, where HLAS counts seconds of a reference type.
//
// [V] K = 2 queues, attained W·t, promotion when wait ≥ knob × executed. [I] The
// default threshold and knob; no placement by model skew, since the model has no
// network; preemption at the end of a round, which is a gang on the fastest type
// with room; jobs that do not fit are passed over.
func NewTiresias(cluster *hare.Cluster, cfg TiresiasConfig) (*list.Scheduler, error) {
	r, err := cfg.rule()
	if err != nil {
		return nil, err
	}
	return list.New(cluster, r), nil
}

// rule fills in the defaults. Errors are *hare.InvalidError.
func (tc TiresiasConfig) rule() (list.Rule, error) {
	r, err := tc.queues()
	r.Name = "tiresias"
	r.Priority = func(_ *list.Scheduler, j *list.JobState) float64 {
		return float64(j.Queue)*math.MaxInt32 + float64(j.Number())
	}
	return r, err
}

// queues is the part of the rule that moves jobs between queues; the order inside
// the queues is the caller's.
func (tc *TiresiasConfig) queues() (list.Rule, error) {
	if tc.ThresholdsUs == nil {
		tc.ThresholdsUs = []int64{3600 * 1e6}
	}
	for i, t := range tc.ThresholdsUs {
		if t <= 0 || i > 0 && t <= tc.ThresholdsUs[i-1] {
			return list.Rule{}, online.Invalid("/thresholds_s/"+strconv.Itoa(i), "out_of_range",
				"tiresias: threshold %d is %s s: it must be positive and more than the one before", i,
				hare.FormatMicros(t))
		}
	}
	if math.IsNaN(tc.Knob) {
		return list.Rule{}, online.Invalid("/knob", "bad_value", "tiresias: the knob is not a number")
	}
	if tc.Knob == 0 {
		tc.Knob = 8
	}
	thresholds, knob := tc.ThresholdsUs, tc.Knob
	review := func(l *list.Scheduler, j *list.JobState) {
		waitedUs := j.WaitedUs()
		if j.Running() == 0 {
			waitedUs += l.NowUs() - j.SinceUs()
		}
		for j.Queue < len(thresholds) && float64(j.Width())*float64(j.RunUs()) >= float64(thresholds[j.Queue]) {
			j.Queue++
		}
		if j.Queue > 0 && j.Running() == 0 && knob > 0 && float64(waitedUs) >= knob*float64(j.RunUs()) {
			l.Promote(j)
		}
	}
	return list.Rule{Hold: hare.Gang, Review: review, ThresholdsUs: thresholds}, nil
}

// parseTiresias reads {"thresholds_s": [3600], "knob": 8}.
func parseTiresias(parameters []byte) (list.Rule, error) {
	cfg, err := parseTiresiasConfig(parameters)
	if err != nil {
		return list.Rule{}, err
	}
	return cfg.rule()
}

func parseTiresiasConfig(parameters []byte) (TiresiasConfig, error) {
	var form struct {
		ThresholdsS []json.Number `json:"thresholds_s"`
		Knob        float64       `json:"knob"`
	}
	if err := online.DecodeParameters(parameters, &form); err != nil {
		return TiresiasConfig{}, err
	}
	cfg := TiresiasConfig{Knob: form.Knob}
	if len(form.ThresholdsS) > maxQueues-1 {
		return TiresiasConfig{}, online.Invalid("/thresholds_s", "out_of_range", "%d thresholds: at most %d",
			len(form.ThresholdsS),
			maxQueues-1)
	}
	for i, t := range form.ThresholdsS {
		us, err := list.PositiveMicros("/thresholds_s/"+strconv.Itoa(i), t)
		if err != nil {
			return TiresiasConfig{}, err
		}
		cfg.ThresholdsUs = append(cfg.ThresholdsUs, us)
	}
	return cfg, nil
}

// maxQueues is the most queues of a session.
const maxQueues = 16
