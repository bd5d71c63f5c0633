package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/wire"
)

// solve answers with the result, or with 202 and the path at which the result will be.
//
//	@Summary		Solve an instance
//	@Description	The answer is the best certified pair of schedule and bound that the limits allow, as with
//	@Description	hare solve. For an infeasible instance the answer has status 200, the termination and the
//	@Description	reasons. With Prefer: wait=N the answer comes when the solve ends, or after N seconds with
//	@Description	status 202 and the location of the solve; Prefer: respond-async means wait=0. Without Prefer
//	@Description	the answer comes when the solve ends; if the client disconnects before, the solve ends, unless
//	@Description	the request has an Idempotency-Key. A solve that goes on without its client waits as long as the
//	@Description	queue takes, and its time limit begins when it runs. A repeated call with the same key and
//	@Description	body gets the answer
//	@Description	of the first call.
//	@Tags			scheduling
//	@ID				solve
//	@Param			Prefer			header	string					false	"wait=N, 0 to 3600 seconds, or respond-async (RFC 7240)"	example(wait=10)
//	@Param			Idempotency-Key	header	string					false	"1 to 255 printable characters: repeat a call with it, and the solve runs once"	example(3f1c7e0a-61f5-4d2b-9f0e-1d4b7a5c2e88)
//	@Param			body			body	openapi.SolveRequest	true	"the instance and what to do about it"
//	@Accept			json
//	@Produce		json,application/x-ndjson,application/problem+json
//	@Success		200	{object}	openapi.Result	"the result; as NDJSON all but the lanes on the first line, then a lane a line"
//	@Success		202	{object}	solveJSON	"the solve goes on: Location says where, Retry-After when to look"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice or is badly compressed; or Prefer is invalid"
//	@Failure		406	{object}	openapi.Problem	"the server has none of the media types that the client accepts"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		409	{object}	openapi.Problem	"another call with this Idempotency-Key is being accepted (key_in_flight), or the solve was cancelled before it had a schedule (cancelled)"
//	@Failure		410	{object}	openapi.Problem	"the solve of this Idempotency-Key was deleted"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers; or the Idempotency-Key was used with another body"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy, late or draining: Retry-After says when to try again"
//	@Failure		507	{object}	openapi.Problem	"the disk is full"
//	@Router			/v1/solves [post]
func (s *server) solve(w http.ResponseWriter, r *http.Request) error {
	kind, err := negotiate(r, kindJSON, kindNDJSON)
	if err != nil {
		return err
	}
	pref, err := prefer(r.Header.Values("Prefer"))
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	// A place in the quota of the tenant is held from when the body has arrived until the
	// solve has ended, which may be long after the answer. A repeated request needs no such
	// place, and is answered also while its own solve holds the last one.
	in := incomingOf(r.Context())
	if err := s.awaitBody(r, in, key == "" || !s.cfg.Solves.HasKey(tenantOf(r.Context()), key)); err != nil {
		return err
	}
	attached := key == "" && pref == (preference{})
	info, replayed, err := s.submit(w, r, solves.Input{Key: key, Attached: attached})
	if err == nil && attached {
		// The request counts as admitted as long as its client waits for the result.
		info, err = s.await(r.Context(), info)
	}
	if in.call != nil {
		in.call()
		in.call = nil
	}
	if err != nil {
		return err
	}
	if !attached && (pref.wait > 0 || pref == (preference{})) {
		ctx := r.Context()
		if pref.waitGiven {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, pref.wait)
			defer cancel()
		}
		if info, err = s.await(ctx, info); err != nil {
			return err
		}
	}
	if err := r.Context().Err(); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Location", solvePath(info.ID))
	h.Set("Hare-Solve-Id", info.ID)
	h.Set("Hare-Cache", "miss")
	if info.Cached {
		h.Set("Hare-Cache", "hit")
	}
	if replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if a := pref.applied(); a != "" {
		h.Set("Preference-Applied", a)
	}
	if !info.Finished() {
		h.Set("Retry-After", "1")
		return answerJSON(w, http.StatusAccepted, describeSolve(info))
	}
	if info.ResultBytes == 0 {
		return s.unanswered(info)
	}
	return s.sendResult(w, r, info, kind)
}

// unanswered returns the error for a solve that ended without a result.
func (s *server) unanswered(info solves.Info) error {
	switch {
	case info.Status == solves.StatusCancelled:
		return &statusError{http.StatusConflict, "cancelled", "the solve was cancelled before it had a schedule"}
	case info.Termination == hare.TerminationDeadline:
		return admission.ErrLate
	case !s.svc.Ready():
		return admission.ErrDraining
	}
	return &statusError{http.StatusInternalServerError, "solve_failed", info.Error}
}

