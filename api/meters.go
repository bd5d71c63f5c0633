package api

import (
	"github.com/prometheus/client_golang/prometheus"
)

// shortTimes and longTimes are histogram buckets in seconds: shortTimes for answers and
// for time in queues, longTimes for solves.
var (
	shortTimes  = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300}
	commitTimes = []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 2}
	longTimes   = []float64{.001, .005, .02, .1, .5, 1, 2, 5, 10, 30, 60, 300}
)

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}
