package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hare-sched/hare/executor/link"
	"github.com/hare-sched/hare/executor/rounds"
	"github.com/hare-sched/hare/executor/worker"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// patience is how long the parameter server of a task may be out of reach before the task is lost. The server learns
// sooner of a node that is lost. It is a variable for tests.
var patience = 2 * time.Minute

// helpers are the jobs for which the node computes tasks, and whose parameter servers are on other nodes.
type helpers struct {
	workers *worker.Node
	turns   *turns

	mu  sync.Mutex
	all map[key]*helper
}

// helper is a job for which the node computes tasks, and whose parameter server is on another one.
type helper struct {
	*helpers
	key      key
	order    clusterdoc.Compute // any of its tasks
	settings *tls.Config

	tasks int // that use it; guarded by mu of helpers

	// turn is held by the one task that adds the job or fetches the parameters of a round. It guards added.
	turn  chan struct{}
	added bool

	own     sync.Mutex // guards version and link
	version int64      // of the parameters that the node has; −1 where it has none
	link    *link.Link // nil where there is none
	links   sync.Mutex // held while a connection is made
}

// use is the helper of a task, and keeps the job in the node until leave is called.
func (all *helpers) use(k key, o *clusterdoc.Compute) *helper {
	all.mu.Lock()
	defer all.mu.Unlock()
	h := all.all[k]
	if h == nil {
		h = &helper{helpers: all, key: k, order: *o, turn: make(chan struct{}, 1), version: -1}
		all.all[k] = h
	}
	h.tasks++
	return h
}

// leave ends the use of the helper by a task. The node keeps the job as long as the connection to its parameter server
// stands, because more tasks will come.
func (h *helper) leave() {
	h.mu.Lock()
	h.tasks--
	h.mu.Unlock()
	h.forgetIfIdle()
}

// forgetIfIdle forgets the job where no task uses it, and there is no connection to its parameter server.
func (h *helper) forgetIfIdle() {
	h.mu.Lock()
	h.own.Lock()
	idle := h.tasks == 0 && h.link == nil && h.all[h.key] == h
	h.own.Unlock()
	if idle {
		delete(h.all, h.key)
		h.turns.forget(h.key.name())
		// Where it was added. A helper of the same key that is made next adds the job anew.
		_ = h.workers.Remove(h.key.name())
	}
	h.mu.Unlock()
}

// bring has the parameters of the task's round in the node: the first task of a round fetches them for all others.
func (h *helper) bring(ctx context.Context, o *clusterdoc.Compute) (stale bool, err error) {
	round := o.Round
	if version := h.has(); version >= round {
		return version > round, nil
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if version := h.has(); version >= round {
		return version > round, nil
	}
	if !h.added {
		if err := h.add(ctx, o); err != nil {
			return false, err
		}
		h.added = true
	}
	answer, err := h.call(ctx, &link.Frame{Header: link.Header{Kind: kindState, Round: round}})
	if err != nil || answer.Round > round {
		return err == nil, err
	}
	if err := h.workers.Adopt(h.key.name(), round, answer.Payload); err != nil {
		return false, err
	}
	h.own.Lock()
	h.version = round
	h.own.Unlock()
	return false, nil
}

// has is the version of the parameters that the node has.
func (h *helper) has() int64 {
	h.own.Lock()
	defer h.own.Unlock()
	return h.version
}

// add makes the job known to the node, by the worker of the device that is to compute its first task, or, where that
// one is busy, of any other: tasks of the job on other devices wait for it.
func (h *helper) add(ctx context.Context, o *clusterdoc.Compute) error {
	job := jobOf(h.key, &o.RoundStart, o.Directory, o.Env)
	if info, err := os.Stat(job.Directory); err != nil || !info.IsDir() {
		return fmt.Errorf("the node has no directory %s", job.Directory)
	}
	return worker.Again(ctx, rounds.AddCrashes, func() error {
		w := &wait{device: anyDevice, prefer: o.Device, types: true, job: job.ID}
		return h.turns.use(ctx, w, func(device int) error { return h.workers.Add(ctx, device, job) })
	})
}

// deliver brings the gradient to the parameter server.
func (h *helper) deliver(ctx context.Context, t worker.Task, r worker.Result) error {
	gradient, err := h.workers.Gradient(t)
	if err != nil {
		return err
	}
	_, err = h.call(ctx, &link.Frame{Header: link.Header{Kind: kindGradient, Round: t.Round, Task: t.Task, Loss: r.Loss,
		ComputeS: r.ComputeS}, Payload: gradient})
	return err
}

// call asks the parameter server, and again over the next connection where one ends, until the parameter server has
// been out of reach for some time.
func (h *helper) call(ctx context.Context, f *link.Frame) (answer *link.Frame, err error) {
	err = link.Persist(ctx, patience, func() (heard, done bool, err error) {
		l, err := h.connection(ctx)
		if err != nil {
			return false, ctx.Err() == nil && errors.As(err, new(*lostError)), err
		}
		answer, err = l.Call(ctx, &link.Frame{Header: f.Header, Payload: f.Payload})
		if err == nil && answer.Reason != "" {
			return true, true, errors.New(answer.Reason)
		}
		return true, err == nil, err
	})
	var unreachable *link.UnreachableError
	if errors.As(err, &unreachable) {
		err = &lostError{fmt.Sprintf("the parameter server of the job cannot be reached at %s: %v", h.order.Address,
			unreachable.Err)}
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// connection returns the connection to the parameter server, which is made where there is none.
func (h *helper) connection(ctx context.Context) (*link.Link, error) {
	h.links.Lock()
	defer h.links.Unlock()
	h.own.Lock()
	l := h.link
	h.own.Unlock()
	if l != nil {
		return l, nil
	}
	if h.settings == nil {
		settings, err := link.Secure(h.order.Secret, link.SideHelper)
		if err != nil {
			return nil, err
		}
		settings.ServerName = h.key.serverName()
		h.settings = settings
	}
	l, err := h.dial(ctx)
	if err != nil {
		if strings.Contains(err.Error(), "remote error: tls") {
			return nil, &lostError{fmt.Sprintf("%s is not the parameter server of the attempt: %v", h.order.Address, err)}
		}
		return nil, err
	}
	h.own.Lock()
	h.link = l
	h.own.Unlock()
	go func() {
		l.Read()
		h.own.Lock()
		h.link = nil
		h.own.Unlock()
		h.forgetIfIdle()
	}()
	return l, nil
}

// dial makes a connection to the parameter server.
func (h *helper) dial(ctx context.Context) (*link.Link, error) {
	l, err := link.Dial(ctx, h.order.Address, h.settings, worker.MaxJobBytes)
	if err != nil {
		return nil, err
	}
	var answer *link.Header
	if err = l.Hello(link.Header{Job: h.key.job, Attempt: h.key.attempt}); err == nil {
		answer, err = l.AwaitHello()
	}
	if err == nil && answer.Reason != "" {
		err = &lostError{answer.Reason}
	}
	if err != nil {
		l.End(err)
		return nil, err
	}
	return l, nil
}
