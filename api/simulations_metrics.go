package api

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hare-sched/hare/sim/study"
)

// simulationMetrics measures simulations that were admitted.
type simulationMetrics struct {
	ended *prometheus.CounterVec
	took  prometheus.Histogram
	jobs  prometheus.Counter
}

func newSimulationMetrics() simulationMetrics {
	return simulationMetrics{
		ended: counter("hare_simulations_total", "Simulations that left the queue and ran, by status or kind of error.",
			"status"),
		took: histogram("hare_simulation_seconds", "Time that simulations ran, without their time in the queue.", longTimes),
		jobs: prometheus.NewCounter(prometheus.CounterOpts{Name: "hare_simulated_jobs_total",
			Help: "Jobs of the runs that ended."}),
	}
}

func (sm *simulationMetrics) simulated(_ context.Context, ans *study.Answer, took time.Duration, err error) {
	sm.took.Observe(took.Seconds())
	if err != nil {
		sm.ended.WithLabelValues(errorKind(err)).Inc()
		return
	}
	sm.ended.WithLabelValues(ans.Status).Inc()
	for i := range ans.Runs {
		sm.jobs.Add(float64(len(ans.Runs[i].Each)))
	}
}
