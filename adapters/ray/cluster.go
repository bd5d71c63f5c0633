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
	gpus              int64
	others            int64 // GPUs that work of others uses
	ours              int64 // GPUs that jobs of the queue hold
	selectable        bool  // a label tells the ID, by which a job can be sent to the node
}

func (n *node) free() int64 { return n.gpus - n.others - n.ours }

// view is what Ray told in one loop.
type view struct {
	session string
	jobs    map[string]*rayJob
	nodes   []*node // those that are alive, by name
	used    map[string]float64
	usedUs  int64
	byID    map[string]*node
}

// read asks Ray. Jobs come before the use of GPUs, so that a job that ends in between counts as running
// for one loop more, and its GPUs not as those of others.
func (d *Dashboard) read(ctx context.Context) (*view, error) {
	v := &view{}
	var err error
	if v.session, err = d.session(ctx); err != nil {
		return nil, err
	}
	if v.jobs, err = d.jobs(ctx); err != nil {
		return nil, err
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return nil, err
	}
	if v.used, v.usedUs, err = d.usage(ctx); err != nil {
		return nil, err
	}
	for i := range nodes {
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
	n := &node{id: r.NodeID, gpuType: r.Labels["ray.io/accelerator-type"], gpus: int64(gpus)}
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
	return n
}

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

// fits says whether the node could run a job if nothing else ran there.
func (n *node) fits(s *Spec) bool { return n.gpus >= s.GPUs && s.allows(n.gpuType) }

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
	told := map[string]int64{}
	for _, n := range v.nodes {
		n.ours = 0
	}
	for _, e := range q.Entries {
		n := v.node(e.NodeID)
		switch {
		case n == nil:
		case !e.State.Ended() && e.State != Waiting:
			n.ours += e.Spec.GPUs
			told[n.id] += e.Spec.GPUs
		case e.State.Ended() && e.EndUs+1_500_000 > v.usedUs && e.StartUs > 0:
			told[n.id] += e.Spec.GPUs
		}
	}
	for _, n := range v.nodes {
		n.others = max(0, int64(math.Ceil(v.used[n.id]-1e-6))-told[n.id])
		n.others = max(0, min(n.others, n.gpus-n.ours))
	}
}

// since remembers from when on others use so many GPUs of a node.
type since struct{ gpus, fromUs int64 }

// forSession is the cluster as a session is told it.
func (v *view) forSession(q *Queue, nowUs int64, others map[string]since, speeds *history.Speeds) *advice.State {
	out := &advice.State{NowUs: nowUs}
	for _, n := range v.nodes {
		out.Nodes = append(out.Nodes, advice.Node{Name: n.name,
			GPUs: []hare.TypeCount{{Type: n.gpuType, Count: int(n.gpus)}}})
		if n.others == 0 {
			delete(others, n.id)
			continue
		}
		if others[n.id].gpus != n.others {
			others[n.id] = since{n.others, nowUs}
		}
		j := &history.Job{ID: "others on " + n.name, GPUs: n.others, Nodes: 1, PerTask: n.others, LimitUs: othersLimitUs}
		out.Jobs = append(out.Jobs, advice.Job{Spec: advice.Spec(j, []string{n.gpuType}, speeds), State: advice.Running,
			StartUs: others[n.id].fromUs, On: []history.Held{{Node: n.name, Type: n.gpuType, GPUs: n.others}}})
	}
	for _, e := range q.Entries {
		told := advice.Job{StartUs: e.StartUs, EndUs: e.EndUs, Completed: e.State == Succeeded}
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
		told.Spec = advice.Spec(e.forHistory(), types, speeds)
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
			if n.fits(&e.Spec) && n.free() >= e.Spec.GPUs && !closed[n.gpuType] && (best == nil || better(&e.Spec, n, best)) {
				best = n
			}
		}
		if best == nil {
			for _, t := range v.typesFor(&e.Spec) {
				closed[t] = true
			}
			continue
		}
		best.ours += e.Spec.GPUs
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
	return a.free() < b.free()
}
