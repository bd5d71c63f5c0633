package ray

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/adapters/advice"
	"github.com/hare-sched/hare/history"
)

// untyped is the type of GPUs of which Ray tells none.
const untyped = "gpu"

// othersLimitUs is four times as long as work of others is believed to take, of which nothing is known.
const othersLimitUs = 4 * 3600 * 1_000_000

// node is a node of Ray with GPUs.
type node struct {
	id, name, gpuType string
	has               amount
	others            amount // that work of others uses
	ours              amount // that jobs of the queue have
	selectable        bool   // a label tells the ID, by which a job can be sent to the node
	typeResource      bool   // the node has the resource of its type, by which a job can be sent to the type
	outOfReach        bool   // no job can be sent to the node
}

func (n *node) free() amount { return n.has.minus(n.others).minus(n.ours) }

// view is what Ray reported in one loop.
type view struct {
	session string
	jobs    map[string]*rayJob
	nodes   []*node // those that are alive, by name
	used    map[string]amount
	usedUs  int64
	byID    map[string]*node
	// dead are the IDs of nodes that Ray says are dead, and that never come back: a node that starts again has
	// another ID.
	dead map[string]bool
	// report has the values that could not be read.
	report history.Report
	unsure bool // whether a job that Ray has may be missing
	cut    bool // whether nodes are missing
}

// read asks Ray. Jobs come before the use of nodes, so that a job that ends in between counts as running
// for one loop more, and what it has not as that of others.
func (d *Dashboard) read(ctx context.Context) (*view, error) {
	v := &view{}
	var err error
	if v.session, err = d.session(ctx); err != nil {
		return nil, err
	}
	if v.jobs, v.unsure, err = d.jobs(ctx, &v.report); err != nil {
		return nil, err
	}
	nodes, cut, err := d.nodes(ctx, &v.report)
	if err != nil {
		return nil, err
	}
	if v.used, v.usedUs, err = d.usage(ctx, &v.report); err != nil {
		return nil, err
	}
	v.cut = cut
	v.dead = map[string]bool{}
	for i := range nodes {
		if nodes[i].State == "DEAD" {
			v.dead[nodes[i].NodeID] = true
		}
		if n := newNode(&nodes[i]); n != nil {
			v.nodes = append(v.nodes, n)
		}
	}
	slices.SortFunc(v.nodes, func(a, b *node) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id)) })
	return v, nil
}

// newNode makes a node; nil where it is not alive or has no GPUs.
func newNode(r *rayNode) *node {
	gpus := r.Resources["GPU"]
	if r.State != "ALIVE" || !(gpus >= 1 && gpus <= hare.MaxGPUs) || r.NodeID == "" {
		return nil
	}
	n := &node{id: r.NodeID, gpuType: r.Labels["ray.io/accelerator-type"], has: amount{gpus: int64(gpus),
		cpuMilli:  whole(math.Floor(r.Resources["CPU"]*1000 + 1e-6)),
		memoryMiB: whole(math.Floor(r.Resources["memory"] / mib))}}
	n.name = cmp.Or(r.NodeName, r.NodeIP, "node") + "-" + r.NodeID[:min(8, len(r.NodeID))]
	n.name = strings.ReplaceAll(n.name, "/", "_")
	n.selectable = r.Labels[nodeLabel] == r.NodeID
	for _, resource := range slices.Sorted(maps.Keys(r.Resources)) {
		if t, ok := strings.CutPrefix(resource, typeResource); ok && n.gpuType == "" {
			n.gpuType = t // a node has one type: of several, the first by name counts
		}
	}
	if n.gpuType == "" {
		n.gpuType = untyped
	}
	n.typeResource = r.Resources[typeResource+n.gpuType] >= typeShare
	return n
}

// typeShare is how much of the resource of its type a job asks for.
const typeShare = 0.001

// reach reports whether a job can be sent to the node: by its label, or by the resource of its type. A resource that
// no node has would keep the job pending until Ray gives it up.
func (n *node) reach(byType bool) bool { return !byType || n.gpuType == untyped || n.typeResource }

// Ray's names for the ID of a node, and for the resource that tells the type of its GPUs.
const (
	nodeLabel    = "ray.io/node-id"
	typeResource = "accelerator_type:"
)

func (v *view) node(id string) *node {
	if v.byID == nil {
		v.byID = make(map[string]*node, len(v.nodes))
		for _, n := range v.nodes {
			v.byID[n.id] = n
		}
	}
	return v.byID[id]
}

