package rounds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hare-sched/hare/executor/link"
	"github.com/hare-sched/hare/executor/worker"
)

const (
	// farewell is how long a node that got the end, whose connection ended then, may take to connect again. One
	// that has not heard it does so at once, and one that has is gone.
	farewell = 10 * time.Second
	// maxBroken is how often in a row a connection may end at one request.
	maxBroken = 100
)

// nodes are the other nodes of a job on several nodes, as the program with the parameter server sees them.
type nodes struct {
	spec     *Spec
	server   *Server
	listener net.Listener
	peers    []*peer // by rank − 1
}

// The requests of the program that holds the parameters. It asks, and the others answer.
const (
	kindFetch      link.Kind = "fetch"      // asks for the checkpoint
	kindState      link.Kind = "state"      // brings the state of a round
	kindRun        link.Kind = "run"        // asks for the gradient of a task
	kindCheckpoint link.Kind = "checkpoint" // brings a checkpoint to be kept
	kindEnd        link.Kind = "end"        // the job has done its last round
)

// connection is one to the program of another node.
type connection struct {
	*link.Link
	// bring is held while the state of a round is sent. round is the one that the other side has; −1 is none.
	bring sync.Mutex
	round int64
}

// peer is the program of another node. Safe for concurrent use.
type peer struct {
	rank     int
	patience time.Duration

	mu      sync.Mutex
	link    *connection
	round   int64         // of its checkpoint, as it said first; −1 where there is none
	changed chan struct{} // closed when link has changed
}

// newNodes listens for the other nodes.
func newNodes(spec *Spec, server *Server) (*nodes, error) {
	o := &nodes{spec: spec, server: server}
	settings, err := link.Secure(spec.Peers.Secret, link.SideHome)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(spec.Peers.Address)
	if err != nil {
		return nil, err
	}
	for k := 1; k < spec.Peers.Nodes; k++ {
		o.peers = append(o.peers, &peer{rank: k, patience: spec.Peers.patience(), changed: make(chan struct{})})
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("", port))
	if err != nil {
		return nil, fmt.Errorf("the node cannot listen for the others: %w", err)
	}
	o.listener = listener
	go link.Accept(listener, settings, worker.MaxJobBytes, o.welcome)
	return o, nil
}

// ownRound is the round of the checkpoint of this node; −1 where there is none that can be read.
func ownRound(path string) (int64, error) {
	round, _, err := worker.ReadCheckpoint(path)
	var bad *worker.CheckpointError
	switch {
	case errors.Is(err, os.ErrNotExist):
		return -1, nil
	case errors.As(err, &bad):
		fmt.Fprintln(os.Stderr, "hare: a checkpoint of another node is taken, where there is one:", bad)
		return -1, nil
	case err != nil:
		return 0, err
	}
	return round, nil
}

// welcome gives a connection to its peer.
func (o *nodes) welcome(l *link.Link, hello *link.Header, _ string) (serve func(), err error) {
	switch {
	case hello.Kind != link.Hello || hello.Job != o.spec.Job || hello.Rank < 1 || hello.Rank > len(o.peers):
		return nil, &link.FrameError{Reason: "its hello is that of another job"}
	case hello.Version != link.Version:
		return nil, fmt.Errorf("rank %d has another version of hare: install the same one on all nodes", hello.Rank)
	}
	p, round := o.peers[hello.Rank-1], hello.Round
	return func() {
		p.connected(&connection{Link: l, round: -1}, round)
		l.Read()
	}, nil
}

// connected takes a connection in place of the last one. round is that of the peer's checkpoint.
func (p *peer) connected(l *connection, round int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link != nil {
		p.link.End(errors.New("it has connected again"))
	} else {
		p.round = round
	}
	p.link = l
	close(p.changed)
	p.changed = make(chan struct{})
}

