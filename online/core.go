package online

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// maxTypes is how many GPU types a session may name: a set of types is a 64-bit
// word.
const maxTypes = 64

const none = int32(-1)

// params are the settings of a core. With one queue the core serves jobs first
// come, first served, whatever kappa is: only lower queues have a starvation guard.
type params struct {
	policy     string
	thresholds []int64 // reference GPU-µs after which a job leaves queue i; ascending
	kappa      int64   // of the starvation guard, in 1e-6
	reference  string  // a GPU type; "" is the fastest for the job
}

// core holds the state of a session and makes its decisions. Inside, jobs, GPUs
// and types are indices; names are looked up once per event. No decision depends on
// the index of a job; a snapshot keeps the indices of the GPUs.
type core struct {
	params
	ref   int32 // type index of reference, or none
	nowUs int64

	types  []gpuType
	typeOf map[string]int32
	free   uint64 // types that have a free GPU
	owned  uint64 // types that are gathered for a gang

	gpus       []gpu
	gpuOf      map[string]int32
	vacantGPUs slotSet

	jobs       []job
	jobOf      map[string]int32
	vacantJobs []int32

	classes       []class
	classOf       map[classKey]int32
	vacantClasses []int32
	mixing        int     // classes that have a ready job and may mix types
	readyAt       []int32 // by job, its index in the ready queue of its class

	// due has the waiting jobs of lower queues; a key is at most the time at which
	// the guard acts on the job.
	due   jobHeap
	dueAt []int32 // by job, its index in due

	tickets uint64 // how many were given out so far

	// restarting is the job whose round starts again on the GPUs that it
	// holds, or none. It is set only between an event and its decisions.
	restarting int32
	// dirty says that the event may have changed what schedule looks at: the free
	// GPUs, the ready jobs and their order, or the speeds. Most ends of tasks do not
	// end a round, and then no job can start that could not start before.
	dirty   bool
	out     []hare.Decision
	scratch []int32

	described  placement.Described
	placedJobs int              // jobs with rules about nodes
	quotas     []hare.Quota     // see WithQuota
	holding    bool             // whether there were quotas at the last holdBack
	nodes      *placement.Nodes // nil where there are none; see core_nodes.go
	plain      placement.Shape  // of the jobs without rules
	claim      nodeClaim
	tried      []bool // by class
	kinds      []int
	// lastFound is where the job and the GPU of the next event are looked for first.
	// It only saves time.
	lastFound struct{ job, next int32 }
}

// gpuType is one type that a GPU or a job has named.
type gpuType struct {
	name  string
	free  slotSet // GPUs in service that no job holds
	total int64   // GPUs in service
	owner int32   // the job that this type is gathered for, or none
	// ready has the classes that have a ready job and fit this type, and mix those of
	// them that may mix types. Both are ordered by the first job of a class; the tie
	// of an entry is the width.
	ready, mix classHeap
	// priorSum and priorCount are the sum and the number of the given speeds on this
	// type, in 1e-6 of the same job's speed on its fastest type.
	priorSum, priorCount int64
	// readySum and readyCount are the same over the ready jobs, measured speeds
	// included.
	readySum, readyCount int64
}

// gpu is one GPU, or a vacant slot (name "").
type gpu struct {
	name       string
	kind       int32
	job        int32 // the job that holds the GPU, or none
	task       int64
	ended      bool  // the task has ended; the GPU is held for the rest of its gang
	follows    bool  // the GPU before it in the job's list is of the same task; ended is set, too
	sinceUs    int64 // start of the task
	prev, next int32 // neighbours in the job's list of GPUs, in order of starts
}

// profile says what is known of a job on a type.
type profile struct {
	kind  int32
	given bool
	// computeUs is the compute time given, or the mean of the first measured ones; 0
	// where neither is known.
	computeUs int64
	sumUs     int64 // sum of the measured times
	count     int64 // how many times were measured
	speed     int64 // in 1e-6 of the speed on the job's fastest known type; 0 unknown
	syncUs    int64
}

// syncing is a relaxed task that has left its GPU.
type syncing struct {
	task int64
	gpus string // the name of the GPU, and the indices of others after commas: node/0,1,2
	kind int32
}

// newSyncing keeps the GPUs of a task in one string: the entries of tasks of one GPU, which
// every event looks through, stay small.
func newSyncing(task int64, gpu string, kind int32, others hare.OtherGPUs) syncing {
	if others != "" {
		gpu += "," + string(others)
	}
	return syncing{task, gpu, kind}
}