func (v *view) named(name string) *node {
	for _, n := range v.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// fits reports whether the node could run a job if nothing else ran there.
func (n *node) fits(s *Spec) bool {
	return !n.outOfReach && n.has.covers(s.needs()) && s.allows(n.gpuType)
}

// typesFor lists the types of the nodes that could run a job, sorted.
func (v *view) typesFor(s *Spec) (types []string) {
	for _, n := range v.nodes {
		if n.fits(s) && !slices.Contains(types, n.gpuType) {
			types = append(types, n.gpuType)
		}
	}
	slices.Sort(types)
	return types
}

// count sets what each node has in use: by jobs of the queue, and by others. Ray tells the use a few
// seconds late, so that jobs that ended since then are still in it.
func (v *view) count(q *Queue) {
	told := map[string]amount{}
	for _, n := range v.nodes {
		n.ours = amount{}
	}
	for _, e := range q.Entries {
		n := v.node(e.NodeID)
		switch {
		case n == nil:
		case !e.State.Ended() && e.State != Waiting:
			n.ours = n.ours.plus(e.Spec.needs())
			told[n.id] = told[n.id].plus(e.Spec.needs())
		case e.State.Ended() && e.EndUs+1_500_000 > v.usedUs && e.StartUs > 0:
			told[n.id] = told[n.id].plus(e.Spec.needs())
		}
	}
	for _, n := range v.nodes {
		n.others = v.used[n.id].minus(told[n.id]).least(n.has.minus(n.ours))
	}
}

// others is what work of others uses of a node, as reported.
type others struct {
	gpus, fromUs int64 // so many GPUs, since then
	// steady are the CPUs and the memory that they used all the time of the last window, by which a session
	// counts. What is used for less is looked at when jobs start alone: tasks of Ray come and go by seconds,
	// and each change of a node goes to the session.
	steady, least amount
	windowUs      int64 // when the window began
}

// othersWindowUs is how long use of CPUs by others must last to count as steady.
const othersWindowUs = 60 * 1_000_000

// see takes what others use now.
func (o *others) see(now amount, nowUs int64) {
	if o.gpus != now.gpus {
		o.gpus, o.fromUs = now.gpus, nowUs
	}
	switch {
	case o.windowUs == 0:
		o.steady, o.least, o.windowUs = now, now, nowUs
	case nowUs-o.windowUs >= othersWindowUs:
		o.steady, o.least, o.windowUs = o.least.least(now), now, nowUs
	default:
		o.least = o.least.least(now)
	}
}

// demands reports whether jobs of the queue that have not ended ask for CPUs, and for memory.
func (q *Queue) demands() (cpus, memory bool) {
	for _, e := range q.Entries {
		if !e.State.Ended() {
			cpus, memory = cpus || e.Spec.CPUs > 0, memory || e.Spec.MemoryMiB > 0
		}
	}
	return cpus, memory
}

// forSession is the cluster as a session gets it. CPUs and memory are in it where jobs ask for them.
func (v *view) forSession(q *Queue, nowUs int64, seen map[string]*others, speeds *history.Speeds) *advice.State {
	out := &advice.State{NowUs: nowUs}
	cpus, memory := q.demands()
	for _, n := range v.nodes {
		o := seen[n.id]
		if o == nil {
			o = &others{}
			seen[n.id] = o
		}
		o.see(n.others, nowUs)
		told := advice.Node{Name: n.name, GPUs: []hare.TypeCount{{Type: n.gpuType, Count: int(n.has.gpus)}}}
		left := n.has.minus(o.steady)
		if cpus {
			told.CPUMilli = max(1, left.cpuMilli) // 0 would be no limit
		}
		if memory {
			told.MemoryMiB = max(1, left.memoryMiB)
		}
		out.Nodes = append(out.Nodes, told)
		if o.gpus == 0 {
			continue
		}
		j := &history.Job{ID: "others on " + n.name, GPUs: o.gpus, Nodes: 1, PerTask: o.gpus, LimitUs: othersLimitUs}
		out.Jobs = append(out.Jobs, advice.Job{Spec: advice.Spec(j, []string{n.gpuType}, speeds), State: advice.Running,
			StartUs: o.fromUs, On: []history.Held{{Node: n.name, Type: n.gpuType, GPUs: o.gpus}}})
	}
	for _, e := range q.Entries {
		told := advice.Job{StartUs: e.StartUs, EndUs: e.EndUs, Completed: e.State == Succeeded, Name: e.Spec.Name,
			User: e.Spec.User}
		types := v.typesFor(&e.Spec)
		n := v.node(e.NodeID)
		switch {
		case e.State.Ended():
			if e.EndUs < nowUs-600e6 || e.StartUs == 0 {
				continue
			}
			told.State, told.Spec = advice.Ended, &hare.Job{ID: e.ID}
			out.Jobs = append(out.Jobs, told)
			continue
		case e.State == Waiting:
			told.State = advice.Waiting
		case n == nil:
			continue // its node is gone: the next reading tells what became of the job
		default:
			told.State = advice.Running
			told.On = []history.Held{{Node: n.name, Type: n.gpuType, GPUs: e.Spec.GPUs}}
			if !slices.Contains(types, n.gpuType) {
				types = append(types, n.gpuType)
			}
		}
		if told.Spec = advice.Spec(e.forHistory(), types, speeds); told.Spec != nil {
			advice.Demand(told.Spec, e.forHistory(), cpus, memory)
		}
		out.Jobs = append(out.Jobs, told)
	}
	return out
}

// inOrder chooses what starts where nobody plans: first come, first served. A job that finds no room
// keeps all later jobs from the types on which it may run, so that wide jobs start too.
func (v *view) inOrder(q *Queue, why string) (starts []Start) {
	closed := map[string]bool{}
	for _, e := range q.waiting() {
		var best *node
		for _, n := range v.nodes {
			if n.fits(&e.Spec) && n.free().covers(e.Spec.needs()) && !closed[n.gpuType] &&
				(best == nil || better(&e.Spec, n, best)) {
				best = n
			}
		}
		if best == nil {
			for _, t := range v.typesFor(&e.Spec) {
				closed[t] = true
			}
			continue
		}
		best.ours = best.ours.plus(e.Spec.needs())
		starts = append(starts, Start{Job: e.ID, Name: e.Spec.Name, GPUs: e.Spec.GPUs, Node: best.name, NodeID: best.id,
			Type: best.gpuType, Reason: why})
	}
	return starts
}

// better prefers the type on which a job is faster, and then the node that has less room left.
func better(s *Spec, a, b *node) bool {
	x, y := s.seconds(a.gpuType), s.seconds(b.gpuType)
	if x != y && x > 0 && y > 0 {
		return x < y
	}
	return a.free().gpus < b.free().gpus
}

// Start is a job that is submitted.
type Start struct {
	Job    string
	Name   string
	GPUs   int64
	Node   string // empty means that Ray chooses
	NodeID string
	Type   string
	Reason string
}
