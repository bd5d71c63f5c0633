package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/executor/link"
	"github.com/hare-sched/hare/executor/rounds"
	"github.com/hare-sched/hare/executor/runner"
	"github.com/hare-sched/hare/executor/worker"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// sayEvery is how often the agent is told of a save, at the most; of the last one it is told in any case.
const sayEvery = 500 * time.Millisecond

// errGone says that a home has ended.
var errGone = &lostError{"the home of the job has ended"}

// home holds the parameters of a job for an attempt.
type home struct {
	pool       *Pool
	key        key
	order      *clusterdoc.HomeStart
	entry      *entry
	checkpoint string
	output     string
	settings   *tls.Config // for the nodes that compute for it
	stopping   chan struct{}
	stopOnce   sync.Once
	device     int // that made the last step

	mu      sync.Mutex
	version int64               // of the parameters, which is the number of rounds done; −1 before the first
	losses  map[int]*float64    // of the tasks of the round that have run
	changed chan struct{}       // closed when version or losses have changed
	over    bool                // it has ended
	links   map[*link.Link]bool // of the nodes that compute for it
	state   []byte              // of stateOf
	stateOf int64

	saved    int64
	saveTook time.Duration
	savedAt  time.Time
	saidAt   time.Time
	loss     string // of the last round that was done
}

// startHome begins to hold the parameters of a job.
func (p *Pool) startHome(q *Request) {
	ctx, cancel := context.WithCancel(context.Background())
	h := &home{pool: p, key: keyOf(q.Order.TaskID), order: q.Order.Home, checkpoint: q.Checkpoint, output: q.Output,
		stopping: make(chan struct{}), version: -1, losses: map[int]*float64{}, changed: make(chan struct{}),
		links: map[*link.Link]bool{}, stateOf: -1, device: anyDevice}
	stop := func(grace time.Duration) {
		h.stopOnce.Do(func() { close(h.stopping) })
		time.AfterFunc(grace, cancel)
	}
	h.entry = &entry{stop: stop, kill: cancel}
	if !p.add(q.Order.TaskID, h.entry) {
		cancel()
		return
	}
	go func() {
		defer cancel()
		begun := time.Now()
		err := h.run(ctx)
		h.end()
		signal := ""
		select {
		case <-h.stopping:
			signal = unix.SignalName(unix.SIGTERM)
		default:
		}
		if ctx.Err() != nil {
			signal = unix.SignalName(unix.SIGKILL)
		}
		p.say(h.entry, func(r *clusterdoc.TaskReport) {
			ended(r, err, signal)
			r.Round, r.Loss, r.RanS = h.saved, h.loss, time.Since(begun).Seconds()
		})
	}()
}

// errStopped says that a home was told to end.
var errStopped = errors.New("told to end")

// run holds the parameters until all rounds are saved.
func (h *home) run(ctx context.Context) error {
	if info, err := os.Stat(h.order.Directory); err != nil || !info.IsDir() {
		return fmt.Errorf("the node has no directory %s", h.order.Directory)
	}
	var err error
	if h.settings, err = link.Secure(h.order.Secret, link.SideHome); err != nil {
		return err
	}
	from, out := io.Pipe()
	var kept sync.WaitGroup
	kept.Go(func() {
		if err := runner.Keep(h.output, clusterdoc.StreamStdout, h.pool.spec.LogLimit, from); err != nil {
			fmt.Fprintf(os.Stderr, "hare: the output of job %s cannot be kept: %v\n", h.key.job, err)
		}
	})
	defer kept.Wait()
	defer out.Close()
	begun, err := h.untilStopped(ctx, func(ctx context.Context) (int64, error) {
		if h.order.Copy != nil && h.order.CheckpointDirectory == "" {
			if err := rounds.AwaitCopy(ctx, h.output, out); err != nil {
				return 0, err
			}
		}
		return h.begin(ctx)
	})
	if err != nil {
		return err
	}
	if begun > 0 {
		fmt.Fprintf(out, "goes on from the checkpoint after %d rounds\n", begun)
	}
	h.pool.mu.Lock()
	port, err := h.pool.listen()
	h.pool.homes[h.key] = h
	h.pool.mu.Unlock()
	if err != nil {
		return err
	}
	h.saved = begun
	h.pool.say(h.entry, func(r *clusterdoc.TaskReport) {
		r.State, r.Port, r.Round = clusterdoc.TaskRunning, port, begun
	})
	h.mu.Lock()
	h.version = begun
	h.mu.Unlock()
	for round := begun; round < h.order.Rounds; round++ {
		err := h.round(ctx, round, out)
		if errors.Is(err, errStopped) {
			if round > h.saved {
				err = errors.Join(err, h.save())
			}
			return err
		}
		if err != nil {
			return err
		}
		if round+1 < h.order.Rounds && time.Since(h.savedAt) < rounds.RestSaves*h.saveTook {
			continue
		}
		if err := h.save(); err != nil {
			return err
		}
		if now := time.Now(); now.Sub(h.saidAt) >= sayEvery && round+1 < h.order.Rounds {
			h.saidAt = now
			h.pool.say(h.entry, func(r *clusterdoc.TaskReport) { r.Round, r.Loss = h.saved, h.loss })
		}
	}
	return nil
}

