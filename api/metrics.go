package api

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/service"
)

// metrics observes the service from outside: the packages of the domain do not know
// about metrics. docs/use/operate.md#metrics lists all metrics, and a test compares the two.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	refusals *prometheus.CounterVec
	waits    prometheus.Histogram
	phases   *prometheus.HistogramVec
	gap      prometheus.Histogram
	bounds   *prometheus.CounterVec
	ended    *prometheus.CounterVec
	failed   *prometheus.CounterVec
	cached   *prometheus.CounterVec
	cost     prometheus.Histogram
	panics   prometheus.Counter
	commits  commitMetrics
	tenants  tenantMetrics
	plays    simulationMetrics
	sessions sessionMetrics
}

func gaugeFunc(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
}

func counterFunc(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f)
}

func newMetrics(svc *service.Service, cfg *Config) *metrics {
	m := &metrics{
		registry: cfg.Registry,
		requests: counter("hare_http_requests_total", "Requests by pattern of the route, method and status.", "route",
			"method", "code"),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "hare_http_request_seconds",
			Help: "Time to answer a request by route; for a stream, how long it was open.", Buckets: shortTimes},
			[]string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "hare_http_in_flight",
			Help: "Requests that are being answered, streams included."}),
		refusals: counter("hare_refused_total", "Requests that were refused with 429, 503 or 507, by the code of the "+
			"problem.", "reason"),
		waits: histogram("hare_queue_wait_seconds",
			"Time that calls waited in the queue, whether they ran afterwards or not.",
			shortTimes),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "hare_solve_phase_seconds",
			Help: "Time of a solve by phase.", Buckets: longTimes}, []string{"phase"}),
		gap: histogram("hare_solve_gap_ratio", "Gap of solves: value over bound, less one.",
			[]float64{0, .005, .01, .02, .05, .1, .2, .5, 1, 5}),
		bounds: counter("hare_solve_bounds_total", "Solves by the method of their bound.", "method"),
		ended:  counter("hare_solves_total", "Solves that ended with a result, by termination.", "termination"),
		failed: counter("hare_solve_failures_total", "Solves that ended without a result, by kind of error.", "kind"),
		cached: counter("hare_cache_lookups_total", "Searches for an equal solve among the stored results, by outcome.",
			"outcome"),
		cost: histogram("hare_cost_ratio", "Actual over predicted time of a solve, where 1 is exact.",
			[]float64{.1, .25, .5, .8, 1, 1.25, 2, 4, 10}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{Name: "hare_panics_total",
			Help: "Requests that ended in a panic."}),
		commits: newCommitMetrics(),
		tenants: newTenantMetrics(cfg.MetricTenants),
		plays:   newSimulationMetrics(),
	}
	for _, outcome := range []string{"hit", "miss"} {
		m.cached.WithLabelValues(outcome)
	}
	m.sessions = newSessionMetrics(m.registry)
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "hare_build_info",
		Help: "1, with the versions as labels."}, []string{"version", "highs", "go"})
	build.WithLabelValues(svc.Version(), svc.EngineVersion(), runtime.Version()).Set(1)
	m.registry.MustRegister(m.requests, m.latency, m.inFlight, m.refusals, m.waits, m.phases, m.gap, m.bounds, m.ended,
		m.failed, m.cached, m.cost, m.panics,
		m.commits.took, m.commits.bytes, m.commits.failures,
		m.plays.ended, m.plays.took, m.plays.jobs,
		m.tenants.requests, m.tenants.solves, m.tenants.seconds, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gaugeFunc("hare_queue_waiting", "Calls that wait in the queue.",
			func() float64 { w, _ := svc.Load(); return float64(w) }),
		gaugeFunc("hare_queue_running", "Calls that run.", func() float64 { _, r := svc.Load(); return float64(r) }),
		gaugeFunc("hare_queue_capacity", "Most calls that may wait or run: --running + --queue.",
			func() float64 { return float64(svc.Capacity()) }),
		gaugeFunc("hare_ready", "1 while new work is taken, 0 while the server drains.", func() float64 {
			if svc.Ready() {
				return 1
			}
			return 0
		}))
	m.registerEngine(cfg.Engine, cfg.EngineRestarts)
	m.registerTracing(cfg.Tracing)
	if cfg.StoreBytes != nil {
		m.registry.MustRegister(gaugeFunc("hare_store_bytes", "Bytes of the files of the data directory.",
			func() float64 { return float64(cfg.StoreBytes()) }))
	}
	return m
}

