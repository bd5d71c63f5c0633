// Package api serves Hare over HTTP: routes, handlers, the one map from errors to problem documents, and metrics.
// Handlers read and check a request, let packages service, solves, sessions, clusters or access do the work, and write
// the answer.
package api

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/wire"
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

// New returns the handler of all routes.
func New(svc *service.Service, cfg Config) http.Handler {
	if cfg.Solves == nil {
		panic("api: Config.Solves is nil")
	}
	if cfg.MaxBodyBytes <= 0 {
		cfg.MaxBodyBytes = wire.DefaultMaxBytes
	}
	if cfg.BodyTime <= 0 {
		cfg.BodyTime = 2 * time.Minute
	}
	if cfg.BodyGrace <= 0 {
		cfg.BodyGrace = bodyGrace
	}
	if cfg.Memory == nil {
		cfg.Memory = admission.NewMemory(4<<30, cfg.Keys != nil)
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = 15 * time.Second
	}
	if cfg.MaxStreams <= 0 {
		cfg.MaxStreams = 4096
	}
	if cfg.MaxWhatIfs <= 0 {
		cfg.MaxWhatIfs = defaultMaxWhatIfs
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.EngineRestarts == nil {
		cfg.EngineRestarts = func() int64 { return 0 }
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	s := &server{svc: svc, cfg: cfg, met: newMetrics(svc, &cfg), badKeys: newBadKeyLimiter(),
		calls: make(chan struct{}, 2*svc.Capacity()), slow: slowUploads{owners: map[string]int{}},
		registrations: registrationLimiter{buckets: map[string]*rate.Limiter{}}}
	if cfg.Sessions != nil {
		s.met.registerSessions(cfg.Sessions)
	}
	if cfg.Clusters != nil {
		s.met.registry.MustRegister(newClusterCollector(cfg.Clusters))
	}
	svc.SetHooks(s.hooks())
	s.metrics = MetricsHandler(s.met.registry)
	r := chi.NewRouter()
	r.Use(s.traced, s.identify, s.writeTimeout, s.observe, s.recoverPanics, s.securityHeaders, s.guarded, s.authenticate,
		s.compress, middleware.GetHead)
	r.NotFound(s.pathNotFound)
	r.MethodNotAllowed(s.methodNotAllowed(r))
	s.solveRoutes(r)
	r.Post("/v1/bounds", s.handle(s.admit(s.bound)))
	r.Post("/v1/verify", s.handle(s.admit(s.verify)))
	s.explainRoutes(r)
	s.whatIfRoutes(r)
	s.simulationRoutes(r)
	s.sessionRoutes(r)
	s.clusterRoutes(r)
	s.keyRoutes(r)
	r.Get("/v1/policies", s.handle(s.getPolicies))
	r.Get("/v1/version", s.handle(s.version))
	r.Get("/healthz", s.handle(s.health))
	r.Get("/readyz", s.handle(s.ready))
	if !cfg.PrivateMetrics {
		r.Get("/metrics", s.handle(requireAdmin(true, s.measurements), "name[]"+repeatable))
	}
	r.Get("/openapi.json", s.handle(s.specificationJSON))
	r.Get("/openapi.yaml", s.handle(s.specificationYAML))
	r.Get("/docs", s.handle(s.docs))
	r.Get("/", s.handle(s.home))
	return r
}

// methodNotAllowed answers 405 and names the methods that the path has.
func (s *server) methodNotAllowed(routes chi.Routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
			as := m
			if m == http.MethodHead {
				as = http.MethodGet
			}
			if routes.Match(chi.NewRouteContext(), as, r.URL.Path) {
				allowed = append(allowed, m)
			}
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		s.problem(w, r, http.StatusMethodNotAllowed, "method_not_allowed",
			r.Method+" is not allowed here, but "+strings.Join(allowed, ", ")+": see /docs", nil)
	}
}
