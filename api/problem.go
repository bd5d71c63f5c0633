package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/service"
)

// problem is an RFC 9457 document.
type problem struct {
	Type      string               `json:"type"`
	Title     string               `json:"title"`
	Status    int                  `json:"status"`
	Code      string               `json:"code"`
	Detail    string               `json:"detail"`
	RequestID string               `json:"request_id"`
	Errors    []*hare.InvalidError `json:"errors,omitempty"`
}

func (s *server) problem(w http.ResponseWriter, r *http.Request, status int, code, detail string, faults hare.InvalidErrors) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail,
		RequestID: requestID(r.Context()), Errors: faults,
	})
}

// statusError is a refusal by HTTP's own rules.
type statusError struct {
	status       int
	code, detail string
}

func (e *statusError) Error() string { return e.detail }

// fail maps an error to its problem: the one place where that is done.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var status *statusError
	var faults hare.InvalidErrors
	var fault *hare.InvalidError
	switch {
	case errors.As(err, &status):
		s.problem(w, r, status.status, status.code, status.detail, nil)
	case errors.As(err, &faults):
		s.invalid(w, r, faults)
	case errors.As(err, &fault):
		s.invalid(w, r, hare.InvalidErrors{fault})
	case errors.Is(err, service.ErrBusy):
		s.problem(w, r, http.StatusServiceUnavailable, "busy", "the queue is full: try again", nil)
	case errors.Is(err, service.ErrDraining):
		s.problem(w, r, http.StatusServiceUnavailable, "draining", "the server is shutting down: try another or later", nil)
	case errors.Is(err, service.ErrInfeasible):
		s.problem(w, r, http.StatusUnprocessableEntity, "infeasible", "a job can never run on this cluster, so there is no finite bound: POST /v1/solves names it", nil)
	case errors.Is(err, context.Canceled):
		// The client is gone: nobody reads the answer.
		w.WriteHeader(499)
	default:
		s.cfg.Logger.Error("request failed", "request_id", requestID(r.Context()), "error", err)
		s.problem(w, r, http.StatusInternalServerError, "internal", "an internal error, logged under this request_id", nil)
	}
}

// invalid answers 400 to what is not JSON, 413 to what is too long and 422 to
// what is well-formed and wrong.
func (s *server) invalid(w http.ResponseWriter, r *http.Request, faults hare.InvalidErrors) {
	status := http.StatusUnprocessableEntity
	switch faults[0].Code {
	case hare.CodeMalformed, "duplicate_name":
		status = http.StatusBadRequest
	case hare.CodeBodyTooLarge:
		s.problem(w, r, http.StatusRequestEntityTooLarge, hare.CodeBodyTooLarge, fmt.Sprintf("the body is larger than the limit of %d bytes", s.cfg.MaxBodyBytes), nil)
		return
	}
	s.problem(w, r, status, faults[0].Code, faults.Error(), faults)
}
