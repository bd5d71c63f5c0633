package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// lineWriter answers with NDJSON and flushes each line. It closes the connection of a
// client that reads nothing for the write timeout.
type lineWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	began   bool // a line was sent
}

func newLineWriter(w http.ResponseWriter, timeout time.Duration) *lineWriter {
	return &lineWriter{w: w, control: http.NewResponseController(w), timeout: timeout}
}

func (lw *lineWriter) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	lw.began = true
	lw.w.Header().Set("Content-Type", kindNDJSON)
	_ = lw.control.SetWriteDeadline(time.Now().Add(lw.timeout))
	if _, err := lw.w.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := lw.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// end removes the write deadline from the connection.
func (lw *lineWriter) end() { _ = lw.control.SetWriteDeadline(time.Time{}) }
