package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
)

// sessionMetrics measures the streams of sessions.
type sessionMetrics struct {
	events     prometheus.Counter
	duplicates prometheus.Counter
	decisions  prometheus.Counter
	refused    *prometheus.CounterVec
	answers    prometheus.Histogram
	streams    *prometheus.GaugeVec
	plans      *prometheus.CounterVec
	planTimes  prometheus.Histogram
	planAges   prometheus.Histogram
}

func newSessionMetrics(registry *prometheus.Registry) sessionMetrics {
	m := sessionMetrics{
		events: prometheus.NewCounter(prometheus.CounterOpts{Name: "hare_session_events_total",
			Help: "Events that were recorded and answered."}),
		duplicates: prometheus.NewCounter(prometheus.CounterOpts{Name: "hare_session_duplicates_total",
			Help: "Events that were sent again and answered as before."}),
		decisions: prometheus.NewCounter(prometheus.CounterOpts{Name: "hare_session_decisions_total",
			Help: "Decisions in the answers to recorded events."}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hare_session_refused_total",
			Help: "Lines of events that were refused, by code."}, []string{"code"}),
		answers: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "hare_session_answer_seconds", Help: "Time from " +
			"reading an event to its durable answer.", Buckets: []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05,
			.1, .5, 2}}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "hare_session_streams",
			Help: "Open streams of events, of decisions or of logs."}, []string{"of"}),
		plans: counter("hare_session_plans_total", "Plans of sessions by outcome; a plan that was made is taken, refused "+
			"or dropped afterwards.", "outcome"),
		planTimes: histogram("hare_session_plan_seconds", "Time to make a plan of a session, failed plans included.",
			shortTimes),
		planAges: histogram("hare_session_plan_age_seconds", "Age of plans when they are taken: the time since they were "+
			"asked for.", shortTimes),
	}
	for _, outcome := range sessions.PlanOutcomes() {
		m.plans.WithLabelValues(string(outcome))
	}
	for _, of := range []string{"events", "decisions"} {
		m.streams.WithLabelValues(of)
	}
	registry.MustRegister(m.events, m.duplicates, m.decisions, m.refused, m.answers, m.streams,
		m.plans, m.planTimes, m.planAges)
	return m
}

// hooks returns the hooks that count plans.
func (m *sessionMetrics) hooks() sessions.Hooks {
	return sessions.Hooks{
		Planned: func(outcome sessions.PlanOutcome, took time.Duration) {
			m.plans.WithLabelValues(string(outcome)).Inc()
			if outcome != sessions.PlanCancelled {
				m.planTimes.Observe(took.Seconds())
			}
		},
		Given: func(outcome sessions.PlanOutcome, age time.Duration) {
			m.plans.WithLabelValues(string(outcome)).Inc()
			if outcome == sessions.PlanTaken {
				m.planAges.Observe(age.Seconds())
			}
		},
	}
}

// stream admits a stream and counts it until end is called.
func (s *server) stream(ctx context.Context, of string) (end func(), err error) {
	release := func() {}
	if callerOf(ctx) != nil {
		if release, err = s.cfg.Quotas.Stream(tenantOf(ctx)); err != nil {
			return nil, err
		}
	}
	if s.streams.Add(1) > int64(s.cfg.MaxStreams) {
		s.streams.Add(-1)
		release()
		return nil, &statusError{http.StatusServiceUnavailable, "too_many_streams",
			fmt.Sprintf("%d streams are open, which is the limit: close some, or try again later", s.cfg.MaxStreams)}
	}
	g := s.met.sessions.streams.WithLabelValues(of)
	g.Inc()
	return func() {
		g.Dec()
		s.streams.Add(-1)
		release()
	}, nil
}

// registerSessions registers the gauges of sessions, which are computed when the
// metrics are read.
func (m *metrics) registerSessions(sessions *sessions.Sessions) {
	sessions.SetHooks(m.sessions.hooks())
	planners := func(name, help string, of func(waiting, running, abandoned int) int) prometheus.Collector {
		return gaugeFunc(name, help, func() float64 { return float64(of(sessions.Planners())) })
	}
	m.registry.MustRegister(
		planners("hare_session_plans_waiting", "Plans of sessions that wait for a planner.",
			func(waiting, _, _ int) int { return waiting }),
		planners("hare_session_plans_running", "Plans of sessions that are being made.",
			func(_, running, _ int) int { return running }),
		planners("hare_session_plans_abandoned", "Planners that were left alone because they did not end in time, and "+
			"still run.", func(_, _, abandoned int) int { return abandoned }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hare_sessions", Help: "Sessions that exist."},
			func() float64 { n, _ := sessions.Count(); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hare_sessions_active", Help: "Sessions that are in memory."},
			func() float64 { _, n := sessions.Count(); return float64(n) }))
	if timed, ok := sessions.Store().(*TimedStore); ok {
		m.registry.MustRegister(timed.commits, timed.events, timed.bytes, timed.failures)
	}
}

// TimedStore measures how long a SessionStore takes to make events durable.
type TimedStore struct {
	store.SessionStore
	commits  prometheus.Histogram
	events   prometheus.Histogram
	bytes    prometheus.Counter
	failures prometheus.Counter
}

// NewTimedStore returns a TimedStore around store.
func NewTimedStore(store store.SessionStore) *TimedStore {
	return &TimedStore{
		SessionStore: store,
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "hare_session_commit_seconds",
			Help: "Time to make a group of events durable in one commit.", Buckets: commitTimes}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "hare_session_commit_bytes_total",
			Help: "Bytes of events that became durable."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "hare_session_commit_failures_total",
			Help: "Groups of events that the disk refused; none of them was recorded."}),
		events: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "hare_session_commit_events", Help: "Number of " +
			"events that became durable in one commit.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}}),
	}
}

// Append implements store.SessionStore.
func (ts *TimedStore) Append(ctx context.Context, rows []store.Row) error {
	began := time.Now()
	err := ts.SessionStore.Append(ctx, rows)
	if err != nil {
		ts.failures.Inc()
		return err
	}
	ts.commits.Observe(time.Since(began).Seconds())
	n, size := int64(0), 0
	for i := range rows {
		n += rows[i].Last - rows[i].First + 1
		size += len(rows[i].Data)
	}
	ts.bytes.Add(float64(size))
	ts.events.Observe(float64(n))
	return nil
}
