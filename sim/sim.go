// Package sim runs policies against a virtual clock and keeps the totals. Run
// plays the cluster that a session talks to, task by task, to an online.Policy;
// RunLeases lends GPUs to gangs for leases, as Gavel and its followers do;
// RunElastic changes the widths of gangs at fixed intervals, as Pollux does.
package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/wire"
)

// Config tunes Run. The zero value is good.
type Config struct {
	// Log is called with each event that is sent to the policy, numbered from
	// 1, and the decisions on it, which are the policy's until it returns. The
	// same events in a session with the same policy get the same decisions. An
	// error ends the run. Nil means that nobody listens.
	Log func(wire.Record) error
	// Name is the policy's, for messages; empty leaves it out.
	Name string
	// NoSchedule leaves Outcome.Schedule out, the one thing that grows with what is
	// simulated.
	NoSchedule bool
	// Seed is of everything that is drawn below.
	Seed uint64
	// Faults take GPUs out of service for a while, and FaultRate does so by
	// chance. Listed faults of a GPU must not overlap; drawn ones may.
	Faults    []Fault
	FaultRate FaultRate
	// Failures make tasks fail and start again.
	Failures FailureRate
	// Stretch makes compute take longer or shorter than profiles say; nil does
	// not. Policies see the profiles, and measured times when tasks end.
	Stretch Stretch
	// SwitchUs is lost when a GPU begins a task of another job than its last one
	// since it came into service; the first costs nothing. The GPU is held
	// meanwhile. A gang begins when its slowest GPU has switched.
	SwitchUs int64
	// SwitchOfUs, where not nil, is asked instead, for the job to come and the
	// type of the GPU.
	SwitchOfUs func(job *hare.Job, gpuType string) int64
	// Network makes rounds that are spread over nodes synchronise longer.
	Network Network

	// Window is the jobs that figures are of. The run goes on until all jobs have
	// ended, so that its schedule is whole.
	Window Window

	runs, lastRuns []int64 // of Merged
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

func (de *DecisionError) Error() string {
	d := &de.Decision
	who := ""
	if de.Policy != "" {
		who = "policy " + de.Policy + " at "
	}
	return fmt.Sprintf("sim: %s%s s, event %d: %s of task %d of round %d of job %.60q on GPU %.60q: %s", who,
		hare.FormatMicros(de.AtUs), de.Event, d.Type, d.Task, d.Round, d.Job, d.GPU, de.Reason)
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
// the times of its profile, where cfg says nothing else. A relaxed one frees its
// GPU after compute (compute_ended) and ends after synchronising; tasks of gang
// and rigid jobs keep theirs as docs/design.md, section 1 says. A GPU that leaves service takes
// its task with it, and those of a gang on others. Where a task of a gang or
// rigid job fails, the round is lost, the GPUs stay, and the policy must start
// it again on them at once; a relaxed task that fails waits to start anywhere.
//
// Events at one time are sent in this order: ends of compute, ends of tasks
// (each in the order of their starts; the end of a job follows that of its last
// task), failures, GPUs that leave (windows of service, then faults), those that
// fail or return by chance, GPUs that join (by their order in the cluster), jobs
// that arrive (in the order of the instance). Every event is a step of its own.
// So the same instance, policy and cfg always give the same events.
//
// Errors are *hare.InvalidError of cfg, *DecisionError, ErrStalled, those of the
// policy, of Config.Log and of ctx. Time is O(log(tasks that run) + the policy's
// step) for each task, so long jobs should have merged rounds (Merge, and the
// trace readers' Quantum). Memory is proportional to jobs, tasks of a round,
// GPUs, listed faults and runs of the schedule, not to what is simulated.
func Run(ctx context.Context, inst *hare.Instance, policy online.Policy, cfg Config) (*Outcome, error) {
	e, err := newEngine(inst, policy, cfg)
	if err != nil {
		return nil, err
	}
	for n := 0; e.unfinished > 0; n++ {
		// Often, for a step of a policy may take a while.
		if n%8 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("sim: %w", ctx.Err())
		}
		if len(e.eventQueue) == 0 || len(e.sources) > 0 && e.waitsForFaults() {
			return nil, e.stalled()
		}
		if err := e.happen(e.eventQueue.pop()); err != nil {
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
