package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/openapi"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

const internalDetail = "an internal error, logged under this request_id"

// refusedTime is how long the client of a refused request may go on sending its body.
const refusedTime = 5 * time.Second

// statusClientGone is the status in logs and metrics of a request whose client
// disconnected.
const statusClientGone = 499

func (s *server) problem(w http.ResponseWriter, r *http.Request, status int, code, detail string,
	faults hare.InvalidErrors) {
	if (status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) &&
		w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	// The rest of the body is read before the answer is sent, but not for longer than
	// refusedTime, since a client may send slowly.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(min(s.cfg.BodyTime, refusedTime)))
	s.met.refused(status, code)
	writeProblem(w, r, status, code, detail, faults)
}

// writeProblem answers with a problem document.
func writeProblem(w http.ResponseWriter, r *http.Request, status int, code, detail string, faults hare.InvalidErrors) {
	title := http.StatusText(status)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	// An error here means that the client has disconnected.
	_ = e.Encode(openapi.Problem{Type: "about:blank", Title: title, Status: status, Code: code, Detail: detail,
		RequestID: requestID(r.Context()), Errors: problemErrors(faults)})
}

// problemErrors returns faults as a problem document has them.
func problemErrors(faults hare.InvalidErrors) []openapi.ProblemError {
	var out []openapi.ProblemError
	for _, fault := range faults {
		out = append(out, openapi.ProblemError(*fault)) // compiles only while both have the same fields
	}
	return out
}

// fail answers with the problem document of an error. All errors are mapped to HTTP
// here.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var status *statusError
	var absent *absentSolve
	var faults hare.InvalidErrors
	var fault *hare.InvalidError
	var long *http.MaxBytesError
	var quota *admission.QuotaError
	var over *admission.OverloadError
	var memory *admission.MemoryError
	switch {
	case errors.Is(err, errSlow):
		s.problem(w, r, http.StatusRequestTimeout, "request_timeout",
			fmt.Sprintf("the body took longer than %v to arrive, or came at less than %d KiB a second: send it "+
				"compressed", s.cfg.BodyTime, bodyRate>>10), nil)
	case errors.Is(err, errUploads):
		s.problem(w, r, errUploads.status, errUploads.code, errUploads.detail, nil)
	case keyEnded(r.Context()):
		w.Header().Set("WWW-Authenticate", `Bearer realm="hare", error="invalid_token"`)
		s.problem(w, r, http.StatusUnauthorized, "bad_key", "the key was revoked or has expired", nil)
	case r.Context().Err() != nil:
		// The client has disconnected: nobody reads the answer.
		w.WriteHeader(statusClientGone)
	case errors.As(err, &quota):
		w.Header().Set("Retry-After", retryAfter(quota.After))
		s.problem(w, r, http.StatusTooManyRequests, quota.Code, quota.Error(), nil)
	case errors.As(err, &absent):
		s.problem(w, r, http.StatusNotFound, "no_solve", absent.Error(), absent.faults())
	case errors.As(err, &status):
		if status.status == http.StatusForbidden {
			w.Header().Set("WWW-Authenticate", `Bearer realm="hare", error="insufficient_scope"`)
		}
		s.problem(w, r, status.status, status.code, status.detail, nil)
	case errors.As(err, &long):
		s.tooLarge(w, r, long.Limit)
	case errors.As(err, &faults):
		s.invalid(w, r, faults)
	case errors.As(err, &fault):
		s.invalid(w, r, hare.InvalidErrors{fault})
	case errors.As(err, &over):
		w.Header().Set("Retry-After", retryAfter(over.Wait))
		code, detail := "busy", "the queue is full: try again"
		if errors.Is(err, admission.ErrLate) {
			code, detail = "late", fmt.Sprintf("the time limit would pass in the queue, which takes about %.1f s: try again, "+
				"or allow more time", over.Wait.Seconds())
		}
		s.problem(w, r, http.StatusServiceUnavailable, code, detail+`, or set the option "degrade"`, nil)
	case errors.As(err, &memory) && memory.Never():
		s.problem(w, r, http.StatusRequestEntityTooLarge, "too_much_memory", memory.Error(), nil)
	case memory != nil:
		s.problem(w, r, http.StatusServiceUnavailable, "busy", memory.Error(), nil)
	case errors.Is(err, admission.ErrBusy):
		s.problem(w, r, http.StatusServiceUnavailable, "busy", "the queue is full: try again", nil)
	case errors.Is(err, admission.ErrLate):
		s.problem(w, r, http.StatusServiceUnavailable, "late",
			"the time limit passed in the queue: try again, or allow more time", nil)
	case errors.Is(err, admission.ErrDraining), errors.Is(err, context.Canceled):
		s.problem(w, r, http.StatusServiceUnavailable, "draining", "the server is shutting down: try another or later", nil)
	case solveProblem(err) != nil:
		p := solveProblem(err)
		s.problem(w, r, p.status, p.code, p.detail, nil)
	case clusterProblem(err) != nil:
		p := clusterProblem(err)
		s.problem(w, r, p.status, p.code, p.detail, nil)
	case sessionProblem(err) != nil:
		p := sessionProblem(err)
		switch p.status {
		case http.StatusInternalServerError:
			s.cfg.Logger.Error("request failed", "request_id", requestID(r.Context()), "error", err)
		case http.StatusInsufficientStorage:
			// Package sessions logs a failing disk once, at level error; this line only
			// names the request.
			s.cfg.Logger.Warn("request refused", "request_id", requestID(r.Context()), "error", err)
		}
		s.problem(w, r, p.status, p.code, p.detail, nil)
	case errors.Is(err, context.DeadlineExceeded):
		s.problem(w, r, http.StatusServiceUnavailable, "deadline",
			"this took longer than the server allows: try a smaller instance or another method", nil)
	case errors.Is(err, service.ErrInfeasible):
		s.problem(w, r, http.StatusUnprocessableEntity, "infeasible",
			fmt.Sprintf("a job can never run on this cluster, so there is no finite bound: %.400s", err), nil)
	default:
		s.cfg.Logger.Error("request failed", "request_id", requestID(r.Context()), "error", err)
		s.problem(w, r, http.StatusInternalServerError, "internal", internalDetail, nil)
	}
}

