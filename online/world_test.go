package online

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
)

// world is a client that sends random possible events, follows the decisions, and finds
// decisions that break a rule.
type world struct {
	r       *rand.Rand
	now     int64
	gpus    map[string]string // the type by name
	names   []string          // the GPUs in service
	jobs    map[string]*worldJob
	ids     []string
	running []running
	made    int // the number of names that were made so far
	arrived int // the number of jobs that have arrived
	maxJobs int
	types   []string
	syncs   []hare.Sync
	calm    bool // no task fails and no GPU leaves
}

type worldJob struct {
	hare.Job
	round int64
	ended map[int64]bool
	held  []string // the GPUs of a rigid job
}

type running struct {
	job   string
	round int64
	task  int64
	gpu   string
	off   bool // the task has left the GPU
	ended bool // the task of a gang has ended, and its GPU is held until the round ends
}

func newWorld(r *rand.Rand) (*world, *hare.Cluster) {
	w := &world{r: r, gpus: map[string]string{}, jobs: map[string]*worldJob{}, maxJobs: 1 + r.IntN(12),
		types: []string{"A", "B", "C", "D"}[:1+r.IntN(4)], syncs: []hare.Sync{hare.Relaxed, hare.Gang, hare.Rigid}}
	switch r.IntN(4) {
	case 0:
		w.syncs = w.syncs[:1]
	case 1:
		w.syncs = w.syncs[:2]
	}
	w.calm = r.IntN(3) == 0
	cl := &hare.Cluster{}
	for i := range 1 + r.IntN(4) {
		n := hare.Node{Name: "n" + strconv.Itoa(i),
			GPUs: []hare.TypeCount{{Type: w.types[r.IntN(len(w.types))], Count: 1 + r.IntN(4)}}}
		for g := range n.GPUs[0].Count {
			w.gpus[n.Name+"/"+strconv.Itoa(g)] = n.GPUs[0].Type
			w.names = append(w.names, n.Name+"/"+strconv.Itoa(g))
		}
		cl.Nodes = append(cl.Nodes, n)
	}
	return w, cl
}

func (w *world) newJob() *hare.Job {
	r := w.r
	w.made++
	j := &hare.Job{ID: "j" + strconv.Itoa(w.made), WeightMicro: 1e6, Tasks: 1 + int64(r.IntN(5)),
		Sync: w.syncs[r.IntN(len(w.syncs))]}
	j.Mix = j.Sync == hare.Gang && r.IntN(3) == 0
	for _, k := range []string{"A", "B", "C", "D", "E"} {
		if r.IntN(2) == 0 {
			p := hare.Profile{Type: k}
			if r.IntN(3) > 0 {
				p.ComputeUs = int64(1+r.IntN(3)) * 1e6
			}
			j.On = append(j.On, p)
		}
	}
	if len(j.On) == 0 {
		j.On = []hare.Profile{{Type: w.types[0], ComputeUs: 1e6}}
	}
	return j
}

// event returns a random possible event.
func (w *world) event() hare.Event {
	r := w.r
	if r.IntN(3) > 0 {
		w.now += int64(r.IntN(3)) * 500_000
	}
	var live []int
	for i := range w.running {
		if !w.running[i].ended {
			live = append(live, i)
		}
	}
	for {
		switch x := r.IntN(100); {
		case x < 20 && len(w.ids) < w.maxJobs:
			j := w.newJob()
			return hare.Event{Type: hare.EventJobArrived, Job: j.ID, Arrived: j}
		case x < 24:
			return hare.Event{Type: hare.EventTick}
		case x < 34 && len(live) > 0:
			if t := w.running[live[r.IntN(len(live))]]; !t.off {
				return hare.Event{Type: hare.EventComputeEnded, Job: t.job, Round: t.round, Task: t.task, GPU: t.gpu}
			}
		case x < 80 && len(live) > 0:
			t := w.running[live[r.IntN(len(live))]]
			return hare.Event{Type: hare.EventTaskEnded, Job: t.job, Round: t.round, Task: t.task, GPU: t.gpu,
				ComputeUs: int64(r.IntN(4)) * 700_000}
		case x < 84 && len(live) > 0 && !w.calm:
			t := w.running[live[r.IntN(len(live))]]
			return hare.Event{Type: hare.EventTaskFailed, Job: t.job, Round: t.round, Task: t.task, GPU: t.gpu}
		case x < 88 && len(w.ids) > 0:
			return hare.Event{Type: hare.EventJobEnded + hare.EventType(r.IntN(2)), Job: w.ids[r.IntN(len(w.ids))]}
		case x < 92 && len(w.names) < 16:
			w.made++
			return hare.Event{Type: hare.EventGPUJoined, GPU: "x/" + strconv.Itoa(w.made),
				GPUType: w.types[r.IntN(len(w.types))]}
		case x < 96 && len(w.names) > 0 && !w.calm:
			return hare.Event{Type: hare.EventGPULeft, GPU: w.names[r.IntN(len(w.names))]}
		}
	}
}

