package worker

import (
	"fmt"

	"github.com/hare-sched/hare"
)

// Adopt gives a job the state of another node, as the result of the rounds before a version. A job that has the
// version already is left as it is, with the gradients that it has. Adopt waits for tasks that run.
func (n *Node) Adopt(id string, version int64, state []byte) error {
	j, err := n.job(id)
	if err != nil {
		return err
	}
	j.copying.Lock()
	defer j.copying.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.removed:
		return fmt.Errorf("%w: %.60q", ErrUnknownJob, id)
	case int64(len(state)) != j.segment.stateBytes:
		return &hare.InvalidError{Pointer: "/state", Code: "out_of_range", Detail: fmt.Sprintf("the state of job %.60q has "+
			"%d bytes here, and %d there", id, j.segment.stateBytes, len(state))}
	case j.adopted && version == j.version:
		return nil
	case version < j.version:
		return &StaleError{Job: id, Round: version, Current: j.version}
	}
	if err := j.segment.write(version, state); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	// Version 0 of another node counts, and not what build() made here. No task has run before the first adoption, but
	// what build() made may have been copied ahead as version 0.
	if !j.adopted && version == j.version {
		for _, d := range n.devices {
			d.drop(id)
		}
	}
	j.version, j.adopted = version, true
	clear(j.done)
	return nil
}

// Gradient returns a copy of the gradient of a task that has run in the present round.
func (n *Node) Gradient(t Task) ([]byte, error) {
	j, err := n.job(t.Job)
	if err != nil {
		return nil, err
	}
	j.copying.RLock()
	defer j.copying.RUnlock()
	done, err := j.check(t)
	if err != nil {
		return nil, err
	}
	if done == nil {
		return nil, &StaleError{Job: t.Job, Round: t.Round, Current: t.Round, Missing: 1}
	}
	at := j.segment.gradientAt(t.Task)
	return append([]byte(nil), j.segment.memory[at:at+j.segment.gradientBytes]...), nil
}

// Deliver takes the gradient of a task that another node has computed from the state of the present round. A task
// that has run already keeps its gradient.
func (n *Node) Deliver(t Task, r Result, gradient []byte) error {
	j, err := n.job(t.Job)
	if err != nil {
		return err
	}
	j.copying.RLock()
	defer j.copying.RUnlock()
	if done, err := j.check(t); err != nil || done != nil {
		return err
	}
	if int64(len(gradient)) != j.segment.gradientBytes {
		return &hare.InvalidError{Pointer: "/gradient", Code: "out_of_range", Detail: fmt.Sprintf("a gradient of job %.60q "+
			"has %d bytes here, and %d there", t.Job, j.segment.gradientBytes, len(gradient))}
	}
	if _, err := j.segment.file.WriteAt(gradient, j.segment.gradientAt(t.Task)); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.done[t.Task] = &r
	return nil
}
