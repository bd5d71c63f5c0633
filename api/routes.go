// Package api serves Hare over HTTP. A handler reads and checks a request, lets a package of serve do the work, or
// packages explain, whatif and sim/study in a slot of the queue, and writes the answer.
//
// Its files are layers: the server's state and configuration (server.go), metrics and the one map from errors to
// problem documents (problem.go), what all requests pass through (middleware.go, access.go, incoming.go, request.go),
// handlers by resource, whose names the files begin with, and the routes and the constructor at the top (routes.go).
package api

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/wire"
)

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
	s.capacityRoutes(r)
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
		for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
			http.MethodDelete} {
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

func (s *server) capacityRoutes(r chi.Router) {
	r.Post("/v1/capacity", s.handle(s.admit(s.planCapacity)))
	r.Get("/v1/capacity", s.handle(s.listCapacity, "label"+repeatable, "q", "limit", "after"))
	r.Get("/v1/capacity/{id}", s.handle(s.admit(s.getCapacity)))
	r.Get("/v1/capacity/{id}/request", s.handle(s.getCapacityRequest))
	r.Delete("/v1/capacity/{id}", s.handle(s.deleteCapacity))
}

// clusterRoutes adds routes that exist also without Config.Clusters: they answer 404 then.
func (s *server) clusterRoutes(r chi.Router) {
	r.Post("/v1/clusters", s.handle(s.createCluster))
	r.Get("/v1/clusters", s.handle(s.listClusters))
	r.Get("/v1/clusters/{cluster}", s.handle(s.getCluster))
	r.Delete("/v1/clusters/{cluster}", s.handle(s.deleteCluster))
	r.Get("/v1/clusters/{cluster}/changes", uncompressed(s.handle(s.getClusterChanges, "after")))
	r.Get("/v1/clusters/{cluster}/history", s.handle(s.getClusterHistory, "from", "to", "step_s"))
	r.Get("/v1/clusters/{cluster}/gantt", s.handle(s.admit(s.getClusterGantt), "from", "to"))
	r.Post("/v1/clusters/{cluster}/jobs", s.handle(s.submitJob))
	r.Get("/v1/clusters/{cluster}/jobs", s.handle(s.listJobs, "state"+repeatable, "user", "name", "type",
		"label"+repeatable, "q", "sort", "after", "limit"))
	r.Post("/v1/clusters/{cluster}/jobs:preview", s.handle(s.admit(s.previewJob), "sooner"))
	r.Get("/v1/clusters/{cluster}/jobs/{job}", s.handle(s.getClusterJob))
	r.Patch("/v1/clusters/{cluster}/jobs/{job}", s.handle(s.changeJob))
	r.Post("/v1/clusters/{cluster}/jobs/{job}/preview", s.handle(s.admit(s.previewChange)))
	r.Post("/v1/clusters/{cluster}/jobs/{job}/cancel", s.handle(s.cancelJob))
	r.Get("/v1/clusters/{cluster}/jobs/{job}/logs", uncompressed(s.handle(s.getJobLog, "task", "stream", "attempt",
		"offset", "tail", "follow")))
	r.Get("/v1/clusters/{cluster}/agents", s.handle(s.listAgents))
	r.Post("/v1/clusters/{cluster}/agents", s.handle(s.asAgent(s.registerAgent)))
	r.Post("/v1/clusters/{cluster}/agents/{agent}/sync", s.handle(s.asAgent(s.syncAgent)))
	r.Post("/v1/clusters/{cluster}/agents/{agent}/logs", s.handleKinds([]string{kindBytes}, s.asAgent(s.putLog), "epoch",
		"job", "attempt", "task", "stream", "offset"))
	r.Post("/v1/clusters/{cluster}/agents/{agent}/checkpoints", s.handleKinds([]string{kindBytes},
		s.asAgent(s.putCheckpoint), "epoch", "job", "attempt", "round", "bytes", "sha256", "offset"))
	r.Get("/v1/clusters/{cluster}/agents/{agent}/checkpoints", uncompressed(s.handle(s.asAgent(s.getCheckpoint), "epoch",
		"job", "attempt", "sha256", "offset")))
	r.Post("/v1/clusters/{cluster}/agents/{agent}/drain", s.handle(s.drainAgent))
	r.Post("/v1/clusters/{cluster}/agents/{agent}/undrain", s.handle(s.undrainAgent))
}

func (s *server) explainRoutes(r chi.Router) {
	r.Get("/v1/solves/{id}/jobs", s.handle(s.admit(s.listSolvedJobs), "sort", "limit"))
	r.Get("/v1/solves/{id}/jobs/{job}", s.handle(s.admit(s.explainJob), "by_s", "earlier_s", "time_limit_s"))
}

// keyRoutes adds routes that exist also without Config.Keys: they answer 404 then.
func (s *server) keyRoutes(r chi.Router) {
	r.Get("/v1/keys", s.handle(s.requireKeys(requireAdmin(false, s.listKeys))))
	r.Post("/v1/keys", s.handle(s.requireKeys(requireAdmin(false, s.createKey))))
	r.Delete("/v1/keys/{id}", s.handle(s.requireKeys(requireAdmin(false, s.revokeKey))))
	r.Get("/v1/quota", s.handle(s.requireKeys(s.getQuota)))
	r.Put("/v1/quotas/{tenant}", s.handle(s.requireKeys(requireAdmin(true, s.setQuota))))
}

// sessionRoutes adds routes that exist also without Config.Sessions: they answer 404
// then.
func (s *server) sessionRoutes(r chi.Router) {
	r.Post("/v1/sessions", s.handle(s.admit(s.createSession)))
	r.Get("/v1/sessions", s.handle(s.listSessions, "label"+repeatable, "q", "limit", "after"))
	r.Get("/v1/sessions/{id}", s.handle(s.getSession))
	r.Delete("/v1/sessions/{id}", s.handle(s.deleteSession))
	r.Get("/v1/sessions/{id}/jobs", s.handle(s.listSessionJobs, "state"+repeatable, "type", "q", "sort", "after",
		"limit"))
	r.Post("/v1/sessions/{id}/jobs:preview", s.handle(s.admit(s.previewSessionJob)))
	r.Get("/v1/sessions/{id}/jobs/{job}", s.handle(s.getJob))
	r.Get("/v1/sessions/{id}/plan", s.handle(s.getPlan))
	r.Get("/v1/sessions/{id}/gantt.svg", s.handle(s.admit(s.getSessionGanttSVG), "from_s", "width"))
	r.Get("/v1/sessions/{id}/gantt.html", s.handle(s.admit(s.getSessionGanttHTML), "from_s"))
	r.Get("/v1/sessions/{id}/changes", uncompressed(s.handle(s.getSessionChanges, "after")))
	r.Post("/v1/sessions/{id}/events",
		uncompressed(fullDuplex(s.handleKinds([]string{kindNDJSON, kindJSON}, s.postEvents))))
	r.Get("/v1/sessions/{id}/decisions", uncompressed(s.handle(s.getDecisions, "after", "follow")))
	r.Get("/v1/sessions/{id}/log", s.handle(s.getLog, "after"))
	r.Get("/v1/sessions/{id}/regret", regretRoute(s.handle(s.admit(s.getRegret), "detail", "every_s", "against",
		"objective")))
	r.Get("/v1/sessions/{id}/schedule", s.handle(s.admit(s.getSchedule)))
}

func (s *server) simulationRoutes(r chi.Router) {
	r.Post("/v1/simulations", s.handle(s.admit(s.simulate)))
	r.Get("/v1/simulations", s.handle(s.listSimulations, "label"+repeatable, "q", "limit", "after"))
	r.Get("/v1/simulations/{id}", s.handle(s.admit(s.getSimulation)))
	r.Get("/v1/simulations/{id}/request", s.handle(s.getSimulationRequest))
	r.Delete("/v1/simulations/{id}", s.handle(s.deleteSimulation))
}

func (s *server) solveRoutes(r chi.Router) {
	const one = "/v1/solves/{id}"
	r.Post("/v1/solves", s.handle(s.solve))
	r.Get("/v1/solves", s.handle(s.listSolves, "status", "termination", "instance_sha256",
		"label"+repeatable, "q", "limit", "after"))
	// The ETag of getSolve is the hash of the uncompressed bytes, so they are sent
	// uncompressed.
	r.Get(one, uncompressed(s.handle(s.getSolve, "wait")))
	r.Delete(one, s.handle(s.deleteSolve))
	r.Post(one+"/cancel", s.handle(s.cancelSolve))
	r.Get(one+"/result", s.handle(s.getResult))
	r.Get(one+"/schedule", s.handle(s.admit(s.getSolveSchedule), "format", "from_s", "to_s", "job"+repeatable,
		"gpu"+repeatable))
	r.Get(one+"/gantt.svg", s.handle(s.admit(s.getGanttSVG), "width"))
	r.Get(one+"/gantt.png", s.handle(s.admit(s.getGanttPNG), "width"))
	r.Get(one+"/gantt.html", s.handle(s.admit(s.getGanttHTML))) // the page fits the window of the browser
	r.Get(one+"/certificate", s.handle(s.admit(s.getCertificate)))
	r.Get(one+"/instance", s.handle(s.getInstance))
	r.Get(one+"/events", uncompressed(s.handle(s.getSolveEvents, "after")))
}

func (s *server) whatIfRoutes(r chi.Router) {
	r.Post("/v1/what-if", uncompressed(s.handle(s.admit(s.whatIf))))
	r.Get("/v1/what-if", s.handle(s.listWhatIfs, "label"+repeatable, "q", "limit", "after"))
	r.Get("/v1/what-if/{id}", s.handle(s.admit(s.getWhatIf)))
	r.Get("/v1/what-if/{id}/request", s.handle(s.getWhatIfRequest))
	r.Delete("/v1/what-if/{id}", s.handle(s.deleteWhatIf))
	r.Get("/v1/solves/{id}/prices", s.handle(s.admit(s.prices)))
	r.Get("/v1/solves/{id}/prices.svg", s.handle(s.admit(s.pricesPicture)))
}