// invalid answers 400 to a body that is not JSON, 413 to one that is too large and 422
// to JSON with invalid values.
func (s *server) invalid(w http.ResponseWriter, r *http.Request, faults hare.InvalidErrors) {
	status := http.StatusUnprocessableEntity
	switch faults[0].Code {
	case wire.CodeMalformed, "duplicate_name":
		status = http.StatusBadRequest
	case wire.CodeBodyTooLarge:
		s.tooLarge(w, r, s.bodyLimit(r.Context()))
		return
	}
	s.problem(w, r, status, faults[0].Code, faults.Error(), faults)
}

func (s *server) tooLarge(w http.ResponseWriter, r *http.Request, limit int64) {
	s.problem(w, r, http.StatusRequestEntityTooLarge, wire.CodeBodyTooLarge,
		fmt.Sprintf("the body is larger than the limit of %d bytes, before or after decompression", limit), nil)
}

// clusterProblem maps the errors of package clusters; nil for all others.
func clusterProblem(err error) *statusError {
	var conflict *ledger.Conflict
	switch {
	case errors.As(err, &conflict):
		return &statusError{http.StatusConflict, conflict.Code, conflict.Detail}
	case errors.Is(err, clusters.ErrNoCluster):
		return &statusError{http.StatusNotFound, "no_cluster", "there is no cluster of that name: GET /v1/clusters lists " +
			"them"}
	case errors.Is(err, clusters.ErrNoJob):
		return &statusError{http.StatusNotFound, "no_such_job", "the cluster has no job of that id, or no such task of it"}
	case errors.Is(err, clusters.ErrSecret):
		return &statusError{http.StatusForbidden, "agent_secret", "the header " + clusterdoc.SecretHeader +
			" is missing, or is not the secret of the agent's last registration: register again"}
	case errors.Is(err, clusters.ErrLogRemoved):
		return &statusError{http.StatusGone, "log_removed", "the outputs of the job were removed to make room for " +
			"those of later jobs: hare serve --logs says how much is kept"}
	case errors.Is(err, clusters.ErrNoCheckpoint):
		return &statusError{http.StatusNotFound, "no_checkpoint", "the server does not have that copy of the checkpoint"}
	case errors.Is(err, clusters.ErrNoAgent):
		return &statusError{http.StatusNotFound, "no_such_agent", "the cluster has no agent of that name"}
	}
	return nil
}

