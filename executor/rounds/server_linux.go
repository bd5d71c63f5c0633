package rounds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/hare-sched/hare/executor/worker"
)

const (
	// MaxCrashes is how often a worker may die at the same call before the job ends.
	MaxCrashes = 8
	// AddCrashes is how often it may die while the module of a job is imported.
	AddCrashes = 3
	// savePause is how many times the duration of the last save lies between two saves, at the least.
	savePause = 10
)

// ServerConfig is what a parameter server needs.
type ServerConfig struct {
	Node       *worker.Node
	Job        worker.Job
	Rounds     int64
	Checkpoint string // the path of the file that outlives the attempt
	Directory  string // that gets the progress
	// Out gets a line for each round.
	Out io.Writer
	// Use calls f with a device of the node, and again where its worker has died, at most a number of times in a row.
	Use func(ctx context.Context, crashes int, f func(device int) error) error
	// Saved is called after the checkpoint was written, before the progress says so.
	Saved func(ctx context.Context, p Progress) error
}

// Server is the parameter server of a round job for an attempt: it holds the parameters, collects the gradients of a
// round, makes the step, and saves. How parameters and gradients travel between nodes is the concern of its owner. One
// goroutine calls Start, Train, SaveRemainder, Progress and Loss; the other methods are safe for concurrent use.
type Server struct {
	cfg ServerConfig

	mu      sync.Mutex
	version int64            // of the parameters, which is the number of rounds done; −1 before the first
	losses  map[int]*float64 // of the tasks of the round that have run
	changed chan struct{}    // closed when version or losses have changed
	closed  error
	state   []byte // of stateOf
	stateOf int64

	saved      Progress
	saveTook   time.Duration
	savedAt    time.Time
	saveFailed bool
	loss       string // of the last round that was done
}

// NewServer returns a parameter server that has no parameters yet.
func NewServer(cfg ServerConfig) *Server {
	return &Server{cfg: cfg, version: -1, losses: map[int]*float64{}, changed: make(chan struct{}), stateOf: -1}
}

// Start adds the job to the node, in the state of its checkpoint where there is one, and returns the number of rounds
// that it has.
func (s *Server) Start(ctx context.Context) (round int64, err error) {
	err = s.cfg.Use(ctx, AddCrashes, func(device int) error {
		if _, err := os.Stat(s.cfg.Checkpoint); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return s.cfg.Node.Add(ctx, device, s.cfg.Job)
			}
			return err
		}
		round, err = s.cfg.Node.Resume(ctx, device, s.cfg.Job, s.cfg.Checkpoint)
		return err
	})
	if err == nil && round > 0 {
		_, err = fmt.Fprintf(s.cfg.Out, "goes on from the checkpoint after %d rounds\n", round)
	}
	if err != nil {
		return 0, err
	}
	s.saved.Round = round
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = round
	s.notify()
	return round, nil
}

// Train trains from the round of Start on until all rounds are saved. It calls compute for each round, which returns
// when the gradients of all tasks are there.
func (s *Server) Train(ctx context.Context, compute func(ctx context.Context, round int64) error) error {
	for round := s.saved.Round; round < s.cfg.Rounds; round++ {
		if err := compute(ctx, round); err != nil {
			return err
		}
		if err := s.step(ctx, round); err != nil {
			return err
		}
		if round+1 < s.cfg.Rounds && time.Since(s.savedAt) < savePause*s.saveTook {
			continue
		}
		if err := s.save(ctx); err != nil {
			return err
		}
	}
	return nil
}

// SaveRemainder saves the rounds that were done since the last save, after Train has returned an error. It does
// nothing where that was the error of a save.
func (s *Server) SaveRemainder(ctx context.Context) error {
	s.mu.Lock()
	version := s.version
	s.mu.Unlock()
	if s.saveFailed || version <= s.saved.Round {
		return nil
	}
	return s.save(ctx)
}

