package sessions

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// Preview is what a session expects where something happens to a job now and nothing else happens than what is
// planned, and what it expects otherwise.
type Preview struct {
	NowUs int64
	// Rows are the jobs afterwards, and Before without what happens, by place.
	Rows, Before []online.JobRow
	// Reason says why the job waits afterwards, and ReasonBefore why without what happens.
	Reason, ReasonBefore online.Reason
}

// Preview plans with a job and without it, on copies of the policy, as the session would after the job's arrival.
// The error is *NoPlansError where the policy makes no plans, *hare.InvalidError where it refuses the job, and that of
// ctx.
func (s *Session) Preview(ctx context.Context, job *hare.Job) (*Preview, error) {
	p, err := s.Foresee(ctx, job.ID, hare.Event{Type: hare.EventJobArrived, Job: job.ID, Arrived: job})
	if err == nil && !slices.ContainsFunc(p.Rows, func(r online.JobRow) bool { return r.Job == job.ID }) {
		return nil, fmt.Errorf("sessions: the policy has no job %q", job.ID)
	}
	return p, err
}

// Foresee is Preview of events, which concern the job of an ID.
func (s *Session) Foresee(ctx context.Context, id string, events ...hare.Event) (*Preview, error) {
	var state []byte
	p := &Preview{}
	err := s.look(ctx, func(a *actor) {
		if _, ok := a.policy.(online.Planned); ok {
			state, p.NowUs = a.policy.AppendSnapshot(nil), a.atUs
			if s.cfg.Clock == ClockServer {
				p.NowUs = a.serverUs()
			}
		}
	})
	switch {
	case err != nil:
		return nil, err
	case state == nil:
		return nil, &NoPlansError{s.cfg.Policy}
	}
	before := make(chan error, 1)
	go func() {
		var err error
		p.Before, p.ReasonBefore, err = s.foresee(ctx, state, p.NowUs, id, hare.Event{Type: hare.EventTick})
		before <- err
	}()
	p.Rows, p.Reason, err = s.foresee(ctx, state, p.NowUs, id, events...)
	if other := <-before; err == nil {
		err = other
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// foresee lets a copy of the policy take events and the plan that it asks for, and returns its jobs then, and why the
// job of an ID waits.
func (s *Session) foresee(ctx context.Context, state []byte, nowUs int64, id string, events ...hare.Event) (
	rows []online.JobRow, why online.Reason, err error) {
	err = recovered(func() error {
		copied, err := s.parent.cfg.Restore(s.cfg.Policy, state)
		if err != nil {
			return err
		}
		p := copied.(online.Planned)
		if _, err := p.Step(nowUs, events); err != nil {
			var refused *online.RefusedError
			if errors.As(err, &refused) {
				return refused.Err
			}
			return err
		}
		if question := p.AskNow(); question != nil {
			ctx, cancel := context.WithTimeout(ctx, s.parent.cfg.PlanTime)
			defer cancel()
			plan, err := question.Answer(ctx)
			if err != nil {
				return err
			}
			if err := p.Take(plan); err != nil {
				return err
			}
			if _, err := p.Step(nowUs, []hare.Event{{Type: hare.EventTick}}); err != nil {
				return err
			}
		}
		policy := copied.(online.Observable)
		rows = policy.Rows()
		for i := range rows {
			if r := &rows[i]; r.Job == id {
				if why = r.Reason; why == (online.Reason{}) {
					x, _ := policy.Explain(id)
					why = x.Reason
				}
			}
		}
		return nil
	})
	return rows, why, err
}
