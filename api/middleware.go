package api

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/klauspost/compress/zstd"
)

type requestKey struct{}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// identify gives each request an id, the client's own where it sends one.
func (s *server) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if len(id) == 0 || len(id) > 64 || strings.ContainsFunc(id, func(c rune) bool { return c < '!' || c > '~' }) {
			var b [8]byte
			_, _ = rand.Read(b[:])
			id = hex.EncodeToString(b[:])
		}
		w.Header().Set("X-Request-Id", id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, id)))
	})
}

// recorder remembers the status.
type recorder struct {
	http.ResponseWriter
	status int
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// observe logs and counts each request.
func (s *server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w}
		began := time.Now()
		next.ServeHTTP(rec, r)
		route := chi.RouteContext(r.Context()).RoutePattern()
		if route == "" {
			route = "none"
		}
		took := time.Since(began)
		s.met.request(route, r.Method, rec.status, took)
		s.cfg.Logger.Info("request", "request_id", requestID(r.Context()), "method", r.Method, "route", route, "status", rec.status, "seconds", took.Seconds())
	})
}

// survive turns a panic into one 500 and a metric.
func (s *server) survive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p)
			}
			s.met.panics.Inc()
			s.cfg.Logger.Error("panic", "request_id", requestID(r.Context()), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			if rec, ok := w.(*recorder); !ok || rec.status == 0 {
				s.problem(w, r, http.StatusInternalServerError, "internal", "an internal error, logged under this request_id", nil)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// squeezed compresses what is written.
type squeezed struct {
	http.ResponseWriter
	z    io.WriteCloser
	name string
	make func(io.Writer) io.WriteCloser
}

func (w *squeezed) WriteHeader(status int) {
	w.Header().Set("Content-Encoding", w.name)
	w.Header().Add("Vary", "Accept-Encoding")
	w.Header().Del("Content-Length")
	w.ResponseWriter.WriteHeader(status)
	w.z = w.make(w.ResponseWriter)
}

func (w *squeezed) Write(b []byte) (int, error) {
	if w.z == nil {
		w.WriteHeader(http.StatusOK)
	}
	return w.z.Write(b)
}

// compress answers in zstd or gzip where the client takes it.
func (s *server) compress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accept := r.Header.Get("Accept-Encoding")
		out := &squeezed{ResponseWriter: w}
		switch {
		case r.URL.Path == "/metrics" || r.URL.Path == "/healthz":
			next.ServeHTTP(w, r)
			return
		case accepts(accept, "zstd"):
			out.name = "zstd"
			out.make = func(w io.Writer) io.WriteCloser {
				z, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
				return z
			}
		case accepts(accept, "gzip"):
			out.name = "gzip"
			out.make = func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
		default:
			next.ServeHTTP(w, r)
			return
		}
		defer func() {
			if out.z != nil {
				_ = out.z.Close()
			}
		}()
		next.ServeHTTP(out, r)
	})
}

func accepts(header, encoding string) bool {
	for _, part := range strings.Split(header, ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(name) == encoding && !strings.Contains(strings.ReplaceAll(params, " ", ""), "q=0.0") && strings.TrimSpace(params) != "q=0" {
			return true
		}
	}
	return false
}
