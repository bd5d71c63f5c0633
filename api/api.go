// Package api serves Hare over HTTP: thin handlers on the service, one map from
// errors to problem documents, metrics.
package api

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hare-sched/hare/access"
	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/service"
	"github.com/hare-sched/hare/sessions"
	"github.com/hare-sched/hare/solves"
	"github.com/hare-sched/hare/wire"
)

// Config tunes the server. The zero value is good.
type Config struct {
	// MaxBodyBytes limits request bodies, before and after decompression; zero
	// means 64 MiB.
	MaxBodyBytes int64
	// BodyTime is how long a client may take to send a body; zero means 2 min.
	BodyTime time.Duration
	// Logger gets one line a request; nil means none.
	Logger *slog.Logger
	// EngineRestarts counts restarts of LP workers, for metrics; nil means 0.
	EngineRestarts func() int64
	// Engine is the state of the LP workers, for metrics; nil means none.
	Engine func() EngineStats
	// StoreBytes is the size of the data directory, for metrics; nil means none.
	StoreBytes func() int64
	// MetricTenants is how many tenants have series of their own; zero means 50.
	MetricTenants int
	// Registry gets the metrics; nil means one of its own.
	Registry *prometheus.Registry
	// PrivateMetrics leaves /metrics out: the registry is served elsewhere.
	PrivateMetrics bool
	// Tracing gets the spans; nil means no tracing.
	Tracing *Tracing
	// Heartbeat is how often a stream of events for an EventSource says that it
	// is alive; zero means 15 s.
	Heartbeat time.Duration
	// MaxStreams limits the streams of events and decisions that are open at a
	// time; zero means 4,096.
	MaxStreams int
	// MaxWhatIfs limits the what-ifs of a tenant that run at a time; zero means 4.
	MaxWhatIfs int
	// Sessions are served under /v1/sessions; nil means none.
	Sessions *sessions.Sessions
	// Solves are kept, and served under /v1/solves; nil means that each lasts as
	// long as its call.
	Solves *solves.Solves
	// Solved has the solves that explanations, prices and what-ifs are about; nil
	// means Solves.
	Solved Solved
	// Keys are asked of callers; nil means that everybody may do everything.
	Keys *access.Keyring
	// Quotas limits what each tenant of Keys has; nil means not at all.
	Quotas *admission.Quotas
}

type server struct {
	svc     *service.Service
	cfg     Config
	met     *metrics
	metrics http.Handler
	guesses *guesses
	streams atomic.Int64 // that are open
	whatIfs batches
	calls   chan struct{} // one for each call whose body is being read or worked on
}

// New returns the routes.
func New(svc *service.Service, cfg Config) http.Handler {
	if cfg.MaxBodyBytes <= 0 {
		cfg.MaxBodyBytes = wire.DefaultMaxBytes
	}
	if cfg.BodyTime <= 0 {
		cfg.BodyTime = 2 * time.Minute
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = 15 * time.Second
	}
	if cfg.MaxStreams <= 0 {
		cfg.MaxStreams = 4096
	}
	if cfg.MaxWhatIfs <= 0 {
		cfg.MaxWhatIfs = mostWhatIfs
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
	s := &server{svc: svc, cfg: cfg, met: newMetrics(svc, &cfg), guesses: newGuesses(),
		calls: make(chan struct{}, 2*svc.Capacity())}
	if cfg.Solves != nil && cfg.Solved == nil {
		s.cfg.Solved = cfg.Solves
	}
	if cfg.Sessions != nil {
		s.met.registerSessions(cfg.Sessions)
	}
	svc.Watch(s.hooks())
	s.metrics = MetricsHandler(s.met.registry)
	r := chi.NewRouter()
	r.Use(s.traced, s.identify, s.writeTimeout, s.observe, s.survive, s.harden, s.authenticate, s.compress,
		middleware.GetHead)
	r.NotFound(s.nothing)
	r.MethodNotAllowed(s.methodNotAllowed(r))
	s.solveRoutes(r)
	r.Post("/v1/bounds", s.handle(s.admit(s.bound)))
	r.Post("/v1/verify", s.handle(s.admit(s.verify)))
	s.explainRoutes(r)
	s.whatIfRoutes(r)
	s.simulationRoutes(r)
	s.sessionRoutes(r)
	s.keyRoutes(r)
	r.Get("/v1/version", s.handle(s.version))
	r.Get("/healthz", s.handle(s.health))
	r.Get("/readyz", s.handle(s.ready))
	if !cfg.PrivateMetrics {
		r.Get("/metrics", s.handle(only(true, s.measurements), "name[]"+often))
	}
	r.Get("/openapi.json", s.handle(s.specificationJSON))
	r.Get("/openapi.yaml", s.handle(s.specificationYAML))
	r.Get("/docs", s.handle(s.docs))
	r.Get("/", s.handle(s.home))
	return r
}

// methodNotAllowed names the methods that the path has.
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
