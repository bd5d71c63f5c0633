package policytest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
)

// drawUsers draws the users of jobs.
func (w *world) drawUsers(rng *rand.Rand) {
	for i := range w.specs {
		w.specs[i].Users = [][]string{nil, {"ann"}, {"bob"}, {"ann", "vision"}, {"bob", "vision"}}[rng.IntN(5)]
	}
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

func (w *world) setQuota(q *hare.Quota) {
	w.quotas = slices.DeleteFunc(w.quotas, func(o hare.Quota) bool {
		return o.User == q.User && slices.Equal(o.Types, q.Types)
	})
	w.quotas = append(w.quotas, *q)
}

// checkQuotas checks that no quota that counts a start is exceeded. Jobs that keep their GPUs may
// exceed a quota that was set below what they hold.
func (w *world) checkQuotas(started, keeps map[*job][]*gpu) error {
	for i := range w.quotas {
		q := &w.quotas[i]
		held, counts := int64(0), false
		for _, g := range w.gpus {
			if g.job != nil && q.Limits(&g.job.spec, g.gpuType) {
				held++
				counts = counts || keeps[g.job] == nil && slices.Contains(started[g.job], g)
			}
		}
		if counts && held > q.GPUs {
			return fmt.Errorf("the jobs of %s hold %d GPUs, and their quota of types %v is %d", q.User, held, q.Types, q.GPUs)
		}
	}
	return nil
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

// resume puts a job that arrives where its progress has it.
func (w *world) resume(j *job, p *hare.Progress) {
	if p == nil {
		return
	}
	j.round = p.RoundsDone
	n := int(j.spec.TaskGPUs())
	for at := 0; at < len(p.GPUs); at += n {
		task := int64(at / n)
		j.tasks[task], j.on[task], j.held[task] = computing, p.GPUs[at], p.GPUs[at:at+n]
		for _, name := range p.GPUs[at : at+n] {
			g := w.gpu(name)
			g.job, g.task = j, task
		}
	}
}
