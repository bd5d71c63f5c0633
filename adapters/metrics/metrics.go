// Package metrics shows what a helper counts that runs beside another scheduler.
package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metric is a metric without labels.
type Metric struct {
	name, help string
	kind       prometheus.ValueType
	value      float64
}

// Counter is a metric that only grows; its name ends in _total.
func Counter(name, help string, value int64) Metric {
	return Metric{name, help, prometheus.CounterValue, float64(value)}
}

// Gauge is a metric that goes up and down.
func Gauge(name, help string, value float64) Metric {
	return Metric{name, help, prometheus.GaugeValue, value}
}

// Loops counts the loops of a helper and what they took.
type Loops struct {
	Begun, Failures, Sessions, LastSuccess int64 // Sessions are those that were begun in place of others
	LoopSeconds, PlanSeconds               float64
}

// Run counts and times one loop of a helper.
func Run[R any](l *Loops, loop func() (R, error)) (R, error) {
	began := time.Now()
	l.Begun++
	result, err := loop()
	l.LoopSeconds = time.Since(began).Seconds()
	if err != nil {
		l.Failures++
	} else {
		l.LastSuccess = time.Now().Unix()
	}
	return result, err
}

// Metrics are those of loops; failed says which loops count as failures.
func (l *Loops) Metrics(failed string) []Metric {
	return []Metric{
		Counter("loops_total", "Loops that were begun.", l.Begun),
		Counter("failures_total", failed, l.Failures),
		Counter("sessions_total", "Sessions that were begun because the one before could not go on.", l.Sessions),
		Gauge("last_success_timestamp_seconds", "When a loop last succeeded.", float64(l.LastSuccess)),
		Gauge("loop_seconds", "How long the last loop took.", l.LoopSeconds),
		Gauge("plan_seconds", "How long its plan took.", l.PlanSeconds),
	}
}

// Shown holds the metrics of a helper as they were after its last loop. Safe for concurrent use.
type Shown struct {
	prefix  string
	mu      sync.Mutex
	metrics []Metric
}

// New shows m before the first loop. All names begin with prefix.
func New(prefix string, m []Metric) *Shown { return &Shown{prefix: prefix, metrics: m} }

// Set shows m, which has the names of the metrics that New was given, from now on.
func (s *Shown) Set(m []Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metrics = m
}

// Describe is a method of prometheus.Collector.
func (s *Shown) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, to) }

// Collect is a method of prometheus.Collector.
func (s *Shown) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.metrics {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(s.prefix+m.name, m.help, nil, nil), m.kind, m.value)
	}
}

// Handler serves the metrics, and those of the process, in the forms that Prometheus reads.
func (s *Shown) Handler() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(s, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}
