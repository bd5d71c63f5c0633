package solves

import (
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
)

// How often a running solve reports its progress.
const (
	// reportInterval is the least time between two events of better values, and between
	// two of better bounds.
	reportInterval = 50 * time.Millisecond
	// checkpointShare is the greatest share of the run time that checkpoints may take.
	checkpointShare = 0.05
)

func (r *reporter) begin(s *solve) {
	*r = reporter{solve: s, nextSave: time.Now().Add(s.parent.cfg.Checkpoint / 4)}
}

// progress implements solver.Config.Progress.
func (r *reporter) progress(ev solver.Event) {
	r.value, r.bound = better(r.value, ev.Value, -1), better(r.bound, ev.Bound, 1)
	now := time.Now()
	if ev.Phase == r.phase && now.Sub(r.reportedAt) < reportInterval {
		return
	}
	r.solve.mu.Lock()
	defer r.solve.mu.Unlock()
	events := r.newEvents(nil)
	if ev.Phase != r.phase {
		r.phase = ev.Phase
		events = append(events, r.solve.event(Event{Type: EventPhase, Phase: ev.Phase}))
	}
	if len(events) > 0 {
		r.reportedAt = now
		r.solve.logEvents(events...)
	}
}

// checkpoint implements solver.Config.Checkpoint.
func (r *reporter) checkpoint(best func() (*hare.Result, error)) {
	now := time.Now()
	if now.Before(r.nextSave) {
		return
	}
	r.solve.mu.Lock()
	saving := r.solve.saving
	r.solve.mu.Unlock()
	if saving {
		return
	}
	res, err := best()
	took := time.Since(now)
	r.nextSave = now.Add(max(r.solve.parent.cfg.Checkpoint, time.Duration(float64(took)/checkpointShare)))
	if err != nil {
		// The same error ends the solve later, and is reported then.
		r.solve.parent.cfg.Logger.Error("a checkpoint could not be made", "solve", r.solve.id, "error", err)
		return
	}
	r.solve.mu.Lock()
	r.solve.saving = true
	r.solve.mu.Unlock()
	r.solve.parent.work.Add(1)
	go func() {
		defer r.solve.parent.work.Done()
		r.solve.save(res)
		r.solve.mu.Lock()
		r.solve.saving = false
		r.solve.mu.Unlock()
	}()
}
