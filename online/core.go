package online

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
)

// maxTypes is how many GPU types a session may name: a set of types is a word.
const maxTypes = 64

const none = int32(-1)

// params are the settings of a core. One queue and any kappa is first come,
// first served: only lower queues have a guard.
type params struct {
	policy     string
	thresholds []int64 // reference GPU-µs after which a job leaves queue i; ascending
	kappa      int64   // of the starvation guard, in 1e-6
	reference  string  // a GPU type; "" is the fastest for the job
}

// core keeps the books of a session and decides. Jobs, GPUs and types are
// indices inside; names are looked up once per event. Nothing here depends on
// the index a job got, and GPUs keep theirs in a snapshot.
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
	mixing        int     // classes that have a job in line and may mix types
	lineAt        []int32 // by job, its place in the heap of its class

	due   jobHeap // waiting jobs of lower queues, by when the guard acts, or earlier
	dueAt []int32

	tickets uint64 // given out so far

	// restarting is the job whose round starts again on the GPUs that it
	// holds, or none; only between an event and its decisions.
	restarting int32
	out        []hare.Decision
	scratch    []int32
}

// gpuType is one type that a GPU or a job has named.
type gpuType struct {
	name  string
	free  slotSet // GPUs in service that nothing holds
	total int64   // GPUs in service
	owner int32   // the job that this type is gathered for, or none
	// line has the classes that have a job in line and fit this type, mix
	// those of them that may mix, both by their first job; with the width for
	// a tie.
	line, mix classLine
	// relative and relatives are sum and number of the given speeds on this
	// type, in 1e-6 of the same job's fastest.
	relative, relatives int64
	// waiting and waiters are the same over the jobs in line, measured speeds
	// included.
	waiting, waiters int64
}

// gpu is one GPU, or a vacant slot (name "").
type gpu struct {
	name       string
	kind       int32
	job        int32 // that holds it, or none
	task       int64
	ended      bool  // the task has ended; the GPU is held for the rest of its gang
	sinceUs    int64 // start of the task
	prev, next int32 // in the list of the job, in order of starts
}

// profile says what is known of a job on a type.
type profile struct {
	kind  int32
	given bool
	// computeUs is the time given, or the mean of the first measured ones; 0
	// where neither is known.
	computeUs int64
	sumUs     int64 // of the measured
	count     int64
	speed     int64 // in 1e-6 of the job's fastest known type; 0 unknown
	syncUs    int64
}

// syncing is a relaxed task that has left its GPU.
type syncing struct {
	task int64
	gpu  string
	kind int32
}

// job is one active job, or a vacant slot (alive false).
type job struct {
	id    string
	alive bool
	sync  hare.Sync
	mix   bool
	tasks int64
	on    []profile // by type
	mask  uint64    // of its types
	class int32

	seq    uint64 // its first ticket: the order of arrivals
	ticket uint64 // its place inside a queue
	queue  int32

	round  int64
	next   int64   // the least task of the round that never started
	redo   []int64 // lost tasks below next, ascending
	ended  int64   // tasks of the round
	active int64   // tasks that started and have not ended; for gangs all until the round has

	head, tail int32 // its GPUs
	held       int64
	syncing    []syncing // by task
	owns       uint64    // types gathered for it

	attained   int64 // reference GPU-µs since the clocks were reset
	attainedUs int64 // the same in all
	executedUs int64 // with a task running, since the clocks were reset
	waitedUs   int64 // with none, in lower queues, since then
	stateUs    int64 // when it last began to wait or to execute
	arrivedUs  int64
	startedUs  int64 // first start; −1 before
	weight     int64
	doneRounds int64
}

// classKey says which jobs may use the same GPUs: the types, and for gangs
// the width.
type classKey struct {
	mask  uint64
	width int64 // 0 for relaxed
	mix   bool
}

// class is the line of the jobs of one key.
type class struct {
	classKey
	fits   uint64 // types with enough GPUs in service, together where they may mix
	jobs   int    // active, in line or not
	line   jobHeap
	listed uint64 // the order of its first job in the lines of types; 0: not in them
}

// classLine is a heap of classes, each with its place, or −1.
type classLine struct {
	jobHeap
	at []int32
}

// put enters a class, moves it, or takes it out where key is 0.
func (l *classLine) put(x int32, key, width uint64) {
	for int(x) >= len(l.at) {
		l.at = append(l.at, none)
	}
	switch i := l.at[x]; {
	case key == 0 && i >= 0:
		l.remove(int(i), l.at)
	case key == 0:
	case i < 0:
		l.push(item{key, width, x}, l.at)
	default:
		l.jobHeap[i].key = key
		l.fix(int(i), l.at)
	}
}

