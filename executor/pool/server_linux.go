package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/executor/link"
	"github.com/hare-sched/hare/executor/rounds"
	"github.com/hare-sched/hare/executor/runner"
	"github.com/hare-sched/hare/executor/worker"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// What the node that computes asks of the parameter server.
const (
	kindState    link.Kind = "state"    // the parameters of a round, as soon as they are there
	kindGradient link.Kind = "gradient" // brings the gradient of a task
)

// sayEvery is how often the agent hears of a save, at the most; it hears of the last one in any case.
const sayEvery = 500 * time.Millisecond

// The ports that parameter servers listen at, outside those of MASTER_PORT and those that systems give to connections.
const (
	firstPort = 30_000
	lastPort  = 32_767
)

// servers are the parameter servers of the process, which have one port. Safe for concurrent use.
type servers struct {
	workers  *worker.Node
	turns    *turns
	reports  *reports
	logLimit int64

	mu  sync.Mutex
	all map[key]*server
	// listener is where the nodes that compute connect; nil until there is a parameter server.
	listener net.Listener
}

// server holds the parameters of a job for an attempt, and serves the nodes that compute for it.
type server struct {
	*rounds.Server
	servers    *servers
	key        key
	order      *clusterdoc.HomeStart
	entry      *entry
	checkpoint string
	output     string
	settings   *tls.Config // for the nodes that compute for it
	stopping   chan struct{}
	stopOnce   sync.Once
	device     int // that made the last step
	saidAt     time.Time

	mu    sync.Mutex
	over  bool                // it has ended
	links map[*link.Link]bool // of the nodes that compute for it
}

// start begins to hold the parameters of a job.
func (all *servers) start(q *Request) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{servers: all, key: keyOf(q.Order.TaskID), order: q.Order.Home, checkpoint: q.Checkpoint,
		output: q.Output, stopping: make(chan struct{}), links: map[*link.Link]bool{}, device: anyDevice}
	stop := func(grace time.Duration) {
		s.stopOnce.Do(func() { close(s.stopping) })
		time.AfterFunc(grace, cancel)
	}
	s.entry = &entry{stop: stop, kill: cancel}
	if !all.reports.add(q.Order.TaskID, s.entry) {
		cancel()
		return
	}
	from, out := io.Pipe()
	s.Server = rounds.NewServer(rounds.ServerConfig{Node: all.workers, Rounds: s.order.Rounds, Checkpoint: s.checkpoint,
		Directory: s.output, Out: out, Job: jobOf(s.key, &s.order.RoundStart, s.order.Directory, s.order.Env),
		Use: func(ctx context.Context, _ int, f func(device int) error) error {
			// A worker that many jobs share may die of what another one does, also while a module is imported.
			return all.turns.useAny(ctx, rounds.MaxCrashes, s.key.name(), &s.device, f)
		}, Saved: s.tellSaved})
	go func() {
		defer cancel()
		begun := time.Now()
		err := s.run(ctx, from, out)
		s.end()
		signal := ""
		select {
		case <-s.stopping:
			signal = unix.SignalName(unix.SIGTERM)
		default:
		}
		if ctx.Err() != nil {
			signal = unix.SignalName(unix.SIGKILL)
		}
		all.reports.say(s.entry, func(r *clusterdoc.TaskReport) {
			ended(r, err, signal)
			r.Round, r.Loss, r.RanS = s.Progress().Round, s.Loss(), time.Since(begun).Seconds()
		})
	}()
}

// errStopped says that a parameter server was asked to end.
var errStopped = errors.New("asked to end")

// run holds the parameters until all rounds are saved. What is written to out is kept as the output of the job.
func (s *server) run(ctx context.Context, from *io.PipeReader, out *io.PipeWriter) error {
	if info, err := os.Stat(s.order.Directory); err != nil || !info.IsDir() {
		return fmt.Errorf("the node has no directory %s", s.order.Directory)
	}
	var err error
	if s.settings, err = link.Secure(s.order.Secret, link.SideHome); err != nil {
		return err
	}
	var kept sync.WaitGroup
	kept.Go(func() {
		if err := runner.Keep(s.output, clusterdoc.StreamStdout, s.servers.logLimit, from); err != nil {
			fmt.Fprintf(os.Stderr, "hare: the output of job %s cannot be kept: %v\n", s.key.job, err)
		}
	})
	defer kept.Wait()
	defer out.Close()
	begun, err := s.begin(ctx, out)
	if err != nil {
		return err
	}
	port, err := s.servers.open(s)
	if err != nil {
		return err
	}
	s.servers.reports.say(s.entry, func(r *clusterdoc.TaskReport) {
		r.State, r.Port, r.Round = clusterdoc.TaskRunning, port, begun
	})
	err = s.Train(ctx, func(ctx context.Context, _ int64) error {
		stopped, err := s.Gather(ctx, s.stopping)
		if stopped {
			return errStopped
		}
		return err
	})
	if errors.Is(err, errStopped) {
		err = errors.Join(err, s.SaveRemainder(ctx))
	}
	return err
}

