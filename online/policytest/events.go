package policytest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
)

// next draws an event that is true.
func (w *world) next(rng *rand.Rand) hare.Event {
	if j := w.ending; j != nil {
		w.ending = nil
		return hare.Event{Type: hare.EventJobEnded, Job: j.spec.ID}
	}
	switch n := rng.IntN(20); {
	case n < 4 && w.arrived < len(w.specs):
		e := w.arrival()
		if w.rules && rng.IntN(3) == 0 {
			w.drawProgress(rng, e.Arrived, w.specs[w.arrived].Rounds)
		}
		return e
	case n == 9 && w.rules && rng.IntN(3) == 0:
		return w.quotaEvent(rng)
	case n == 4 && len(w.jobs) > 0 && !w.planned:
		return hare.Event{Type: hare.EventJobCancelled, Job: w.jobs[rng.IntN(len(w.jobs))].spec.ID}
	case n == 5:
		return hare.Event{Type: hare.EventTick}
	case n == 6 && w.rules && rng.IntN(3) == 0:
		return w.nodeEvent(rng)
	case n == 6:
		if here := w.inService(true); len(here) > 1 {
			return hare.Event{Type: hare.EventGPULeft, GPU: here[rng.IntN(len(here))].name}
		}
	case n < 9:
		if gone := w.inService(false); len(gone) > 0 && rng.IntN(3) > 0 {
			g := gone[rng.IntN(len(gone))]
			gpuType := g.gpuType
			if !w.planned && rng.IntN(4) == 0 { // the GPU was replaced by another type
				gpuType = []string{"A", "B", "D"}[rng.IntN(3)]
			}
			return hare.Event{Type: hare.EventGPUJoined, GPU: g.name, GPUType: gpuType, Change: w.describe(rng, g.name)}
		}
		if w.joined < 4 && !w.planned {
			e := hare.Event{Type: hare.EventGPUJoined, GPU: fmt.Sprintf("x%d/0", w.joined),
				GPUType: []string{"A", "B", "D"}[rng.IntN(3)]}
			if len(w.cluster.Topology) > 0 {
				n := hare.Node{Name: nodeOf(e.GPU)}
				w.place(rng, &n)
				e.Change = &hare.Change{Node: &n}
			}
			return e
		}
	}
	if e, ok := w.taskEvent(rng); ok {
		return e
	}
	return hare.Event{Type: hare.EventTick}
}

// nextToFinish draws a true event that brings the end of all jobs nearer; false means
// that there is none.
func (w *world) nextToFinish(rng *rand.Rand) (hare.Event, bool) {
	if gone := w.inService(false); len(gone) > 0 {
		return hare.Event{Type: hare.EventGPUJoined, GPU: gone[0].name, GPUType: gone[0].gpuType}, true
	}
	if j := w.ending; j != nil {
		w.ending = nil
		return hare.Event{Type: hare.EventJobEnded, Job: j.spec.ID}, true
	}
	if w.arrived < len(w.specs) {
		return w.arrival(), true
	}
	e, ok := w.taskEvent(rng)
	if e.Type != hare.EventComputeEnded {
		e.Type, e.ComputeUs = hare.EventTaskEnded, 1e6
	}
	return e, ok
}

// arrival returns the arrival of the next job.
func (w *world) arrival() hare.Event {
	spec := w.specs[w.arrived]
	spec.Rounds = 0
	spec.On, spec.Hints = slices.Clone(spec.On), hintsOf(w.arrived, &w.specs[w.arrived])
	return hare.Event{Type: hare.EventJobArrived, Job: spec.ID, Arrived: &spec}
}

// hintsOf returns what the user of the n-th job says: nothing, a good or a bad estimate, a
// class, or both.
func hintsOf(n int, spec *hare.Job) *hare.JobHints {
	if n%4 == 0 {
		return nil
	}
	h := &hare.JobHints{}
	if n%4 != 1 {
		h.EstimateUs = spec.Rounds * (spec.On[0].ComputeUs + 1e5*int64(1+n%7))
	}
	if n%4 != 2 {
		h.Class = []hare.ClassLabel{{Name: "name", Value: fmt.Sprint("model", spec.Rounds)},
			{Name: "user", Value: fmt.Sprint(n % 3)}}
	}
	return h
}

