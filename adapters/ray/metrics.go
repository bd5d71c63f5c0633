package ray

import (
	"github.com/hare-sched/hare/adapters/metrics"
)

// counters are what the metrics show.
type counters struct {
	metrics.Loops
	PlanFailures, InOrder, Submitted, Requeued, Freed, Ended int64 // since the start
	Waiting, Active, NoRoom, Stuck                           int
	Leads, Cut                                               bool
	Unread                                                   int64
}

// shown are the metrics.
func (c *counters) shown() []metrics.Metric {
	flag := func(on bool) float64 {
		if on {
			return 1
		}
		return 0
	}
	return append(c.Metrics("Loops that failed because Ray or the queue could not be read."),
		metrics.Counter("plan_failures_total", "Loops in which no plan came.", c.PlanFailures),
		metrics.Counter("in_order_total", "Loops that started jobs first come, first served.", c.InOrder),
		metrics.Counter("submitted_total", "Jobs that were submitted to Ray.", c.Submitted),
		metrics.Counter("requeued_total", "Jobs that Ray could not begin and that wait again.", c.Requeued),
		metrics.Counter("freed_total", "Jobs that wait again because the node to which they were sent died before Ray "+
			"began them.", c.Freed),
		metrics.Counter("ended_total", "Jobs whose end was read.", c.Ended),
		metrics.Gauge("jobs_waiting", "Jobs that wait in the queue.", float64(c.Waiting)),
		metrics.Gauge("jobs_active", "Jobs that Ray begins or runs.", float64(c.Active)),
		metrics.Gauge("jobs_without_node", "Waiting jobs that no node could run.", float64(c.NoRoom)),
		metrics.Gauge("jobs_stuck", "Jobs that Ray has had for a minute and has not begun.", float64(c.Stuck)),
		metrics.Gauge("leads", "1 where this process submits, 0 where another does.", flag(c.Leads)),
		metrics.Gauge("unread_values", "Values of the last reading that could not be read and were left aside.",
			float64(c.Unread)),
		metrics.Gauge("nodes_cut", "1 where Ray has more nodes than it tells at once.", flag(c.Cut)),
	)
}