// follow applies an event and the decisions on it, and returns the first fault.
func (w *world) follow(e *hare.Event, ds []hare.Decision) error {
	gangLost := "" // the gang that may be withdrawn
	isTask := func(t running) bool { return t.job == e.Job && t.task == e.Task && t.gpu == e.GPU }
	at := slices.IndexFunc(w.running, isTask)
	switch e.Type {
	case hare.EventJobArrived:
		w.arrived++
		w.jobs[e.Job] = &worldJob{Job: *e.Arrived, ended: map[int64]bool{}}
		w.ids = append(w.ids, e.Job)
	case hare.EventComputeEnded:
		w.running[at].off = w.jobs[e.Job].Sync == hare.Relaxed
	case hare.EventTaskEnded:
		w.taskEnded(w.jobs[e.Job], at)
	case hare.EventTaskFailed:
		if w.jobs[e.Job].Sync != hare.Relaxed {
			gangLost = e.Job
		}
		w.running = slices.Delete(w.running, at, at+1)
	case hare.EventJobEnded, hare.EventJobCancelled:
		gangLost = e.Job
		w.ids = slices.DeleteFunc(w.ids, func(x string) bool { return x == e.Job })
	case hare.EventGPUJoined:
		w.gpus[e.GPU] = e.GPUType
		w.names = append(w.names, e.GPU)
	case hare.EventGPULeft:
		for _, t := range w.running {
			if t.gpu == e.GPU && !t.off && w.jobs[t.job].Sync != hare.Relaxed {
				gangLost = t.job
			}
		}
	}
	for _, d := range ds {
		if d.Type == hare.DecisionWithdraw {
			i := slices.IndexFunc(w.running, func(t running) bool {
				return t.job == d.Job && t.round == d.Round && t.task == d.Task && t.gpu == d.GPU && !t.ended
			})
			if i < 0 {
				return fmt.Errorf("%v is withdrawn and does not run", d)
			}
			if d.Job != gangLost && (e.Type != hare.EventGPULeft || d.GPU != e.GPU) {
				return fmt.Errorf("%v: a running task is killed", d)
			}
			w.running = slices.Delete(w.running, i, i+1)
		}
	}
	if gangLost != "" {
		for _, t := range w.running {
			if t.job == gangLost && !t.ended {
				return fmt.Errorf("%v goes on without its gang", t)
			}
		}
		w.running = slices.DeleteFunc(w.running, func(t running) bool { return t.job == gangLost })
		w.jobs[gangLost].ended = map[int64]bool{}
		if e.Type == hare.EventGPULeft {
			w.jobs[gangLost].held = nil
		}
	}
	switch e.Type {
	case hare.EventJobEnded, hare.EventJobCancelled:
		delete(w.jobs, e.Job)
	case hare.EventGPULeft:
		delete(w.gpus, e.GPU)
		w.names = slices.DeleteFunc(w.names, func(x string) bool { return x == e.GPU })
	}
	return w.starts(ds)
}