// on reports whether gpu is the first GPU.
func (s *syncing) on(gpu string) bool {
	if len(s.gpus) == len(gpu) {
		return s.gpus == gpu
	}
	first, _ := s.names()
	return first == gpu
}

// names are the name of the first GPU, and the other GPUs.
func (s *syncing) names() (gpu string, others hare.OtherGPUs) {
	index := strings.LastIndexByte(s.gpus, '/') + 1
	if comma := strings.IndexByte(s.gpus[index:], ','); comma >= 0 {
		return s.gpus[:index+comma], hare.OtherGPUs(s.gpus[index+comma+1:])
	}
	return s.gpus, ""
}

// job is one active job, or a vacant slot (alive false).
type job struct {
	id    string
	alive bool
	sync  hare.Sync
	mix   bool
	tasks int64
	// taskGPUs is how many GPUs a task holds. rules are those about nodes, nil where there are
	// none, and shape is what they come to.
	taskGPUs int64
	rules    *hare.Job
	shape    placement.Shape
	on       []profile // by type
	mask     uint64    // of its types
	class    int32

	seq    uint64 // the first ticket of the job: the order of arrivals
	ticket uint64 // the place of the job inside its queue
	queue  int32

	round int64
	next  int64   // the least task of the round that never started
	redo  []int64 // lost tasks below next, ascending
	ended int64   // tasks of the round that have ended
	// active counts the tasks that started and have not ended; the tasks of a gang
	// all count until their round has ended.
	active int64

	head, tail int32 // list of the GPUs that the job holds
	held       int64
	syncing    []syncing // by task
	owns       uint64    // types gathered for the job

	// The guard resets the counts of service, execution and waiting when it returns
	// the job to the first queue.
	attained   int64 // service since the reset, in reference GPU-µs
	attainedUs int64 // service since the arrival, in reference GPU-µs
	executedUs int64 // time with a running task, since the reset
	waitedUs   int64 // time without one in lower queues and with room in its quotas, since the reset
	heldBack   bool  // whether the job waits in a lower queue and a quota has no room for it
	stateUs    int64 // when the job last began to wait or to execute
	arrivedUs  int64
	startedUs  int64 // first start, −1 before it
	weight     int64
	doneRounds int64
}

func newCore(p params) *core {
	c := &core{
		params: p, ref: none, restarting: none, claim: nodeClaim{job: none},
		typeOf: map[string]int32{}, gpuOf: map[string]int32{},
		jobOf: map[string]int32{}, classOf: map[classKey]int32{},
	}
	if p.reference != "" {
		c.ref = c.kind(p.reference)
	}
	return c
}

// addCluster puts the GPUs of a cluster in service, all free.
func (c *core) addCluster(cl *hare.Cluster) error {
	if cl == nil {
		return nil
	}
	if len(cl.Reservations) > 0 {
		return Invalid("/cluster/reservations", "not_supported", "a session does not know reservations: leave them out "+
			"and send gpu_left and gpu_joined as nodes close and open")
	}
	var faults hare.InvalidErrors
	if faults.CheckTopology("/cluster", cl, func(n int) int { return n }); len(faults) > 0 {
		return faults[0]
	}
	c.described.SetTopology(cl.Topology)
	var kinds []string
	for i := range cl.Nodes {
		n := &cl.Nodes[i]
		at := "/cluster/nodes/" + strconv.Itoa(i)
		if n.Windows != nil || len(n.Busy) > 0 {
			return Invalid(at, "not_supported", "a session does not know the future: leave in_service_s and busy "+
				"out and send gpu_joined and gpu_left")
		}
		if n.Name == "" {
			return Invalid(at+"/name", "missing_field", "a node needs a name")
		}
		for _, g := range n.GPUs {
			if g.Count < 0 || g.Count > hare.MaxGPUs {
				return Invalid(at+"/gpus", "out_of_range", "a count must be between 1 and %d", hare.MaxGPUs)
			}
			kinds = append(kinds, g.Type)
		}
	}
	slices.Sort(kinds)
	for _, k := range slices.Compact(kinds) {
		if !c.roomForType(k) {
			return tooManyTypes("/cluster")
		}
		c.kind(k)
	}
	for i := range cl.Nodes {
		n := &cl.Nodes[i]
		at := 0
		for _, g := range n.GPUs {
			for range g.Count {
				name := n.Name + "/" + strconv.Itoa(at)
				at++
				if _, twice := c.gpuOf[name]; twice {
					return Invalid("/cluster/nodes/"+strconv.Itoa(i)+"/name", "duplicate_id",
						"GPU %q is listed twice: node names must differ", name)
				}
				if len(c.gpuOf) >= hare.MaxGPUs {
					return Invalid("/cluster", "too_large", "a session has at most %d GPUs", hare.MaxGPUs)
				}
				c.join(name, c.kind(g.Type))
			}
		}
		c.described.Set(n)
	}
	return nil
}

