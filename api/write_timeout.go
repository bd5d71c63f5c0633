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
