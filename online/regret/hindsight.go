package regret

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// taskRun is one run of a task. The measured times computeUs and syncUs are set
// once the task has ended, and fit between the start and the end of the run.
type taskRun struct {
	round, task        int64
	gpu                int   // index in Hindsight.gpus
	others             []int // the same of the other GPUs of a task of several
	startUs            int64
	computeUs, syncUs  int64
	computeEnd, endsAt int64 // as reported; computeEnd is unknownTime without a report
	ran                bool  // whether the task ran when the job arrived
}

// unknownTime stands for a time that was not reported. Zero is a valid time.
const unknownTime = -1

// instant reports whether the task held its GPU for no time at all. In the model
// every task takes at least a microsecond, so no plan has such a task.
func (t *taskRun) instant() bool {
	if t.computeEnd != unknownTime {
		return t.computeEnd == t.startUs
	}
	return t.endsAt == t.startUs
}

// pastJob is what a log says of one job.
type pastJob struct {
	job       *hare.Job
	arrivedUs int64
	first     int64                // the round that was the first to do, or ran, when the job arrived
	open      map[[2]int64]taskRun // tasks that have started and not ended, by round and task
	done      []taskRun
	failed    map[[2]int64][]int64   // how long after their starts tasks failed, by round and task
	lost      map[[2]int64][]lostRun // the runs of tasks that their GPUs did not let end
	ended     bool
	cancelled bool
	outcome   *pastOutcome // set once the job has ended without being cancelled
}

// pastGPU is a GPU of one type, with the windows in which it was in service.
type pastGPU struct {
	name, kind string
	windows    []hare.Window // the last window is open while the GPU is in service
}

// Hindsight reads a session's log record by record. Between any two records,
// Hindsight can build the offline instance of the jobs that have ended so far.
// Memory is proportional to the number of tasks. A Hindsight is not safe for
// concurrent use.
type Hindsight struct {
	// Objective is what reports compare; "" means the weighted completion time. It does not change while the log is
	// read.
	Objective string
	cluster   hare.Cluster
	gpus      []pastGPU
	known     map[[2]string]int // all GPUs so far, by name and type
	active    map[string]int    // GPUs in service, by name
	jobs      []*pastJob
	byID      map[string]int
	seq       int64
	atUs      int64
	clipped   int // number of tasks whose measured times were clipped
	version   int // grows when the instance changes
	atFirst   int // how many of gpus the cluster has
	quotas    []hare.Quota
	started   bool // whether a task has started
	// quotaChanged says that a quota was set after a start, and runsLate names a job that arrived later
	// and ran already.
	quotaChanged bool
	runsLate     string
}

// NewHindsight returns a Hindsight for a session that begins with this cluster.
func NewHindsight(cluster *hare.Cluster) *Hindsight {
	h := &Hindsight{cluster: *cluster, known: map[[2]string]int{}, active: map[string]int{}, byID: map[string]int{}}
	for i := range cluster.Nodes {
		n := &cluster.Nodes[i]
		at := 0
		for _, g := range n.GPUs {
			for range g.Count {
				h.join(fmt.Sprintf("%s/%d", n.Name, at), g.Type, 0)
				at++
			}
		}
	}
	h.atFirst = len(h.gpus)
	return h
}

// join records that a GPU comes into service.
func (h *Hindsight) join(name, kind string, atUs int64) {
	h.version++
	i, back := h.known[[2]string{name, kind}]
	if !back {
		i = len(h.gpus)
		h.known[[2]string{name, kind}] = i
		h.gpus = append(h.gpus, pastGPU{name: name, kind: kind})
	}
	h.active[name] = i
	g := &h.gpus[i]
	if last := len(g.windows) - 1; last >= 0 && g.windows[last].EndUs == atUs {
		g.windows[last].EndUs = hare.Forever
		return
	}
	g.windows = append(g.windows, hare.Window{StartUs: atUs, EndUs: hare.Forever})
}

// leave records that a GPU goes out of service.
func (h *Hindsight) leave(name string, atUs int64) error {
	i, ok := h.active[name]
	if !ok {
		return &LogError{fmt.Sprintf("at event %d there is no GPU %.60q", h.seq, name)}
	}
	g := &h.gpus[i]
	last := len(g.windows) - 1
	if g.windows[last].EndUs = atUs; g.windows[last].StartUs == atUs {
		g.windows = g.windows[:last]
	}
	delete(h.active, name)
	h.version++
	return nil
}