func newCore(p params) *core {
	c := &core{
		params: p, ref: none, restarting: none,
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
	var kinds []string
	for i := range cl.Nodes {
		n := &cl.Nodes[i]
		at := "/cluster/nodes/" + strconv.Itoa(i)
		if n.Windows != nil || len(n.Busy) > 0 {
			return invalid(at, "not_supported", "a session does not know the future: leave in_service_s and busy out and send gpu_joined and gpu_left")
		}
		if n.Name == "" {
			return invalid(at+"/name", "missing_field", "a node needs a name")
		}
		for _, g := range n.GPUs {
			if g.Count < 0 || g.Count > hare.MaxGPUs {
				return invalid(at+"/gpus", "out_of_range", "a count must be between 1 and %d", hare.MaxGPUs)
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
					return invalid("/cluster/nodes/"+strconv.Itoa(i)+"/name", "duplicate_id", "GPU %q stands twice: node names must differ", name)
				}
				if len(c.gpuOf) >= hare.MaxGPUs {
					return invalid("/cluster", "too_large", "a session has at most %d GPUs", hare.MaxGPUs)
				}
				c.join(name, c.kind(g.Type))
			}
		}
	}
	return nil
}

func invalid(pointer, code, format string, a ...any) *hare.InvalidError {
	return &hare.InvalidError{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, a...)}
}

func tooManyTypes(pointer string) *hare.InvalidError {
	return invalid(pointer, "too_many_types", "a session names at most %d GPU types, of GPUs and profiles together: leave out those that it does not have", maxTypes)
}

// roomForType says whether kind(name) may be called.
func (c *core) roomForType(name string) bool {
	_, known := c.typeOf[name]
	return known || len(c.types) < maxTypes
}

// kind is the index of a type, which it makes known.
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
	c.freeGPU(g)
}

func (c *core) freeGPU(g int32) {
	k := c.gpus[g].kind
	c.types[k].free.add(g)
	c.free |= 1 << k
}

