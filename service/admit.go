package service

import (
	"errors"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/admission"
)

// degraded are the options of an answer that takes little: the schedule of a
// greedy rule, and the bounds that need no prices.
func degraded(opt hare.Options) hare.Options {
	opt.Bound, opt.Order, opt.Assign = hare.MethodCriticalPath, "wspt", "earliest_finish"
	return opt
}

// costsOf predicts solves under these options: those of the plain rules take so
// much less that they have a model of their own.
func (s *Service) costsOf(opt hare.Options) *admission.Costs {
	if opt.Bound != hare.MethodPrice && opt.Order != hare.MethodPrice && opt.Assign != "insertion" {
		return s.plainCosts
	}
	return s.costs
}

// Costs is the model that solves are admitted by.
func (s *Service) Costs() *admission.Costs { return s.costs }

// AdmitSolve counts a solve among those that Drain waits for and that the queue
// holds. Where there is too much to do and opt allows it, that is of the
// options that it returns, which make a degraded answer.
func (s *Service) AdmitSolve(inst *hare.Instance, opt hare.Options, deadline time.Time) (hare.Options, admission.Call,
	error) {
	try := func(opt hare.Options, degraded bool) (admission.Call, error) {
		costs := s.costsOf(opt)
		a := admission.Call{Deadline: deadline, Cost: costs.Predict(admission.WorkOf(inst, opt)), Degraded: degraded}
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

// Learn takes in how long a solve ran that was admitted as a says.
func (s *Service) Learn(inst *hare.Instance, opt hare.Options, a admission.Call, res *hare.Result,
	took time.Duration) {
	if res == nil {
		return
	}
	s.watching().predicted(a.Cost, took)
	cut := res.Termination == hare.TerminationCancelled || res.Termination == hare.TerminationDeadline
	s.costsOf(opt).Learn(admission.WorkOf(inst, opt), took, cut)
}

// Readmit counts a call that an earlier server had admitted.
func (s *Service) Readmit(a admission.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.queue.Admit(a) // is not refused
	s.active.Add(1)
}