// drawProgress lets a gang or rigid job that arrives run already, where there is room.
func (w *world) drawProgress(rng *rand.Rand, spec *hare.Job, rounds int64) {
	spec.Progress = &hare.Progress{RoundsDone: rng.Int64N(rounds)}
	if spec.Sync == hare.Relaxed || rng.IntN(4) == 0 {
		return
	}
	for _, j := range w.jobs { // a policy may keep the GPUs of relaxed jobs for a round
		if j.spec.Sync == hare.Relaxed && slices.ContainsFunc(j.tasks, func(s taskState) bool { return s != ready }) {
			return
		}
	}
	kind := spec.On[rng.IntN(len(spec.On))].Type
	at := map[string][]string{}
	var gpus []string
	for _, g := range w.gpus {
		name := nodeOf(g.name)
		n := w.nodes[name]
		n.Name = name
		if !g.here || g.job != nil || g.gpuType != kind || !spec.AllowsNode(&n) ||
			int64(len(gpus)) == spec.Tasks*spec.TaskGPUs() {
			continue
		}
		if at[name] = append(at[name], g.name); int64(len(at[name])) == spec.TaskGPUs() {
			gpus = append(gpus, at[name]...)
			at[name] = nil
		}
	}
	if int64(len(gpus)) < spec.Tasks*spec.TaskGPUs() {
		return
	}
	j := &job{spec: *spec}
	w.jobs = append(w.jobs, j)
	for _, name := range gpus {
		w.gpu(name).job = j
	}
	if w.checkNodes() == nil && w.checkLevels() == nil {
		spec.Progress.GPUs, spec.Progress.ElapsedUs = gpus, rng.Int64N(3e6)
	}
	w.free(j)
	w.jobs = w.jobs[:len(w.jobs)-1]
}

// taskEvent draws an event of a task that runs.
func (w *world) taskEvent(rng *rand.Rand) (hare.Event, bool) {
	type running struct {
		j    *job
		task int
	}
	var all []running
	for _, j := range w.jobs {
		for i, s := range j.tasks {
			if s == computing || s == syncing {
				all = append(all, running{j, i})
			}
		}
	}
	if len(all) == 0 {
		return hare.Event{}, false
	}
	r := all[rng.IntN(len(all))]
	e := hare.Event{Type: hare.EventTaskEnded, Job: r.j.spec.ID, Round: r.j.round, Task: int64(r.task),
		GPU: r.j.on[r.task]}
	switch n := rng.IntN(10); {
	case n == 0:
		e.Type = hare.EventTaskFailed
	case n < 3 && r.j.tasks[r.task] == computing && r.j.spec.Sync == hare.Relaxed:
		e.Type = hare.EventComputeEnded
	default:
		e.ComputeUs, e.SyncUs = 1+rng.Int64N(2e6), rng.Int64N(1e5)
	}
	return e, true
}

// nodeEvent draws a node that joins or leaves, where that is possible.
func (w *world) nodeEvent(rng *rand.Rand) hare.Event {
	name := fmt.Sprint("n", rng.IntN(8))
	here := slices.DeleteFunc(w.inService(true), func(g *gpu) bool { return nodeOf(g.name) != name })
	switch {
	case len(here) == 0:
		n := hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: "A", Count: 1 + rng.IntN(5)}}}
		w.drawDescription(rng, &n)
		if _, known := w.nodes[name]; known { // and its GPUs have left one by one
			d := w.nodes[name]
			n.CPUMilli, n.MemoryMiB, n.Labels = d.CPUMilli, d.MemoryMiB, d.Labels
		}
		return hare.Event{Type: hare.EventNodeJoined, Change: &hare.Change{Node: &n}}
	case len(here) < len(w.inService(true)):
		return hare.Event{Type: hare.EventNodeLeft, Change: &hare.Change{Node: &hare.Node{Name: name}}}
	}
	return hare.Event{Type: hare.EventTick}
}