func (c *core) takeGPU(g int32) {
	t := &c.types[c.gpus[g].kind]
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

// release takes a GPU from the job that holds it and frees it.
func (c *core) release(g int32) {
	x := &c.gpus[g]
	j := &c.jobs[x.job]
	if x.prev == none {
		j.head = x.next
	} else {
		c.gpus[x.prev].next = x.next
	}
	if x.next == none {
		j.tail = x.prev
	} else {
		c.gpus[x.next].prev = x.prev
	}
	j.held--
	x.job, x.prev, x.next = none, none, none
	c.freeGPU(g)
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

// order is the place of a job in its line: least first.
func (j *job) order() uint64 { return uint64(j.queue)<<56 | j.ticket }

func (c *core) ticket() uint64 {
	c.tickets++
	return c.tickets
}

// joinClass counts a job under its class, which it makes known.
func (c *core) joinClass(ji int32) {
	j := &c.jobs[ji]
	key := classKey{j.mask, j.width(), j.mix}
	x, ok := c.classOf[key]
	if !ok {
		if n := len(c.vacantClasses); n > 0 {
			x = c.vacantClasses[n-1]
			c.vacantClasses = c.vacantClasses[:n-1]
		} else {
			x = int32(len(c.classes))
			c.classes = append(c.classes, class{})
		}
		c.classes[x].classKey = key
		c.classOf[key] = x
		c.refit(x)
	}
	c.classes[x].jobs++
	j.class = x
}

func (c *core) leaveClass(ji int32) {
	x := c.jobs[ji].class
	cl := &c.classes[x]
	if cl.jobs--; cl.jobs == 0 {
		delete(c.classOf, cl.classKey)
		c.vacantClasses = append(c.vacantClasses, x)
	}
}

// refit finds the types on which jobs of a class can ever run with the GPUs in
// service. O(types).
func (c *core) refit(x int32) {
	cl := &c.classes[x]
	fits := uint64(0)
	if cl.mix {
		if c.inService(cl.mask) >= cl.width {
			fits = cl.mask
		}
	} else {
		for m := cl.mask; m != 0; m &= m - 1 {
			k := bits.TrailingZeros64(m)
			if c.types[k].total >= cl.width {
				fits |= 1 << k
			}
		}
	}
	if fits != cl.fits {
		c.list(x, 0)
		cl.fits = fits
		c.relist(x)
	}
}

// refitAll follows a change of the GPUs in service of a type. O(classes).
func (c *core) refitAll(kind int32) {
	for x := range c.classes {
		if cl := &c.classes[x]; cl.jobs > 0 && cl.mask>>kind&1 == 1 {
			c.refit(int32(x))
		}
	}
}

// relist tells the lines of types who stands first in a class.
func (c *core) relist(x int32) {
	key := uint64(0)
	if cl := &c.classes[x]; len(cl.line) > 0 {
		key = cl.line[0].key
	}
	c.list(x, key)
}

func (c *core) list(x int32, key uint64) {
	cl := &c.classes[x]
	if key == cl.listed {
		return
	}
	cl.listed = key
	for m := cl.fits; m != 0; m &= m - 1 {
		t := &c.types[bits.TrailingZeros64(m)]
		t.line.put(x, key, uint64(cl.width))
		if cl.mix {
			t.mix.put(x, key, uint64(cl.width))
		}
	}
}

// enter puts a job that has ready tasks in line.
func (c *core) enter(ji int32) {
	if c.lineAt[ji] >= 0 {
		return
	}
	j := &c.jobs[ji]
	cl := &c.classes[j.class]
	if len(cl.line) == 0 && cl.mix {
		c.mixing++
	}
	cl.line.push(item{key: j.order(), job: ji}, c.lineAt)
	c.relist(j.class)
	c.countWaiting(j, 1)
}

// leave takes a job out of line.
func (c *core) leave(ji int32) {
	at := c.lineAt[ji]
	if at < 0 {
		return
	}
	j := &c.jobs[ji]
	cl := &c.classes[j.class]
	cl.line.remove(int(at), c.lineAt)
	if len(cl.line) == 0 && cl.mix {
		c.mixing--
	}
	c.relist(j.class)
	c.countWaiting(j, -1)
}

// reorder follows a change of queue or ticket.
func (c *core) reorder(ji int32) {
	if at := c.lineAt[ji]; at >= 0 {
		j := &c.jobs[ji]
		line := &c.classes[j.class].line
		(*line)[at].key = j.order()
		line.fix(int(at), c.lineAt)
		c.relist(j.class)
	}
}

func (c *core) countWaiting(j *job, by int64) {
	for i := range j.on {
		if p := &j.on[i]; p.speed > 0 {
			c.types[p.kind].waiting += by * p.speed
			c.types[p.kind].waiters += by
		}
	}
}

// execute and wait switch the clocks of a job, whose first task started or
// last one ended.
func (c *core) execute(ji int32) {
	j := &c.jobs[ji]
	if j.queue > 0 {
		j.waitedUs += c.nowUs - j.stateUs
	}
	j.stateUs = c.nowUs
	if j.startedUs < 0 {
		j.startedUs = c.nowUs
	}
}

func (c *core) wait(ji int32) {
	j := &c.jobs[ji]
	j.executedUs += c.nowUs - j.stateUs
	j.stateUs = c.nowUs
	c.watch(ji)
}

// dueUs is when the guard acts on a job that waits in a lower queue.
func (c *core) dueUs(j *job) int64 {
	patience := mulDiv(j.executedUs, c.kappa, 1e6) - j.waitedUs
	if patience > math.MaxInt64-j.stateUs {
		return math.MaxInt64
	}
	return j.stateUs + max(patience, 0)
}

// watch tells the guard of a job that waits. An entry that is too early
// corrects itself in guard, so that most waits cost nothing here.
func (c *core) watch(ji int32) {
	j := &c.jobs[ji]
	if j.queue == 0 || j.active > 0 {
		return
	}
	x := item{key: uint64(c.dueUs(j)), tie: j.ticket, job: ji}
	at := c.dueAt[ji]
	if at < 0 {
		c.due.push(x, c.dueAt)
	} else if x.before(&c.due[at]) {
		c.due[at] = x
		c.due.fix(int(at), c.dueAt)
	}
}

// guard returns to the first queue the jobs that have waited long enough at
// nowUs, in the order in which they fell due.
func (c *core) guard() {
	for len(c.due) > 0 && int64(c.due[0].key) <= c.nowUs {
		x := c.due[0]
		j := &c.jobs[x.job]
		if j.queue == 0 || j.active > 0 {
			c.due.remove(0, c.dueAt)
			continue
		}
		if due := c.dueUs(j); due > int64(x.key) {
			c.due[0] = item{key: uint64(due), tie: j.ticket, job: x.job}
			c.due.fix(0, c.dueAt)
			continue
		}
		c.due.remove(0, c.dueAt)
		j.queue, j.ticket = 0, c.ticket()
		j.attained, j.executedUs, j.waitedUs, j.stateUs = 0, 0, 0, c.nowUs
		c.reorder(x.job)
	}
}

// mulDiv is a·b/c rounded down, for a, b ≥ 0 and c > 0, or the largest int64.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}

// mulDivUp is mulDiv rounded up.
func mulDivUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c-1), 0)
	if hi += carry; hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}
