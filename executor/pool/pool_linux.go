package pool

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/executor/worker"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// key names an attempt of a job, which is a job of its own for the workers.
type key struct {
	job     string
	attempt int64
}

func keyOf(id clusterdoc.TaskID) key { return key{id.Job, id.Attempt} }

// name is how workers and the node know the job.
func (k key) name() string { return k.job + "." + strconv.FormatInt(k.attempt, 10) }

// Pool is the process of a node. Safe for concurrent use.
type Pool struct {
	spec *Spec
	node *worker.Node

	mu      sync.Mutex
	turns   turns
	freed   chan struct{} // closed when a device becomes free
	homes   map[key]*home
	helpers map[key]*helper
	entries map[clusterdoc.TaskID]*entry
	// computing are the tasks that devices compute just then.
	computing map[*compute]bool
	agent     *outbox // nil where no agent is connected
	// listener is where the nodes that compute for homes of this one connect; nil until there is a home.
	listener net.Listener
	ended    chan struct{} // closed when the agent has asked for the end
}

// entry is a home or task as the agent knows it.
type entry struct {
	report clusterdoc.TaskReport
	final  bool
	stop   func(grace time.Duration) // ends it in good order
	kill   func()
}

// maxSocketPath is the length of the path of a socket directory that workers can use.
const maxSocketPath = 75

// Main is the process of a directory: it serves the agent until the agent asks for its end, or a signal comes.
func Main(dir string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if os.Getenv("GOMAXPROCS") == "" { // the workers want cores, too, and a task comes through sooner with fewer threads
		runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2))
	}
	text, err := os.ReadFile(filepath.Join(dir, specFile))
	if err != nil {
		return err
	}
	spec := new(Spec)
	if err := json.Unmarshal(text, spec); err != nil {
		return err
	}
	sockets, remove, err := socketDirectory(dir)
	if err != nil {
		return err
	}
	defer remove()
	p, err := newPool(spec, sockets)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	listener, err := listen(dir)
	if err != nil {
		return err
	}
	defer listener.Close()
	go p.acceptAgents(listener)
	go p.tellLong()
	select {
	case <-ctx.Done():
	case <-p.ended:
	}
	return nil
}

func newPool(spec *Spec, sockets string) (*Pool, error) {
	p := &Pool{spec: spec, freed: make(chan struct{}), homes: map[key]*home{}, helpers: map[key]*helper{},
		entries: map[clusterdoc.TaskID]*entry{}, computing: map[*compute]bool{}, ended: make(chan struct{})}
	for _, d := range spec.Devices {
		p.turns.devices = append(p.turns.devices, &device{kind: d.Type, after: map[string][]string{}})
	}
	p.turns.devices = append(p.turns.devices, &device{after: map[string][]string{}}) // the host
	// Of two values of a variable workers take the last, which is that of the device.
	environment := func(device int) []string {
		if device == len(spec.Devices) {
			return []string{"CUDA_VISIBLE_DEVICES="}
		}
		return []string{"CUDA_VISIBLE_DEVICES=" + spec.Devices[device].Visible}
	}
	var err error
	p.node, err = worker.NewNode(worker.Config{Python: spec.Python, Directory: sockets, Devices: len(spec.Devices) + 1,
		Environment: os.Environ(), DeviceEnvironment: environment, MemoryBytes: spec.MemoryBytes})
	return p, err
}

// socketDirectory is a directory for the sockets of the workers: in the directory of the process where the path is
// short enough for a socket.
func socketDirectory(dir string) (path string, remove func(), err error) {
	path = filepath.Join(dir, "workers")
	if abs, err := filepath.Abs(path); err == nil && len(abs) <= maxSocketPath {
		return path, func() { _ = os.RemoveAll(path) }, nil
	}
	path, err = os.MkdirTemp("", "hare-pool-")
	return path, func() { _ = os.RemoveAll(path) }, err
}

// shortPath is a path of a file in a directory that is short enough for a socket, while the directory is open.
func shortPath(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}

// listen makes the socket of the process.
func listen(dir string) (*net.UnixListener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	l, err := worker.Listen(shortPath(d, socketFile))
	if err == nil {
		l.SetUnlinkOnClose(false) // its path is that of another file by then
	}
	return l, err
}

// close ends all workers and connections.
func (p *Pool) close() error {
	p.mu.Lock()
	if p.listener != nil {
		_ = p.listener.Close()
	}
	p.mu.Unlock()
	return p.node.Close()
}

// acceptRest is how long no connection is taken after one could not be.
const acceptRest = 100 * time.Millisecond

// acceptAgents serves the agent that has connected last.
func (p *Pool) acceptAgents(l *net.UnixListener) {
	for {
		conn, err := worker.Accept(l, os.Geteuid())
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // there are too many open files
			time.Sleep(acceptRest)
			continue
		}
		out := newOutbox(conn)
		p.mu.Lock()
		if p.agent != nil {
			p.agent.close()
		}
		p.agent = out
		for _, e := range p.entries {
			report := e.report
			out.send(&Event{Type: Report, Report: &report})
		}
		out.send(&Event{Type: Ready})
		p.mu.Unlock()
		go p.serveAgent(conn, out)
	}
}

// serveAgent does what an agent asks, in order.
func (p *Pool) serveAgent(conn *net.UnixConn, out *outbox) {
	defer out.close()
	r := newReader(conn)
	for {
		q := new(Request)
		err := readMessage(r, q)
		if err == nil {
			err = q.check(len(p.spec.Devices))
		}
		if err != nil {
			var bad *MessageError
			if errors.As(err, &bad) {
				fmt.Fprintln(os.Stderr, "hare: the connection of the agent is ended:", err)
			}
			return
		}
		p.mu.Lock()
		current := p.agent == out
		p.mu.Unlock()
		if !current {
			return // the next connection has been told what there is: nothing may follow from here
		}
		p.do(q, out)
	}
}

