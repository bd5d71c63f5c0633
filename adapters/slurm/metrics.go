package slurm

import (
	"github.com/hare-sched/hare/adapters/metrics"
)

// counters are what the metrics show.
type counters struct {
	metrics.Loops
	Updates, WriteFailures, Foreign, Freed, Unread int64 // since the start
	Jobs, OutOfOrder, Withheld                     int64
}

// shown are the metrics.
func (c *counters) shown() []metrics.Metric {
	return append(c.Metrics("Loops that wrote nothing because reading or planning failed."),
		metrics.Counter("updates_total", "Values that were given to scontrol.", c.Updates),
		metrics.Counter("write_failures_total", "Calls of scontrol that reported failures.", c.WriteFailures),
		metrics.Counter("foreign_total", "Jobs left alone because somebody else had set their value, over all loops.",
			c.Foreign),
		metrics.Counter("freed_total", "Jobs whose own constraint was given back because the one that was written kept "+
			"them from starting, or would have.", c.Freed),
		metrics.Counter("unread_total",
			"Values of Slurm's answers that could not be read, over all loops; each costs its own "+
				"job or node alone.", c.Unread),
		metrics.Gauge("withheld", "Jobs that got no type in the last loop because no node satisfies their request and the "+
			"constraint together.", float64(c.Withheld)),
		metrics.Gauge("jobs", "Waiting jobs that take part.", float64(c.Jobs)),
		metrics.Gauge("out_of_order", "Neighbours in the plan whose priorities the range keeps out of order.",
			float64(c.OutOfOrder)),
	)
}
