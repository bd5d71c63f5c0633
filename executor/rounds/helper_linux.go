package rounds

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/hare-sched/hare/executor/link"
	"github.com/hare-sched/hare/executor/worker"
)

// helper computes tasks for the program that holds the parameters.
type helper struct {
	*trainer
	add      func() error // adds the job, once
	settings *tls.Config
}

// help computes tasks for the program of rank 0 until that says that the last round is done. Where the connection
// ends, it is made again: a node that is lost is noticed by the server, which ends the attempt.
func (t *trainer) help(ctx context.Context) error {
	settings, err := link.Secure(t.spec.Peers.Secret, link.SideHelper)
	if err != nil {
		return err
	}
	h := &helper{trainer: t, settings: settings}
	h.add = sync.OnceValue(func() error {
		return worker.Again(ctx, AddCrashes, func() error { return t.node.Add(ctx, 0, t.spec.job()) })
	})
	go func() { _ = h.add() }() // while the nodes find each other
	patience := t.spec.Peers.patience()
	err = link.Persist(ctx, patience, func() (said, done bool, err error) {
		said, done, err = h.connect(ctx)
		var own *nodeError
		if errors.As(err, &own) {
			return said, true, own.err
		}
		return said, done, err
	})
	var unreachable *link.UnreachableError
	if errors.As(err, &unreachable) {
		return fmt.Errorf("the node that holds the parameters cannot be reached at %s: %w (%w)", t.spec.Peers.Address,
			unreachable.Err, &unheardError{0, patience})
	}
	return err
}

// nodeError is an error of this node, which another connection does not mend.
type nodeError struct{ err error }

func (e *nodeError) Error() string { return e.err.Error() }

// connect makes a connection and answers its requests. said tells that there was one; done that the last round is
// over.
func (h *helper) connect(ctx context.Context) (said, done bool, err error) {
	l, err := link.Dial(ctx, h.spec.Peers.Address, h.settings, worker.MaxJobBytes)
	if err != nil {
		return false, false, err
	}
	defer l.End(net.ErrClosed)
	stop := context.AfterFunc(ctx, func() { l.End(ctx.Err()) })
	defer stop()
	round := int64(-1)
	if !h.spec.Peers.Shared {
		if round, err = ownRound(h.spec.Checkpoint); err != nil {
			return false, false, &nodeError{err}
		}
	}
	if err := l.Hello(link.Header{Job: h.spec.Job, Rank: h.spec.Peers.Rank, Round: round}); err != nil {
		return false, false, err
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	bad := make(chan error, 1)
	for {
		f, err := l.Receive()
		if err != nil {
			select {
			case e := <-bad:
				return said, false, &nodeError{e}
			default:
				return said, false, err
			}
		}
		said = true
		answer := func() bool {
			payload, err := h.answer(ctx, f)
			if err == nil {
				err = l.Send(&link.Frame{Header: f.Header, Payload: payload})
				if err != nil { // the connection is over, as the reader sees, too
					l.End(err)
				}
				return err == nil
			}
			select {
			case bad <- err:
			default:
			}
			l.End(err)
			return false
		}
		if f.Kind == kindRun {
			tasks.Go(func() { answer() })
			continue
		}
		if answer() && f.Kind == kindEnd {
			return true, true, nil
		}
	}
}

// answer does what a request asks for, and makes its header that of the answer.
func (h *helper) answer(ctx context.Context, f *link.Frame) (payload []byte, err error) {
	switch f.Kind {
	case kindFetch:
		f.Round, payload, err = worker.ReadCheckpoint(h.spec.Checkpoint)
		return payload, err
	case kindState:
		if err := h.add(); err != nil {
			return nil, err
		}
		return nil, h.node.Adopt(h.spec.Job, f.Round, f.Payload)
	case kindRun:
		return h.compute(ctx, f)
	case kindCheckpoint:
		return nil, worker.WriteCheckpoint(h.spec.Checkpoint, f.Payload)
	case kindEnd:
		return nil, nil
	}
	return nil, &link.FrameError{Reason: fmt.Sprintf("the unknown request %.20q", f.Kind)}
}

// compute computes the gradient of a task.
func (h *helper) compute(ctx context.Context, f *link.Frame) ([]byte, error) {
	if f.Device < 0 || f.Device >= len(h.spec.GPUs) {
		return nil, &link.FrameError{Reason: fmt.Sprintf("device %d of %d", f.Device, len(h.spec.GPUs))}
	}
	t := worker.Task{Job: h.spec.Job, Round: f.Round, Task: f.Task}
	err := worker.Again(ctx, MaxCrashes, func() error {
		r, err := h.node.Run(ctx, f.Device, t, nil)
		f.Loss, f.ComputeS = r.Loss, r.ComputeS
		return err
	})
	if err != nil {
		return nil, err
	}
	return h.node.Gradient(t)
}