func (p *Pool) do(q *Request, out *outbox) {
	switch q.Type {
	case Home:
		p.startHome(q)
	case Compute:
		p.startCompute(q.Order)
	case Stop, Kill, Forget:
		p.mu.Lock()
		e := p.entries[*q.Task]
		over := e == nil || e.final
		switch {
		case e == nil && q.Type != Forget:
			out.send(&Event{Type: Report, Report: &clusterdoc.TaskReport{TaskID: *q.Task, State: clusterdoc.TaskLost,
				Error: "the node does not have it any more"}})
		case e != nil && q.Type == Forget && e.final:
			delete(p.entries, *q.Task)
		}
		p.mu.Unlock()
		switch {
		case over:
		case q.Type == Stop:
			e.stop(time.Duration(q.GraceS * float64(time.Second)))
		case q.Type == Kill:
			e.kill()
		}
	case Hold:
		p.setHeld(q.Devices)
		go p.hold(q, out)
	case Ping:
		out.send(&Event{Type: Pong})
	case End:
		select {
		case <-p.ended:
		default:
			close(p.ended)
		}
	}
}

// setHeld notes which devices other programs have.
func (p *Pool) setHeld(devices []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.turns.devices {
		d.held = false
	}
	for _, i := range devices {
		p.turns.devices[i].held = true
	}
	p.turns.give()
}

// hold answers when no worker is left on the devices that other programs have.
func (p *Pool) hold(q *Request, out *outbox) {
	var all sync.WaitGroup
	for _, i := range q.Devices {
		all.Go(func() {
			for {
				_ = p.node.Release(i) // the node has the device
				p.mu.Lock()
				d, freed := p.turns.devices[i], p.freed
				over := !d.busy || !d.held // a later request may give the device back
				p.mu.Unlock()
				if over {
					return
				}
				select {
				case <-freed:
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	all.Wait()
	out.send(&Event{Type: Held, Number: q.Number})
}

// add makes an entry for a home or task, and says whether there was none.
func (p *Pool) add(id clusterdoc.TaskID, e *entry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if was := p.entries[id]; was != nil {
		if p.agent != nil {
			report := was.report
			p.agent.send(&Event{Type: Report, Report: &report})
		}
		return false
	}
	e.report = clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskOrdered}
	p.entries[id] = e
	return true
}

// say tells the agent where a home or task stands.
func (p *Pool) say(e *entry, change func(*clusterdoc.TaskReport)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.final {
		return
	}
	change(&e.report)
	e.final = e.report.State == clusterdoc.TaskEnded || e.report.State == clusterdoc.TaskLost
	if p.agent != nil {
		report := e.report
		p.agent.send(&Event{Type: Report, Report: &report})
	}
}

// lostError is an error that is no failure of the job.
type lostError struct{ reason string }

func (e *lostError) Error() string { return e.reason }

// ended makes a report that of an end: with exit code 0 where there is no error.
func ended(r *clusterdoc.TaskReport, err error, signal string) {
	r.State = clusterdoc.TaskEnded
	var lost *lostError
	code := 0
	switch {
	case err == nil:
		r.ExitCode = &code
	case errors.As(err, &lost):
		r.State, r.Error = clusterdoc.TaskLost, lost.reason
	case signal != "":
		r.Signal = signal
	default:
		code = 1
		r.ExitCode, r.Error = &code, err.Error()
	}
}

// heldNow reports whether another program has a device.
func (p *Pool) heldNow(i int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turns.devices[i].held
}

// anyWorker calls f with any device, and again with another one where the worker has died. A worker that had to leave
// its device to another program does not count.
func (p *Pool) anyWorker(ctx context.Context, job string, prefer *int, f func(device int) error) error {
	return worker.Again(ctx, maxCrashes, func() error {
		for {
			err := p.use(ctx, &wait{device: anyDevice, prefer: *prefer, job: job}, func(i int) error {
				*prefer = i
				return f(i)
			})
			var crash *worker.CrashError
			if !errors.As(err, &crash) || ctx.Err() != nil || !p.heldNow(*prefer) {
				return err
			}
		}
	})
}

// maxCrashes is how often a worker may die at the same call before the job ends.
const maxCrashes = 8

// configFor finds the home that a connection is for, whose secret the handshake needs.
func (p *Pool) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, h := range p.homes {
		if serverName(k) == hello.ServerName {
			return h.settings, nil
		}
	}
	return nil, errors.New("no such attempt of a job has its home here")
}

// serverName is what a connection to the home of an attempt asks for.
func serverName(k key) string { return k.name() + ".hare.invalid" }

// The ports that homes listen at, outside those of MASTER_PORT and those that systems give to connections.
const (
	firstPort = 30_000
	lastPort  = 32_767
)

// listen makes the port at which other nodes reach the homes of this one. The caller holds p.mu.
func (p *Pool) listen() (port int, err error) {
	if p.listener == nil {
		at := os.Getpid()
		for n := range 100 {
			candidate := firstPort + (at+n*97)%(lastPort-firstPort+1)
			if p.listener, err = net.Listen("tcp", fmt.Sprintf(":%d", candidate)); !errors.Is(err, unix.EADDRINUSE) {
				break
			}
		}
		if err != nil {
			p.listener = nil
			return 0, fmt.Errorf("the node cannot listen for the others: %w", err)
		}
		go p.acceptHelpers(p.listener)
	}
	at, ok := p.listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.New("the node cannot listen for the others")
	}
	return at.Port, nil
}
