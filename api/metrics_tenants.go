package api

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Labels of those that have none of their own.
const (
	noTenant     = "none"  // the server has no keys
	otherTenants = "other" // came when the table was full
)

// defaultMetricTenants bounds the tenants with a label of their own.
const defaultMetricTenants = 50

// tenantTable gives labels to the first tenants that come, for the life of the
// process, so that a counter never moves from one label to another; the rest
// share one. Memory and series are bounded by its size.
type tenantTable struct {
	mu    sync.RWMutex
	known map[string]struct{}
	most  int
}

func (t *tenantTable) label(tenant string) string {
	if tenant == "" {
		return noTenant
	}
	t.mu.RLock()
	_, known := t.known[tenant]
	full := len(t.known) >= t.most
	t.mu.RUnlock()
	if known {
		return tenant
	}
	if full {
		return otherTenants
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.known[tenant]; !known && len(t.known) >= t.most {
		return otherTenants
	}
	t.known[tenant] = struct{}{}
	return tenant
}

// tenantMetrics count what tenants use.
type tenantMetrics struct {
	table    *tenantTable
	requests *prometheus.CounterVec
	solves   *prometheus.CounterVec
	seconds  *prometheus.CounterVec
}

func newTenantMetrics(most int) tenantMetrics {
	if most <= 0 {
		most = defaultMetricTenants
	}
	return tenantMetrics{
		table: &tenantTable{known: map[string]struct{}{}, most: most},
		requests: counter("hare_tenant_requests_total",
			"Requests by tenant and class of status; tenants beyond the table are other.", "tenant", "class"),
		solves:  counter("hare_tenant_solves_total", "Solves with a result by tenant.", "tenant"),
		seconds: counter("hare_tenant_solve_seconds_total", "Time that solves ran by tenant.", "tenant"),
	}
}

// classes of status: what was refused for load or quota is apart.
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

func (m *tenantMetrics) request(tenant string, status int) {
	m.requests.WithLabelValues(m.table.label(tenant), statusClass(status)).Inc()
}

func (m *tenantMetrics) solved(tenant string, took time.Duration) {
	label := m.table.label(tenant)
	m.solves.WithLabelValues(label).Inc()
	m.seconds.WithLabelValues(label).Add(took.Seconds())
}
