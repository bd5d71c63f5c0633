package sessions

import (
	"context"
	"errors"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// Preview is what a session expects where a job arrives now and nothing else happens than what is planned, and what it
// expects without the job.
type Preview struct {
	NowUs int64
	// Rows are the jobs with the new one, and Before without it, by place.
	Rows, Before []online.JobRow
	// Reason says why the new job waits.
	Reason online.Reason
}

// Preview plans with a job and without it, on copies of the policy, as the session would after the job's arrival.
// The error is *NoPlansError where the policy makes no plans, *hare.InvalidError where it refuses the job, and that of
// ctx.
func (s *Session) Preview(ctx context.Context, job *hare.Job) (*Preview, error) {
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
		p.Before, _, err = s.foresee(ctx, state, p.NowUs, hare.Event{Type: hare.EventTick})
		before <- err
	}()
	var with online.Observable
	p.Rows, with, err = s.foresee(ctx, state, p.NowUs, hare.Event{Type: hare.EventJobArrived, Job: job.ID, Arrived: job})
	if other := <-before; err == nil {
		err = other
	}
	if err != nil {
		return nil, err
	}
	for i := range p.Rows {
		if p.Reason = p.Rows[i].Reason; p.Rows[i].Job != job.ID {
			continue
		}
		if p.Reason == (online.Reason{}) {
			x, _ := with.Explain(job.ID)
			p.Reason = x.Reason
		}
		return p, nil
	}
	return nil, fmt.Errorf("sessions: the policy has no job %q", job.ID)
}

// foresee lets a copy of the policy take an event and the plan that it asks for, and returns its jobs then.
func (s *Session) foresee(ctx context.Context, state []byte, nowUs int64, e hare.Event) (rows []online.JobRow,
	policy online.Observable, err error) {
	err = recovered(func() error {
		copied, err := s.parent.cfg.Restore(s.cfg.Policy, state)
		if err != nil {
			return err
		}
		p := copied.(online.Planned)
		if _, err := p.Step(nowUs, []hare.Event{e}); err != nil {
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
		policy = copied.(online.Observable)
		rows = policy.Rows()
		return nil
	})
	return rows, policy, err
}
