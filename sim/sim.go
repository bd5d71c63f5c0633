// Package sim runs policies against a virtual clock and keeps the books. Run
// plays the cluster that a session talks to, task by task, to an online.Policy;
// RunLeases lends GPUs to gangs for leases, as Gavel and its followers do.
package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// Config tunes Run. The zero value is good.
type Config struct {
	// Log is called with each event that is sent to the policy, numbered from
	// 1, and the decisions on it, which are the policy's until it returns. The
	// same events in a session with the same policy get the same decisions. An
	// error ends the run. Nil means that nobody listens.
	Log func(hare.Record) error
	// Name is the policy's, for messages; empty leaves it out.
	Name string
	// Window is the jobs that figures are of. The run goes on until all jobs have
	// ended, so that its schedule is whole.
	Window Window
}

// ErrStalled says that jobs wait, nothing runs and nothing more will happen: no
// GPU that they may use will ever be in service, or the policy forgot them.
var ErrStalled = errors.New("sim: jobs wait for ever")

// DecisionError says that a policy decided what is not possible.
type DecisionError struct {
	Event    int64 // the seq of the event that it answered
	AtUs     int64 // when
	Decision hare.Decision
	Reason   string
	Policy   string // Config.Name
}

func (e *DecisionError) Error() string {
	d := &e.Decision
	who := ""
	if e.Policy != "" {
		who = "policy " + e.Policy + " at "
	}
	return fmt.Sprintf("sim: %s%s s, event %d: %s of task %d of round %d of job %.60q on GPU %.60q: %s", who, hare.FormatMicros(e.AtUs), e.Event, d.Type, d.Task, d.Round, d.Job, d.GPU, e.Reason)
}

// Cluster is the part of an instance's cluster that is there from the start,
// and that the policy must be made with. GPUs with windows of service or busy
// ones are not in it: Run sends gpu_joined and gpu_left for them.
func Cluster(inst *hare.Instance) *hare.Cluster {
	c := &hare.Cluster{}
	for _, n := range inst.Cluster.Nodes {
		if steady(&n) {
			c.Nodes = append(c.Nodes, n)
		}
	}
	return c
}

func steady(n *hare.Node) bool { return n.Windows == nil && len(n.Busy) == 0 }

// Run plays inst, which must be valid, to policy, which must be fresh and made
// with Cluster(inst), until all jobs have ended. The policy learns of a job at
// its release and never how many rounds it has; after the last task of the
// last round it is told that the job has ended, at the same time. A task takes
// the times of its profile. A relaxed one frees its GPU after compute
// (compute_ended) and ends after synchronising; tasks of gang and rigid jobs
// keep theirs as DESIGN 1 says. A GPU that leaves service takes its task with
// it, and those of a gang on others.
//
// Events at one time are sent in this order: ends of compute, ends of tasks
// (each in the order of their starts; the end of a job follows that of its last
// task), GPUs that leave, GPUs that join (by their order in the cluster), jobs
// that arrive (in the order of the instance). Every event is a step of its own.
// So the same instance and policy always give the same events.
//
// Errors are *DecisionError, ErrStalled, those of the policy, of Config.Log and
// of ctx. Time is O(log(tasks that run) + the policy's step) for each task, so
// long jobs should have merged rounds (the trace readers' Quantum). Memory is
// proportional to jobs, tasks of a round, GPUs and runs of the schedule.
func Run(ctx context.Context, inst *hare.Instance, policy online.Policy, cfg Config) (*Outcome, error) {
	e, err := newEngine(inst, policy, cfg)
	if err != nil {
		return nil, err
	}
	for n := 0; e.unfinished > 0; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("sim: %w", ctx.Err())
		}
		if len(e.agenda) == 0 {
			return nil, e.stalled()
		}
		if err := e.happen(e.agenda.pop()); err != nil {
			return nil, err
		}
	}
	return e.outcome(), nil
}

func (e *engine) stalled() error {
	for i := range e.jobs {
		if !e.jobs[i].over {
			return fmt.Errorf("%w: %d, job %.60q among them", ErrStalled, e.unfinished, e.inst.Jobs[i].ID)
		}
	}
	return ErrStalled
}
