package api

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hare-sched/hare/service"
)

// watch counts the sessions when somebody looks.
func (m *metrics) watch(sessions *service.Sessions) {
	count := func(counts func(service.SessionInfo) bool) func() float64 {
		return func() (n float64) {
			infos, _ := sessions.List(context.Background()) // of none, none are counted
			for i := range infos {
				if counts(infos[i]) {
					n++
				}
			}
			return n
		}
	}
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hare_sessions", Help: "Sessions that exist."}, count(func(service.SessionInfo) bool { return true })),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hare_sessions_active", Help: "Sessions that are in memory."}, count(func(i service.SessionInfo) bool { return i.Active })))
	if timed, ok := sessions.Store().(*TimedStore); ok {
		m.registry.MustRegister(timed.commits, timed.events)
	}
}

// TimedStore measures how long a Store takes to make events durable.
type TimedStore struct {
	service.Store
	commits prometheus.Histogram
	events  prometheus.Histogram
}

// NewTimedStore wraps a store.
func NewTimedStore(store service.Store) *TimedStore {
	return &TimedStore{
		Store:   store,
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "hare_session_commit_seconds", Help: "Time to make a group of events durable.", Buckets: []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 2}}),
		events:  prometheus.NewHistogram(prometheus.HistogramOpts{Name: "hare_session_commit_events", Help: "Events that became durable together.", Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}}),
	}
}

// Append is Store.Append.
func (t *TimedStore) Append(ctx context.Context, rows []service.Row) error {
	began := time.Now()
	err := t.Store.Append(ctx, rows)
	t.commits.Observe(time.Since(began).Seconds())
	n := int64(0)
	for i := range rows {
		n += rows[i].Last - rows[i].First + 1
	}
	t.events.Observe(float64(n))
	return err
}