// describe is what the event says of the node of a GPU that joins.
func (w *world) describe(rng *rand.Rand, gpu string) *hare.Change {
	n, known := w.nodes[nodeOf(gpu)]
	if !w.rules || !known || rng.IntN(2) == 0 {
		return nil
	}
	return &hare.Change{Node: &n}
}

// quotaEvent draws a quota that is set, or ended.
func (w *world) quotaEvent(rng *rand.Rand) hare.Event {
	q := hare.Quota{User: []string{"ann", "bob", "vision", "nobody"}[rng.IntN(4)], GPUs: rng.Int64N(9)}
	if rng.IntN(3) == 0 {
		q.Types = []string{"A"}
	}
	if rng.IntN(5) == 0 {
		q.GPUs = hare.MaxGPUs
	}
	return hare.Event{Type: hare.EventSetQuota, Change: &hare.Change{Quota: &q}}
}

// impossible draws an event that cannot be true, and its time.
func (w *world) impossible(rng *rand.Rand, last *hare.Event, nowUs int64) (hare.Event, int64) {
	here := w.inService(true)
	switch rng.IntN(13) {
	case 12:
		if w.rules {
			return w.unplaced(rng), nowUs
		}
	case 0:
		return hare.Event{Type: hare.EventJobEnded, Job: "nobody"}, nowUs
	case 1:
		return hare.Event{Type: hare.EventTaskEnded, Job: "nobody", GPU: here[0].name}, nowUs
	case 2:
		return hare.Event{Type: hare.EventGPULeft, GPU: "nowhere/7"}, nowUs
	case 3:
		return hare.Event{Type: hare.EventGPUJoined, GPU: here[0].name, GPUType: here[0].gpuType}, nowUs
	case 4:
		return hare.Event{Type: hare.EventGPUJoined, GPU: "nowhere/7"}, nowUs
	case 5:
		return hare.Event{Type: hare.EventJobArrived}, nowUs
	case 6:
		bad := []hare.Job{
			{ID: "bad", Tasks: 0, On: []hare.Profile{{Type: "A"}}},
			{ID: "bad", Tasks: 1},
			{Tasks: 1, On: []hare.Profile{{Type: "A"}}},
			{ID: "bad", Tasks: 1, On: []hare.Profile{{Type: "A", ComputeUs: -1}}},
			{ID: "bad", Tasks: 1, Sync: 9, On: []hare.Profile{{Type: "A"}}},
			{ID: "bad", Tasks: 1, On: []hare.Profile{{Type: "A"}, {Type: "A"}}},
			{ID: "bad", Tasks: 1 << 40, Sync: hare.Gang, On: []hare.Profile{{Type: "A"}}},
			{ID: "bad", Tasks: 1, On: []hare.Profile{{Type: "A"}}, Hints: &hare.JobHints{EstimateUs: -1}},
			{ID: "bad", Tasks: 1, On: []hare.Profile{{Type: "A"}}, Progress: &hare.Progress{RoundsDone: -1}},
			{ID: "bad", Tasks: 1, Sync: hare.Gang, On: []hare.Profile{{Type: "A"}},
				Progress: &hare.Progress{GPUs: []string{"nowhere/7"}}},
			{ID: "bad", Tasks: 2, Sync: hare.Rigid, On: []hare.Profile{{Type: here[0].gpuType}},
				Progress: &hare.Progress{GPUs: []string{here[0].name, here[0].name}}},
		}
		k := rng.IntN(len(bad))
		return hare.Event{Type: hare.EventJobArrived, Job: bad[k].ID, Arrived: &bad[k]}, nowUs
	case 7:
		if nowUs > 0 {
			return hare.Event{Type: hare.EventTick}, -1
		}
	case 8: // the last event is sent again
		switch last.Type {
		case hare.EventTaskEnded, hare.EventComputeEnded, hare.EventJobEnded, hare.EventJobCancelled,
			hare.EventGPULeft, hare.EventGPUJoined, hare.EventJobArrived:
			// After a gang's round or a failure the same task may run again.
			if last.Type != hare.EventTaskEnded || !w.isRunning(last) {
				return *last, nowUs
			}
		}
	}
	if len(w.jobs) > 0 {
		j := w.jobs[rng.IntN(len(w.jobs))]
		switch rng.IntN(4) {
		case 0: // the job has arrived before
			spec := j.spec
			return hare.Event{Type: hare.EventJobArrived, Job: spec.ID, Arrived: &spec}, nowUs
		case 1: // the round does not run
			return hare.Event{Type: hare.EventTaskEnded, Job: j.spec.ID, Round: j.round + 1, GPU: here[0].name}, nowUs
		case 2: // no round has the task
			return hare.Event{Type: hare.EventTaskFailed, Job: j.spec.ID, Round: j.round,
				Task: []int64{-1, j.spec.Tasks, 1 << 50}[rng.IntN(3)], GPU: here[0].name}, nowUs
		}
		// The task does not run, or runs on another GPU.
		task, gpu := rng.IntN(len(j.tasks)), here[0].name
		if state := j.tasks[task]; state != ready && state != ended {
			gpu = "nowhere/7"
		}
		return hare.Event{Type: hare.EventTaskEnded, Job: j.spec.ID, Round: j.round, Task: int64(task), GPU: gpu},
			nowUs
	}
	return hare.Event{Type: 250, Job: "nobody"}, nowUs
}

