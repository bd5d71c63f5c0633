// Package sim runs policies against a virtual clock and measures the result. Run
// simulates the cluster of a session, task by task, for an online.Policy; leases.Run
// lends GPUs to gangs for leases, as Gavel and its successors do; elastic.Run changes the
// widths of gangs at fixed intervals, as Pollux does.
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
	// Log is called with each event that is sent to the policy, numbered from 1, and the
	// policy's decisions, which are valid until Log returns. The same events, and plans, in
	// a session with the same policy get the same decisions. An error ends the run. Nil means no
	// log.
	Log func(wire.Record) error
	// Name is the name of the policy, for messages; empty leaves it out.
	Name string
	// NoSchedule leaves out Outcome.Schedule, the one part of the outcome that grows with
	// the length of the simulation.
	NoSchedule bool
	// Seed is the seed of everything that the fields below draw.
	Seed uint64
	// Faults take GPUs out of service at given times, FaultRate at random ones. Listed
	// faults of a GPU must not overlap; drawn ones may.
	Faults    []Fault
	FaultRate FaultRate
	// Failures make tasks fail and start again.
	Failures FailureRate
	// Stretch makes compute take longer or shorter than the profiles say; nil means the
	// times of the profiles. Policies see the profiles, and the measured times when tasks
	// end.
	Stretch Stretch
	// SwitchUs is the time that a GPU loses when it begins a task of another job than the
	// last one since it came into service; the first task costs nothing. The GPU is held
	// meanwhile. A gang begins when its slowest GPU has switched.
	SwitchUs int64
	// SwitchOfUs, where not nil, replaces SwitchUs: it returns the time for the next job
	// and the type of the GPU.
	SwitchOfUs func(job *hare.Job, gpuType string) int64
	// PlanLatencyUs is how long after an event the plan is there for which a policy that
	// follows plans asked after that event: the plan is taken at the first event at or after
	// that time, and until then there is no other question. Zero means that no plan is made
	// aside. Other policies do not notice the latency.
	PlanLatencyUs int64
	// Network makes rounds that are spread over nodes synchronise longer.
	Network Network
	// Times, where not nil, gives the times of each task when it starts, in place of
	// Stretch, Failures and Network; job is an index of the instance's jobs.
	Times func(job int, round, task int64, gpuType string) TaskTimes

	// PlacedUs, where not nil, gives how long a round of a gang or rigid job takes where its tasks are, in
	// place of the profile and of the spread: nodes has the node of each task, as an index of the cluster's
	// nodes, and is valid until PlacedUs returns. A time that is not positive keeps those of the profile.
	// What follows from Stretch, Failures, Network and Times comes after. As with these, there is no schedule
	// of the instance then.
	PlacedUs func(job int, nodes []int, gpuType string) int64

	// Window selects the jobs that the figures are about. The run goes on until all jobs
	// have ended, so that its schedule is complete.
	Window Window

	runs, lastRuns []int64 // see Merged
}

// ErrStalled says that jobs wait although no task runs and no event is to come: no GPU
// that they may use will ever be in service, or the policy does not start them.
var ErrStalled = errors.New("sim: jobs wait for ever")

// DecisionError says that a policy made a decision that is not possible.
type DecisionError struct {
	Event    int64 // the seq of the event that the decision answered
	AtUs     int64 // the time of the event
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

// Cluster is the part of an instance's cluster that is always in service. The policy
// must be made with it. GPUs with windows of service and busy GPUs are left out: Run
// sends gpu_joined and gpu_left for them.
func Cluster(inst *hare.Instance) *hare.Cluster {
	c := &hare.Cluster{Topology: inst.Cluster.Topology, Bandwidths: inst.Cluster.Bandwidths,
		GPUTypes: inst.Cluster.GPUTypes}
	for _, n := range inst.Cluster.Nodes {
		if alwaysInService(&n) {
			c.Nodes = append(c.Nodes, n)
		}
	}
	return c
}

func alwaysInService(n *hare.Node) bool { return n.Windows == nil && len(n.Busy) == 0 }

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
