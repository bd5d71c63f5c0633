package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/hare-sched/hare"
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

// Window is the numbers of the jobs that count. Last zero means all.
type Window struct{ First, Last int }

// Check refuses a window of other than so many jobs.
func (w Window) Check(jobs int) error {
	if w.First < 0 || w.Last >= jobs || w.First > w.Last {
		return fmt.Errorf("sim: jobs %d to %d are not a window of %d jobs, which are numbered from 0", w.First, w.Last, jobs)
	}
	return nil
}

func (w Window) has(number int) bool {
	return w.Last == 0 || number >= w.First && number <= w.Last
}

// Fault takes a GPU, or all GPUs of a node, out of service for a while in which the
// instance has them in service. A policy learns of a fault when it begins.
type Fault struct {
	// GPU is node/index. Either GPU or Node is set.
	GPU  string
	Node string
	// FromUs and UntilUs are simulated times; UntilUs may be hare.Forever. A fault that
	// begins when another fault of the GPU ends continues that fault.
	FromUs, UntilUs int64
}

// FaultRate makes GPUs, or nodes with all of their GPUs, fail and return. The times to
// failure and the times to repair are drawn from exponential distributions. Each GPU
// has draws of its own, which do not depend on what the GPU does: with one seed all
// policies meet the same faults. The zero value means no faults.
type FaultRate struct {
	// GPUMeanUs is the mean time between failures of a GPU, GPURepairUs the mean time to
	// repair; both are positive, or both zero.
	GPUMeanUs, GPURepairUs int64
	// NodeMeanUs and NodeRepairUs are the same times of nodes.
	NodeMeanUs, NodeRepairUs int64
}

// FailureRate makes tasks fail: the work of a failed task is lost, and the task starts
// again. The zero value means no failures. A task fails at most once each time that it
// starts. Draws depend on the seed, the job, the round, the task and the number of the
// job's earlier failures, not on when or where the task runs.
type FailureRate struct {
	// Probability is the chance that a task fails, from 0 to below 1, at a time
	// that is uniform over compute and synchronisation.
	Probability float64
	// PerGPUHour is how many tasks fail for each hour in which a GPU computes,
	// or is held by a gang or rigid job; at least 0.
	PerGPUHour float64
}

// Stretch draws the positive factor by which the compute time of a task differs from its
// profile. Draw must draw from r alone, at most a few times, and must not change the
// receiver. trace.MiniBatch is a Stretch made from measurements.
type Stretch interface {
	Draw(r *rand.Rand) float64
}

// Network makes rounds that are spread over nodes synchronise longer. Profiles are taken
// to be measured inside a node. A task of a round of K tasks of a job with D bytes to
// reduce then synchronises for
//
//	2 (K − 1)/K · D · (1/InterBytesPerS − 1/IntraBytesPerS)
//
// longer than its profile says: the time of a ring all-reduce over its slowest link
// (Patarasu and Yuan, 2009) replaces the time inside a node, which the profile contains.
// A gang or rigid job takes longer where its GPUs are on several nodes. [I] Tasks of a
// relaxed round need not run at one time: the tasks on other nodes than the first task's
// take longer. Links are not shared, so jobs do not slow each other. The zero value means
// no network.
type Network struct {
	// InterBytesPerS is the bandwidth between nodes; zero means no network.
	InterBytesPerS float64
	// IntraBytesPerS is the bandwidth inside a node, at least InterBytesPerS; zero means
	// unlimited.
	IntraBytesPerS float64
	// Bytes returns how many bytes a job reduces in a round, at least 0: the gradients of
	// all merged steps.
	Bytes func(*hare.Job) int64
}

// TaskTimes are the times of a task that starts.
type TaskTimes struct {
	ComputeUs int64 // at least 1
	SyncUs    int64
	// FailsAfterUs is how long after its start the task fails, at most ComputeUs + SyncUs;
	// zero means that it does not fail.
	FailsAfterUs int64
}
