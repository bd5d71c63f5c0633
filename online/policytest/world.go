package policytest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

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

func newWorld(rng *rand.Rand, s *Subject) *world {
	w := &world{planned: s.Planned, nodes: map[string]hare.Node{}}
	if w.rules = !s.Planned && !s.SingleGPUs && rng.IntN(2) == 0; w.rules {
		w.drawNodes(rng)
		return w
	}
	types := []string{"A", "B", "C"}[:1+rng.IntN(3)]
	for i, t := range types {
		n := hare.Node{Name: fmt.Sprint("n", i), GPUs: []hare.TypeCount{{Type: t, Count: 1 + rng.IntN(4)}}}
		w.cluster.Nodes = append(w.cluster.Nodes, n)
		for g := range n.GPUs[0].Count {
			w.gpus = append(w.gpus, &gpu{name: fmt.Sprintf("%s/%d", n.Name, g), gpuType: t, here: true, task: -1})
		}
	}
	for i := range 40 {
		j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 1e6 * (1 + rng.Int64N(4)), Rounds: 1 + rng.Int64N(4),
			Tasks: 1 + rng.Int64N(4), Sync: hare.Sync(rng.IntN(3))}
		j.Mix = j.Sync == hare.Gang && rng.IntN(2) == 0
		for _, t := range []string{"A", "B", "C", "D"} {
			if rng.IntN(2) == 0 {
				j.On = append(j.On, hare.Profile{Type: t, ComputeUs: rng.Int64N(3) * 1e6, SyncUs: rng.Int64N(2) * 1e5})
			}
		}
		if j.On == nil {
			j.On = []hare.Profile{{Type: types[0], ComputeUs: 1e6}}
		}
		if s.Planned {
			w.makeRunnable(&j)
		}
		w.specs = append(w.specs, j)
	}
	return w
}

