package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/sim/study"
	"github.com/hare-sched/hare/wire"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// describeRun returns the document of a run, with its jobs where the request asks for
// them.
func describeRun(r *study.Run, detail string) *simulatedoc.Run {
	out := r.Run
	if detail == simulatedoc.DetailJobs {
		out.Each = r.EachJob()
	}
	return &out
}

// simulationLine is one line of the answer as NDJSON.
type simulationLine struct {
	simulatedoc.Line
	Error json.RawMessage `json:"error,omitempty"`
}

// progressEvery is the least time between two lines of progress.
const progressEvery = time.Second

// simulate runs a simulation of each policy of the request.
//
//	@Summary		Compare policies on a simulated cluster
//	@Description	Simulates the jobs of a trace, of an instance or of a generator under each policy on a virtual
//	@Description	clock. Each policy runs repeat times. The answer has mean and percentile completion times,
//	@Description	fairness, utilization and lost work. The same request gives the same bytes. The verifier
//	@Description	checks each run of the task engine before the answer shows its figures; if a policy makes an
//	@Description	impossible decision, the whole call fails and the problem names the policy, the time and the
//	@Description	GPU. The answer as NDJSON has a line for each run as soon as it ends, lines of progress
//	@Description	between these, and a summary as the last line; if a run fails after the first line, the last
//	@Description	line has the problem. If time_limit_s passes, status is deadline and the answer has the runs
//	@Description	that had ended. If the client disconnects, the simulation ends. The server keeps the request and
//	@Description	the answer, as it keeps solves: Location is where, with the name and the labels of the request.
//	@Tags			scheduling
//	@ID				simulate
//	@Param			body	body	openapi.SimulationRequest	true	"policies, jobs and where they run"
//	@Accept			json
//	@Produce		json,application/x-ndjson,application/problem+json
//	@Success		200	{object}	simulatedoc.Answer		"the runs; as NDJSON a line each"
//	@Success		299	{object}	openapi.SimulationLine	"the form of the lines"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		406	{object}	openapi.Problem	"the server has none of the media types that the client accepts"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers; or the jobs cannot be simulated with a policy, which is named"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id. If a policy made an impossible decision, the problem names the policy, the time and the GPU"
//	@Failure		503	{object}	openapi.Problem	"busy, late or draining: Retry-After says when to try again"
//	@Router			/v1/simulations [post]
func (s *server) simulate(w http.ResponseWriter, r *http.Request) error {
	kind, err := negotiate(r, kindJSON, kindNDJSON)
	if err != nil {
		return err
	}
	req, text, err := s.readSimulation(w, r)
	if err != nil {
		return err
	}
	if err := s.cfg.Solves.Room(tenantOf(r.Context())); err != nil {
		return err
	}
	kept := s.report(r, solves.KindSimulation, wire.Tags{Name: req.Name, Labels: req.Labels}, text)
	if kind == kindNDJSON {
		uncompressed(s.handle(func(w http.ResponseWriter,
			r *http.Request) error {
			return s.simulateLines(w, r, req, kept)
		}))(w, r)
		return nil
	}
	ans, err := s.simulation(r, req, req.TimeLimit, nil, nil)
	if err != nil {
		return err
	}
	if kept.Answer, err = simulationAnswer(ans, req.Detail); err != nil {
		return err
	}
	if kept.keep() {
		w.Header().Set("Location", kept.path())
	}
	return write(w, kindJSON, kept.Answer)
}

// simulationAnswer is the answer in JSON.
func simulationAnswer(ans *study.Answer, detail string) ([]byte, error) {
	out := simulatedoc.Answer{Status: ans.Status, Asked: int64(ans.Asked), Runs: make([]simulatedoc.Run, len(ans.Runs)),
		Summary: ans.Summary}
	for i := range ans.Runs {
		out.Runs[i] = *describeRun(&ans.Runs[i], detail)
	}
	return encoded(out)
}

// encoded is an answer in JSON, as it is kept and sent.
func encoded(answer any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(answer)
	return b.Bytes(), err
}

// simulateLines answers with NDJSON.
func (s *server) simulateLines(w http.ResponseWriter, r *http.Request, req *simulatedoc.Request,
	kept *keptReport) error {
	lines := newLineWriter(w, s.cfg.BodyTime)
	lines.location = kept.path()
	defer lines.end()
	reported := time.Now()
	runs := int64(0)
	ended := func(_ int, run *study.Run) error {
		runs++
		return lines.write(simulatedoc.Line{Kind: "run", Run: describeRun(run, req.Detail)})
	}
	progress := func(p simulatedoc.Progress) {
		if now := time.Now(); now.Sub(reported) >= progressEvery {
			reported = now
			// A disconnected client is noticed when the next run is written, or by the
			// context.
			_ = lines.write(simulatedoc.Line{Kind: "progress", Progress: &p})
		}
	}
	ans, err := s.simulation(r, req, req.TimeLimit, ended, progress)
	if err != nil {
		if !lines.began || r.Context().Err() != nil {
			return err
		}
		return lines.write(simulationLine{Line: simulatedoc.Line{Kind: "error"}, Error: s.problemDocument(r, err)})
	}
	if kept.Answer, err = simulationAnswer(ans, req.Detail); err != nil {
		return err
	}
	kept.keep()
	return lines.write(simulatedoc.Line{Kind: "summary", Summary: &simulatedoc.LastLine{Status: ans.Status,
		Asked: int64(ans.Asked), Runs: runs, Summary: ans.Summary}})
}

// readSimulation decodes the document of the request, and returns its text too.
func (s *server) readSimulation(w http.ResponseWriter, r *http.Request) (_ *simulatedoc.Request, _ []byte, err error) {
	_, end := s.step(r.Context(), "decode")
	defer func() { end(err) }()
	text, err := s.body(w, r, s.bodyLimit(r.Context()))
	if err != nil {
		return nil, nil, err
	}
	doc, err := decode(s, r, text, simulatedoc.Decode)
	if err != nil {
		return nil, nil, err
	}
	return doc, text, s.claimWork(r, len(text), service.SimulationFootprint(doc))
}

// simulation runs a simulation inside a span.
func (s *server) simulation(r *http.Request, req *simulatedoc.Request, limit time.Duration,
	ended func(int, *study.Run) error, progress func(simulatedoc.Progress)) (*study.Answer, error) {
	ctx, end := s.step(r.Context(), "simulate")
	ans, err := s.svc.Simulate(ctx, req, limit, ended, progress)
	end(err)
	if err != nil {
		return nil, s.policyFault(r, req, err)
	}
	return ans, r.Context().Err()
}

// policyFault turns the error of a run into one that points to the policy in the
// request.
func (s *server) policyFault(r *http.Request, req *simulatedoc.Request, err error) error {
	var run *study.RunError
	if !errors.As(err, &run) {
		return err
	}
	at := fmt.Sprintf("/policies/%d", slices.Index(req.Policies, run.Policy))
	switch run.Code {
	case "stalled", "infeasible", "too_large", "not_in_model":
		return &hare.InvalidError{Pointer: at, Code: run.Code, Detail: run.Error()}
	}
	s.cfg.Logger.Error("simulation failed", "request_id", requestID(r.Context()), "code", run.Code, "error", run)
	return &statusError{http.StatusInternalServerError, run.Code, run.Error()}
}
