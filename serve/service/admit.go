package service

import (
	"errors"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
)

// degraded returns the options of a degraded solve: a greedy rule for the schedule, and
// only bounds that need no prices.
func degraded(opt hare.Options) hare.Options {
	opt.Bound, opt.Order, opt.Assign = hare.MethodCriticalPath, "wspt", "earliest_finish"
	return opt
}

// costsOf returns the model that predicts how long a solve with these options runs.
// Solves by simple rules run so much shorter that they have a model of their own.
func (s *Service) costsOf(opt hare.Options) *admission.Costs {
	if opt.Bound != hare.MethodPrice && opt.Order != hare.MethodPrice && opt.Assign != "insertion" {
		return s.greedyCosts
	}
	return s.costs
}

// Costs returns the model by which solves with prices are admitted.
func (s *Service) Costs() *admission.Costs { return s.costs }

// AdmitSolve admits a solve to the queue and counts it among the calls that Drain waits
// for. If the queue is too long and opt allows it, the solve is degraded. The options
// that AdmitSolve returns are the options to solve with. Of call, Deadline and Patient are
// read.
func (s *Service) AdmitSolve(inst *hare.Instance, opt hare.Options, call admission.Call) (hare.Options, admission.Call,
	error) {
	try := func(opt hare.Options, degraded bool) (admission.Call, error) {
		costs := s.costsOf(opt)
		a := admission.Call{Deadline: call.Deadline, Patient: call.Patient,
			Cost: costs.Predict(admission.WorkOf(inst, opt)), Degraded: degraded}
		a.ErrorFactor, _ = costs.Error()
		return a, s.admit(a)
	}
	a, err := try(opt, false)
	if errors.As(err, new(*admission.OverloadError)) && opt.Degrade {
		opt = degraded(opt)
		a, err = try(opt, true)
	}
	return opt, a, err
}

// learn adds the running time of an admitted solve to the model of costs.
func (s *Service) learn(inst *hare.Instance, opt hare.Options, a admission.Call, res *hare.Result,
	took time.Duration) {
	if res == nil {
		return
	}
	s.currentHooks().predicted(a.Cost, took)
	cut := res.Termination == hare.TerminationCancelled || res.Termination == hare.TerminationDeadline
	s.costsOf(opt).Learn(admission.WorkOf(inst, opt), took, cut)
}

// Readmit admits a call that an earlier process had admitted; it is never refused.
func (s *Service) Readmit(a admission.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.queue.Admit(a) // a resumed call is never refused
	s.active.Add(1)
}
