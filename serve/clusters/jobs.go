package clusters

import (
	"context"
	"crypto/rand"
	"math"

	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Submit adds a job. A key that was used before gives the job of then, or *ledger.Conflict where that job is
// another one. The error is hare.InvalidErrors where the job is not sound.
func (c *Cluster) Submit(ctx context.Context, n *clusterdoc.NewJob, key string) (job *clusterdoc.Job, err error) {
	if err := ledger.CheckJob(n); err != nil {
		return nil, err
	}
	spec := ledger.WithSync(*n)
	spec.Name = ledger.Name(n)
	asked := spec // as an older version would have kept it
	asked.Sync = n.Sync
	id := ""
	err = c.do(ctx, &request{
		prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
			if id = l.JobOfKey(key); key != "" && id != "" {
				if !l.Submitted(id, spec, asked) {
					return nil, &ledger.Conflict{Code: "key_reused", Detail: "the Idempotency-Key belongs to another job: take a " +
						"new one"}
				}
				return nil, nil
			}
			if l.Unended() >= c.parent.cfg.MaxJobs {
				return nil, &admission.LimitError{What: "jobs of the cluster that have not ended", Limit: c.parent.cfg.MaxJobs}
			}
			if err := c.parent.cfg.Quotas.JobRoom(c.cfg.Tenant); err != nil {
				return nil, err
			}
			if err := c.parent.cfg.Quotas.Room(c.cfg.Tenant); err != nil {
				return nil, err
			}
			id = l.NextJob()
			return &ledger.Record{Submit: &ledger.Submit{Job: spec, Key: key, Shares: ledger.Shares(&spec),
				SecretSum: ledger.SumSecrets(spec.SecretEnv, rand.Text())}}, nil
		},
		after: func(l *ledger.Ledger) { job = l.Job(id, true) },
	})
	return job, err
}

// Cancel ends a job. It does nothing where the job has ended.
func (c *Cluster) Cancel(ctx context.Context, id, by string) (job *clusterdoc.Job, err error) {
	err = c.do(ctx, &request{
		prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
			if l.Job(id, false) == nil {
				return nil, ErrNoJob
			}
			return &ledger.Record{Cancel: &ledger.Cancel{Job: id, By: by}}, nil
		},
		after: func(l *ledger.Ledger) { job = l.Job(id, true) },
	})
	return job, err
}

// Job describes a job with all of its attempts, and what it waits for.
func (c *Cluster) Job(ctx context.Context, id string) (job *clusterdoc.Job, err error) {
	waits := false
	err = c.do(ctx, &request{
		prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
			if l.Job(id, false) == nil {
				return nil, ErrNoJob
			}
			return nil, nil
		},
		after: func(l *ledger.Ledger) {
			job, waits = l.Job(id, true), l.InSession(id)
			if job.State == clusterdoc.JobWaiting {
				why := l.WhyNot(id)
				if why == "" {
					why = l.WaitsFor(id)
				}
				if why != "" {
					job.Reason, waits = why, false
				}
			}
		},
	})
	if err != nil {
		return nil, err
	}
	job.CopyProblem = c.copyProblem(id)
	if job.State.Final() {
		return job, nil
	}
	if waits {
		if status, found, err := c.session.Explain(ctx, id); err == nil && found {
			job.Reason = status.Why
		}
	}
	c.expect(ctx, job)
	return job, nil
}

// expect adds what the session's plan says of a job, where there is a plan.
func (c *Cluster) expect(ctx context.Context, job *clusterdoc.Job) {
	plan, err := c.session.Plan(ctx)
	if err != nil {
		return
	}
	for i := range plan.Jobs {
		if p := &plan.Jobs[i]; p.Job == job.ID {
			from := func(us int64) *float64 {
				if us < 0 {
					return nil
				}
				s := math.Round(float64(max(0, us-plan.AtUs))/1e3) / 1e3
				return &s
			}
			if !p.Running {
				job.ExpectedInS = from(p.StartUs)
			}
			job.ExpectedEndInS, job.EarliestEndInS = from(p.EndUs), from(p.EarliestEndUs)
		}
	}
}

// Jobs describes at most limit jobs after the job of an ID.
func (c *Cluster) Jobs(ctx context.Context, after string, limit int, state clusterdoc.JobState) (
	list *clusterdoc.JobList, err error) {
	list = &clusterdoc.JobList{}
	err = c.do(ctx, &request{prepare: func(*ledger.Ledger) (*ledger.Record, error) { return nil, nil },
		after: func(l *ledger.Ledger) { list.Jobs, list.Next = l.Jobs(after, limit, state) }})
	return list, err
}
