package rounds

import (
	"bufio"
	"context"
	"crypto/tls"
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
	// greeting is how long a connection may take until its hello.
	greeting = 10 * time.Second
	// farewell is how long a node that was told of the end, whose connection ended then, may take to connect again. One
	// that has not heard it does so at once, and one that has is gone.
	farewell = 10 * time.Second
	// maxBroken is how often in a row a connection may end at one request.
	maxBroken = 100
)

// home is the program that holds the parameters of a job on several nodes, as it sees the others.
type home struct {
	spec     *Spec
	node     *worker.Node
	listener net.Listener
	peers    []*peer // by rank − 1

	mu      sync.Mutex
	state   []byte // of stateOf
	stateOf int64
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

// newHome listens for the other nodes.
func newHome(spec *Spec, node *worker.Node) (*home, error) {
	h := &home{spec: spec, node: node, stateOf: -1}
	settings, err := link.Secure(spec.Peers.Secret, link.SideHome)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(spec.Peers.Address)
	if err != nil {
		return nil, err
	}
	for k := 1; k < spec.Peers.Nodes; k++ {
		h.peers = append(h.peers, &peer{rank: k, patience: spec.Peers.patience(), changed: make(chan struct{})})
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("", port))
	if err != nil {
		return nil, fmt.Errorf("the node cannot listen for the others: %w", err)
	}
	h.listener = listener
	go h.accept(settings)
	return h, nil
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

// accept takes connections until the listener is closed.
func (h *home) accept(settings *tls.Config) {
	room := make(chan struct{}, 16) // of connections that have not said hello
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			return
		}
		room <- struct{}{}
		go func() {
			defer func() { <-room }()
			if err := h.greet(conn, settings); err != nil {
				_ = conn.Close()
				fmt.Fprintf(os.Stderr, "hare: a connection from %s is refused: %v\n", conn.RemoteAddr(), err)
			}
		}()
	}
}

// greet reads the hello of a connection, and gives the connection to its peer.
func (h *home) greet(conn net.Conn, settings *tls.Config) error {
	link.Watch(conn)
	secured := tls.Server(conn, settings)
	if err := secured.SetDeadline(time.Now().Add(greeting)); err != nil {
		return err
	}
	r := bufio.NewReaderSize(secured, 1<<16)
	f, err := link.ReadFrame(r, 0)
	switch {
	case err != nil:
		return err
	case f.Kind != link.Hello || f.Job != h.spec.Job || f.Rank < 1 || f.Rank > len(h.peers):
		return &link.FrameError{Reason: "its hello is that of another job"}
	case f.Version != link.Version:
		return fmt.Errorf("rank %d has another version of hare: install the same one on all nodes", f.Rank)
	}
	if err := secured.SetDeadline(time.Time{}); err != nil {
		return err
	}
	l := &connection{Link: link.New(secured, worker.MaxJobBytes), round: -1}
	go l.Read(r)
	p := h.peers[f.Rank-1]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link != nil {
		p.link.End(errors.New("it has connected again"))
	} else {
		p.round = f.Round
	}
	p.link = l
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
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

// apart are the ranks that an error says to be out of reach.
func apart(err error) (ranks []int) {
	switch e := err.(type) {
	case *unheardError:
		return []int{e.rank}
	case interface{ Unwrap() []error }:
		for _, x := range e.Unwrap() {
			ranks = append(ranks, apart(x)...)
		}
	case interface{ Unwrap() error }:
		return apart(e.Unwrap())
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
func (h *home) each(f func(*peer) error) error {
	errs := make([]error, len(h.peers))
	var all sync.WaitGroup
	for k, p := range h.peers {
		all.Go(func() { errs[k] = f(p) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// gather waits for all nodes, and takes the checkpoint of the one that is furthest.
func (h *home) gather(ctx context.Context) error {
	err := h.each(func(p *peer) error {
		_, err := p.await(ctx, p.patience)
		return err
	})
	if err != nil || h.spec.Peers.Shared {
		return err
	}
	best, err := ownRound(h.spec.Checkpoint)
	if err != nil {
		return err
	}
	var from *peer
	for _, p := range h.peers {
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
	return worker.WriteCheckpoint(h.spec.Checkpoint, f.Payload)
}

// slots are the devices of the other nodes, as many on each as here, by rank.
func (h *home) slots() (all []slot) {
	for _, p := range h.peers {
		for d := range h.spec.GPUs {
			all = append(all, func(ctx context.Context, round int64, task int) (*float64, error) {
				return h.run(ctx, p, d, round, task)
			})
		}
	}
	return all
}

// run has a device of another node compute a task, and takes the gradient.
func (h *home) run(ctx context.Context, p *peer, device int, round int64, task int) (loss *float64, err error) {
	err = p.do(ctx, func(l *connection) error {
		if err := h.bring(ctx, l, round); err != nil {
			return err
		}
		f, err := l.Call(ctx, &link.Frame{Header: link.Header{Kind: kindRun, Round: round, Task: task, Device: device}})
		if err != nil {
			return err
		}
		loss = f.Loss
		return h.node.Deliver(worker.Task{Job: h.spec.Job, Round: round, Task: task},
			worker.Result{Loss: f.Loss, ComputeS: f.ComputeS}, f.Payload)
	})
	return loss, err
}

// bring sends the state of a round where the other side does not have it.
func (h *home) bring(ctx context.Context, l *connection, round int64) error {
	l.bring.Lock()
	defer l.bring.Unlock()
	if l.round == round {
		return nil
	}
	state, err := h.stateAt(round)
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

// stateAt is the state of the present round, of which all peers have one copy.
func (h *home) stateAt(round int64) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stateOf != round {
		state, err := h.node.State(h.spec.Job)
		if err != nil {
			return nil, err
		}
		h.state, h.stateOf = state, round
	}
	return h.state, nil
}

// spread has the nodes keep the checkpoint of a round that had another one when the attempt began, so that each of
// them has what is said to be saved.
func (h *home) spread(ctx context.Context, round int64) error {
	if round == 0 {
		return nil
	}
	return h.keep(ctx, func(p *peer) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.round != round
	})
}

// keep has nodes keep the checkpoint, where they do not share it.
func (h *home) keep(ctx context.Context, which func(*peer) bool) error {
	if h == nil || h.spec.Peers.Shared {
		return nil
	}
	_, content, err := worker.ReadCheckpoint(h.spec.Checkpoint)
	if err != nil {
		return err
	}
	return h.each(func(p *peer) error {
		if !which(p) {
			return nil
		}
		_, err := p.ask(ctx, &link.Frame{Header: link.Header{Kind: kindCheckpoint}, Payload: content})
		return err
	})
}

// finish tells all nodes that the last round is done.
func (h *home) finish(ctx context.Context) error {
	if h == nil {
		return nil
	}
	return h.each(func(p *peer) error { return p.finish(ctx, farewell) })
}

// finish tells the peer that the last round is done. A peer that was told, and does not come back after its connection
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
func (h *home) close() {
	_ = h.listener.Close()
	for _, p := range h.peers {
		p.mu.Lock()
		if p.link != nil {
			p.link.End(net.ErrClosed)
		}
		p.mu.Unlock()
	}
}
