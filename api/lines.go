package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// lineWriter answers with NDJSON and flushes each line. The connection of a client
// that reads nothing for the write timeout is closed.
type lineWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	began   bool // a line was sent
}

func newLineWriter(w http.ResponseWriter, timeout time.Duration) *lineWriter {
	return &lineWriter{w: w, control: http.NewResponseController(w), timeout: timeout}
}

func (l *lineWriter) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.began = true
	l.w.Header().Set("Content-Type", kindNDJSON)
	_ = l.control.SetWriteDeadline(time.Now().Add(l.timeout))
	if _, err := l.w.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := l.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// end takes the deadline off the connection.
func (l *lineWriter) end() { _ = l.control.SetWriteDeadline(time.Time{}) }
