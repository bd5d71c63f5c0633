package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hare-sched/hare/executor/worker"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// process is the process of a node. Safe for concurrent use.
type process struct {
	devices  int
	workers  *worker.Node
	turns    *turns
	reports  *reports
	servers  *servers
	helpers  *helpers
	computer *computer
	ended    chan struct{} // closed when the agent has asked for the end
}

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
	sockets, remove, err := worker.SocketDirectory(dir, "workers", "hare-pool-")
	if err != nil {
		return err
	}
	defer remove()
	p, err := newProcess(spec, sockets)
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
	go p.computer.tellLong()
	select {
	case <-ctx.Done():
	case <-p.ended:
	}
	return nil
}

func newProcess(spec *Spec, sockets string) (*process, error) {
	// Of two values of a variable workers take the last, which is that of the device.
	environment := func(device int) []string {
		if device == len(spec.Devices) {
			return []string{"CUDA_VISIBLE_DEVICES="}
		}
		return []string{"CUDA_VISIBLE_DEVICES=" + spec.Devices[device].Visible}
	}
	workers, err := worker.NewNode(worker.Config{Python: spec.Python, Directory: sockets, Devices: len(spec.Devices) + 1,
		Environment: os.Environ(), DeviceEnvironment: environment, MemoryBytes: spec.MemoryBytes})
	if err != nil {
		return nil, err
	}
	p := &process{devices: len(spec.Devices), workers: workers, turns: newTurns(spec.Devices),
		reports: &reports{entries: map[clusterdoc.TaskID]*entry{}}, ended: make(chan struct{})}
	p.servers = &servers{workers: workers, turns: p.turns, reports: p.reports, logLimit: spec.LogLimit,
		all: map[key]*server{}}
	p.helpers = &helpers{workers: workers, turns: p.turns, all: map[key]*helper{}}
	p.computer = &computer{workers: workers, turns: p.turns, reports: p.reports, running: map[*compute]bool{}}
	return p, nil
}

// close ends all workers and connections.
func (p *process) close() error {
	p.servers.close()
	return p.workers.Close()
}

// acceptPause is how long no connection is accepted after one could not be.
const acceptPause = 100 * time.Millisecond

// acceptAgents serves the agent that has connected last.
func (p *process) acceptAgents(l *net.UnixListener) {
	for {
		conn, err := worker.Accept(l, os.Geteuid())
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // there are too many open files
			time.Sleep(acceptPause)
			continue
		}
		out := newOutbox(conn)
		p.reports.connect(out)
		go p.serveAgent(conn, out)
	}
}

// serveAgent does what an agent asks, in order.
func (p *process) serveAgent(conn *net.UnixConn, out *outbox) {
	defer out.close()
	r := newReader(conn)
	for {
		q := new(Request)
		err := readMessage(r, q)
		if err == nil {
			err = q.check(p.devices)
		}
		if err != nil {
			var bad *MessageError
			if errors.As(err, &bad) {
				fmt.Fprintln(os.Stderr, "hare: the connection of the agent is ended:", err)
			}
			return
		}
		if !p.reports.connected(out) {
			return // the next connection knows what there is: nothing may follow from here
		}
		p.do(q, out)
	}
}

func (p *process) do(q *Request, out *outbox) {
	switch q.Type {
	case Serve:
		p.servers.start(q)
	case Compute:
		p.computer.start(q.Order, p.sourceOf)
	case Stop, Kill, Forget:
		p.reports.end(q, out)
	case Hold:
		p.turns.hold(q.Devices)
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

// sourceOf finds where a task takes its parameters from.
func (p *process) sourceOf(k key, o *clusterdoc.Compute) source {
	if s := p.servers.find(k); s != nil {
		return s
	}
	return p.helpers.use(k, o)
}

// hold answers when no worker is left on the devices that other programs have.
func (p *process) hold(q *Request, out *outbox) {
	var all sync.WaitGroup
	for _, i := range q.Devices {
		all.Go(func() {
			for {
				_ = p.workers.Release(i) // the node has the device
				left, freed := p.turns.left(i)
				if left {
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
