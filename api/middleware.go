package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
)

type requestKey struct{}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// identify gives each request an id: the client's X-Request-ID where it is valid,
// otherwise a random one.
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

// recorder records the status of an answer and counts its bytes.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	// key and tenant identify the caller, where the caller is known.
	key, tenant string
}

func (rec *recorder) WriteHeader(status int) {
	if rec.status == 0 {
		rec.status = status
	}
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *recorder) Write(b []byte) (int, error) {
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	n, err := rec.ResponseWriter.Write(b)
	rec.bytes += int64(n)
	return n, err
}

func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

func (rec *recorder) started() bool { return rec.status != 0 }

// started reports whether the status of the answer has been sent, after which no other
// answer can be sent.
func started(w http.ResponseWriter) bool {
	r, ok := w.(interface{ started() bool })
	return ok && r.started()
}

// observe logs and counts each request.
func (s *server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w}
		began := time.Now()
		s.met.inFlight.Inc()
		defer func() {
			s.met.inFlight.Dec()
			route := chi.RouteContext(r.Context()).RoutePattern()
			if route == "" {
				route = "none"
			}
			took := time.Since(began)
			s.met.request(r.Context(), route, r.Method, rec.tenant, rec.status, took)
			nameSpan(r.Context(), r.Method, route, requestID(r.Context()), rec.tenant)
			level := slog.LevelInfo
			switch {
			case rec.status == http.StatusInternalServerError:
				level = slog.LevelError
			case agentPath(r) && (rec.status == http.StatusOK || rec.status == statusClientGone):
				level = slog.LevelDebug // agents ask all the time, and end a request when they have news
			}
			line := append(about(r.Context()), "method", r.Method,
				"route", route, "status", rec.status, "bytes", rec.bytes, "seconds", took.Seconds())
			if rec.key != "" {
				line = append(line, "key", rec.key, "tenant", rec.tenant)
			}
			s.cfg.Logger.Log(r.Context(), level, "request", append(line, subject(r, route, rec.Header())...)...)
		}()
		next.ServeHTTP(rec, r)
	})
}

// recoverPanics turns a panic of a handler into a 500 and a metric. If the answer has
// begun, the connection is closed, so that the client notices that the answer is
// incomplete.
func (s *server) recoverPanics(next http.Handler) http.Handler {
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
			s.cfg.Logger.Error("panic", "request_id", requestID(r.Context()), "panic", fmt.Sprint(p), "stack",
				string(debug.Stack()))
			if started(w) {
				panic(http.ErrAbortHandler)
			}
			s.problem(w, r, http.StatusInternalServerError, "internal", internalDetail, nil)
		}()
		next.ServeHTTP(w, r)
	})
}
