package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/sim/study"
)

// statusError is a refusal that carries its own HTTP status.
type statusError struct {
	status       int
	code, detail string
}

func (e *statusError) Error() string { return e.detail }

// absentSolve is returned where a solve does not exist or has no result.
type absentSolve struct{ pointer string }

func (*absentSolve) Error() string {
	return "there is no such solve, or it is not finished or no longer kept"
}

// faults points to the id in the document of the request, where the id comes from
// there.
func (absent *absentSolve) faults() hare.InvalidErrors {
	if absent.pointer == "" {
		return nil
	}
	return hare.InvalidErrors{{Pointer: absent.pointer, Code: "no_solve", Detail: absent.Error()}}
}

// errSlow is returned where the body took longer than Config.BodyTime to arrive, or came too slowly.
var errSlow = errors.New("api: the body took too long")

// errorKind classifies errors for metrics and traces.
func errorKind(err error) string {
	var faults hare.InvalidErrors
	var fault *hare.InvalidError
	var status *statusError
	var run *study.RunError
	switch {
	case errors.As(err, &run):
		return run.Code
	case errors.Is(err, admission.ErrBusy):
		return "busy"
	case errors.Is(err, admission.ErrLate):
		return "late"
	case errors.Is(err, admission.ErrDraining):
		return "draining"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	case errors.Is(err, store.ErrStorage):
		return "storage"
	case errors.Is(err, service.ErrInfeasible):
		return "infeasible"
	case errors.As(err, &faults), errors.As(err, &fault):
		return "invalid"
	case errors.As(err, &status):
		return status.code
	}
	return "internal"
}

// errUploads says that too many uploads are slow.
var errUploads = &statusError{http.StatusServiceUnavailable, "busy",
	"too many uploads take long: try again, and send the body compressed"}
