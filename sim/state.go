package sim

import (
	"math/rand/v2"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/wire"
)

const none = int32(-1)

// maxTasks limits the tasks of a round, whose states are kept one by one.
const maxTasks = 1 << 24

// engine is the state of the cluster with the events that are to come.
type engine struct {
	inst   *hare.Instance
	model  *model.Model
	policy online.Policy
	log    func(wire.Record) error
	name   string // name of the policy
	// planner makes the plans of a policy that follows plans.
	planner planner
	wakes   wakes
	placed  placedTimes

	nowUs      int64
	seq        int64 // number of the last event
	eventQueue eventQueue
	stale      int // upper limit of the occurrences of lost tasks in the event queue

	jobs       []job
	jobOf      map[string]int32 // the jobs that have arrived and not ended
	arrivals   []int32          // the jobs that are still to arrive, the next one last
	unfinished int
	gpus       []gpu // in the order of Model.GPUs
	gpuOf      map[string]int32
	running    int // number of running tasks
	slots      []running
	vacant     []int32
	serial     int64 // serial number of the last task that started
	tail       tail

	toWithdraw []place // tasks that the policy must withdraw now
	withdrawn  int     // how many of toWithdraw are withdrawn; these come first
	touched    []int32 // gang and rigid jobs of which the answer has started tasks
	failed     int32   // the gang or rigid job whose round must start again now, or none
	err        error   // error of a function of Config
	events     [1]hare.Event
	arrived    hare.Job // the job of events, where it arrives and nothing is logged
	freed      []int32  // GPUs that the event has freed: most likely the next to be named
	used       int      // how many of freed the answer has named
	named      int32    // the job that a decision named last
	lanes      []lane   // by GPU; nil where there will be no schedule
	totals     totals

	window          Window
	number          []int32    // by job, its number by arrival; nil without a window
	nodes           *nodeUse   // nil where nodes do not matter
	levels          bool       // whether hasLevels is true of any job
	vary            *variation // nil where all times are those of the profiles
	sources         []source
	sourcesOut      int
	idleFaults      int // faults drawn since a task started
	fruitlessFaults int // faults drawn since a task ended
}

// job is the state of one job. An element of tasks is 0 for a task that has not
// started, its slot + 1 while the task runs, and ended afterwards.
type job struct {
	round   int64
	tasks   []int32
	running int64
	ended   int64
	held    []int32 // GPUs of a gang's round or of a rigid job
	// openedUs is when the round could start: the end of the round before. A rigid job
	// must start its next round at that time.
	openedUs    int64
	preemptions int64
	tries       int64 // failed tasks of the current round
	failures    int64 // failed tasks in all
	home        int32 // node on which a relaxed round started
	startUs     int64 // first start of a task that was not lost; −1 before it
	endUs       int64
	over        bool
	moved       bool  // whether a rigid job lost a round after its first, or a job what ran at time 0
	atStart     bool  // whether the work that runs is that of time 0
	roundKind   int   // type of the GPUs of a gang's round
	batch       int64 // number of the event at which the round started
}

const ended = int32(-1)

// gpu is the state of one GPU.
type gpu struct {
	closed bool  // whether the time is outside the GPU's windows of service
	faults int32 // number of faults that keep the GPU out of service
	job    int32 // the job that holds the GPU, or none
	slot   int32 // the task that computes on the GPU, or none
	last   int32 // the job that last began on the GPU since it joined, or none
	done   int32 // the job whose task last ended on the GPU, or none
	// sinceUs is the start of the last task, or its end where the job keeps the GPU.
	// heldUs is when the GPU was taken for that task, which is earlier where the GPU
	// has to switch between jobs.
	heldUs, sinceUs int64
	changedUs       int64 // when closed or faults changed last
}

// running is a task that has started and not ended.
type running struct {
	serial int64 // 0: the slot is vacant
	job    int32
	task   int64
	gpu    int32
	fails  bool
	next   int32 // slot of the task of the same gang that ends right after this one, or none
	// computeUs and syncUs are the times as drawn; restUs is what follows the compute of
	// a relaxed task.
	computeUs, syncUs, restUs int64
}

// tail is the task of a gang whose end was put into the event queue last.
type tail struct {
	job, slot     int32
	serial, endUs int64
}

// place names a task as decisions do.
type place struct {
	job         int32
	round, task int64
	gpu         int32
	others      []int32
}

