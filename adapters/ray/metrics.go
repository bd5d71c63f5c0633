package ray

import (
	"fmt"
	"io"
	"sync"
)

// counters are what the metrics show.
type counters struct {
	Loops, Failures, PlanFailures, InOrder, Submitted, Requeued, Ended, Sessions int64 // since the start
	Waiting, Active, NoRoom                                                      int
	Leads                                                                        bool
	LastSuccess                                                                  int64
	LoopSeconds, PlanSeconds                                                     float64
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
	leads := 0.0
	if c.Leads {
		leads = 1
	}
	for _, m := range []struct {
		name, kind, help string
		value            float64
	}{
		{"loops_total", "counter", "Loops that were begun.", float64(c.Loops)},
		{"failures_total", "counter", "Loops that failed because Ray or the queue could not be read.", float64(c.Failures)},
		{"plan_failures_total", "counter", "Loops in which no plan came.", float64(c.PlanFailures)},
		{"in_order_total", "counter", "Loops that started jobs first come, first served.", float64(c.InOrder)},
		{"submitted_total", "counter", "Jobs that were submitted to Ray.", float64(c.Submitted)},
		{"requeued_total", "counter", "Jobs that Ray could not begin and that wait again.", float64(c.Requeued)},
		{"ended_total", "counter", "Jobs whose end was read.", float64(c.Ended)},
		{"sessions_total", "counter", "Sessions begun because the one before could not go on.", float64(c.Sessions)},
		{"jobs_waiting", "gauge", "Jobs that wait in the queue.", float64(c.Waiting)},
		{"jobs_active", "gauge", "Jobs that Ray begins or runs.", float64(c.Active)},
		{"jobs_without_node", "gauge", "Waiting jobs that no node could run.", float64(c.NoRoom)},
		{"leads", "gauge", "1 where this process submits, 0 where another does.", leads},
		{"last_success_timestamp_seconds", "gauge", "When a loop last succeeded.", float64(c.LastSuccess)},
		{"loop_seconds", "gauge", "How long the last loop took.", c.LoopSeconds},
		{"plan_seconds", "gauge", "How long its plan took.", c.PlanSeconds},
	} {
		if _, err := fmt.Fprintf(w, "# HELP hare_ray_%s %s\n# TYPE hare_ray_%s %s\nhare_ray_%s %g\n", m.name, m.help,
			m.name, m.kind, m.name, m.value); err != nil {
			return err
		}
	}
	return nil
}