// unplaced draws an event that cannot be true: a job of an unknown level, or a node without a label of
// the topology.
func (w *world) unplaced(rng *rand.Rand) hare.Event {
	bad := []hare.Job{
		{ID: "bad", Tasks: 2, Sync: hare.Gang, Within: "row", On: []hare.Profile{{Type: "A"}}},
		{ID: "bad", Tasks: 2, Within: "node", On: []hare.Profile{{Type: "A"}}},
		{ID: "bad", Tasks: 2, Sync: hare.Gang, On: []hare.Profile{{Type: "A", ComputeUs: 1, SyncUs: 2,
			SyncAt: []hare.LevelSync{{Level: "any", SyncUs: 1}, {Level: "node", SyncUs: 2}}}}},
		{ID: "bad", Tasks: 2, Sync: hare.Gang, On: []hare.Profile{{Type: "A", ComputeUs: 1, SyncUs: 2,
			SyncAt: []hare.LevelSync{{Level: "node", SyncUs: 2}}}}},
	}
	n := rng.IntN(len(bad) + 2)
	switch {
	case n < len(bad):
		return hare.Event{Type: hare.EventJobArrived, Job: "bad", Arrived: &bad[n]}
	case len(w.cluster.Topology) == 0:
		return hare.Event{Type: hare.EventJobEnded, Job: "nobody"}
	case n == len(bad):
		return hare.Event{Type: hare.EventGPUJoined, GPU: "unplaced/0", GPUType: "A"}
	}
	return hare.Event{Type: hare.EventNodeJoined, Change: &hare.Change{Node: &hare.Node{Name: "unplaced",
		GPUs: []hare.TypeCount{{Type: "A", Count: 1}}, Labels: []hare.Label{{Name: "disk", Value: "ssd"}}}}}
}

// impossibleAfter draws an event that cannot be true right after e.
func impossibleAfter(rng *rand.Rand, e *hare.Event) hare.Event {
	switch e.Type {
	case hare.EventJobArrived, hare.EventJobEnded, hare.EventJobCancelled, hare.EventGPULeft, hare.EventGPUJoined:
		if rng.IntN(2) == 0 {
			return *e
		}
	}
	return []hare.Event{
		{Type: hare.EventJobEnded, Job: "nobody"},
		{Type: hare.EventTaskEnded, Job: "nobody", GPU: "nowhere/7"},
		{Type: hare.EventGPULeft, GPU: "nowhere/7"},
		{Type: hare.EventGPUJoined, GPU: "nowhere/7"},
		{Type: hare.EventJobArrived},
		{Type: hare.EventSetQuota},
		{Type: 250, Job: "nobody"},
	}[rng.IntN(7)]
}

func (w *world) isRunning(e *hare.Event) bool {
	j := w.find(e.Job)
	return j != nil && j.round == e.Round && e.Task < j.spec.Tasks && (j.tasks[e.Task] == computing ||
		j.tasks[e.Task] == syncing) && j.on[e.Task] == e.GPU
}
