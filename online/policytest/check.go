package policytest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hare-sched/hare"
)

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

// checkOthers checks the GPUs of a task beside its first one, g.
func (w *world) checkOthers(j *job, d *hare.Decision, g *gpu) ([]*gpu, error) {
	names := d.GPUs()
	if int64(len(names)) != j.spec.TaskGPUs() {
		return nil, fmt.Errorf("%d GPUs are named, and a task holds %d", len(names), j.spec.TaskGPUs())
	}
	others := []*gpu{}
	for _, name := range names[1:] {
		h := w.gpu(name)
		switch {
		case h == nil || !h.here:
			return nil, fmt.Errorf("%s is not in service", name)
		case h == g || slices.Contains(others, h):
			return nil, fmt.Errorf("%s is named twice", name)
		case h.task >= 0 || h.job != nil && h.job != j:
			return nil, fmt.Errorf("%s is held", name)
		case h.gpuType != g.gpuType:
			return nil, fmt.Errorf("%s is of another type", name)
		}
		others = append(others, h)
	}
	node := w.nodes[nodeOf(g.name)]
	node.Name = nodeOf(g.name)
	if !j.spec.AllowsNode(&node) {
		return nil, errors.New("the job may not use the node")
	}
	return others, nil
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

// checkNodes checks that the CPUs and the memory of each node suffice for the tasks there, and
// that tasks are on distinct nodes where their job wants that.
func (w *world) checkNodes() error {
	cpus, memory := map[string]int64{}, map[string]int64{}
	for _, j := range w.jobs {
		held := map[string]int64{}
		for _, g := range w.gpus {
			if g.job == j {
				held[nodeOf(g.name)]++
			}
		}
		for node, n := range held {
			tasks := n / j.spec.TaskGPUs()
			if n%j.spec.TaskGPUs() != 0 || j.spec.DistinctNodes && tasks > 1 {
				return fmt.Errorf("job %q holds %d GPUs of node %s", j.spec.ID, n, node)
			}
			cpus[node] += tasks * j.spec.CPUMilliPerTask
			memory[node] += tasks * j.spec.MemoryMiBPerTask
		}
	}
	for name, n := range w.nodes {
		if n.CPUMilli > 0 && cpus[name] > n.CPUMilli || n.MemoryMiB > 0 && memory[name] > n.MemoryMiB {
			return fmt.Errorf("tasks on node %s hold %d thousandths of CPUs and %d MiB, and it has %d and %d", name,
				cpus[name], memory[name], n.CPUMilli, n.MemoryMiB)
		}
	}
	return nil
}

// checkLevels checks that the tasks of each round are in one domain.
func (w *world) checkLevels() error {
	for _, j := range w.jobs {
		first := ""
		for _, g := range w.gpus {
			if g.job != j || j.spec.Within == "" {
				continue
			}
			if at := "in " + w.domain(j.spec.Within, nodeOf(g.name)); first == "" {
				first = at
			} else if at != first {
				return fmt.Errorf("job %q holds GPUs in several domains of %s", j.spec.ID, j.spec.Within)
			}
		}
	}
	return nil
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