// untilStopped calls f, whose context ends when the home is told to end: it has nothing to save yet.
func (h *home) untilStopped(ctx context.Context, f func(context.Context) (int64, error)) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-h.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return f(ctx)
}

// begin adds the job to the node, in the state of its checkpoint where there is one.
func (h *home) begin(ctx context.Context) (round int64, err error) {
	job := jobOf(h.key, &h.order.RoundStart, h.order.Directory, h.order.Env)
	if err := os.MkdirAll(filepath.Dir(h.checkpoint), 0o700); err != nil {
		return 0, err
	}
	err = h.pool.anyWorker(ctx, job.ID, &h.device, func(device int) error {
		if _, err := os.Stat(h.checkpoint); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return h.pool.node.Add(ctx, device, job)
			}
			return err
		}
		round, err = h.pool.node.Resume(ctx, device, job, h.checkpoint)
		return err
	})
	return round, err
}

// jobOf is a job as workers know it.
func jobOf(k key, r *clusterdoc.RoundStart, dir string, env map[string]string) worker.Job {
	return worker.Job{ID: k.name(), Module: r.Module, Directory: dir, Tasks: r.Tasks, Seed: r.Seed,
		Environment: variables(env)}
}

// round waits for the gradients of a round, and makes the step.
func (h *home) round(ctx context.Context, round int64, out io.Writer) error {
	for {
		h.mu.Lock()
		done, changed := len(h.losses) == h.order.Tasks, h.changed
		h.mu.Unlock()
		if done {
			break
		}
		select {
		case <-changed:
		case <-h.stopping:
			return errStopped
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := h.pool.anyWorker(ctx, h.key.name(), &h.device, func(device int) error {
		_, err := h.pool.node.Step(ctx, device, h.key.name(), round)
		return err
	})
	if err != nil {
		return err
	}
	h.mu.Lock()
	losses := make([]*float64, h.order.Tasks)
	for k, loss := range h.losses {
		losses[k] = loss
	}
	h.version, h.losses = round+1, map[int]*float64{}
	h.notify()
	h.mu.Unlock()
	h.loss = worker.MeanLoss(losses)
	_, err = fmt.Fprintln(out, worker.LossLine(round, losses))
	return err
}

// notify wakes who waits for a version or for gradients. The caller holds h.mu.
func (h *home) notify() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// save writes the checkpoint.
func (h *home) save() error {
	begun := time.Now()
	round, err := h.pool.node.Save(h.key.name(), h.checkpoint)
	if err != nil {
		return err
	}
	h.saved, h.savedAt = round, time.Now()
	h.saveTook = h.savedAt.Sub(begun)
	return rounds.WriteProgress(h.output, &rounds.Progress{Round: round, Loss: h.loss})
}

// await waits until the home has made the steps of all rounds before one, and returns how many it has made.
func (h *home) await(ctx context.Context, round int64) (version int64, err error) {
	for {
		h.mu.Lock()
		version, over, changed := h.version, h.over, h.changed
		h.mu.Unlock()
		switch {
		case over:
			return 0, errGone
		case version >= round:
			return version, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// took notes that the gradient of a task is there. Of two results of a task the first one counts.
func (h *home) took(t worker.Task, loss *float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, twice := h.losses[t.Task]; twice || t.Round != h.version || h.over {
		return
	}
	h.losses[t.Task] = loss
	h.notify()
}

// stateAt is a copy of the parameters of a round, which all connections share. It is a *worker.StaleError where the
// home is behind or before that round.
func (h *home) stateAt(round int64) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stateOf != round {
		state, version, err := h.pool.node.StateAt(h.key.name())
		if err != nil {
			return nil, err
		}
		if version != round {
			return nil, &worker.StaleError{Job: h.key.name(), Round: round, Current: version}
		}
		h.state, h.stateOf = state, round
	}
	return h.state, nil
}

// end ends the connections to the home, and forgets the job.
func (h *home) end() {
	h.pool.mu.Lock()
	if h.pool.homes[h.key] == h {
		delete(h.pool.homes, h.key)
	}
	h.pool.turns.forget(h.key.name())
	h.pool.mu.Unlock()
	h.mu.Lock()
	h.over, h.state = true, nil
	h.notify()
	for l := range h.links {
		l.End(errGone)
	}
	h.mu.Unlock()
	_ = h.pool.node.Remove(h.key.name()) // where it was added
}

// variables are NAME=value, by name.
func variables(env map[string]string) (all []string) {
	for name, value := range env {
		all = append(all, name+"="+value)
	}
	return sorted(all)
}
