package api

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label tenant where a tenant has no series of its own.
const (
	noTenant     = "none"  // the server has no keys
	otherTenants = "other" // the tenant came when the table was full
)

// defaultMetricTenants is how many tenants have a label of their own by default.
const defaultMetricTenants = 50

// tenantTable gives labels of their own to the tenants that are seen first, for the
// life of the process, so that a counter never moves from one label to another. All
// later tenants share one label, so memory and the number of series are bounded.
type tenantTable struct {
	mu    sync.RWMutex
	known map[string]struct{}
	max   int
}

func (tt *tenantTable) label(tenant string) string {
	if tenant == "" {
		return noTenant
	}
	tt.mu.RLock()
	_, known := tt.known[tenant]
	full := len(tt.known) >= tt.max
	tt.mu.RUnlock()
	if known {
		return tenant
	}
	if full {
		return otherTenants
	}
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if _, known := tt.known[tenant]; !known && len(tt.known) >= tt.max {
		return otherTenants
	}
	tt.known[tenant] = struct{}{}
	return tenant
}

// tenantMetrics measures what each tenant uses.
type tenantMetrics struct {
	table    *tenantTable
	requests *prometheus.CounterVec
	solves   *prometheus.CounterVec
	seconds  *prometheus.CounterVec
}

func newTenantMetrics(max int) tenantMetrics {
	if max <= 0 {
		max = defaultMetricTenants
	}
	return tenantMetrics{
		table: &tenantTable{known: map[string]struct{}{}, max: max},
		requests: counter("hare_tenant_requests_total",
			"Requests by tenant and class of status; tenants without series of their own are other.", "tenant", "class"),
		solves:  counter("hare_tenant_solves_total", "Solves with a result by tenant.", "tenant"),
		seconds: counter("hare_tenant_solve_seconds_total", "Time that solves ran by tenant.", "tenant"),
	}
}

// statusClass returns the class of a status; "refused" is the class of refusals because
// of load or quota.
func statusClass(status int) string {
	switch {
	case status == 429 || status == 503 || status == 507:
		return "refused"
	case status >= 500:
		return "failed"
	case status >= 400:
		return "invalid"
	}
	return "ok"
}

func (tm *tenantMetrics) request(tenant string, status int) {
	tm.requests.WithLabelValues(tm.table.label(tenant), statusClass(status)).Inc()
}

func (tm *tenantMetrics) solved(tenant string, took time.Duration) {
	label := tm.table.label(tenant)
	tm.solves.WithLabelValues(label).Inc()
	tm.seconds.WithLabelValues(label).Add(took.Seconds())
}
