// Package metrics shows what a helper counts that runs beside another scheduler.
package metrics

import (
	"net/http"
	"sync"

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