// begin has the parameters ready. Its context ends when the parameter server is asked to end: there is nothing to save
// yet.
func (s *server) begin(ctx context.Context, out io.Writer) (round int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	if s.order.Copy != nil && s.order.CheckpointDirectory == "" {
		if err := rounds.AwaitCopy(ctx, s.output, out); err != nil {
			return 0, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(s.checkpoint), 0o700); err != nil {
		return 0, err
	}
	return s.Start(ctx)
}

// tellSaved tells the agent of a save, now and then; its end tells of the last one.
func (s *server) tellSaved(_ context.Context, p rounds.Progress) error {
	if now := time.Now(); now.Sub(s.saidAt) >= sayEvery && p.Round < s.order.Rounds {
		s.saidAt = now
		s.servers.reports.say(s.entry, func(r *clusterdoc.TaskReport) { r.Round, r.Loss = p.Round, p.Loss })
	}
	return nil
}

// end ends the connections to the parameter server, and forgets the job.
func (s *server) end() {
	all := s.servers
	all.mu.Lock()
	if all.all[s.key] == s {
		delete(all.all, s.key)
	}
	all.mu.Unlock()
	all.turns.forget(s.key.name())
	s.mu.Lock()
	s.over = true
	for l := range s.links {
		l.End(errGone)
	}
	s.mu.Unlock()
	s.Close(errGone)
}

// bring waits for the parameters of a round, which the node has.
func (s *server) bring(ctx context.Context, o *clusterdoc.Compute) (stale bool, err error) {
	version, err := s.Await(ctx, o.Round)
	return version > o.Round, err
}

// deliver says that the gradient is there, in the memory of the node.
func (s *server) deliver(_ context.Context, t worker.Task, r worker.Result) error {
	s.Took(t, r.Loss)
	return nil
}

func (s *server) leave() {}

// find is the parameter server of an attempt; nil where it is not here.
func (all *servers) find(k key) *server {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.all[k]
}

// open lets other nodes reach a parameter server, at a port that all of them share.
func (all *servers) open(s *server) (port int, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.listener == nil {
		at := os.Getpid()
		for n := range 100 {
			candidate := firstPort + (at+n*97)%(lastPort-firstPort+1)
			if all.listener, err = net.Listen("tcp", fmt.Sprintf(":%d", candidate)); !errors.Is(err, unix.EADDRINUSE) {
				break
			}
		}
		if err != nil {
			all.listener = nil
			return 0, fmt.Errorf("the node cannot listen for the others: %w", err)
		}
		settings := &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: all.configFor}
		go link.Accept(all.listener, settings, worker.MaxJobBytes, all.welcome)
	}
	at, ok := all.listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.New("the node cannot listen for the others")
	}
	all.all[s.key] = s
	return at.Port, nil
}

// close closes the port.
func (all *servers) close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.listener != nil {
		_ = all.listener.Close()
	}
}

// configFor finds the parameter server that a connection is for, whose secret the handshake needs.
func (all *servers) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for k, s := range all.all {
		if k.serverName() == hello.ServerName {
			return s.settings, nil
		}
	}
	return nil, errors.New("no such attempt of a job has its parameter server here")
}

// welcome answers the hello of a connection.
func (all *servers) welcome(l *link.Link, hello *link.Header, serverName string) (serve func(), err error) {
	s := all.find(key{hello.Job, hello.Attempt})
	reason := ""
	switch {
	case hello.Kind != link.Hello || s == nil || s.key.serverName() != serverName:
		reason = "the parameter server of this attempt is not here"
	case hello.Version != link.Version:
		reason = "its node has another version of hare: install the same one on all nodes"
	}
	err = l.Hello(link.Header{Reason: reason})
	if err == nil && reason != "" {
		err = errors.New(reason)
	}
	return func() { s.serve(l) }, err
}

// serve answers the requests of a node that computes for the parameter server.
func (s *server) serve(l *link.Link) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.mu.Lock()
	s.links[l] = true
	if s.over {
		l.End(errGone)
	}
	s.mu.Unlock()
	defer func() {
		l.End(net.ErrClosed)
		s.mu.Lock()
		delete(s.links, l)
		s.mu.Unlock()
	}()
	for {
		f, err := l.Receive()
		if err != nil {
			return
		}
		switch f.Kind {
		case kindState:
			go s.answer(l, f.Header, func(a *link.Frame) error { return s.sendState(ctx, a) })
		case kindGradient:
			s.answer(l, f.Header, func(*link.Frame) error { return s.takeGradient(f) })
		default:
			return
		}
	}
}

// answer answers a request with what f makes of it.
func (s *server) answer(l *link.Link, asked link.Header, f func(*link.Frame) error) {
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
func (s *server) sendState(ctx context.Context, a *link.Frame) error {
	round := a.Round
	version, err := s.Await(ctx, round)
	if err != nil {
		return err
	}
	if version == round {
		a.Payload, err = s.StateAt(round)
	}
	var stale *worker.StaleError
	if errors.As(err, &stale) {
		version, err = stale.Current, nil
	}
	a.Round = version
	return err
}

// takeGradient takes the gradient of a task; that of a round that is over is dropped.
func (s *server) takeGradient(f *link.Frame) error {
	t := worker.Task{Job: s.key.name(), Round: f.Round, Task: f.Task}
	err := s.Deliver(t, worker.Result{Loss: f.Loss, ComputeS: f.ComputeS}, f.Payload)
	var stale *worker.StaleError
	var invalid *hare.InvalidError
	switch {
	case errors.As(err, &stale) && stale.Current > f.Round:
		err = nil
	case errors.As(err, &invalid):
		err = errors.New(invalid.Detail)
	case errors.Is(err, worker.ErrUnknownJob):
		err = errGone
	}
	return err
}
