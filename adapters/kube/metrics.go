package kube

import (
	"github.com/hare-sched/hare/adapters/metrics"
)

// counters are what the metrics show.
type counters struct {
	metrics.Loops
	Updates, WriteFailures, Conflicts, Refused, Freed int64 // since the start
	Waiting, LeftAlone, Stuck                         int64
	Unread, NodesLeftOut                              int64
}

// shown are the metrics.
func (c *counters) shown() []metrics.Metric {
	return append(c.Metrics("Loops that ended early because reading, planning or writing failed."),
		metrics.Counter("updates_total", "Jobs that were let go.", c.Updates),
		metrics.Counter("write_failures_total", "Writes that the API server did not answer.", c.WriteFailures),
		metrics.Counter("conflicts_total", "Writes that came too late, because somebody else had changed the Job.",
			c.Conflicts),
		metrics.Counter("refused_total", "Writes that the API server refused.", c.Refused),
		metrics.Counter("freed_total", "Jobs and Workloads whose GPU type was taken back because they could not start "+
			"on it.", c.Freed),
		metrics.Gauge("stuck", "Jobs of which some pods find no node of the type chosen while others run, so that they are "+
			"not taken back.", float64(c.Stuck)),
		metrics.Gauge("waiting", "Suspended Jobs that take part.", float64(c.Waiting)),
		metrics.Gauge("left_alone", "Suspended Jobs that opted in and are left alone.", float64(c.LeftAlone)),
		metrics.Gauge("unread_values", "Values of the last reading that could not be read and were left aside.",
			float64(c.Unread)),
		metrics.Gauge("nodes_left_out", "Nodes in service that are left out because their GPUs are shared under the name "+
			"of whole ones, or are more than a cluster may have.", float64(c.NodesLeftOut)),
	)
}
