package pool

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/executor/link"
	"github.com/hare-sched/hare/executor/worker"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// What the node that computes asks of the home.
const (
	kindState    link.Kind = "state"    // the parameters of a round, as soon as they are there
	kindGradient link.Kind = "gradient" // brings the gradient of a task
)

const (
	// greeting is how long a connection may take until its hello.
	greeting = 10 * time.Second
	// redial is the rest between two attempts to reach a home.
	redial = 200 * time.Millisecond
	// maxGreetings is how many connections may be before their hello at the same time.
	maxGreetings = 64
)

// patience is how long the home of a task may be out of reach before the task is lost. The server learns sooner of a
// node that is lost. It is a variable for tests.
var patience = 2 * time.Minute

// helper is a job for which the node computes tasks, and whose home is on another one.
type helper struct {
	pool     *Pool
	key      key
	order    clusterdoc.Compute // any of its tasks
	settings *tls.Config

	tasks int // that use it; guarded by the pool's mu

	// turn is held by the one task that adds the job or fetches the parameters of a round. It guards added.
	turn  chan struct{}
	added bool

	mu      sync.Mutex
	version int64      // of the parameters that the node has; −1 where it has none
	link    *link.Link // nil where there is none
	links   sync.Mutex // held while a connection is made
}

var _ source = (*helper)(nil)

func newHelper(p *Pool, c *compute) *helper {
	return &helper{pool: p, key: c.key, order: *c.order, turn: make(chan struct{}, 1), version: -1}
}

// leave ends the use of the helper by a task. The node keeps the job as long as the connection to its home stands,
// because more tasks will come.
func (h *helper) leave() {
	h.pool.mu.Lock()
	h.tasks--
	h.pool.mu.Unlock()
	h.forgetIfIdle()
}

// forgetIfIdle forgets the job where no task uses it, and there is no connection to its home.
func (h *helper) forgetIfIdle() {
	p := h.pool
	p.mu.Lock()
	h.mu.Lock()
	idle := h.tasks == 0 && h.link == nil && p.helpers[h.key] == h
	h.mu.Unlock()
	if idle {
		delete(p.helpers, h.key)
		p.turns.forget(h.key.name())
	}
	p.mu.Unlock()
	if idle {
		_ = p.node.Remove(h.key.name()) // where it was added
	}
}

// bring has the parameters of the task's round in the node: the first task of a round fetches them for all others.
func (h *helper) bring(ctx context.Context, c *compute) (stale bool, err error) {
	round := c.order.Round
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
		if err := h.add(ctx, c); err != nil {
			return false, err
		}
		h.added = true
	}
	answer, err := h.call(ctx, &link.Frame{Header: link.Header{Kind: kindState, Round: round}})
	if err != nil || answer.Round > round {
		return err == nil, err
	}
	if err := h.pool.node.Adopt(h.key.name(), round, answer.Payload); err != nil {
		return false, err
	}
	h.mu.Lock()
	h.version = round
	h.mu.Unlock()
	return false, nil
}

// has is the version of the parameters that the node has.
func (h *helper) has() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version
}

// add makes the job known to the node, by the worker of the device that is to compute its first task, or, where that
// one is busy, of any other: tasks of the job on other devices wait for it.
func (h *helper) add(ctx context.Context, c *compute) error {
	job := jobOf(h.key, &c.order.RoundStart, c.order.Directory, c.order.Env)
	if info, err := os.Stat(job.Directory); err != nil || !info.IsDir() {
		return fmt.Errorf("the node has no directory %s", job.Directory)
	}
	return worker.Again(ctx, 3, func() error {
		w := &wait{device: anyDevice, prefer: c.order.Device, types: true, job: job.ID}
		return h.pool.use(ctx, w, func(device int) error { return h.pool.node.Add(ctx, device, job) })
	})
}

