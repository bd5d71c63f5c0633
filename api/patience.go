package api

import (
	"net/http"
	"time"
)

// patience gives up clients that read nothing for as long as a body may take
// to arrive, so that nobody holds an answer for ever.
func (s *server) patience(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &patient{ResponseWriter: w, control: http.NewResponseController(w), time: s.cfg.BodyTime}
		// The deadline of the request before on this connection is not this one's.
		_ = p.control.SetWriteDeadline(time.Time{})
		next.ServeHTTP(p, r)
	})
}

// patient moves the deadline with each write.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
	time    time.Duration
	until   time.Time
}

func (w *patient) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *patient) WriteHeader(status int) {
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

func (w *patient) Write(b []byte) (int, error) {
	w.extend()
	return w.ResponseWriter.Write(b)
}

func (w *patient) extend() {
	if now := time.Now(); now.Add(w.time / 2).After(w.until) {
		w.until = now.Add(w.time)
		_ = w.control.SetWriteDeadline(w.until) // not all connections have deadlines
	}
}
