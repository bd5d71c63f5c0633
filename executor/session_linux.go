package executor

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"time"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// session is what all goroutines of an agent share.
type session struct {
	cfg     Config
	context context.Context
	term    atomic.Pointer[term] // the zero term until the agent has registered
	ready   atomic.Bool          // it has registered
	// started, progress and endings are what the agent hears of tasks.
	started  chan clusterdoc.TaskID
	progress chan clusterdoc.TaskReport // of round jobs
	endings  chan clusterdoc.TaskReport
	copying  chan struct{} // has one token: whoever has it may read and send a piece of a checkpoint
}

func newSession(ctx context.Context, cfg Config) *session {
	s := &session{cfg: cfg, context: ctx, started: make(chan clusterdoc.TaskID),
		progress: make(chan clusterdoc.TaskReport), endings: make(chan clusterdoc.TaskReport),
		copying: make(chan struct{}, 1)}
	s.term.Store(&term{})
	s.copying <- struct{}{}
	return s
}

// term is what a registration gave: what the agent says from then on carries both.
type term struct {
	epoch  int64
	secret string
}

func (s *session) tasksDir() string { return filepath.Join(s.cfg.Directory, "tasks") }

// patiently calls f until it gives no error, for half a second at most: for what a process that is about to end, or
// to run its program, stands in the way of.
func patiently(f func() error) (err error) {
	for range 50 {
		if err = f(); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// pause waits, and says whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