// deliver brings the gradient to the home.
func (h *helper) deliver(ctx context.Context, t worker.Task, r worker.Result) error {
	gradient, err := h.pool.node.Gradient(t)
	if err != nil {
		return err
	}
	_, err = h.call(ctx, &link.Frame{Header: link.Header{Kind: kindGradient, Round: t.Round, Task: t.Task, Loss: r.Loss,
		ComputeS: r.ComputeS}, Payload: gradient})
	return err
}

// call asks the home, and again over the next connection where one ends, until the home has been out of reach for some
// time.
func (h *helper) call(ctx context.Context, f *link.Frame) (*link.Frame, error) {
	for heard := time.Now(); ; {
		l, err := h.connection(ctx)
		if err == nil {
			heard = time.Now()
			var answer *link.Frame
			answer, err = l.Call(ctx, &link.Frame{Header: f.Header, Payload: f.Payload})
			if err == nil && answer.Reason != "" {
				return nil, errors.New(answer.Reason)
			}
			if err == nil {
				return answer, nil
			}
		}
		var lost *lostError
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &lost):
			return nil, err
		case time.Since(heard) > patience:
			return nil, &lostError{fmt.Sprintf("the home of the job cannot be reached at %s: %v", h.order.Address, err)}
		}
		select {
		case <-time.After(redial):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// connection returns the connection to the home, which is made where there is none.
func (h *helper) connection(ctx context.Context) (*link.Link, error) {
	h.links.Lock()
	defer h.links.Unlock()
	h.mu.Lock()
	l := h.link
	h.mu.Unlock()
	if l != nil {
		return l, nil
	}
	if h.settings == nil {
		settings, err := link.Secure(h.order.Secret, link.SideHelper)
		if err != nil {
			return nil, err
		}
		settings.ServerName = serverName(h.key)
		h.settings = settings
	}
	ctx, cancel := context.WithTimeout(ctx, greeting)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", h.order.Address)
	if err != nil {
		return nil, err
	}
	link.Watch(conn)
	secured := tls.Client(conn, h.settings)
	l = link.New(secured, worker.MaxJobBytes)
	r := bufio.NewReaderSize(secured, 1<<16)
	if err = secured.HandshakeContext(ctx); err == nil {
		err = l.Send(&link.Frame{Header: link.Header{Kind: link.Hello, Version: link.Version, Job: h.key.job,
			Attempt: h.key.attempt}})
	}
	if err == nil { // in TLS 1.3 a side learns with the first answer only that it was refused
		var f *link.Frame
		_ = secured.SetReadDeadline(time.Now().Add(greeting))
		f, err = link.ReadFrame(r, 0)
		_ = secured.SetReadDeadline(time.Time{})
		if err == nil && f.Reason != "" {
			err = &lostError{f.Reason}
		}
	}
	if err != nil {
		_ = conn.Close()
		if strings.Contains(err.Error(), "remote error: tls") {
			return nil, &lostError{fmt.Sprintf("%s is not the home of the attempt: %v", h.order.Address, err)}
		}
		return nil, err
	}
	h.mu.Lock()
	h.link = l
	h.mu.Unlock()
	go func() {
		l.Read(r)
		h.mu.Lock()
		h.link = nil
		h.mu.Unlock()
		h.forgetIfIdle()
	}()
	return l, nil
}

// acceptHelpers takes connections of the nodes that compute for homes of this one.
func (p *Pool) acceptHelpers(listener net.Listener) {
	room := make(chan struct{}, maxGreetings)
	settings := &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: p.configFor}
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // there are too many open files
			time.Sleep(acceptRest)
			continue
		}
		room <- struct{}{}
		go func() {
			h, l, r, err := p.greet(conn, settings)
			<-room
			if err != nil {
				_ = conn.Close()
				fmt.Fprintf(os.Stderr, "hare: a connection from %s is refused: %v\n", conn.RemoteAddr(), err)
				return
			}
			h.serve(l, r)
		}()
	}
}

