// Package sim runs policies against a virtual clock and measures the result. Run
// simulates the cluster of a session, task by task, for an online.Policy; leases.Run
// lends GPUs to gangs for leases, as Gavel and its successors do; elastic.Run changes the
// widths of gangs at fixed intervals, as Pollux does.
//
// The files of the engine of tasks are in layers: what may be asked of a run (config), the
// state of the cluster (state, with the event queue, lanes, planner and variation), what
// GPUs are held for (hold, nodes, levels, placed, launch), the answers of the policy
// (follow), what happens to tasks, GPUs and jobs (loss, fault, running, window, engine), and
// Run. Outcome and Metrics are what is left of a run.
package sim

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// Run plays inst, which must be valid, to policy, which must be fresh and made with
// Cluster(inst), until all jobs have ended. The policy learns of a job at its release,
// and never how many rounds the job has; after the last task of the last round it gets
// the event job_ended, at the same time. A task takes the times of its profile unless cfg
// changes them. A relaxed task frees its GPU after compute (compute_ended) and ends after
// synchronising; tasks of gang and rigid jobs hold their GPUs as docs/inside/design.md, section
// 1, says. When a GPU leaves service its task is lost, with the tasks of the same gang on
// other GPUs. Where a task of a gang or rigid job fails, the round is lost, the job keeps
// its GPUs, and the policy must start the round again on them at once; a relaxed task
// that fails waits to start on any GPU.
//
// Events at one time are sent in this order: ends of compute, ends of tasks
// (each in the order of their starts; the end of a job follows that of its last
// task), failures, GPUs that leave (windows of service, then faults), those that
// fail or return by chance, GPUs that join (by their order in the cluster), jobs
// that arrive (in the order of the instance), ticks for which the policy asked
// (online.Waker). Every event is a step of its own, so the
// same instance, policy and cfg always give the same events.
//
// Errors are *hare.InvalidError of cfg, *DecisionError, ErrStalled, and the errors of the
// policy, of Config.Log and of ctx. A task costs O(log(running tasks)) and the policy's
// step, so long jobs should have merged rounds (Merge, and the trace readers' Quantum).
// Memory is proportional to jobs, tasks of a round, GPUs, listed faults and runs of the
// schedule, not to the length of the simulation.
func Run(ctx context.Context, inst *hare.Instance, policy online.Policy, cfg Config) (*Outcome, error) {
	e, err := newEngine(inst, policy, cfg)
	if err != nil {
		return nil, err
	}
	if err := e.announceQuotas(); err != nil {
		return nil, err
	}
	for n := 0; e.unfinished > 0; n++ {
		// The context is checked often, because a step of a policy may take long.
		if n%8 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("sim: %w", ctx.Err())
		}
		if len(e.eventQueue) == 0 || len(e.sources) > 0 && e.waitsForFaults() {
			return nil, e.stalled()
		}
		next := e.eventQueue.pop()
		if e.planner.policy != nil {
			if err := e.planner.answer(ctx, next.atUs); err != nil {
				return nil, err
			}
		}
		if err := e.process(next); err != nil {
			return nil, err
		}
	}
	return e.outcome(), nil
}

func (e *engine) stalled() error {
	for i := range e.jobs {
		if q, gpus := e.tooSmall(i); q >= 0 && !e.jobs[i].over {
			x := &e.inst.Quota[q]
			return fmt.Errorf("%w: %d, job %.60q among them: it needs %d GPUs at once, and the quota of %.60q (/quota/%d) "+
				"is %d: raise it, or leave the job out", ErrStalled, e.unfinished, e.inst.Jobs[i].ID, gpus, x.User, q, x.GPUs)
		}
	}
	for i := range e.jobs {
		if !e.jobs[i].over {
			return fmt.Errorf("%w: %d, job %.60q among them", ErrStalled, e.unfinished, e.inst.Jobs[i].ID)
		}
	}
	return ErrStalled
}