func (w *world) taskEnded(j *worldJob, at int) {
	t := &w.running[at]
	j.ended[t.task] = true
	if j.Sync == hare.Relaxed {
		w.running = slices.Delete(w.running, at, at+1)
	} else {
		t.ended = true
	}
	if int64(len(j.ended)) == j.Tasks {
		j.round++
		j.ended = map[int64]bool{}
		w.running = slices.DeleteFunc(w.running, func(t running) bool { return t.job == j.ID })
	}
}

func (w *world) starts(ds []hare.Decision) error {
	together := map[string][]string{}
	var gangs []string
	for _, d := range ds {
		if d.Type != hare.DecisionStart {
			continue
		}
		j := w.jobs[d.Job]
		kind, in := w.gpus[d.GPU]
		if j == nil || !in || d.AtUs != w.now {
			return fmt.Errorf("%v starts an unknown job, on an unknown GPU or at another time", d)
		}
		if d.Round != j.round || d.Task < 0 || d.Task >= j.Tasks || j.ended[d.Task] {
			return fmt.Errorf("%v overtakes round %d or repeats a task", d, j.round)
		}
		if !slices.ContainsFunc(j.On, func(p hare.Profile) bool { return p.Type == kind }) {
			return fmt.Errorf("%v has no profile for %s", d, kind)
		}
		for _, t := range w.running {
			if t.gpu == d.GPU && !t.off || t.job == d.Job && t.task == d.Task {
				return fmt.Errorf("%v: GPU or task is taken by %v", d, t)
			}
		}
		w.running = append(w.running, running{job: d.Job, round: d.Round, task: d.Task, gpu: d.GPU})
		if j.Sync != hare.Relaxed {
			if together[d.Job] == nil {
				gangs = append(gangs, d.Job)
			}
			together[d.Job] = append(together[d.Job], d.GPU)
		}
	}
	for _, id := range gangs {
		j, on := w.jobs[id], together[id]
		if int64(len(on)) != j.Tasks {
			return fmt.Errorf("%d of the %d tasks of %s start together", len(on), j.Tasks, id)
		}
		for _, g := range on {
			if w.gpus[g] != w.gpus[on[0]] && !j.Mix {
				return fmt.Errorf("%s is on several types", id)
			}
		}
		if j.Sync == hare.Rigid && j.held != nil && !slices.Equal(j.held, on) {
			return fmt.Errorf("rigid %s moves from %v to %v", id, j.held, on)
		}
		j.held = on
	}
	return nil
}

// idle finds a free GPU that a waiting task may use and that is not gathered.
func (w *world) idle(s Status) error {
	gathered := map[string]bool{}
	for _, t := range s.GPUs {
		gathered[t.Type] = t.GatheredFor != ""
		if t.GatheredFor == "" {
			continue
		}
		j := w.jobs[t.GatheredFor]
		if j == nil || j.Sync == hare.Relaxed || t.Gathered >= j.Tasks || !j.Mix && t.InService < j.Tasks {
			return fmt.Errorf("%+v: nobody needs that, or it is enough or never can be", t)
		}
		if slices.ContainsFunc(w.running, func(r running) bool { return r.job == j.ID }) {
			return fmt.Errorf("%+v: %s runs", t, j.ID)
		}
	}
	free := map[string]int64{}
	for _, g := range w.names {
		if !slices.ContainsFunc(w.running, func(t running) bool { return t.gpu == g && !t.off }) &&
			!gathered[w.gpus[g]] {
			free[w.gpus[g]]++
		}
	}
	for _, id := range w.ids {
		j := w.jobs[id]
		var started, all int64
		for _, t := range w.running {
			if t.job == id {
				started++
			}
		}
		if j.Tasks-started-int64(len(j.ended)) == 0 || j.Sync != hare.Relaxed && started > 0 {
			continue
		}
		for _, p := range j.On {
			all += free[p.Type]
			if free[p.Type] > 0 && (j.Sync == hare.Relaxed || free[p.Type] >= j.Tasks) {
				return fmt.Errorf("%d GPUs of %s idle, and %s waits", free[p.Type], p.Type, id)
			}
		}
		if j.Mix && all >= j.Tasks {
			return fmt.Errorf("%d GPUs idle, and %s waits", all, id)
		}
	}
	return nil
}
