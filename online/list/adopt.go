package list

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// Adopt is online.Durable.Adopt. The record must begin with the decisions that follow of
// necessity from the event: withdrawals, and starts of jobs that keep their GPUs. Other
// starts are choices, and every start that the state allows is taken. In a record the
// tasks of a round start lowest first, and the starts of a gang stand together.
func (l *Scheduler) Adopt(nowUs int64, event hare.Event, decisions []hare.Decision) error {
	l.out = l.out[:0]
	if err := l.apply(nowUs, &event); err != nil {
		return fmt.Errorf("recorded event: %w", err)
	}
	l.guard.settled, l.tick = false, event.Type == hare.EventTick
	n := len(l.out)
	if len(decisions) < n || !online.SameDecisions(l.out, decisions[:n]) {
		return fmt.Errorf("recorded decisions: %d follow from the event, and the record begins otherwise", n)
	}
	scheduled := l.changed
	if scheduled {
		l.changed = false
		l.prepare()
		l.guardDue()
		if l.rule.Version == nil {
			l.prioritize() // a rule may change the state of jobs while it prioritizes
		}
	}
	for starts := decisions[n:]; len(starts) > 0; {
		used, err := l.adoptStart(starts)
		if err != nil {
			return fmt.Errorf("recorded decision %d: %w", len(decisions)-len(starts), err)
		}
		starts = starts[used:]
	}
	if scheduled {
		l.makePromise()
		l.afterSchedule()
	}
	l.guardWaits()
	l.guard.settled = false
	return nil
}

// adoptStart applies the start at the head of a list, with the rest of its gang,
// and returns the number of decisions applied.
func (l *Scheduler) adoptStart(starts []hare.Decision) (int, error) {
	j := l.jobOf[starts[0].Job]
	if j == nil {
		return 0, fmt.Errorf("no job %q", starts[0].Job)
	}
	n := 1
	l.OpenRound(j)
	if j.hold != hare.Relaxed {
		n = int(j.spec.Tasks)
		if same := sameJob(starts); same < n {
			if j.spec.Sync != hare.Relaxed || j.next > 0 {
				return 0, fmt.Errorf("job %q starts %d tasks together, and %d are recorded", j.spec.ID, n, same)
			}
			j.hold, n = hare.Relaxed, 1 // another version let the round go task by task
		}
	}
	if j.Ready() < int64(n) {
		return 0, fmt.Errorf("%d tasks of job %q start, and %d wait", n, j.spec.ID, j.Ready())
	}
	var types []int
	if l.nodes != nil {
		return n, l.adoptOnNodes(j, starts[:n])
	}
	for i := range n {
		g, err := l.checkStart(j, &starts[i])
		if err != nil {
			return 0, err
		}
		t := l.gpus[g].Type
		if !slices.Contains(types, t) {
			types = append(types, t)
			if l.rule.Started != nil {
				l.rule.Started(l, j, t)
			}
		}
		if len(types) > 1 && j.spec.Sync != hare.Relaxed && !j.spec.Mix {
			return 0, fmt.Errorf("a round of job %q is on GPUs of several types", j.spec.ID)
		}
		at, _ := slices.BinarySearch(l.free[t], g)
		l.start(j, l.hold(j, t, at))
	}
	return n, nil
}

// sameJob is how many starts at the head of a list are of one job.
func sameJob(starts []hare.Decision) int {
	for i := range starts {
		if starts[i].Job != starts[0].Job {
			return i
		}
	}
	return len(starts)
}

// checkStart checks a recorded start and finds its GPU.
func (l *Scheduler) checkStart(j *JobState, d *hare.Decision) (int, error) {
	if d.Type != hare.DecisionStart || d.Job != j.spec.ID || d.Round != j.round || d.AtUs != l.nowUs {
		return 0, fmt.Errorf("is not a start of round %d of job %q at %s", j.round, j.spec.ID,
			hare.FormatMicros(l.nowUs))
	}
	if d.Task != j.nextTask() {
		return 0, fmt.Errorf("task %d of job %q is not the next to start", d.Task, j.spec.ID)
	}
	if d.Others != "" && l.nodes == nil {
		return 0, fmt.Errorf("task %d of job %q holds one GPU", d.Task, j.spec.ID)
	}
	return l.checkFree(j, d.GPU)
}

// checkFree finds a GPU on which a job may start.
func (l *Scheduler) checkFree(j *JobState, name string) (int, error) {
	g, ok := l.gpuOf[name]
	if !ok || !l.gpus[g].InService || l.gpus[g].Job != nil {
		return 0, fmt.Errorf("GPU %q is not free", name)
	}
	if !slices.ContainsFunc(j.modes, func(m Mode) bool { return m.Type == l.gpus[g].Type }) {
		return 0, fmt.Errorf("job %q has no profile for GPU %q", j.spec.ID, name)
	}
	return g, nil
}

// adoptOnNodes starts recorded tasks of a round where the scheduler goes by nodes.
func (l *Scheduler) adoptOnNodes(j *JobState, starts []hare.Decision) error {
	var gpus []int
	for i := range starts {
		d := &starts[i]
		first := *d
		first.Task -= int64(i) // the tasks of a round start together, lowest first
		if _, err := l.checkStart(j, &first); err != nil {
			return err
		}
		for _, name := range d.GPUs() {
			g, err := l.checkFree(j, name)
			switch {
			case err != nil:
				return err
			case slices.Contains(gpus, g):
				return fmt.Errorf("GPU %q is not free", name)
			case len(gpus) > 0 && l.gpus[g].Type != l.gpus[gpus[0]].Type && j.spec.Sync != hare.Relaxed && !j.spec.Mix:
				return fmt.Errorf("a round of job %q is on GPUs of several types", j.spec.ID)
			}
			gpus = append(gpus, g)
		}
		if len(gpus) != (i+1)*j.TaskGPUs() {
			return fmt.Errorf("a task of job %q holds %d GPUs", j.spec.ID, j.TaskGPUs())
		}
	}
	if reason := l.nodes.Check(j.shape, gpus); reason != "" {
		return fmt.Errorf("job %q: %s", j.spec.ID, reason)
	}
	if l.rule.Started != nil {
		for i, g := range gpus {
			if t := l.gpus[g].Type; !slices.ContainsFunc(gpus[:i], func(h int) bool { return l.gpus[h].Type == t }) {
				l.rule.Started(l, j, t)
			}
		}
	}
	l.StartGPUs(j, gpus)
	return nil
}