// commitMetrics measures commits of the store of solves.
type commitMetrics struct {
	took            prometheus.Histogram
	bytes, failures prometheus.Counter
}

func newCommitMetrics() commitMetrics {
	return commitMetrics{
		took: histogram("hare_solve_commit_seconds", "Time until a write for a solve was durable.", commitTimes),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "hare_solve_commit_bytes_total",
			Help: "Bytes of solves that became durable."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "hare_solve_commit_failures_total",
			Help: "Writes of solves that the disk refused."}),
	}
}

// EngineStats is the state of the LP workers. Counters begin at the start of the
// process.
type EngineStats struct {
	Starts, Recycled, Kills, Failures, Solves int64
	Idle                                      int  // workers that wait for a problem
	Available                                 bool // false while only the Go engine solves LPs
}

func (m *metrics) registerEngine(stats func() EngineStats, restarts func() int64) {
	if stats == nil {
		stats = func() EngineStats { return EngineStats{} }
	}
	count := func(name, help string, of func(*EngineStats) int64) prometheus.Collector {
		return counterFunc(name, help, func() float64 { s := stats(); return float64(of(&s)) })
	}
	m.registry.MustRegister(
		counterFunc("hare_lp_worker_restarts_total", "LP workers started in place of a worker that failed or was killed.",
			func() float64 { return float64(restarts()) }),
		count("hare_lp_worker_starts_total", "LP workers that started.", func(s *EngineStats) int64 { return s.Starts }),
		count("hare_lp_worker_recycled_total", "LP workers replaced after a fixed number of linear programs.",
			func(s *EngineStats) int64 { return s.Recycled }),
		count("hare_lp_worker_kills_total", "LP workers killed at a deadline.",
			func(s *EngineStats) int64 { return s.Kills }),
		count("hare_lp_worker_failures_total", "LP workers that died, sent a wrong answer or did not start.",
			func(s *EngineStats) int64 { return s.Failures }),
		count("hare_lp_solves_total", "Linear programs solved.", func(s *EngineStats) int64 { return s.Solves }),
		gaugeFunc("hare_lp_workers_idle", "LP workers that are ready.", func() float64 { return float64(stats().Idle) }),
		gaugeFunc("hare_lp_available", "1, or 0 while LP workers fail too often and only the Go engine is used.",
			func() float64 {
				if stats().Available {
					return 1
				}
				return 0
			}))
}

// request counts an answer. If the trace of the request is sampled, its id is the
// exemplar of the measured time.
func (m *metrics) request(ctx context.Context, route, method, tenant string, status int, took time.Duration) {
	switch method {
	case "GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH":
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	latency := m.latency.WithLabelValues(route)
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		latency.(prometheus.ExemplarObserver).ObserveWithExemplar(took.Seconds(),
			prometheus.Labels{"trace_id": span.TraceID().String()})
	} else {
		latency.Observe(took.Seconds())
	}
	m.tenants.request(tenant, status)
}

// refused counts a problem document by its code, one of the program's constants, where
// the status means overload or a quota.
func (m *metrics) refused(status int, code string) {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusInsufficientStorage:
		m.refusals.WithLabelValues(code).Inc()
	}
}

// outcome counts a solve that ended with a result.
func (m *metrics) outcome(tenant string, r *hare.Result) {
	t := r.Timing
	for phase, d := range map[string]time.Duration{"total": t.Total, "relax": t.Relax, "assign": t.Assign,
		"improve": t.Improve, "verify": t.Verify} {
		m.phases.WithLabelValues(phase).Observe(d.Seconds())
	}
	m.ended.WithLabelValues(r.Termination).Inc()
	if r.Certificate != nil {
		m.bounds.WithLabelValues(r.Certificate.Method).Inc()
	}
	if g, ok := r.Gap(); ok {
		f, _ := g.Float64()
		m.gap.Observe(f)
	}
	m.tenants.solved(tenant, t.Total)
}

// MetricsHandler serves the metrics in the text formats of Prometheus.
func MetricsHandler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}