// event makes the event of a task, which notify then sends.
func (e *engine) event(kind hare.EventType, t *running) *hare.Event {
	x := &e.events[0]
	x.Type, x.Job, x.Round, x.Task, x.GPU = kind, e.inst.Jobs[t.job].ID, e.jobs[t.job].round, t.task,
		e.model.GPUs[t.gpu].ID
	x.Arrived, x.Change, x.GPUType, x.ComputeUs, x.SyncUs = nil, nil, "", 0, 0
	return x
}

func (e *engine) forget(slot int32) {
	e.slots[slot].serial = 0
	e.running--
	e.vacant = append(e.vacant, slot)
}

// mode returns the times of a job on a GPU, or nil where the job has no profile for the
// type.
func (e *engine) mode(ji, g int32) *model.Mode {
	modes := e.model.Jobs[ji].Modes
	for i := range modes {
		if modes[i].Type == e.model.GPUs[g].Type {
			return &modes[i]
		}
	}
	return nil
}

// totals are the sums of a run.
type totals struct {
	held, down                            []hare.Amount // GPU-µs by type, in 1e-12 s
	tasks, lost, lostUs, failures         int64
	switches, switchUs, preempted, varied int64

	counted   int           // jobs of the window that have not ended
	endUs     int64         // when the last job of the window ended
	until     []hare.Amount // held, up to endUs
	downUntil []hare.Amount // down, up to endUs
}

// source is a set of n GPUs that fail together: one GPU, or the GPUs of a node, which
// follow each other in the cluster.
type source struct {
	first, n         int32
	meanUs, repairUs int64
	draws            *rand.Rand
	out              bool
}

func (g *gpu) here() bool { return !g.closed && g.faults == 0 }

// nodeUse is what tasks hold of the nodes of an instance to which nodes matter.
type nodeUse struct {
	cpuMilli, memoryMiB []int64          // held, by node
	allowed             map[int32][]bool // by job, its nodes, where it may not use all
	others              [][]int32        // by slot, the GPUs of a task behind its first
	quotaHeld           []int64          // GPUs, by quota
	quotas              [][]int32        // by job, those that count it; nil where there are none
}

func newNodeUse(inst *hare.Instance) *nodeUse {
	n := len(inst.Cluster.Nodes)
	use := &nodeUse{cpuMilli: make([]int64, n), memoryMiB: make([]int64, n), allowed: map[int32][]bool{}}
	if len(inst.Quota) == 0 {
		return use
	}
	use.quotaHeld, use.quotas = make([]int64, len(inst.Quota)), make([][]int32, len(inst.Jobs))
	byUser := map[string][]int32{}
	for q := range inst.Quota {
		byUser[inst.Quota[q].User] = append(byUser[inst.Quota[q].User], int32(q))
	}
	for i := range inst.Jobs {
		for _, user := range inst.Jobs[i].Users {
			use.quotas[i] = append(use.quotas[i], byUser[user]...)
		}
	}
	return use
}

// groupSize is how many GPUs of a job follow each other in job.held for each task.
func (e *engine) groupSize(ji int32) int {
	if e.nodes == nil || ji == none {
		return 1
	}
	return int(e.inst.Jobs[ji].TaskGPUs())
}

// otherGPUs are the GPUs of the task in a slot behind its first.
func (e *engine) otherGPUs(slot int32) []int32 {
	if e.nodes == nil {
		return nil
	}
	return e.nodes.others[slot]
}

// othersOf are the other GPUs of a task as decisions name them.
func (e *engine) othersOf(gpu int32, others []int32) hare.OtherGPUs {
	if len(others) == 0 {
		return ""
	}
	names := []string{e.model.GPUs[gpu].ID}
	for _, g := range others {
		names = append(names, e.model.GPUs[g].ID)
	}
	return hare.OthersOf(names)
}

// wakes sends ticks to a policy at the times for which the policy asks. At most one occurrence counts at a
// time: others are of times for which the policy does not ask any more, and do nothing.
type wakes struct {
	policy   online.Waker // nil where the policy never asks
	askedUs  int64        // when the policy wants a tick, or math.MaxInt64
	queuedUs int64        // the first occurrence in the event queue, or math.MaxInt64
	serial   int64
}

// placedTimes are the times of rounds by where their tasks are (Config.PlacedUs).
type placedTimes struct {
	us    func(job int, nodes []int, gpuType string) int64 // nil where there are none
	nodes []int
}

// hasLevels reports whether the rounds of a job keep within a level, or take times by their spread.
func (e *engine) hasLevels(ji int32) bool {
	if e.model.Levels == nil {
		return false
	}
	if e.inst.Jobs[ji].Within != "" {
		return true
	}
	for i := range e.model.Jobs[ji].Modes {
		if e.model.Jobs[ji].Modes[i].SyncByLevel != nil {
			return true
		}
	}
	return false
}
