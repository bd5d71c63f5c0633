package api

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/service"
)

// metrics wraps the service; the domain knows nothing of it.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	phases   *prometheus.HistogramVec
	gap      prometheus.Histogram
	bounds   *prometheus.CounterVec
	ended    *prometheus.CounterVec
	panics   prometheus.Counter
	sessions sessionMetrics
}

func newMetrics(svc *service.Service, restarts func() int64) *metrics {
	times := []float64{.001, .005, .02, .1, .5, 1, 2, 5, 10, 30, 60, 300}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hare_http_requests_total", Help: "Requests by route, method and status."}, []string{"route", "method", "code"}),
		latency:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "hare_http_request_seconds", Help: "Time to answer by route.", Buckets: times}, []string{"route"}),
		phases:   prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "hare_solve_phase_seconds", Help: "Time of a solve by phase.", Buckets: times}, []string{"phase"}),
		gap:      prometheus.NewHistogram(prometheus.HistogramOpts{Name: "hare_solve_gap_ratio", Help: "Value over bound less one.", Buckets: []float64{0, .005, .01, .02, .05, .1, .2, .5, 1, 5}}),
		bounds:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hare_solve_bounds_total", Help: "Solves by the method of their bound."}, []string{"method"}),
		ended:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hare_solves_total", Help: "Solves by termination."}, []string{"termination"}),
		panics:   prometheus.NewCounter(prometheus.CounterOpts{Name: "hare_panics_total", Help: "Requests that ended in a panic."}),
	}
	m.sessions = newSessionMetrics(m.registry)
	m.registry.MustRegister(m.requests, m.latency, m.phases, m.gap, m.bounds, m.ended, m.panics,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hare_queue_waiting", Help: "Calls that wait for a place."}, func() float64 { w, _ := svc.Load(); return float64(w) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hare_queue_running", Help: "Calls that run."}, func() float64 { _, r := svc.Load(); return float64(r) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "hare_lp_worker_restarts_total", Help: "LP workers started in place of one that failed."}, func() float64 { return float64(restarts()) }))
	return m
}

func (m *metrics) request(route, method string, status int, took time.Duration) {
	switch method {
	case "GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH":
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.latency.WithLabelValues(route).Observe(took.Seconds())
}

func (m *metrics) solved(r *hare.Result) {
	t := r.Timing
	for phase, d := range map[string]time.Duration{"total": t.Total, "relax": t.Relax, "assign": t.Assign, "improve": t.Improve, "verify": t.Verify} {
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
}
