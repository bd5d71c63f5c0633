// Package slurm helps a Slurm that runs: it reads queue and nodes, lets a session plan by the
// policy rolling, and writes the order and the GPU types of that plan to jobs that take part. It
// never holds, cancels or starts a job.
//
// The files lie in layers: what Slurm says (commands, queue, state, features, fit), what a session gets of it
// (session), the helper with its journal, what it writes (order, keep, predict, update, free), and the loop.
package slurm

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"net/http"

	"github.com/hare-sched/hare/adapters/advice"
	"github.com/hare-sched/hare/adapters/metrics"
)

// Helper is the loop. It is not safe for concurrent use, but for Metrics.
type Helper struct {
	cfg      Config
	commands Commands
	session  *advice.Session
	journal  *Journal
	now      func() time.Time
	// cpus and memory say that Slurm hands these out, as Check found.
	cpus, memory bool
	// wouldStart is since when entries with a constraint of the helper wait although the plan starts them now.
	wouldStart map[int64]time.Time
	counted    counters
	unread     string // the first value of the last loop that could not be read
	shown      *metrics.Shown
}

// New makes a helper. It runs no command.
func New(cfg Config, commands Commands, advisor advice.Advisor, journal *Journal) (*Helper, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	session := &advice.Session{Advisor: advisor, StateFile: cfg.StateFile, PlanTime: cfg.PlanTime,
		Logger: cfg.Logger}
	session.Resume()
	return &Helper{cfg: cfg, commands: commands, session: session, journal: journal, now: time.Now,
		shown: metrics.New("hare_slurm_", new(counters).shown())}, nil
}

// write notes updates in the journal and then gives them to one scontrol.
func (h *Helper) write(ctx context.Context, event string, updates []Update) error {
	before, level := "write", slog.LevelInfo
	if event == "free" {
		before, level = event, slog.LevelWarn
	}
	if err := h.journal.record(before, updates, nil, h.now()); err != nil {
		return fmt.Errorf("nothing is written: %w", err)
	}
	for _, u := range updates {
		h.cfg.Logger.Log(ctx, level, "update", "job", u.Job, "field", u.Field, "old", u.Old, "new", u.New,
			"reason", u.Reason)
	}
	h.counted.Updates += int64(len(updates))
	_, err := h.commands.Run(ctx, script(updates), "scontrol")
	if err != nil {
		// Jobs that have started or ended meanwhile fail; the next reading tells what stands.
		h.counted.WriteFailures++
		h.cfg.Logger.Warn("scontrol reports failures", "error", err.Error())
		return nil
	}
	if event == "reset" {
		return h.journal.record("reset", updates, nil, h.now())
	}
	return nil
}

// Metrics serves the metrics. It may be called, and serve, while Step runs.
func (h *Helper) Metrics() http.Handler { return h.shown.Handler() }