// nodeEvent records that all GPUs of a node come into service, or go.
func (h *Hindsight) nodeEvent(e *hare.Event) error {
	if e.Node() == nil {
		return &LogError{fmt.Sprintf("event %d names no node", h.seq)}
	}
	if e.Type == hare.EventNodeJoined {
		at := 0
		for _, g := range e.Node().GPUs {
			for range g.Count {
				h.join(fmt.Sprintf("%s/%d", e.Node().Name, at), g.Type, e.AtUs)
				at++
			}
		}
		return nil
	}
	for i := range h.gpus {
		name := h.gpus[i].name
		if at, ok := h.active[name]; ok && at == i && name[:strings.IndexByte(name, '/')] == e.Node().Name {
			if err := h.leave(name, e.AtUs); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNodes refuses logs in which jobs have rules about nodes and GPUs have joined or left:
// hindsight then has nodes of single GPUs, on which such jobs would not find the room that they
// had.
func (h *Hindsight) checkNodes() error {
	if h.runsLate != "" {
		return &hare.InvalidError{Pointer: "/jobs/progress", Code: "not_supported",
			Detail: fmt.Sprintf("regret does not know jobs that run when they arrive after the session began, as %.60q did",
				h.runsLate)}
	}
	inst := hare.Instance{Cluster: h.cluster}
	for _, j := range h.jobs {
		inst.Jobs = append(inst.Jobs, *j.job)
	}
	pointer, placed := inst.Placed()
	if !placed {
		return nil
	}
	for i := range h.gpus {
		if w := h.gpus[i].windows; len(w) != 1 || w[0] != (hare.Window{EndUs: hare.Forever}) || i >= h.atFirst {
			return &hare.InvalidError{Pointer: pointer, Code: "not_supported",
				Detail: "regret does not yet know sessions in which jobs have rules about nodes and GPUs join or leave"}
		}
	}
	return nil
}

// LogError says that a log contradicts itself.
type LogError struct{ Reason string }

// Error implements error.
func (e *LogError) Error() string { return "regret: " + e.Reason }

// Add reads the next record. The error is a *LogError.
func (h *Hindsight) Add(r wire.Record) error {
	e := &r.Event
	if e.Seq <= h.seq || e.AtUs < h.atUs {
		return &LogError{fmt.Sprintf("event %d cannot follow event %d", e.Seq, h.seq)}
	}
	h.seq, h.atUs = e.Seq, e.AtUs
	if err := h.event(e); err != nil {
		return err
	}
	for i := range r.Decisions {
		if err := h.decision(&r.Decisions[i]); err != nil {
			return err
		}
	}
	return nil
}

func (h *Hindsight) job(id string) (*pastJob, error) {
	i, ok := h.byID[id]
	if !ok {
		return nil, &LogError{fmt.Sprintf("event %d names job %.60q, which did not arrive", h.seq, id)}
	}
	return h.jobs[i], nil
}

func (h *Hindsight) event(e *hare.Event) error {
	switch e.Type {
	case hare.EventTick: // a tick is of the policy that asked for it; see replayPolicy.WakeUs
		return nil
	case hare.EventGPUJoined:
		h.join(e.GPU, e.GPUType, e.AtUs)
		return nil
	case hare.EventGPULeft:
		return h.leave(e.GPU, e.AtUs)
	case hare.EventNodeJoined, hare.EventNodeLeft:
		return h.nodeEvent(e)
	case hare.EventSetQuota:
		if e.Quota() != nil {
			h.setQuota(e.Quota())
		}
		return nil
	case hare.EventJobArrived:
		// An id may be used again once the job of that id has ended.
		h.byID[e.Job] = len(h.jobs)
		j := &pastJob{job: e.Arrived, arrivedUs: e.AtUs, open: map[[2]int64]taskRun{}}
		h.jobs = append(h.jobs, j)
		return h.resume(j)
	}
	j, err := h.job(e.Job)
	if err != nil {
		return err
	}
	key := [2]int64{e.Round, e.Task}
	switch e.Type {
	case hare.EventComputeEnded:
		// Tasks of gang and rigid jobs hold their GPU until they have synchronised.
		if t, ok := j.open[key]; ok && j.job.Sync == hare.Relaxed {
			t.computeEnd = e.AtUs
			j.open[key] = t
		}
	case hare.EventTaskEnded:
		if t, ok := j.open[key]; ok {
			delete(j.open, key)
			h.measure(&t, e)
			j.done = append(j.done, t)
		}
	case hare.EventTaskFailed:
		if t, ok := j.open[key]; ok {
			if j.failed == nil {
				j.failed = map[[2]int64][]int64{}
			}
			j.failed[key] = append(j.failed[key], e.AtUs-t.startUs)
		}
		delete(j.open, key)
	case hare.EventJobEnded, hare.EventJobCancelled:
		j.ended, j.cancelled, j.open = true, e.Type == hare.EventJobCancelled, nil
		if !j.cancelled {
			j.outcome = h.outcomeOf(j)
			h.version++
		}
	}
	return nil
}

// measure sets the measured times of a task that ended. The times are clipped to
// what passed between the start, the end of compute and the end of the task: with
// longer times the plan that was followed would not be feasible.
func (h *Hindsight) measure(t *taskRun, e *hare.Event) {
	t.endsAt = e.AtUs
	held := e.AtUs
	if t.computeEnd != unknownTime {
		held = t.computeEnd
	}
	t.computeUs = max(1, min(e.ComputeUs, held-t.startUs))
	t.syncUs = max(0, min(e.SyncUs, e.AtUs-t.startUs-t.computeUs))
	if t.computeUs != e.ComputeUs || t.syncUs != e.SyncUs {
		h.clipped++
	}
}

// lostRun is a run of a task that was withdrawn: the task would have taken longer.
type lostRun struct {
	gpu     int
	us      int64
	syncing bool // whether the compute had ended
}

// lose records that a task that runs is withdrawn.
func (j *pastJob) lose(key [2]int64, t taskRun, atUs int64) {
	if j.lost == nil {
		j.lost = map[[2]int64][]lostRun{}
	}
	j.lost[key] = append(j.lost[key], lostRun{t.gpu, atUs - t.startUs, t.computeEnd != unknownTime})
}

func (h *Hindsight) decision(d *hare.Decision) error {
	j, err := h.job(d.Job)
	if err != nil {
		return err
	}
	key := [2]int64{d.Round, d.Task}
	if d.Type == hare.DecisionWithdraw || j.ended {
		if t, ok := j.open[key]; ok {
			j.lose(key, t, d.AtUs)
		}
		delete(j.open, key)
		return nil
	}
	t := taskRun{round: d.Round, task: d.Task, startUs: d.AtUs, computeEnd: unknownTime}
	if err := h.place(&t, d.GPUs()); err != nil {
		return err
	}
	h.started = true
	j.open[key] = t
	return nil
}

// place finds the GPUs of a task that starts.
func (h *Hindsight) place(t *taskRun, gpus []string) error {
	for i, name := range gpus {
		gpu, ok := h.active[name]
		if !ok {
			return &LogError{fmt.Sprintf("event %d starts a task on GPU %.60q, which is not there", h.seq, name)}
		}
		if i == 0 {
			t.gpu = gpu
		} else {
			t.others = append(t.others, gpu)
		}
	}
	return nil
}

// completeRounds returns the tasks of the complete rounds of a job, which are the
// first ones that were left, and the number of these rounds. completeRounds is
// O(tasks · log tasks) and sorts j.done; tasks may be a slice of j.done.
//
// A gang that loses a task starts all tasks of the round again, also those that
// had ended: only the tasks of a round's last start count.
func (j *pastJob) completeRounds() (tasks []taskRun, rounds int64) {
	tasks = j.done
	slices.SortStableFunc(tasks, func(a, b taskRun) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.task, b.task))
	})
	if j.job.Sync != hare.Relaxed {
		started := map[int64]int64{} // by round
		for _, t := range tasks {
			if last, known := started[t.round]; !known || t.startUs > last {
				started[t.round] = t.startUs
			}
		}
		repeated := func(t taskRun) bool { return t.startUs != started[t.round] }
		if slices.ContainsFunc(tasks, repeated) {
			tasks = slices.DeleteFunc(slices.Clone(tasks), repeated)
		}
	}
	for i := range tasks {
		if tasks[i].round != j.first+rounds || tasks[i].task != int64(i)%j.job.Tasks {
			break
		}
		if tasks[i].task == j.job.Tasks-1 {
			rounds++
		}
	}
	return tasks[:rounds*j.job.Tasks], rounds
}
