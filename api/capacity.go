package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/sim/capacity"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// capacityLine is one line of the answer as NDJSON.
type capacityLine struct {
	capacitydoc.PlanLine
	Error json.RawMessage `json:"error,omitempty"`
}

// planCapacity makes a plan of capacity.
//
//	@Summary		Decide what to buy: GPUs or another queue policy
//	@Description	Draws weeks from a history of jobs and plays each of them under every policy on every cluster
//	@Description	that could be had. The report says how long jobs would wait, what that costs, in what share of
//	@Description	the weeks a goal is reached, and what is proved of all schedulers. The same request gives the
//	@Description	same bytes. The answer as NDJSON has lines of progress, what is proved of the first option as
//	@Description	soon as it is known, and the report as the last line; if a simulation fails after the first
//	@Description	line, the last line has the problem. If time_limit_s passes, status is deadline and the report
//	@Description	has the rows of which all weeks had been played; what is proved takes at most a third of the
//	@Description	time. If the client disconnects, the plan ends. The server keeps the request and the report, as
//	@Description	it keeps solves: Location is where, with the name and the labels of the request.
//	@Tags			scheduling
//	@ID				planCapacity
//	@Param			body	body	openapi.CapacityRequest	true	"the history and what could be had"
//	@Accept			json
//	@Produce		json,application/x-ndjson,application/problem+json
//	@Success		200	{object}	capacitydoc.Report		"the report; as NDJSON the last line"
//	@Success		299	{object}	openapi.CapacityLine	"the form of the lines"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		404	{object}	openapi.Problem	"no such solve"
//	@Failure		406	{object}	openapi.Problem	"the server has none of the media types that the client accepts"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		410	{object}	openapi.Problem	"the solve is deleted or expired"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers; or the jobs cannot be simulated with a policy"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy, late or draining: Retry-After says when to try again"
//	@Router			/v1/capacity [post]
func (s *server) planCapacity(w http.ResponseWriter, r *http.Request) error {
	kind, err := negotiate(r, kindJSON, kindNDJSON)
	if err != nil {
		return err
	}
	req, size, kept, err := s.readCapacity(w, r)
	if err != nil {
		return err
	}
	if kind == kindNDJSON {
		uncompressed(s.handle(func(w http.ResponseWriter, r *http.Request) error {
			return s.capacityLines(w, r, req, size, kept)
		}))(w, r)
		return nil
	}
	rep, err := s.capacityPlan(r, req, size, nil, nil)
	if err != nil {
		return err
	}
	if kept.Answer, err = encoded(rep); err != nil {
		return err
	}
	if kept.keep() {
		w.Header().Set("Location", kept.path())
	}
	return write(w, kindJSON, kept.Answer)
}

// capacityLines answers with NDJSON.
func (s *server) capacityLines(w http.ResponseWriter, r *http.Request, req *capacitydoc.Request, size *capacity.Size,
	kept *keptReport) error {
	lines := newLineWriter(w, s.cfg.BodyTime)
	lines.location = kept.path()
	defer lines.end()
	reported := time.Time{}
	// A disconnected client is noticed when the report is written, or by the context.
	progress := func(part string, done float64) {
		if now := time.Now(); now.Sub(reported) >= progressEvery {
			reported = now
			_ = lines.write(capacitydoc.PlanLine{Kind: capacitydoc.LineProgress,
				Progress: &capacitydoc.Progress{Part: part, Done: done}})
		}
	}
	proved := func(c capacitydoc.Certain) {
		_ = lines.write(capacitydoc.PlanLine{Kind: capacitydoc.LineProved, Proved: &c})
	}
	rep, err := s.capacityPlan(r, req, size, proved, progress)
	if err != nil {
		if !lines.began || r.Context().Err() != nil {
			return err
		}
		return lines.write(capacityLine{PlanLine: capacitydoc.PlanLine{Kind: "error"}, Error: s.problemDocument(r, err)})
	}
	if kept.Answer, err = encoded(rep); err != nil {
		return err
	}
	kept.keep()
	return lines.write(capacitydoc.PlanLine{Kind: capacitydoc.LineReport, Report: &rep.Report})
}

// readCapacity decodes and checks the document of a request, and returns it with its size and with the report that it
// becomes.
func (s *server) readCapacity(w http.ResponseWriter, r *http.Request) (req *capacitydoc.Request, size *capacity.Size,
	kept *keptReport, err error) {
	_, end := s.step(r.Context(), "decode")
	defer func() { end(err) }()
	text, err := s.body(w, r, s.bodyLimit(r.Context()))
	if err != nil {
		return nil, nil, nil, err
	}
	if req, err = decode(s, r, text, capacitydoc.Decode); err != nil {
		return nil, nil, nil, err
	}
	if req.SolveID != "" {
		req.Source = "solve " + req.SolveID
		if req.Instance, err = s.cfg.Solves.Instance(r.Context(), tenantOf(r.Context()), req.SolveID); err != nil {
			return nil, nil, nil, withPointer(err, "/solve_id")
		}
	}
	bytes, size, err := s.svc.CapacityFootprint(req)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := s.claimWork(r, len(text), bytes); err != nil {
		return nil, nil, nil, err
	}
	if err := s.cfg.Solves.Room(tenantOf(r.Context())); err != nil {
		return nil, nil, nil, err
	}
	return req, size, s.report(r, solves.KindCapacity, req.Tags, text), nil
}

// capacityPlan makes a plan inside a span.
func (s *server) capacityPlan(r *http.Request, req *capacitydoc.Request, size *capacity.Size,
	first func(capacitydoc.Certain), progress func(string, float64)) (*capacity.Report, error) {
	ctx, end := s.step(r.Context(), "capacity")
	rep, err := s.svc.PlanCapacity(ctx, req, size, first, progress)
	end(err)
	if err != nil {
		return nil, err
	}
	return rep, r.Context().Err()
}
