// Package api serves Hare over HTTP: thin handlers on the service, one map from
// errors to problem documents, metrics.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/openapi"
	"github.com/hare-sched/hare/service"
)

// Config tunes the server. The zero value is good.
type Config struct {
	// MaxBodyBytes limits request bodies, before and after decompression; zero
	// means 64 MiB.
	MaxBodyBytes int64
	// Logger gets one line a request; nil means none.
	Logger *slog.Logger
	// EngineRestarts counts restarts of LP workers, for metrics; nil means 0.
	EngineRestarts func() int64
}

type server struct {
	svc *service.Service
	cfg Config
	met *metrics
}

// New returns the routes.
func New(svc *service.Service, cfg Config) http.Handler {
	if cfg.MaxBodyBytes <= 0 {
		cfg.MaxBodyBytes = hare.DefaultMaxBytes
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.EngineRestarts == nil {
		cfg.EngineRestarts = func() int64 { return 0 }
	}
	s := &server{svc: svc, cfg: cfg, met: newMetrics(svc, cfg.EngineRestarts)}
	r := chi.NewRouter()
	r.Use(s.identify, s.observe, s.survive, s.compress)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		s.problem(w, r, http.StatusNotFound, "not_found", "there is nothing at this path: see /docs", nil)
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		s.problem(w, r, http.StatusMethodNotAllowed, "method_not_allowed", r.Method+" is not allowed here: see /docs", nil)
	})
	r.Post("/v1/solves", s.handle(s.solve))
	r.Post("/v1/bounds", s.handle(s.bound))
	r.Post("/v1/verify", s.handle(s.verify))
	r.Get("/v1/version", s.handle(s.version))
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok\n") })
	r.Get("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if !svc.Ready() {
			s.problem(w, r, http.StatusServiceUnavailable, "draining", "the server is shutting down", nil)
			return
		}
		plain(w, http.StatusOK, "ready\n")
	})
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(s.met.registry, promhttp.HandlerOpts{}))
	r.Get("/openapi.json", document("application/json", openapi.JSON))
	r.Get("/openapi.yaml", document("application/yaml", openapi.YAML))
	r.Get("/docs", document("text/html; charset=utf-8", openapi.Page))
	return r
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

func document(kind string, text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		if kind != "application/json" {
			w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'")
		}
		_, _ = w.Write(text)
	}
}

// Serve answers on l until ctx ends; then it stops taking connections, lets
// what runs finish for the grace time, and ends the rest with its best pair.
func Serve(ctx context.Context, l net.Listener, h http.Handler, svc *service.Service, grace time.Duration) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	svc.Drain(end)
	last, cancelLast := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancelLast()
	err := srv.Shutdown(last)
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