// await returns a connection of the peer that is not over. It is an unheardError that there was none for so long.
func (p *peer) await(ctx context.Context, patience time.Duration) (*connection, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		p.mu.Lock()
		l, changed := p.link, p.changed
		p.mu.Unlock()
		if l != nil {
			select {
			case <-l.Over():
			default:
				return l, nil
			}
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, &unheardError{p.rank, patience}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// unheardError says that a peer has had no connection for some time.
type unheardError struct {
	rank int
	time time.Duration
}

func (e *unheardError) Error() string {
	return fmt.Sprintf("the program of rank %d has not been heard for %v: can its node reach this one?", e.rank, e.time)
}

// unreachable are the ranks that an error says to be out of reach.
func unreachable(err error) (ranks []int) {
	switch e := err.(type) {
	case *unheardError:
		return []int{e.rank}
	case interface{ Unwrap() []error }:
		for _, x := range e.Unwrap() {
			ranks = append(ranks, unreachable(x)...)
		}
	case interface{ Unwrap() error }:
		return unreachable(e.Unwrap())
	}
	return ranks
}

// do calls f with a connection, and again with the next one where the connection has ended.
func (p *peer) do(ctx context.Context, f func(*connection) error) error {
	for n := 1; ; n++ {
		l, err := p.await(ctx, p.patience)
		if err != nil {
			return err
		}
		err = f(l)
		var over *link.OverError
		if !errors.As(err, &over) || n == maxBroken {
			return err
		}
		fmt.Fprintf(os.Stderr, "hare: rank %d: %v\n", p.rank, over)
	}
}

// ask sends a request to the peer and returns the answer.
func (p *peer) ask(ctx context.Context, f *link.Frame) (answer *link.Frame, err error) {
	err = p.do(ctx, func(l *connection) error {
		answer, err = l.Call(ctx, &link.Frame{Header: f.Header, Payload: f.Payload})
		return err
	})
	return answer, err
}

// each calls f with all peers at the same time.
func (o *nodes) each(f func(*peer) error) error {
	errs := make([]error, len(o.peers))
	var all sync.WaitGroup
	for k, p := range o.peers {
		all.Go(func() { errs[k] = f(p) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// gather waits for all nodes, and takes the checkpoint of the one that is furthest.
func (o *nodes) gather(ctx context.Context) error {
	err := o.each(func(p *peer) error {
		_, err := p.await(ctx, p.patience)
		return err
	})
	if err != nil || o.spec.Peers.Shared {
		return err
	}
	best, err := ownRound(o.spec.Checkpoint)
	if err != nil {
		return err
	}
	var from *peer
	for _, p := range o.peers {
		p.mu.Lock()
		if p.round > best {
			best, from = p.round, p
		}
		p.mu.Unlock()
	}
	if from == nil {
		return nil
	}
	f, err := from.ask(ctx, &link.Frame{Header: link.Header{Kind: kindFetch}})
	if err != nil {
		return err
	}
	fmt.Printf("takes the checkpoint after %d rounds from the node of rank %d\n", best, from.rank)
	return worker.WriteCheckpoint(o.spec.Checkpoint, f.Payload)
}

// slot computes a task on a device, of this node or another, and has the parameter server take the gradient.
type slot func(ctx context.Context, round int64, task int) error

// slots are the devices of the other nodes, as many on each as here, by rank.
func (o *nodes) slots() (all []slot) {
	for _, p := range o.peers {
		for d := range o.spec.GPUs {
			all = append(all, func(ctx context.Context, round int64, task int) error {
				return o.run(ctx, p, d, round, task)
			})
		}
	}
	return all
}

// run has a device of another node compute a task, and takes the gradient.
func (o *nodes) run(ctx context.Context, p *peer, device int, round int64, task int) error {
	return p.do(ctx, func(l *connection) error {
		if err := o.bring(ctx, l, round); err != nil {
			return err
		}
		f, err := l.Call(ctx, &link.Frame{Header: link.Header{Kind: kindRun, Round: round, Task: task, Device: device}})
		if err != nil {
			return err
		}
		return o.server.Deliver(worker.Task{Job: o.spec.Job, Round: round, Task: task},
			worker.Result{Loss: f.Loss, ComputeS: f.ComputeS}, f.Payload)
	})
}

// bring sends the state of a round where the other side does not have it.
func (o *nodes) bring(ctx context.Context, l *connection, round int64) error {
	l.bring.Lock()
	defer l.bring.Unlock()
	if l.round == round {
		return nil
	}
	state, err := o.server.StateAt(round)
	if err != nil {
		return err
	}
	_, err = l.Call(ctx, &link.Frame{Header: link.Header{Kind: kindState, Round: round}, Payload: state})
	if err != nil {
		return err
	}
	l.round = round
	return nil
}

// spread has the nodes keep the checkpoint of a round that had another one when the attempt began, so that each of
// them has what is said to be saved.
func (o *nodes) spread(ctx context.Context, round int64) error {
	if round == 0 {
		return nil
	}
	return o.keep(ctx, func(p *peer) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.round != round
	})
}

// keep has nodes keep the checkpoint, where they do not share it.
func (o *nodes) keep(ctx context.Context, which func(*peer) bool) error {
	if o == nil || o.spec.Peers.Shared {
		return nil
	}
	_, content, err := worker.ReadCheckpoint(o.spec.Checkpoint)
	if err != nil {
		return err
	}
	return o.each(func(p *peer) error {
		if !which(p) {
			return nil
		}
		_, err := p.ask(ctx, &link.Frame{Header: link.Header{Kind: kindCheckpoint}, Payload: content})
		return err
	})
}

// finish tells all nodes that the last round is done.
func (o *nodes) finish(ctx context.Context) error {
	if o == nil {
		return nil
	}
	return o.each(func(p *peer) error { return p.finish(ctx, farewell) })
}

// finish tells the peer that the last round is done. A peer that got it, and does not come back after its connection
// has ended, has heard it.
func (p *peer) finish(ctx context.Context, farewell time.Duration) error {
	wait := p.patience
	for {
		l, err := p.await(ctx, wait)
		if err != nil {
			var unheard *unheardError
			if wait == farewell && errors.As(err, &unheard) {
				return nil
			}
			return err
		}
		_, err = l.Call(ctx, &link.Frame{Header: link.Header{Kind: kindEnd}})
		var over *link.OverError
		if !errors.As(err, &over) {
			return err
		}
		wait = farewell
	}
}

// close ends all connections.
func (o *nodes) close() {
	_ = o.listener.Close()
	for _, p := range o.peers {
		p.mu.Lock()
		if p.link != nil {
			p.link.End(net.ErrClosed)
		}
		p.mu.Unlock()
	}
}
