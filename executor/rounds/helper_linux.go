package rounds

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hare-sched/hare/executor/link"
	"github.com/hare-sched/hare/executor/worker"
)

// redial is the rest between two attempts to reach the node that holds the parameters.
const redial = 200 * time.Millisecond

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
		return worker.Again(ctx, 3, func() error { return t.node.Add(ctx, 0, t.spec.job()) })
	})
	go func() { _ = h.add() }() // while the nodes find each other
	for heard := time.Now(); ; {
		dialer := net.Dialer{Timeout: greeting}
		conn, err := dialer.DialContext(ctx, "tcp", t.spec.Peers.Address)
		if err == nil {
			var said, over bool
			said, over, err = h.serve(ctx, conn)
			var bad *helpError
			switch {
			case over:
				return nil
			case errors.As(err, &bad):
				return bad.err
			case said:
				heard = time.Now()
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if wait := t.spec.Peers.patience(); time.Since(heard) > wait {
			return fmt.Errorf("the node that holds the parameters cannot be reached at %s: %w (%w)", t.spec.Peers.Address, err,
				&unheardError{0, wait})
		}
		select {
		case <-time.After(redial):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// helpError is an error of this node, which another connection does not mend.
type helpError struct{ err error }

func (e *helpError) Error() string { return e.err.Error() }

// serve answers the requests of one connection. said tells that there was one; over that the last round is done.
func (h *helper) serve(ctx context.Context, conn net.Conn) (said, over bool, err error) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	link.Watch(conn)
	secured := tls.Client(conn, h.settings)
	round := int64(-1)
	if !h.spec.Peers.Shared {
		if round, err = ownRound(h.spec.Checkpoint); err != nil {
			return false, false, &helpError{err}
		}
	}
	l := link.New(secured, worker.MaxJobBytes)
	err = l.Send(&link.Frame{Header: link.Header{Kind: link.Hello, Version: link.Version, Job: h.spec.Job,
		Rank: h.spec.Peers.Rank, Round: round}})
	if err != nil {
		return false, false, err
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	r := bufio.NewReaderSize(secured, 1<<16)
	bad := make(chan error, 1)
	for {
		f, err := link.ReadFrame(r, worker.MaxJobBytes)
		if err != nil {
			select {
			case e := <-bad:
				return said, false, &helpError{e}
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
					_ = conn.Close()
				}
				return err == nil
			}
			select {
			case bad <- err:
			default:
			}
			_ = conn.Close()
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
	err := worker.Again(ctx, maxCrashes, func() error {
		r, err := h.node.Run(ctx, f.Device, t, nil)
		f.Loss, f.ComputeS = r.Loss, r.ComputeS
		return err
	})
	if err != nil {
		return nil, err
	}
	return h.node.Gradient(t)
}
