package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/solves"
)

// Config configures the server. Zero is a valid value of each field but Solves.
type Config struct {
	// MaxBodyBytes limits the size of a request's body, before and after decompression;
	// zero means 64 MiB.
	MaxBodyBytes int64
	// BodyTime is how long a client may take to send a body; zero means 2 min. BodyGrace is how long
	// it may take at any rate; behind that a body must have come at 16 KiB a second. Zero means 5 s.
	BodyTime, BodyGrace time.Duration
	// Memory is what bodies, the documents in them and the work on these may take; nil means 4 GiB.
	Memory *admission.Memory
	// Logger gets one line for each request; nil means no log.
	Logger *slog.Logger
	// EngineRestarts returns how often LP workers were restarted, for metrics; nil
	// means never.
	EngineRestarts func() int64
	// Engine returns the state of the LP workers, for metrics; nil means that there are
	// none.
	Engine func() EngineStats
	// StoreBytes returns the size of the data directory, for metrics; nil means that
	// there is none.
	StoreBytes func() int64
	// MetricTenants is how many tenants have metric series of their own; zero means 50.
	MetricTenants int
	// Registry gets the metrics; nil means a new registry.
	Registry *prometheus.Registry
	// PrivateMetrics removes /metrics from the routes: the caller serves the registry
	// elsewhere.
	PrivateMetrics bool
	// Tracing receives the spans; nil means that no spans are recorded.
	Tracing *Tracing
	// Heartbeat is the interval of the comments that keep the connection of an idle
	// EventSource open; zero means 15 s.
	Heartbeat time.Duration
	// MaxStreams limits how many streams of events and decisions are open at a time;
	// zero means 4,096.
	MaxStreams int
	// MaxWhatIfs limits how many what-ifs of one tenant run at a time; zero means 4.
	MaxWhatIfs int
	// Sessions are served under /v1/sessions; nil means that the server has no
	// sessions.
	Sessions *sessions.Sessions
	// Clusters are served under /v1/clusters; nil means that the server manages no clusters.
	Clusters *clusters.Clusters
	// Solves keeps solves and is served under /v1/solves; New panics without it.
	Solves *solves.Solves
	// Hosts are the names by which requests may call the server; nil means, with Keys, that every name is allowed, and
	// without Keys, the zero Hosts.
	Hosts *Hosts
	// Keys authenticates callers; nil means that everybody may do everything.
	Keys *access.Keyring
	// Quotas limits each tenant of Keys; nil means no limits.
	Quotas *admission.Quotas
}

type server struct {
	svc     *service.Service
	cfg     Config
	met     *metrics
	metrics http.Handler
	badKeys *badKeyLimiter
	streams atomic.Int64 // number of open streams
	whatIfs whatIfLimiter
	calls   chan struct{} // a semaphore: one item for each request that is admitted
	slow    slowUploads

	registrations registrationLimiter
	binding       sync.Mutex // of keys to the nodes that they register first
	making        sync.Mutex // of clusters by keys of role agent
}

// registrationLimiter limits how often agents register. Safe for concurrent use. Its memory is proportional to the
// number of keys that have registered lately.
type registrationLimiter struct {
	mu      sync.Mutex
	buckets map[string]*rate.Limiter // by key, or by tenant
}

// slowUploads counts uploads that take long.
type slowUploads struct {
	mu     sync.Mutex
	all    int
	owners map[string]int
}

// whatIfLimiter counts the running what-ifs of each tenant.
type whatIfLimiter struct {
	mu      sync.Mutex
	running map[string]int
}

// defaultMaxWhatIfs is how many what-ifs of a tenant run at a time by default.
const defaultMaxWhatIfs = 4

type requestKey struct{}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

type callerKey struct{}

// callerOf returns the key of the caller; nil where the server has no keys.
func callerOf(ctx context.Context) *access.Key {
	key, _ := ctx.Value(callerKey{}).(*access.Key)
	return key
}

// agentPath reports whether a request is one of those that agents make. Agents renew their leases all the time, so
// that the tenant's limit of calls does not count them.
func agentPath(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, "/v1/clusters/")
	parts := strings.Split(rest, "/")
	if !ok || r.URL.RawPath != "" || len(parts) < 2 || parts[1] != "agents" {
		return false
	}
	what := ""
	if len(parts) == 4 {
		what = parts[3]
	}
	switch r.Method {
	case http.MethodPost:
		return len(parts) == 2 || what == "sync" || what == "logs" || what == "checkpoints"
	case http.MethodGet:
		return what == "checkpoints"
	}
	return false
}

// keyEnded reports whether a request was cancelled because its key was revoked or
// expired.
func keyEnded(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), access.ErrKeyEnded)
}

// bodyLimit returns the greatest size of the request's body, in bytes.
func (s *server) bodyLimit(ctx context.Context) int64 {
	if callerOf(ctx) == nil {
		return s.cfg.MaxBodyBytes
	}
	return min(s.cfg.MaxBodyBytes, s.cfg.Quotas.Of(tenantOf(ctx)).BodyBytes)
}

// bodyGrace is how long a body may take to arrive at any rate, and bodyRate is the least rate in bytes a second behind
// that: a client that has stopped sending is noticed soon, and does not hold what it has for Config.BodyTime.
const (
	bodyGrace = 5 * time.Second
	bodyRate  = 16 << 10
)

type tenantKey struct{}

// tenantOf returns the tenant of the caller; "" where the server has no keys.
func tenantOf(ctx context.Context) string {
	id, _ := ctx.Value(tenantKey{}).(string)
	return id
}

const (
	kindEvents = "text/event-stream"
	kindJSON   = "application/json"
	kindBytes  = "application/octet-stream"
	kindNDJSON = "application/x-ndjson"
	kindText   = "text/plain; charset=utf-8"
)