// makeRunnable changes a job so that its profiles are complete and each type of a profile
// has GPUs for a whole round.
func (w *world) makeRunnable(j *hare.Job) {
	var on []hare.Profile
	for _, n := range w.cluster.Nodes {
		for _, p := range j.On {
			if p.Type == n.GPUs[0].Type && int64(n.GPUs[0].Count) >= j.Tasks {
				p.ComputeUs = max(1, p.ComputeUs)
				on = append(on, p)
			}
		}
	}
	if on == nil {
		j.Tasks = 1
		on = []hare.Profile{{Type: w.cluster.Nodes[0].GPUs[0].Type, ComputeUs: 1e6}}
	}
	j.On = on
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

// void is a started task that the policy must withdraw.
type void struct {
	job, gpu    string
	others      hare.OtherGPUs
	round, task int64
}

// apply applies a true event and checks the decisions on it.
func (w *world) apply(e *hare.Event, decisions []hare.Decision, nowUs int64) error {
	voids := map[void]bool{}
	var again *job // the round of this job must start again at once
	switch j := w.find(e.Job); e.Type {
	case hare.EventJobArrived:
		w.arrived++
		spec := w.specs[w.arrived-1]
		j := &job{spec: spec, tasks: make([]taskState, spec.Tasks), on: make([]string, spec.Tasks),
			held: make([][]string, spec.Tasks)}
		w.jobs = append(w.jobs, j)
		w.resume(j, e.Arrived.Progress)
	case hare.EventComputeEnded:
		j.tasks[e.Task] = syncing
		w.leave(j, e.Task)
	case hare.EventTaskEnded:
		again = w.taskEnded(j, e)
	case hare.EventTaskFailed:
		again = w.taskFailed(j, e, voids)
	case hare.EventJobEnded, hare.EventJobCancelled:
		if w.ending == j {
			w.ending = nil
		}
		w.voidAll(j, voids)
		w.jobs = slices.DeleteFunc(w.jobs, func(o *job) bool { return o == j })
	case hare.EventGPUJoined:
		g := w.gpu(e.GPU)
		if g == nil {
			g = &gpu{name: e.GPU, task: -1}
			w.gpus = append(w.gpus, g)
			w.joined++
		}
		if g.here, g.gpuType = true, e.GPUType; e.Node() != nil {
			w.nodes[e.Node().Name] = *e.Node()
		}
	case hare.EventGPULeft:
		w.gpuLeft(w.gpu(e.GPU), voids)
	case hare.EventNodeJoined, hare.EventNodeLeft:
		w.nodeChanged(e, voids)
	case hare.EventSetQuota:
		w.setQuota(e.Quota())
	}
	return w.check(decisions, voids, again, nowUs)
}

func (g *gpu) leave() { g.job, g.task = nil, -1 }

func (w *world) taskEnded(j *job, e *hare.Event) (again *job) {
	if j.tasks[e.Task] == computing {
		if j.spec.Sync == hare.Relaxed {
			w.leave(j, e.Task)
		} else {
			w.rest(j, e.Task)
		}
	}
	j.tasks[e.Task] = ended
	if slices.ContainsFunc(j.tasks, func(s taskState) bool { return s != ended }) {
		return nil
	}
	j.round++
	clear(j.tasks)
	if j.round == j.spec.Rounds {
		w.ending = j
	}
	if j.spec.Sync == hare.Gang {
		w.free(j)
	}
	if j.spec.Sync == hare.Rigid && j.round < j.spec.Rounds {
		return j
	}
	return nil
}

// free takes all GPUs from a job.
func (w *world) free(j *job) {
	for _, g := range w.gpus {
		if g.job == j {
			g.leave()
		}
	}
}

func (w *world) taskFailed(j *job, e *hare.Event, voids map[void]bool) (again *job) {
	if j.spec.Sync == hare.Relaxed {
		if j.tasks[e.Task] == computing {
			w.leave(j, e.Task)
		}
		j.tasks[e.Task] = ready
		return nil
	}
	for _, g := range w.gpus {
		if g.job == j {
			if g.task >= 0 && g.task != e.Task {
				voids[j.voidTask(g.task)] = true
			}
			g.task = -1
		}
	}
	clear(j.tasks)
	return j
}

// voidAll makes all tasks of a job void that have started and not ended.
func (w *world) voidAll(j *job, voids map[void]bool) {
	for i, s := range j.tasks {
		if s == computing || s == syncing {
			voids[j.voidTask(int64(i))] = true
		}
	}
	w.free(j)
}

func (w *world) gpuLeft(g *gpu, voids map[void]bool) {
	g.here = false
	j := g.job
	switch {
	case j == nil:
	case j.spec.Sync == hare.Relaxed:
		task := g.task
		voids[j.voidTask(task)] = true
		j.tasks[task] = ready
		w.leave(j, task)
	default:
		w.voidAll(j, voids)
		clear(j.tasks)
	}
}

// check applies the decisions and returns an error for the first one that is not
// possible or is missing.
func (w *world) check(decisions []hare.Decision, voids map[void]bool, again *job, nowUs int64) error {
	started := map[*job][]*gpu{}
	keeps := map[*job][]*gpu{} // the GPUs that rigid jobs, and gangs that start again, must keep
	for _, g := range w.gpus {
		if g.job != nil && g.job.spec.Sync != hare.Relaxed {
			keeps[g.job] = append(keeps[g.job], g)
		}
	}
	for i := range decisions {
		d := &decisions[i]
		text := fmt.Sprintf("decision %d, %s of task %d of round %d of job %q on %s", i, d.Type, d.Task, d.Round,
			d.Job, d.GPU)
		if d.AtUs != nowUs {
			return fmt.Errorf("%s: is dated %d µs, not %d", text, d.AtUs, nowUs)
		}
		if d.Type == hare.DecisionWithdraw {
			v := void{d.Job, d.GPU, d.Others, d.Round, d.Task}
			if !voids[v] {
				return fmt.Errorf("%s: the task is not void", text)
			}
			delete(voids, v)
			continue
		}
		j, g := w.find(d.Job), w.gpu(d.GPU)
		switch {
		case d.Type != hare.DecisionStart:
			return fmt.Errorf("%s: is not a type of decision", text)
		case j == nil:
			return fmt.Errorf("%s: no such job is there", text)
		case g == nil || !g.here:
			return fmt.Errorf("%s: the GPU is not in service", text)
		case g.task >= 0 || g.job != nil && g.job != j:
			return fmt.Errorf("%s: job %q holds the GPU", text, g.job.spec.ID)
		case d.Round != j.round || d.Task < 0 || d.Task >= j.spec.Tasks || j.tasks[d.Task] != ready:
			return fmt.Errorf("%s: the task is not one to start, of round %d", text, j.round)
		case !slices.ContainsFunc(j.spec.On, func(p hare.Profile) bool { return p.Type == g.gpuType }):
			return fmt.Errorf("%s: the job has no profile for %s", text, g.gpuType)
		}
		others, err := w.checkOthers(j, d, g)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		j.tasks[d.Task], j.on[d.Task], j.held[d.Task] = computing, g.name, d.GPUs()
		for _, h := range append(others, g) {
			h.job, h.task = j, d.Task
			started[j] = append(started[j], h)
		}
	}
	if err := w.checkNodes(); err != nil {
		return err
	}
	if err := w.checkLevels(); err != nil {
		return err
	}
	if err := w.checkQuotas(started, keeps); err != nil {
		return err
	}
	for v := range maps.Keys(voids) {
		return fmt.Errorf("task %d of round %d of job %q on %s is void, and is not withdrawn", v.task, v.round, v.job,
			v.gpu)
	}
	if again != nil && started[again] == nil {
		return fmt.Errorf("job %q keeps its GPUs, and its round %d does not start at once", again.spec.ID, again.round)
	}
	for _, j := range w.jobs {
		if gpus := started[j]; gpus != nil && j.spec.Sync != hare.Relaxed {
			if err := checkGang(j, gpus, keeps[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkGang checks the starts of a gang or rigid job.
func checkGang(j *job, gpus, keeps []*gpu) error {
	if int64(len(gpus)) != j.spec.Tasks*j.spec.TaskGPUs() {
		return fmt.Errorf("job %q starts tasks on %d GPUs; the %d of its round start together", j.spec.ID, len(gpus),
			j.spec.Tasks)
	}
	for _, g := range gpus {
		if !j.spec.Mix && g.gpuType != gpus[0].gpuType {
			return fmt.Errorf("round %d of job %q mixes %s and %s", j.round, j.spec.ID, g.gpuType, gpus[0].gpuType)
		}
		if keeps != nil && !slices.Contains(keeps, g) {
			return fmt.Errorf("job %q must stay on its GPUs, and goes to %s", j.spec.ID, g.name)
		}
	}
	return nil
}

func (j *job) runs() bool {
	return slices.ContainsFunc(j.tasks, func(s taskState) bool { return s == computing || s == syncing })
}

// over reports whether all rounds of the job have ended.
func (j *job) over() bool { return j.round >= j.spec.Rounds }

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
