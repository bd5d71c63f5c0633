package clusters

import (
	"context"
	"crypto/rand"

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
	old := ledger.WithSync(*n) // as older versions would have kept it
	old.Name = ledger.Name(n)
	oldest := old
	oldest.Sync = n.Sync
	spec := ledger.WithEstimate(old)
	id := ""
	err = c.do(ctx, &request{
		prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
			if id = l.JobOfKey(key); key != "" && id != "" {
				if !l.Submitted(id, spec, old, oldest) {
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

// Job describes a job with all of its attempts, what it waits for, and what is expected of it.
func (c *Cluster) Job(ctx context.Context, id string) (job *clusterdoc.Job, err error) {
	var v *outlook
	look := &request{
		prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
			if job = l.Job(id, true); job == nil {
				return nil, ErrNoJob
			}
			return nil, nil
		},
		after: func(l *ledger.Ledger) {
			if job = l.Job(id, true); v != nil {
				v.look(l, job)
			}
		},
	}
	if err = c.do(ctx, look); err != nil {
		return nil, err
	}
	if !job.State.Final() {
		if v, err = c.outlook(ctx, func(clusterdoc.JobState) bool { return true }); err == nil {
			v.ask(id)
			err = c.do(ctx, look)
		}
		if err != nil {
			return nil, err
		}
		v.complete(job)
	}
	job.CopyProblem = c.copyProblem(id)
	return job, nil
}
