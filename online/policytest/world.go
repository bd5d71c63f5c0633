package policytest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// world is a model of the cluster for which a policy decides. It shares no code with the
// policies and checks their decisions.
type world struct {
	cluster hare.Cluster
	planned bool       // see Subject.Planned
	specs   []hare.Job // the jobs that may arrive, in this order
	arrived int        // how many of specs have arrived
	jobs    []*job     // the jobs that have arrived and not ended
	gpus    []*gpu     // the GPUs that are or were in service
	joined  int        // how many GPUs joined that were not in the cluster at first
	ending  *job       // a job whose last task has ended, and whose end is the next event
	// rules says that nodes have labels and limits and jobs have rules about nodes. nodes are
	// what the cluster and the events say of nodes, by name.
	rules bool
	nodes map[string]hare.Node
	// quotas are those that were set last, by user and types.
	quotas []hare.Quota
}

// gpu is one GPU. A gang holds its GPUs for a round, a rigid job for all its rounds.
type gpu struct {
	name, gpuType string
	here          bool // whether the GPU is in service
	job           *job
	task          int64 // the task on the GPU that has not ended, or −1
}

type taskState int

// These are the states of a task of the current round.
const (
	ready taskState = iota
	computing
	syncing
	ended
)

type job struct {
	spec  hare.Job
	round int64
	tasks []taskState
	on    []string   // by task, the GPU on which it started, the first of several
	held  [][]string // by task, all of them
}

// void is a started task that the policy must withdraw.
type void struct {
	job, gpu    string
	others      hare.OtherGPUs
	round, task int64
}

func nodeOf(gpu string) string { return gpu[:strings.IndexByte(gpu, '/')] }

func (j *job) voidTask(task int64) void {
	return void{j.spec.ID, j.on[task], hare.OthersOf(j.held[task]), j.round, task}
}

func (g *gpu) leave() { g.job, g.task = nil, -1 }

// leave takes the GPUs of a task from its job.
func (w *world) leave(j *job, task int64) {
	for _, name := range j.held[task] {
		w.gpu(name).leave()
	}
}

// rest notes that a task of a gang has ended, which keeps its GPUs.
func (w *world) rest(j *job, task int64) {
	for _, name := range j.held[task] {
		w.gpu(name).task = -1
	}
}

// free takes all GPUs from a job.
func (w *world) free(j *job) {
	for _, g := range w.gpus {
		if g.job == j {
			g.leave()
		}
	}
}

func (w *world) inService(here bool) []*gpu {
	return slices.DeleteFunc(slices.Clone(w.gpus), func(g *gpu) bool { return g.here != here })
}

func (w *world) find(id string) *job {
	for _, j := range w.jobs {
		if j.spec.ID == id {
			return j
		}
	}
	return nil
}

func (w *world) gpu(name string) *gpu {
	for _, g := range w.gpus {
		if g.name == name {
			return g
		}
	}
	return nil
}

// addNode puts the GPUs of a node in service.
func (w *world) addNode(n *hare.Node) {
	w.nodes[n.Name] = hare.Node{Name: n.Name, CPUMilli: n.CPUMilli, MemoryMiB: n.MemoryMiB, Labels: n.Labels}
	at := 0
	for _, k := range n.GPUs {
		for range k.Count {
			name := fmt.Sprintf("%s/%d", n.Name, at)
			at++
			g := w.gpu(name)
			if g == nil {
				g = &gpu{name: name, task: -1}
				w.gpus = append(w.gpus, g)
			}
			g.here, g.gpuType = true, k.Type
		}
	}
}

func (j *job) runs() bool {
	return slices.ContainsFunc(j.tasks, func(s taskState) bool { return s == computing || s == syncing })
}

// over reports whether all rounds of the job have ended.
func (j *job) over() bool { return j.round >= j.spec.Rounds }

// domain names the domain of a node at a level.
func (w *world) domain(level, node string) string {
	switch level {
	case "":
		return ""
	case "node":
		return node
	}
	n, name := w.nodes[node], ""
	for _, label := range w.cluster.Topology { // racks of one name in two zones are two
		value, _ := n.Label(label)
		if name += value + ";"; label == level {
			break
		}
	}
	return name
}

// limit is how many tasks of a job all quotas allow that count a type; "" means those that count
// all types.
func (w *world) limit(spec *hare.Job, gpuType string) int64 {
	limit := int64(1 << 40)
	for i := range w.quotas {
		if q := &w.quotas[i]; q.Limits(spec, gpuType) && (gpuType != "" || q.Types == nil) {
			limit = min(limit, q.GPUs/spec.TaskGPUs())
		}
	}
	return limit
}

// hasRoom reports whether the job could start if it were alone.
func (w *world) hasRoom(j *job) bool {
	if w.rules {
		return w.hasRoomOnNodes(j)
	}
	of, all := map[string]int64{}, int64(0)
	for _, g := range w.gpus {
		if g.here && slices.ContainsFunc(j.spec.On, func(p hare.Profile) bool { return p.Type == g.gpuType }) {
			of[g.gpuType]++
			all++
		}
	}
	widest := int64(0)
	for _, n := range of {
		widest = max(widest, n)
	}
	switch {
	case j.spec.Sync == hare.Relaxed:
		return all > 0
	case j.spec.Mix:
		return all >= j.spec.Tasks
	}
	return widest >= j.spec.Tasks
}

// hasRoomOnNodes is hasRoom where nodes matter.
func (w *world) hasRoomOnNodes(j *job) bool {
	spec := &j.spec
	type place struct{ gpuType, domain string }
	byType, together := map[place]int64{}, map[string]int64{}
	gpus := map[string]map[string]int64{} // by node and type
	for _, g := range w.gpus {
		if g.here && slices.ContainsFunc(spec.On, func(p hare.Profile) bool { return p.Type == g.gpuType }) {
			name := nodeOf(g.name)
			if gpus[name] == nil {
				gpus[name] = map[string]int64{}
			}
			gpus[name][g.gpuType]++
		}
	}
	for name, types := range gpus {
		n := w.nodes[name]
		n.Name = name
		if !spec.AllowsNode(&n) {
			continue
		}
		limit := int64(1 << 40)
		if n.CPUMilli > 0 && spec.CPUMilliPerTask > 0 {
			limit = min(limit, n.CPUMilli/spec.CPUMilliPerTask)
		}
		if n.MemoryMiB > 0 && spec.MemoryMiBPerTask > 0 {
			limit = min(limit, n.MemoryMiB/spec.MemoryMiBPerTask)
		}
		if spec.DistinctNodes {
			limit = min(limit, 1)
		}
		sum := int64(0)
		in := w.domain(spec.Within, name)
		for k, count := range types {
			byType[place{k, in}] += min(limit, count/spec.TaskGPUs())
			sum += count / spec.TaskGPUs()
		}
		together[in] += min(limit, sum)
	}
	widest, all, inTypes := int64(0), int64(0), map[string]int64{}
	for at, n := range byType {
		n = min(n, w.limit(spec, at.gpuType))
		widest = max(widest, n)
		inTypes[at.domain] += n
	}
	for in, n := range together {
		all = max(all, min(n, inTypes[in], w.limit(spec, "")))
	}
	switch {
	case spec.Sync == hare.Relaxed:
		return all > 0
	case spec.Mix:
		return all >= spec.Tasks
	}
	return widest >= spec.Tasks
}
