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

// about returns the attributes that name a request and its trace in a line of the log.
func about(ctx context.Context) []any {
	line := []any{"request_id", requestID(ctx)}
	if id := traceID(ctx); id != "" {
		line = append(line, "trace_id", id)
	}
	return line
}

// subject returns the log attributes of the solve or the session of a request, taken
// from the path or from the Location of what was created.
func subject(r *http.Request, route string, answer http.Header) (line []any) {
	id := chi.URLParam(r, "id")
	if len(id) > loggedID {
		id = "" // ids are never this long: the client may have put a key in the path
	}
	for _, kind := range []struct{ path, name string }{{"/v1/solves", "solve"}, {"/v1/sessions", "session"}} {
		if !strings.HasPrefix(route, kind.path) {
			continue
		}
		if id == "" {
			id, _, _ = strings.Cut(strings.TrimPrefix(answer.Get("Location"), kind.path+"/"), "/")
		}
		if id != "" {
			line = append(line, kind.name, id)
		}
	}
	return line
}

// securityHeaders sets headers that keep browsers from guessing media types, framing
// and running answers. Pages replace the Content-Security-Policy with their own.
func (s *server) securityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if r.TLS != nil {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// writeTimeout closes the connection of a client that reads nothing of the answer
// for Config.BodyTime, so that no client can hold an answer for ever.
func (s *server) writeTimeout(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d := &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w), time: s.cfg.BodyTime}
		// The connection may still have the write deadline of the request before.
		_ = d.control.SetWriteDeadline(time.Time{})
		next.ServeHTTP(d, r)
	})
}

// deadlineWriter postpones the write deadline of the connection with each write.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	time    time.Duration
	until   time.Time
}

func (dw *deadlineWriter) Unwrap() http.ResponseWriter { return dw.ResponseWriter }

func (dw *deadlineWriter) WriteHeader(status int) {
	dw.extend()
	dw.ResponseWriter.WriteHeader(status)
}

func (dw *deadlineWriter) Write(b []byte) (int, error) {
	dw.extend()
	return dw.ResponseWriter.Write(b)
}

func (dw *deadlineWriter) extend() {
	if now := time.Now(); now.Add(dw.time / 2).After(dw.until) {
		dw.until = now.Add(dw.time)
		_ = dw.control.SetWriteDeadline(dw.until) // some connections, as in tests, have no deadlines
	}
}

// loggedID is the greatest length of an id from a path that the log shows.
const loggedID = 40