// greet reads the hello of a connection, and answers it.
func (p *Pool) greet(conn net.Conn, settings *tls.Config) (*home, *link.Link, *bufio.Reader, error) {
	link.Watch(conn)
	secured := tls.Server(conn, settings)
	if err := secured.SetDeadline(time.Now().Add(greeting)); err != nil {
		return nil, nil, nil, err
	}
	r := bufio.NewReaderSize(secured, 1<<16)
	f, err := link.ReadFrame(r, 0)
	if err != nil {
		return nil, nil, nil, err
	}
	p.mu.Lock()
	h := p.homes[key{f.Job, f.Attempt}]
	p.mu.Unlock()
	reason := ""
	switch {
	case f.Kind != link.Hello || h == nil || serverName(h.key) != secured.ConnectionState().ServerName:
		reason = "the home of this attempt is not here"
	case f.Version != link.Version:
		reason = "its node has another version of hare: install the same one on all nodes"
	}
	l := link.New(secured, worker.MaxJobBytes)
	err = l.Send(&link.Frame{Header: link.Header{Kind: link.Hello, Version: link.Version, Reason: reason}})
	if err == nil && reason != "" {
		err = errors.New(reason)
	}
	if err == nil {
		err = secured.SetDeadline(time.Time{})
	}
	return h, l, r, err
}

// serve answers the requests of a node that computes for the home.
func (h *home) serve(l *link.Link, r *bufio.Reader) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h.mu.Lock()
	h.links[l] = true
	if h.over {
		l.End(errGone)
	}
	h.mu.Unlock()
	defer func() {
		l.End(net.ErrClosed)
		h.mu.Lock()
		delete(h.links, l)
		h.mu.Unlock()
	}()
	for {
		f, err := link.ReadFrame(r, worker.MaxJobBytes)
		if err != nil {
			return
		}
		switch f.Kind {
		case kindState:
			go h.answer(l, f.Header, func(a *link.Frame) error { return h.sendState(ctx, a) })
		case kindGradient:
			h.answer(l, f.Header, func(*link.Frame) error { return h.takeGradient(f) })
		default:
			return
		}
	}
}

// answer answers a request with what f makes of it.
func (h *home) answer(l *link.Link, asked link.Header, f func(*link.Frame) error) {
	a := &link.Frame{Header: link.Header{Kind: asked.Kind, Number: asked.Number, Round: asked.Round}}
	if err := f(a); err != nil {
		if errors.Is(err, errGone) || errors.Is(err, context.Canceled) { // the connection ends
			return
		}
		a.Reason, a.Payload = err.Error(), nil
	}
	if err := l.Send(a); err != nil {
		l.End(err)
	}
}

// sendState makes an answer that of the parameters of a round, or says that the round is over.
func (h *home) sendState(ctx context.Context, a *link.Frame) error {
	round := a.Round
	version, err := h.await(ctx, round)
	if err != nil {
		return err
	}
	if version == round {
		a.Payload, err = h.stateAt(round)
	}
	var stale *worker.StaleError
	if errors.As(err, &stale) {
		version, err = stale.Current, nil
	}
	a.Round = version
	return err
}

// takeGradient takes the gradient of a task; that of a round that is over is dropped.
func (h *home) takeGradient(f *link.Frame) error {
	t := worker.Task{Job: h.key.name(), Round: f.Round, Task: f.Task}
	err := h.pool.node.Deliver(t, worker.Result{Loss: f.Loss, ComputeS: f.ComputeS}, f.Payload)
	var stale *worker.StaleError
	var invalid *hare.InvalidError
	switch {
	case err == nil:
		h.took(t, f.Loss)
	case errors.As(err, &stale) && stale.Current > f.Round:
		err = nil
	case errors.As(err, &invalid):
		err = errors.New(invalid.Detail)
	case errors.Is(err, worker.ErrUnknownJob):
		err = errGone
	}
	return err
}
