package kube

import (
	"fmt"
	"io"
	"sync"
)

// counters are what the metrics show.
type counters struct {
	Loops, Failures, Updates, WriteFailures, Conflicts, Refused, Sessions int64 // since the start
	Waiting, LeftAlone, LastSuccess                                       int64
	LoopSeconds, PlanSeconds                                              float64
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
		{"failures_total", "counter", "Loops that ended early because reading, planning or writing failed.",
			float64(c.Failures)},
		{"updates_total", "counter", "Jobs that were let go.", float64(c.Updates)},
		{"write_failures_total", "counter", "Writes that the API server did not answer.", float64(c.WriteFailures)},
		{"conflicts_total", "counter", "Writes that came too late, because somebody else had changed the Job.",
			float64(c.Conflicts)},
		{"refused_total", "counter", "Writes that the API server refused.", float64(c.Refused)},
		{"sessions_total", "counter", "Sessions that were begun because the one before could not go on.",
			float64(c.Sessions)},
		{"waiting", "gauge", "Suspended Jobs that take part.", float64(c.Waiting)},
		{"left_alone", "gauge", "Suspended Jobs that opted in and are left alone.", float64(c.LeftAlone)},
		{"last_success_timestamp_seconds", "gauge", "When a loop last succeeded.", float64(c.LastSuccess)},
		{"loop_seconds", "gauge", "How long the last loop took.", c.LoopSeconds},
		{"plan_seconds", "gauge", "How long its plan took.", c.PlanSeconds},
	} {
		if _, err := fmt.Fprintf(w, "# HELP hare_kube_%s %s\n# TYPE hare_kube_%s %s\nhare_kube_%s %g\n", m.name, m.help,
			m.name, m.kind, m.name, m.value); err != nil {
			return err
		}
	}
	return nil
}