func tooManyTypes(pointer string) *hare.InvalidError {
	return Invalid(pointer, "too_many_types", "a session names at most %d GPU types, of GPUs and profiles "+
		"together: leave out those that it does not have", maxTypes)
}

// roomForType reports whether kind(name) may be called.
func (c *core) roomForType(name string) bool {
	_, known := c.typeOf[name]
	return known || len(c.types) < maxTypes
}

// kind is the index of a type, which is added if it is new.
func (c *core) kind(name string) int32 {
	if k, ok := c.typeOf[name]; ok {
		return k
	}
	k := int32(len(c.types))
	c.types = append(c.types, gpuType{name: name, owner: none})
	c.typeOf[name] = k
	return k
}

// join puts a GPU in service, in the least vacant slot.
func (c *core) join(name string, kind int32) {
	var g int32
	if c.vacantGPUs.n > 0 {
		g = c.vacantGPUs.least()
		c.vacantGPUs.remove(g)
	} else {
		g = int32(len(c.gpus))
		c.gpus = append(c.gpus, gpu{})
	}
	c.gpus[g] = gpu{name: name, kind: kind, job: none, prev: none, next: none}
	c.gpuOf[name] = g
	c.types[kind].total++
	if c.nodes != nil {
		c.claim = nodeClaim{job: none}
		c.nodes.Join(int(g), int(kind), c.described.Of(name))
		c.nodes.Take(int(g))
	}
	c.freeGPU(g)
}

func (c *core) freeGPU(g int32) {
	k := c.gpus[g].kind
	if c.nodes != nil {
		c.nodes.Free(int(g))
	}
	c.types[k].free.add(g)
	c.free |= 1 << k
}

func (c *core) takeGPU(g int32) {
	t := &c.types[c.gpus[g].kind]
	if c.nodes != nil {
		c.nodes.Take(int(g))
	}
	t.free.remove(g)
	if t.free.n == 0 {
		c.free &^= 1 << c.gpus[g].kind
	}
}

// hold hands a free GPU to a job for one task.
func (c *core) hold(ji, g int32, task int64) {
	c.takeGPU(g)
	j, x := &c.jobs[ji], &c.gpus[g]
	x.job, x.task, x.ended, x.sinceUs = ji, task, false, c.nowUs
	x.prev, x.next = j.tail, none
	if j.tail == none {
		j.head = g
	} else {
		c.gpus[j.tail].next = g
	}
	j.tail = g
	j.held++
}

// release takes a GPU from the job that holds it and frees it. It returns the next GPU of the
// same task, or none.
func (c *core) release(g int32) (next int32) {
	x := &c.gpus[g]
	j := &c.jobs[x.job]
	if c.nodes != nil && !x.follows {
		c.nodes.Hold(int(g), c.shapeOf(j), -1)
	}
	x.follows = false
	if x.prev == none {
		j.head = x.next
	} else {
		c.gpus[x.prev].next = x.next
	}
	next = x.next
	if next == none {
		j.tail = x.prev
	} else {
		y := &c.gpus[next]
		if y.prev = x.prev; !y.follows {
			next = none
		}
	}
	j.held--
	x.job, x.prev, x.next = none, none, none
	c.freeGPU(g)
	return next
}

// ready is how many tasks of the round wait for a start.
func (j *job) ready() int64 { return j.tasks - j.next + int64(len(j.redo)) }

// lowest is the task that starts next; there must be a ready one.
func (j *job) lowest() int64 {
	if len(j.redo) > 0 {
		return j.redo[0]
	}
	return j.next
}

func (j *job) width() int64 {
	if j.sync == hare.Relaxed {
		return 0
	}
	return j.tasks
}

// order is the key of a job in its ready queue: the least comes first.
func (j *job) order() uint64 { return uint64(j.queue)<<56 | j.ticket }

func (c *core) ticket() uint64 {
	c.tickets++
	return c.tickets
}

// CheckCluster checks the cluster that a session begins with; nil means an empty
// cluster.
// Errors are *hare.InvalidError.
func CheckCluster(cl *hare.Cluster) error { return newCore(params{}).addCluster(cl) }

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