// submit reads the body and submits the solve.
func (s *server) submit(w http.ResponseWriter, r *http.Request, in solves.Input) (solves.Info, bool, error) {
	in.Tenant = tenantOf(r.Context())
	req, digest, err := s.readDigest(w, r, "options", in.Key != "")
	if err != nil {
		return solves.Info{}, false, err
	}
	in.Digest = digest
	// The time that a slow network took does not count as time of the solve.
	in.Began = incomingOf(r.Context()).arrived
	in.Instance, in.Options, in.Tags = req.Instance, solveOptions(&req.Options), req.Tags
	// Requests that the solver would refuse are refused before the solve is stored.
	if req.Replan.Previous != nil {
		in.Replan = &req.Replan
		err = s.svc.CheckReplan(in.Instance, req.Replan, in.Options)
	} else {
		err = s.svc.CheckSolve(in.Instance, in.Options)
	}
	if err != nil {
		return solves.Info{}, false, err
	}
	in.Release = incomingOf(r.Context()).keep()
	return s.cfg.Solves.Submit(r.Context(), in)
}

// await waits until the solve or ctx has ended. When the server shuts down, the solve
// either ends or is resumed at the next start.
func (s *server) await(ctx context.Context, info solves.Info) (solves.Info, error) {
	if info.Finished() {
		return info, nil
	}
	return s.cfg.Solves.Wait(ctx, info.Tenant, info.ID)
}

func solvePath(id string) string { return "/v1/solves/" + id }

// solveJSON is a solve that the server keeps: its state, without its schedule.
type solveJSON struct {
	ID string `json:"id"`
	// Name and labels are those of the request.
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Status says how far the solve is; the termination says why it stopped.
	Status string `json:"status" enums:"queued,running,succeeded,cancelled,failed"`
	// Termination says why the solve stopped, where it has ended with an answer.
	Termination string `json:"termination,omitempty" enums:"optimal,gap,work_limit,deadline,cancelled,infeasible,no_schedule"`
	// Phase is what the solver does while the solve runs.
	Phase string `json:"phase,omitempty"`
	// QueuePosition is the position of a solve that waits; 1 is next.
	QueuePosition  int    `json:"queue_position,omitempty"`
	Created        string `json:"created" format:"date-time"`
	Started        string `json:"started,omitempty" format:"date-time"`
	Ended          string `json:"ended,omitempty" format:"date-time"`
	InstanceSHA256 string `json:"instance_sha256"`
	Jobs           int    `json:"jobs"`
	GPUs           int    `json:"gpus"`
	// Options are all options, with the defaults filled in.
	Options optionsText `json:"options"`
	// Value is the value of the best schedule so far; null before the first schedule.
	Value *hare.Amount `json:"value"`
	// Bound is the best bound so far; null before the first bound.
	Bound *hare.Amount `json:"bound"`
	// Gap is value/bound − 1, rounded up at six decimals; null without a useful bound.
	Gap json.RawMessage `json:"gap" swaggertype:"number" extensions:"x-nullable"`
	// Cached says that the answer to an equal call was taken.
	Cached bool `json:"cached"`
	// Resumed says that the solve continued after a restart of the server.
	Resumed bool `json:"resumed,omitempty"`
	// Degraded says that the server had too much to do, and that the options allowed a greedy schedule and a coarse
	// bound.
	Degraded bool `json:"degraded,omitempty"`
	// Error says why the solve failed.
	Error string `json:"error,omitempty"`
	// Events is the id of the last event.
	Events int64 `json:"events"`
	// ResultBytes is the size of the result of a solve that has ended.
	ResultBytes int64      `json:"result_bytes,omitempty"`
	Links       solveLinks `json:"links"`
} //	@name	Solve

// optionsText is the JSON form of options.
type optionsText = json.RawMessage

// solveLinks holds paths on this server; a path that does not exist yet is left out.
type solveLinks struct {
	Self        string `json:"self"`
	Events      string `json:"events"`
	Instance    string `json:"instance"`
	Cancel      string `json:"cancel,omitempty"`
	Result      string `json:"result,omitempty"`
	Schedule    string `json:"schedule,omitempty"`
	Gantt       string `json:"gantt,omitempty"`
	Certificate string `json:"certificate,omitempty"`
} //	@name	SolveLinks

func describeSolve(info solves.Info) solveJSON {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	self := solvePath(info.ID)
	d := solveJSON{
		ID: info.ID, Name: info.Tags.Name, Labels: info.Tags.Labels, Status: info.Status,
		Termination: info.Termination, Phase: info.Phase, Resumed: info.Resumed,
		Degraded: info.Degraded,
		Created:  at(info.Created), Started: at(info.Started), Ended: at(info.Ended),
		InstanceSHA256: info.InstanceSHA256, Jobs: info.Jobs, GPUs: info.GPUs, Options: wire.OptionsJSON(info.Options),
		Value: info.Value, Bound: info.Bound, Gap: wire.GapJSON(&hare.Result{Value: info.Value, Bound: info.Bound}),
		Cached: info.Cached, Error: info.Error, Events: info.Events, ResultBytes: info.ResultBytes,
		Links: solveLinks{Self: self, Events: self + "/events", Instance: self + "/instance"},
	}
	if info.Status == solves.StatusQueued {
		d.QueuePosition = info.QueuePosition
	}
	if !info.Finished() {
		d.Links.Cancel = self + "/cancel"
	}
	if info.ResultBytes > 0 || info.CheckpointValue != nil {
		d.Links.Result, d.Links.Schedule, d.Links.Gantt, d.Links.Certificate = self+"/result", self+"/schedule",
			self+"/gantt.svg", self+"/certificate"
	}
	return d
}