// sessionProblem returns the refusal of an error of package sessions; nil for other
// errors.
func sessionProblem(err error) *statusError {
	var conflict *sessions.ConflictError
	var limit *admission.LimitError
	var crowded *sessions.MemoryError
	var corrupt *store.CorruptError
	var quota *admission.QuotaError
	var quarantined *sessions.QuarantineError
	var planless *sessions.NoPlansError
	var followed *sessions.FollowedError
	var unread *sessions.UnreadError
	switch {
	case errors.As(err, &followed):
		return &statusError{http.StatusConflict, "followed_session", followed.Error()}
	case errors.As(err, &unread):
		return &statusError{http.StatusServiceUnavailable, "no_state", unread.Error()}
	case errors.As(err, &planless):
		return &statusError{http.StatusNotFound, "no_plan", planless.Error()}
	case errors.As(err, &quota):
		return &statusError{http.StatusTooManyRequests, quota.Code, quota.Error()}
	case errors.As(err, &conflict):
		return &statusError{http.StatusConflict, "conflict", conflict.Error()}
	case errors.As(err, &crowded):
		return &statusError{http.StatusServiceUnavailable, "busy", crowded.Error()}
	case errors.As(err, &limit):
		return &statusError{http.StatusTooManyRequests, "limit", limit.Error()}
	case errors.Is(err, admission.ErrFull):
		return &statusError{http.StatusServiceUnavailable, "full",
			"the server has reached its limit for all tenants: try again later"}
	case errors.Is(err, store.ErrStorage):
		return &statusError{http.StatusInsufficientStorage, "storage_full", "the log cannot be written, the disk is full " +
			"or failing: nothing is lost that was answered; make room, and send this again"}
	case errors.As(err, &corrupt):
		return &statusError{http.StatusInternalServerError, "corrupt_log", corrupt.Error()}
	case errors.As(err, &quarantined):
		return &statusError{http.StatusInternalServerError, "quarantined", quarantined.Error()}
	case errors.Is(err, access.ErrKeyEnded):
		return &statusError{http.StatusUnauthorized, "bad_key", "the key was revoked or has expired"}
	case errors.Is(err, store.ErrNoSession):
		return &statusError{http.StatusNotFound, "no_session", "there is no session of that id, or no more"}
	case errors.Is(err, admission.ErrDraining):
		return &statusError{http.StatusServiceUnavailable, "draining",
			"the server is shutting down: connect again, and go on after the last answer"}
	}
	return nil
}

// solveProblem returns the refusal of an error of package solves; nil for other errors.
func solveProblem(err error) *statusError {
	var key *solves.KeyError
	switch {
	case errors.As(err, &key):
		return keyProblem(key)
	case errors.Is(err, solves.ErrNoSolve):
		return &statusError{http.StatusNotFound, "no_solve", "there is no solve of that id"}
	case errors.Is(err, solves.ErrGone):
		return &statusError{http.StatusGone, "gone", "the solve of that id was deleted"}
	case errors.Is(err, solves.ErrRunning):
		return &statusError{http.StatusConflict, "not_ended", "the solve has not ended: cancel it first, POST …/cancel"}
	case errors.Is(err, solves.ErrNoResult):
		return &statusError{http.StatusNotFound, "no_result",
			"there is nothing to show of this solve yet: GET it with ?wait=, or follow its events"}
	case errors.Is(err, plot.ErrNoSchedule):
		return &statusError{http.StatusNotFound, "no_schedule",
			"the result holds no schedule: none was found, or the solve was asked for detail none or jobs"}
	}
	return nil
}

// keyProblem returns the refusal of an Idempotency-Key that was used before.
func keyProblem(err *solves.KeyError) *statusError {
	if err.InFlight {
		return &statusError{http.StatusConflict, "key_in_flight",
			"a call with this Idempotency-Key is being taken in: send it again"}
	}
	return &statusError{http.StatusUnprocessableEntity, "key_reused",
		"this Idempotency-Key came with another body before: take a new key"}
}
