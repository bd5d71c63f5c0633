package api

import (
	"net/http"
	"time"
)

// writeTimeout closes the connection of a client that reads nothing of the answer
// for Config.BodyTime, so that no client can hold an answer for ever.
func (s *server) writeTimeout(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d := &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w), time: s.cfg.BodyTime}
		// The connection may still have the deadline of the request before.
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

func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *deadlineWriter) WriteHeader(status int) {
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

func (w *deadlineWriter) Write(b []byte) (int, error) {
	w.extend()
	return w.ResponseWriter.Write(b)
}

func (w *deadlineWriter) extend() {
	if now := time.Now(); now.Add(w.time / 2).After(w.until) {
		w.until = now.Add(w.time)
		_ = w.control.SetWriteDeadline(w.until) // some connections, as in tests, have no deadlines
	}
}
