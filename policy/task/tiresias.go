package task

import (
	"fmt"
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
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
func NewTiresias(inst *hare.Instance, cfg TiresiasConfig) (online.Policy, error) {
	r, err := tiresiasRule(&cfg)
	if err != nil {
		return nil, err
	}
	r.key = func(_ *desk, s *seat) float64 { return float64(s.queue)*math.MaxInt32 + float64(s.serial) }
	return newDesk(inst, r), nil
}

// tiresiasRule checks the configuration, fills it in and makes the queues; the
// order inside them is the caller's.
func tiresiasRule(cfg *TiresiasConfig) (rule, error) {
	if cfg.ThresholdsUs == nil {
		cfg.ThresholdsUs = []int64{3600 * 1e6}
	}
	for i, t := range cfg.ThresholdsUs {
		if t <= 0 || i > 0 && t <= cfg.ThresholdsUs[i-1] {
			return rule{}, fmt.Errorf("policy: tiresias: threshold %d is %s s: it must be positive and more than the one before", i, hare.FormatMicros(t))
		}
	}
	if math.IsNaN(cfg.Knob) {
		return rule{}, fmt.Errorf("policy: tiresias: the knob is no number")
	}
	if cfg.Knob == 0 {
		cfg.Knob = 8
	}
	review := func(d *desk, s *seat) {
		waitedUs := s.waitedUs
		if s.active == 0 {
			waitedUs += d.nowUs - s.stateUs
		}
		for s.queue < len(cfg.ThresholdsUs) && float64(s.spec.Tasks)*float64(s.executedUs) >= float64(cfg.ThresholdsUs[s.queue]) {
			s.queue++
		}
		if s.queue > 0 && s.active == 0 && cfg.Knob > 0 && float64(waitedUs) >= cfg.Knob*float64(s.executedUs) {
			s.queue, s.executedUs, s.waitedUs, s.stateUs = 0, 0, 0, d.nowUs
		}
	}
	return rule{hold: hare.Gang, review: review}, nil
}
