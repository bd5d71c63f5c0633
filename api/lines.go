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
	// location is the path under which the answer will be kept.
	location string
}

func newLineWriter(w http.ResponseWriter, timeout time.Duration) *lineWriter {
	return &lineWriter{w: w, control: http.NewResponseController(w), timeout: timeout}
}

func (lw *lineWriter) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return lw.send(append(line, '\n'))
}

// send sends one line that is encoded.
func (lw *lineWriter) send(line []byte) error {
	if !lw.began && lw.location != "" {
		lw.w.Header().Set("Location", lw.location)
	}
	lw.began = true
	lw.w.Header().Set("Content-Type", kindNDJSON)
	_ = lw.control.SetWriteDeadline(time.Now().Add(lw.timeout))
	if _, err := lw.w.Write(line); err != nil {
		return err
	}
	if err := lw.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// end removes the write deadline from the connection.
func (lw *lineWriter) end() { _ = lw.control.SetWriteDeadline(time.Time{}) }