// Progress is how far the job is that is saved.
func (s *Server) Progress() Progress { return s.saved }

// Loss is that of the last round that was done, and "" before.
func (s *Server) Loss() string { return s.loss }

// step makes the step of a round.
func (s *Server) step(ctx context.Context, round int64) error {
	err := s.cfg.Use(ctx, MaxCrashes, func(device int) error {
		_, err := s.cfg.Node.Step(ctx, device, s.cfg.Job.ID, round)
		return err
	})
	if err != nil {
		return err
	}
	losses := make([]*float64, s.cfg.Job.Tasks)
	s.mu.Lock()
	for k, loss := range s.losses {
		losses[k] = loss
	}
	s.version, s.losses = round+1, map[int]*float64{}
	s.notify()
	s.mu.Unlock()
	s.loss = worker.MeanLoss(losses)
	_, err = fmt.Fprintln(s.cfg.Out, worker.LossLine(round, losses))
	return err
}

// save writes the checkpoint, and then the progress.
func (s *Server) save(ctx context.Context) error {
	started := time.Now()
	s.saveFailed = true
	round, err := s.cfg.Node.Save(s.cfg.Job.ID, s.cfg.Checkpoint)
	if err != nil {
		return err
	}
	now := Progress{Round: round, Loss: s.loss}
	if err := s.cfg.Saved(ctx, now); err != nil {
		return err
	}
	s.savedAt = time.Now()
	s.saveTook, s.saved = s.savedAt.Sub(started), now
	if err := writeFile(s.cfg.Directory, progressFile, &now); err != nil {
		return err
	}
	s.saveFailed = false
	return nil
}

// notify wakes who waits for a version or for gradients. The caller holds s.mu.
func (s *Server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Await waits until the steps of all rounds before one are made, and returns how many are.
func (s *Server) Await(ctx context.Context, round int64) (version int64, err error) {
	for {
		s.mu.Lock()
		version, closed, changed := s.version, s.closed, s.changed
		s.mu.Unlock()
		switch {
		case closed != nil:
			return 0, closed
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

// Gather waits until the gradients of all tasks of the present round are there, and reports whether stop was closed
// before.
func (s *Server) Gather(ctx context.Context, stop <-chan struct{}) (stopped bool, err error) {
	for {
		s.mu.Lock()
		done, changed := len(s.losses) == s.cfg.Job.Tasks, s.changed
		s.mu.Unlock()
		if done {
			return false, nil
		}
		select {
		case <-changed:
		case <-stop:
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// Took notes that the gradient of a task is in the memory of the node. Of two results of a task the first one counts.
func (s *Server) Took(t worker.Task, loss *float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := s.losses[t.Task]; twice || t.Round != s.version || s.closed != nil {
		return
	}
	s.losses[t.Task] = loss
	s.notify()
}

// Deliver takes the gradient that another node has computed.
func (s *Server) Deliver(t worker.Task, r worker.Result, gradient []byte) error {
	err := s.cfg.Node.Deliver(t, r, gradient)
	if err == nil {
		s.Took(t, r.Loss)
	}
	return err
}

// StateAt is a copy of the parameters of a round, which all callers share. It is a *worker.StaleError where the server
// has those of another one.
func (s *Server) StateAt(round int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stateOf != round {
		state, version, err := s.cfg.Node.State(s.cfg.Job.ID)
		if err != nil {
			return nil, err
		}
		if version != round {
			return nil, &worker.StaleError{Job: s.cfg.Job.ID, Round: round, Current: version}
		}
		s.state, s.stateOf = state, round
	}
	return s.state, nil
}

// Close ends all waits with an error, and forgets the job.
func (s *Server) Close(err error) {
	s.mu.Lock()
	s.closed, s.state, s.stateOf = err, nil, -1
	s.notify()
	s.mu.Unlock()
	_ = s.cfg.Node.Remove(s.cfg.Job.ID) // where it was added
}
