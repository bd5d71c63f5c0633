package sim

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// Outcome is the result of Run.
type Outcome struct {
	Jobs  []hare.JobResult // in the order of the instance
	Value hare.Amount      // Σ w (C − a), in weight-seconds
	// Constant is the part of Value of the jobs that end with the work that runs at time 0; nil
	// where there are none. Bounds do not count it.
	Constant *hare.Amount
	// MeanJCTUs is the mean of C − a over the jobs; 0 without jobs.
	MeanJCTUs  float64
	MakespanUs int64
	// EndUs is the time at which the last job of Config.Window ended; without a window,
	// the makespan.
	EndUs int64
	// Use is, by type, the share of the GPU time in service up to EndUs that was held by
	// tasks that were not lost.
	Use    []hare.TypeUse
	Events int64 // number of events sent to the policy
	Tasks  int64 // number of tasks that ended
	// Lost counts the tasks that ran when their GPU, or a GPU of their gang, left or
	// failed; LostUs is the GPU time that was held for them. Failures counts the events
	// task_failed.
	Lost, LostUs, Failures int64
	// SwitchUs is the GPU time that was held for switches, including the waits of a gang
	// for its slowest GPU. Switches counts the changes of job on a GPU between tasks that
	// were not lost.
	SwitchUs, Switches int64
	// Preemptions counts the rounds after a job's first that began later than they
	// could, other than after a loss.
	Preemptions int64
	// DownUs is the GPU time up to EndUs that faults took out of service.
	DownUs float64
	// Schedule is the schedule that was carried out, without lost tasks; package verify
	// accepts it. It is nil where Moved is not nil, Varied is not 0, or Config.NoSchedule
	// was set.
	Schedule *hare.Schedule
	// Moved lists the rigid jobs that lost a round after their first one and did the
	// round again, later or on other GPUs, and the jobs that lost what ran at time 0, which no
	// schedule of the model does.
	Moved []string
	// Varied counts the tasks that began with other times than those of the profile
	// (Config.Stretch, Config.Network), which no schedule of the instance has.
	Varied int64

	downUs    []float64 // by type
	preempted []int64   // by job
	window    Window
}

// Result turns the outcome of a run of inst into a result with a certificate, which may
// be nil.
func (o *Outcome) Result(inst *hare.Instance, cert *hare.Certificate) (*hare.Result, error) {
	switch {
	case o.Varied > 0:
		return nil, fmt.Errorf("sim: %d tasks did not take the times of their profiles, so the run is not a schedule "+
			"of the instance", o.Varied)
	case o.Schedule == nil && o.Moved == nil:
		return nil, errors.New("sim: the schedule was not recorded")
	case o.Schedule == nil:
		return nil, fmt.Errorf("sim: job %.60q lost a round after its first or what ran at time 0, and rounds of rigid "+
			"jobs follow each other back to back on the same GPUs in a schedule", o.Moved[0])
	}
	value := o.Value
	if o.Constant != nil {
		value = value.Sub(*o.Constant)
	}
	res := &hare.Result{
		InstanceSHA256: wire.SHA256(inst), Status: hare.StatusSucceeded, Reproducible: true,
		Objective: hare.ObjectiveWeightedJCT,
		Value:     &value, Options: hare.Options{Detail: "lanes"}, Jobs: o.Jobs, Schedule: o.Schedule, Certificate: cert,
	}
	res.Constant = o.Constant
	if cert != nil {
		bound, err := hare.ParseAmount(cert.Bound)
		if err != nil {
			return nil, fmt.Errorf("sim: the certificate's bound: %w", err)
		}
		res.Bound = &bound
	}
	return res, nil
}

func (e *engine) outcome() *Outcome {
	b := &e.totals
	o := &Outcome{
		Events: e.seq, Tasks: b.tasks, Lost: b.lost, LostUs: b.lostUs, Failures: b.failures, SwitchUs: b.switchUs,
		Switches: b.switches, Preemptions: b.preempted, Varied: b.varied, Schedule: &hare.Schedule{}, EndUs: b.endUs,
		window: e.window,
	}
	var sum hare.Amount
	for i := range e.jobs {
		j, spec := &e.jobs[i], &e.inst.Jobs[i]
		o.Jobs = append(o.Jobs, hare.JobResult{ID: spec.ID, StartUs: j.startUs, EndUs: j.endUs})
		o.Schedule.Jobs = append(o.Schedule.Jobs, spec.ID)
		cost := hare.Product(spec.WeightMicro, j.endUs-spec.ReleaseUs)
		o.Value = o.Value.Add(cost)
		if endsAtStart(spec) {
			if o.Constant == nil {
				o.Constant = &hare.Amount{}
			}
			*o.Constant = o.Constant.Add(cost)
		}
		sum = sum.Add(hare.Product(1e6, j.endUs-spec.ReleaseUs))
		o.MakespanUs = max(o.MakespanUs, j.endUs)
		if b.preempted > 0 {
			o.preempted = append(o.preempted, j.preemptions)
		}
		if j.moved {
			o.Moved = append(o.Moved, spec.ID)
		}
	}
	if n := len(e.jobs); n > 0 {
		o.MeanJCTUs = sum.Float() * 1e6 / float64(n)
	}
	e.use(o)
	for i := range e.lanes {
		if l := &e.lanes[i]; len(l.entries) > 0 {
			o.Schedule.Lanes = append(o.Schedule.Lanes, l.columns(e.model.GPUs[i].ID))
			l.entries = nil
		}
	}
	if o.Moved != nil || e.lanes == nil && len(e.model.GPUs) > 0 {
		o.Schedule = nil
	}
	return o
}

// use divides the GPU time that was held by the GPU time in service.
func (e *engine) use(o *Outcome) {
	for k, kind := range e.model.Types {
		service := new(big.Int)
		for _, c := range e.model.Classes {
			if c.Type != k {
				continue
			}
			for _, w := range c.Windows {
				span := min(w.EndUs, o.EndUs) - min(w.StartUs, o.EndUs)
				service.Add(service, new(big.Int).Mul(big.NewInt(span), big.NewInt(int64(len(c.GPUs)))))
			}
		}
		down := e.totals.downUntil[k]
		service.Sub(service, down.Big())
		o.downUs = append(o.downUs, down.Float()*1e12)
		o.DownUs += down.Float() * 1e12
		use := 0.0
		if service.Sign() > 0 {
			use, _ = new(big.Rat).SetFrac(e.totals.until[k].Big(), service).Float64()
		}
		o.Use = append(o.Use, hare.TypeUse{Type: kind, Use: use})
	}
}
