package slurm

import (
	"fmt"
	"io"
	"sync"
)

// counters are what the metrics show.
type counters struct {
	Loops, Failures, Updates, WriteFailures, Foreign, Sessions int64 // since the start
	Jobs, OutOfOrder, LastSuccess                              int64
	LoopSeconds, PlanSeconds                                   float64
}

// sharedCounters are counters that other goroutines read.
type sharedCounters struct {
	mu    sync.Mutex
	value counters
}

func (s *sharedCounters) set(c counters) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value = c
}

// WriteMetrics writes the metrics in Prometheus' text form. It may run beside Step.
func (h *Helper) WriteMetrics(w io.Writer) error {
	h.shared.mu.Lock()
	c := h.shared.value
	h.shared.mu.Unlock()
	for _, m := range []struct {
		name, kind, help string
		value            float64
	}{
		{"loops_total", "counter", "Loops that were begun.", float64(c.Loops)},
		{"failures_total", "counter", "Loops that wrote nothing because reading or planning failed.", float64(c.Failures)},
		{"updates_total", "counter", "Values that were given to scontrol.", float64(c.Updates)},
		{"write_failures_total", "counter", "Calls of scontrol that reported failures.", float64(c.WriteFailures)},
		{"foreign_total", "counter", "Jobs left alone because somebody else had set their value, over all loops.",
			float64(c.Foreign)},
		{"sessions_total", "counter", "Sessions that were begun because the one before could not go on.",
			float64(c.Sessions)},
		{"jobs", "gauge", "Waiting jobs that take part.", float64(c.Jobs)},
		{"out_of_order", "gauge", "Neighbours in the plan whose priorities the range keeps out of order.",
			float64(c.OutOfOrder)},
		{"last_success_timestamp_seconds", "gauge", "When a loop last succeeded.", float64(c.LastSuccess)},
		{"loop_seconds", "gauge", "How long the last loop took.", c.LoopSeconds},
		{"plan_seconds", "gauge", "How long its plan took.", c.PlanSeconds},
	} {
		if _, err := fmt.Fprintf(w, "# HELP hare_slurm_%s %s\n# TYPE hare_slurm_%s %s\nhare_slurm_%s %g\n", m.name, m.help,
			m.name, m.kind, m.name, m.value); err != nil {
			return err
		}
	}
	return nil
}
