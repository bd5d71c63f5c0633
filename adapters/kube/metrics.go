package kube

import (
	"github.com/hare-sched/hare/adapters/metrics"
)

// counters are what the metrics show.
type counters struct {
	Loops, Failures, Updates, WriteFailures, Conflicts, Refused, Sessions, Freed int64 // since the start
	Waiting, LeftAlone, Stuck, LastSuccess                                       int64
	Unread, NodesLeftOut                                                         int64
	LoopSeconds, PlanSeconds                                                     float64
}

// shown are the metrics.
func (c *counters) shown() []metrics.Metric {
	return []metrics.Metric{
		metrics.Counter("loops_total", "Loops that were begun.", c.Loops),
		metrics.Counter("failures_total", "Loops that ended early because reading, planning or writing failed.",
			c.Failures),
		metrics.Counter("updates_total", "Jobs that were let go.", c.Updates),
		metrics.Counter("write_failures_total", "Writes that the API server did not answer.", c.WriteFailures),
		metrics.Counter("conflicts_total", "Writes that came too late, because somebody else had changed the Job.",
			c.Conflicts),
		metrics.Counter("refused_total", "Writes that the API server refused.", c.Refused),
		metrics.Counter("sessions_total", "Sessions that were begun because the one before could not go on.",
			c.Sessions),
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
		metrics.Gauge("last_success_timestamp_seconds", "When a loop last succeeded.", float64(c.LastSuccess)),
		metrics.Gauge("loop_seconds", "How long the last loop took.", c.LoopSeconds),
		metrics.Gauge("plan_seconds", "How long its plan took.", c.PlanSeconds),
	}
}
