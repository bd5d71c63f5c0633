package policies_test

import (
	"strings"
	"testing"
)

// BenchmarkGavel simulates every row of the reference. It reports the jobs per second, and
// this rate over the rate of Gavel, which also ran on two cores.
func BenchmarkGavel(b *testing.B) {
	solver := pool(b)
	for _, r := range references(b, "gavel_reference.csv") {
		b.Run(r.policy+"/"+strings.TrimSuffix(strings.TrimPrefix(r.trace, "gavel_trace_"), ".csv"), func(b *testing.B) {
			for b.Loop() {
				r.play(b, solver)
			}
			rate := float64(r.jobs) * float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "jobs/s")
			b.ReportMetric(rate/(float64(r.jobs)/r.wallS), "×gavel")
			b.ReportMetric(0, "ns/op")
		})
	}
}
