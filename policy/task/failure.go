package task

import (
	"slices"

	"github.com/hare-sched/hare"
)

// taskFailed repeats a task, or the round of a gang or rigid job.
func (d *desk) taskFailed(s *seat, g int, task int64) {
	x := &d.gpus[g]
	if s.spec.Sync != hare.Relaxed {
		x.task = -1
		for _, h := range s.gpus {
			d.withdraw(s, h)
		}
		d.activate(s, -s.active)
		s.next, s.ended = 0, 0
		for _, h := range s.gpus {
			d.start(s, h)
		}
		return
	}
	d.activate(s, -1)
	s.redo = append(s.redo, task)
	switch {
	case s.hold == hare.Relaxed:
		d.computed(s, g, task)
		d.changed = true
	default: // the GPU is kept for the round, after compute too
		d.start(s, g)
	}
}

func (d *desk) leave(g int) {
	x := &d.gpus[g]
	d.changed = true
	if s := x.job; s != nil {
		if s.spec.Sync == hare.Relaxed {
			if x.task >= 0 {
				s.redo = append(s.redo, x.task)
			}
			d.withdraw(s, g)
			d.release(g)
			d.scatter(s)
		} else {
			for _, h := range s.gpus {
				d.withdraw(s, h)
			}
			d.activate(s, -s.active)
			d.releaseAll(s)
			s.next, s.ended, s.redo = 0, 0, nil
		}
	}
	at, _ := slices.BinarySearch(d.free[x.kind], g)
	d.free[x.kind] = slices.Delete(d.free[x.kind], at, at+1)
	x.here = false
	d.total[x.kind]--
}

// scatter lets the rest of a relaxed job's round go on task by task.
func (d *desk) scatter(s *seat) {
	s.hold = hare.Relaxed
	for i := len(s.gpus) - 1; i >= 0; i-- {
		if g := s.gpus[i]; d.gpus[g].task < 0 {
			d.release(g)
		}
	}
}

// withdraw takes back the task that computes on a GPU of the job, if one does.
func (d *desk) withdraw(s *seat, g int) {
	x := &d.gpus[g]
	if x.task < 0 {
		return
	}
	d.out = append(d.out, hare.Decision{Type: hare.DecisionWithdraw, Job: s.spec.ID, Round: s.round, Task: x.task, GPU: x.name, AtUs: d.nowUs})
	x.task = -1
	if s.spec.Sync == hare.Relaxed {
		d.activate(s, -1)
	}
}
