package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/plot/web"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/sim/capacity"
	"github.com/hare-sched/hare/sim/study"
	"github.com/hare-sched/hare/whatif"
	whatiftext "github.com/hare-sched/hare/whatif/text"
	"github.com/hare-sched/hare/wire"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

const kindHTML = "text/html"

// reportWords are the paths of the kinds of reports, and what people call one.
var reportWords = map[string]struct{ path, name, code string }{
	solves.KindWhatIf:     {"/v1/what-if", "what-if", "no_what_if"},
	solves.KindSimulation: {"/v1/simulations", "simulation", "no_simulation"},
	solves.KindCapacity:   {"/v1/capacity", "plan of capacity", "no_capacity"},
}

// keptReport is the report that a request becomes once it is answered.
type keptReport struct {
	solves.Report
	server *server
	kind   string
	call   context.Context
}

func (s *server) report(r *http.Request, kind string, tags wire.Tags, request []byte) *keptReport {
	return &keptReport{server: s, kind: kind, call: r.Context(), Report: solves.Report{ID: solves.NewID(),
		Tenant: tenantOf(r.Context()), Tags: tags, Began: incomingOf(r.Context()).arrived, Request: request}}
}

func (k *keptReport) path() string { return reportPath(k.kind, k.ID) }

func reportPath(kind, id string) string { return reportWords[kind].path + "/" + id }

// keep stores the report. An answer that the disk refuses is sent all the same, and not kept.
func (k *keptReport) keep() bool {
	if k.call.Err() != nil {
		return false
	}
	err := k.server.cfg.Solves.Reports(k.kind).Keep(&k.Report)
	if err != nil {
		k.server.cfg.Logger.Warn("an answer is not kept", "request_id", requestID(k.call), "kind", k.kind, "error", err)
	}
	return err == nil
}

// reportJSON is a what-if, a simulation or a plan of capacity that the server keeps.
type reportJSON struct {
	ID string `json:"id"`
	// Name and labels are those of the request.
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Created is when the request arrived.
	Created string `json:"created" format:"date-time"`
	// Ended is when it was answered.
	Ended string `json:"ended" format:"date-time"`
	// AnswerBytes is the size of the answer.
	AnswerBytes int64       `json:"answer_bytes"`
	Links       reportLinks `json:"links"`
} //	@name	StoredReport

// reportLinks holds paths on this server.
type reportLinks struct {
	// Self is the answer: a page for browsers.
	Self    string `json:"self"`
	Request string `json:"request"`
} //	@name	StoredReportLinks

// reportListJSON lists what-ifs, simulations or plans of capacity, the newest first.
type reportListJSON struct {
	Reports []reportJSON `json:"reports"`
	// Next is what to give as after for those that follow. It is left out at the end.
	Next  string         `json:"next,omitempty"`
	Links solveListLinks `json:"links"`
} //	@name	StoredReportList

// listWhatIfs answers with a page of the list of what-ifs.
//
//	@Summary		List the what-ifs that are kept, the newest first
//	@Description	The answer has at most limit what-ifs. If there are more, links.next continues the list. A what-if must
//	@Description	match all filters.
//	@Tags			scheduling
//	@ID				listWhatIfs
//	@Param			label	query	[]string	false	"those with all of these labels: name=value, or name for any value"	collectionFormat(multi)
//	@Param			q		query	string		false	"those whose id, name or value of a label has this part, in upper or lower case"
//	@Param			limit	query	int			false	"1 to 1000, the most what-ifs to list: 100 without it"	minimum(1)	maximum(1000)
//	@Param			after	query	string		false	"next of the list before"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	reportListJSON	"the what-ifs"
//	@Failure		400	{object}	openapi.Problem	"a parameter is invalid"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Router			/v1/what-if [get]
func (s *server) listWhatIfs(w http.ResponseWriter, r *http.Request) error {
	return s.listReports(w, r, solves.KindWhatIf)
}

// listSimulations answers with a page of the list of simulations.
//
//	@Summary		List the simulations that are kept, the newest first
//	@Description	The answer has at most limit simulations. If there are more, links.next continues the list. A
//	@Description	simulation must match all filters.
//	@Tags			scheduling
//	@ID				listSimulations
//	@Param			label	query	[]string	false	"those with all of these labels: name=value, or name for any value"	collectionFormat(multi)
//	@Param			q		query	string		false	"those whose id, name or value of a label has this part, in upper or lower case"
//	@Param			limit	query	int			false	"1 to 1000, the most simulations to list: 100 without it"	minimum(1)	maximum(1000)
//	@Param			after	query	string		false	"next of the list before"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	reportListJSON	"the simulations"
//	@Failure		400	{object}	openapi.Problem	"a parameter is invalid"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Router			/v1/simulations [get]
func (s *server) listSimulations(w http.ResponseWriter, r *http.Request) error {
	return s.listReports(w, r, solves.KindSimulation)
}

// listCapacity answers with a page of the list of plans of capacity.
//
//	@Summary		List the plans of capacity that are kept, the newest first
//	@Description	The answer has at most limit plans. If there are more, links.next continues the list. A plan must
//	@Description	match all filters.
//	@Tags			scheduling
//	@ID				listCapacity
//	@Param			label	query	[]string	false	"those with all of these labels: name=value, or name for any value"	collectionFormat(multi)
//	@Param			q		query	string		false	"those whose id, name or value of a label has this part, in upper or lower case"
//	@Param			limit	query	int			false	"1 to 1000, the most plans to list: 100 without it"	minimum(1)	maximum(1000)
//	@Param			after	query	string		false	"next of the list before"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	reportListJSON	"the plans"
//	@Failure		400	{object}	openapi.Problem	"a parameter is invalid"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Router			/v1/capacity [get]
func (s *server) listCapacity(w http.ResponseWriter, r *http.Request) error {
	return s.listReports(w, r, solves.KindCapacity)
}

func (s *server) listReports(w http.ResponseWriter, r *http.Request, kind string) error {
	f, err := tagFilter(r)
	if err != nil {
		return err
	}
	infos, next, err := s.cfg.Solves.Reports(kind).List(r.Context(), tenantOf(r.Context()), f)
	if err != nil {
		return badCursor(err)
	}
	list := reportListJSON{Reports: make([]reportJSON, len(infos)), Next: next}
	for i := range infos {
		in := &infos[i]
		self := reportPath(kind, in.ID)
		list.Reports[i] = reportJSON{ID: in.ID, Name: in.Tags.Name, Labels: in.Tags.Labels,
			Created: in.Created.Format(time.RFC3339Nano), Ended: in.Ended.Format(time.RFC3339Nano),
			AnswerBytes: in.ResultBytes, Links: reportLinks{Self: self, Request: self + "/request"}}
	}
	if next != "" {
		q := r.URL.Query()
		q.Set("after", next)
		list.Links.Next = r.URL.Path + "?" + q.Encode()
	}
	return answerJSON(w, http.StatusOK, list)
}

// getWhatIf answers with what a what-if was answered.
//
//	@Summary	The answer of a what-if that is kept
//	@Tags		scheduling
//	@ID			getWhatIf
//	@Param		id	path	string	true	"the what-if"
//	@Produce	application/x-ndjson,html,application/problem+json
//	@Success	200	{object}	whatif.Line		"the lines as they were answered; as HTML a page that draws them"
//	@Failure	400	{object}	openapi.Problem	"the operation has no query parameters"
//	@Failure	404	{object}	openapi.Problem	"no such what-if, or (no_intervals) nothing to draw"
//	@Failure	406	{object}	openapi.Problem	"the server has none of the media types that the client accepts"
//	@Failure	410	{object}	openapi.Problem	"the what-if was deleted"
//	@Failure	500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure	503	{object}	openapi.Problem	"busy: Retry-After says when to try again"
//	@Router		/v1/what-if/{id} [get]
func (s *server) getWhatIf(w http.ResponseWriter, r *http.Request) error {
	return s.getReport(w, r, solves.KindWhatIf, []string{kindNDJSON, kindHTML}, whatIfPage)
}

// getSimulation answers with what a simulation was answered.
//
//	@Summary	The answer of a simulation that is kept
//	@Tags		scheduling
//	@ID			getSimulation
//	@Param		id	path	string	true	"the simulation"
//	@Produce	json,html,application/problem+json
//	@Success	200	{object}	simulatedoc.Answer	"the answer; as HTML a page that draws it"
//	@Failure	400	{object}	openapi.Problem		"the operation has no query parameters"
//	@Failure	404	{object}	openapi.Problem		"no such simulation"
//	@Failure	406	{object}	openapi.Problem		"the server has none of the media types that the client accepts"
//	@Failure	410	{object}	openapi.Problem		"the simulation was deleted"
//	@Failure	500	{object}	openapi.Problem		"a defect of the server; its log has the request_id"
//	@Failure	503	{object}	openapi.Problem		"busy: Retry-After says when to try again"
//	@Router		/v1/simulations/{id} [get]
func (s *server) getSimulation(w http.ResponseWriter, r *http.Request) error {
	return s.getReport(w, r, solves.KindSimulation, []string{kindJSON, kindHTML}, simulationPage)
}

// getCapacity answers with the report of a plan of capacity.
//
//	@Summary	The report of a plan of capacity that is kept
//	@Tags		scheduling
//	@ID			getCapacity
//	@Param		id	path	string	true	"the plan"
//	@Produce	json,html,text/csv,application/problem+json
//	@Success	200	{object}	capacitydoc.Report	"the report; as HTML a page that draws it, as CSV a line for each row"
//	@Failure	400	{object}	openapi.Problem		"the operation has no query parameters"
//	@Failure	404	{object}	openapi.Problem		"no such plan"
//	@Failure	406	{object}	openapi.Problem		"the server has none of the media types that the client accepts"
//	@Failure	410	{object}	openapi.Problem		"the plan was deleted"
//	@Failure	500	{object}	openapi.Problem		"a defect of the server; its log has the request_id"
//	@Failure	503	{object}	openapi.Problem		"busy: Retry-After says when to try again"
//	@Router		/v1/capacity/{id} [get]
func (s *server) getCapacity(w http.ResponseWriter, r *http.Request) error {
	return s.getReport(w, r, solves.KindCapacity, []string{kindJSON, kindHTML, kindCSV}, capacityDocument)
}

// getReport sends the stored bytes, which have the first of the media types kinds, or what convert makes of them in
// another one.
func (s *server) getReport(w http.ResponseWriter, r *http.Request, kind string, kinds []string,
	convert func(w io.Writer, media, title string, answer io.Reader) error) error {
	wanted, err := negotiate(r, kinds...)
	if err != nil {
		return err
	}
	w.Header().Add("Vary", "Accept")
	tenant, id := solveOf(r)
	reports := s.cfg.Solves.Reports(kind)
	info, err := reports.Get(r.Context(), tenant, id)
	if err != nil {
		return reportProblem(kind, err)
	}
	answer, size, err := reports.Answer(r.Context(), tenant, id)
	if err != nil {
		return reportProblem(kind, err)
	}
	defer func() { _ = answer.Close() }()
	if wanted == kinds[0] {
		return sendStored(w, wanted, answer, size)
	}
	if err := admission.ClaimOf(r.Context()).Grow(admission.DecodeFactor * size); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := convert(&b, wanted, info.Tags.Name, answer); err != nil {
		return err
	}
	if wanted == kindCSV {
		return write(w, kindCSV+"; charset=utf-8; header=present", b.Bytes())
	}
	w.Header().Set("Content-Security-Policy", web.Report.Policy()+"; frame-ancestors 'none'")
	return write(w, "text/html; charset=utf-8", b.Bytes())
}

// whatIfPage writes the page of hare whatif --plot.
func whatIfPage(w io.Writer, _, title string, answer io.Reader) error {
	var lines []*whatif.Line
	scenarios := 0
	for d := json.NewDecoder(answer); ; {
		l := &whatif.Line{}
		if err := d.Decode(l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if l.Index != nil {
			scenarios = max(scenarios, *l.Index+1)
		}
		lines = append(lines, l)
	}
	numbers := make([]string, scenarios)
	for i := range numbers {
		numbers[i] = strconv.Itoa(i)
	}
	a := whatiftext.New(&hare.Instance{}, numbers)
	for _, l := range lines {
		a.Take(l)
	}
	if title == "" {
		title = "What if"
	}
	err := plot.IntervalsHTML(w, a.Intervals(), plot.Options{Title: title})
	if errors.Is(err, plot.ErrNoIntervals) {
		return &statusError{http.StatusNotFound, "no_intervals", "no scenario has an interval to draw: ask for " +
			kindNDJSON}
	}
	return err
}

// simulationPage writes the page of hare simulate -o.
func simulationPage(w io.Writer, _, _ string, answer io.Reader) error {
	var a simulatedoc.Answer
	if err := json.NewDecoder(answer).Decode(&a); err != nil {
		return err
	}
	rep := study.Report{Summary: a.Summary}
	for i := range a.Runs {
		rep.Runs = append(rep.Runs, study.RunOf(a.Runs[i]))
	}
	return rep.Page(w)
}

// capacityDocument writes the page of hare capacity -o, or the table of its rows.
func capacityDocument(w io.Writer, media, _ string, answer io.Reader) error {
	var doc capacitydoc.Report
	if err := json.NewDecoder(answer).Decode(&doc); err != nil {
		return err
	}
	rep := capacity.Report{Report: doc}
	if media == kindCSV {
		return rep.CSV(w)
	}
	return rep.Page(w)
}

// getWhatIfRequest answers with the request of a what-if.
//
//	@Summary	The request of a what-if that is kept
//	@Tags		scheduling
//	@ID			getWhatIfRequest
//	@Param		id	path	string	true	"the what-if"
//	@Produce	json,application/problem+json
//	@Success	200	{object}	openapi.WhatIfRequest	"the request, as it was sent"
//	@Failure	400	{object}	openapi.Problem			"the operation has no query parameters"
//	@Failure	404	{object}	openapi.Problem			"no such what-if"
//	@Failure	406	{object}	openapi.Problem			"the server has none of the media types that the client accepts"
//	@Failure	410	{object}	openapi.Problem			"the what-if was deleted"
//	@Failure	500	{object}	openapi.Problem			"a defect of the server; its log has the request_id"
//	@Router		/v1/what-if/{id}/request [get]
func (s *server) getWhatIfRequest(w http.ResponseWriter, r *http.Request) error {
	return s.getReportRequest(w, r, solves.KindWhatIf)
}

// getSimulationRequest answers with the request of a simulation.
//
//	@Summary	The request of a simulation that is kept
//	@Tags		scheduling
//	@ID			getSimulationRequest
//	@Param		id	path	string	true	"the simulation"
//	@Produce	json,application/problem+json
//	@Success	200	{object}	openapi.SimulationRequest	"the request, as it was sent"
//	@Failure	400	{object}	openapi.Problem				"the operation has no query parameters"
//	@Failure	404	{object}	openapi.Problem				"no such simulation"
//	@Failure	406	{object}	openapi.Problem				"the server has none of the media types that the client accepts"
//	@Failure	410	{object}	openapi.Problem				"the simulation was deleted"
//	@Failure	500	{object}	openapi.Problem				"a defect of the server; its log has the request_id"
//	@Router		/v1/simulations/{id}/request [get]
func (s *server) getSimulationRequest(w http.ResponseWriter, r *http.Request) error {
	return s.getReportRequest(w, r, solves.KindSimulation)
}

// getCapacityRequest answers with the request of a plan of capacity.
//
//	@Summary	The request of a plan of capacity that is kept
//	@Tags		scheduling
//	@ID			getCapacityRequest
//	@Param		id	path	string	true	"the plan"
//	@Produce	json,application/problem+json
//	@Success	200	{object}	openapi.CapacityRequest	"the request, as it was sent"
//	@Failure	400	{object}	openapi.Problem			"the operation has no query parameters"
//	@Failure	404	{object}	openapi.Problem			"no such plan"
//	@Failure	406	{object}	openapi.Problem			"the server has none of the media types that the client accepts"
//	@Failure	410	{object}	openapi.Problem			"the plan was deleted"
//	@Failure	500	{object}	openapi.Problem			"a defect of the server; its log has the request_id"
//	@Router		/v1/capacity/{id}/request [get]
func (s *server) getCapacityRequest(w http.ResponseWriter, r *http.Request) error {
	return s.getReportRequest(w, r, solves.KindCapacity)
}

func (s *server) getReportRequest(w http.ResponseWriter, r *http.Request, kind string) error {
	if _, err := negotiate(r, kindJSON); err != nil {
		return err
	}
	tenant, id := solveOf(r)
	text, size, err := s.cfg.Solves.Reports(kind).Request(r.Context(), tenant, id)
	if err != nil {
		return reportProblem(kind, err)
	}
	defer func() { _ = text.Close() }()
	return sendStored(w, kindJSON, text, size)
}

// deleteWhatIf deletes a what-if.
//
//	@Summary	Remove a what-if that is kept
//	@Tags		scheduling
//	@ID			deleteWhatIf
//	@Param		id	path	string	true	"the what-if"
//	@Produce	application/problem+json
//	@Success	204	"it is gone"
//	@Failure	400	{object}	openapi.Problem	"the operation has no query parameters"
//	@Failure	404	{object}	openapi.Problem	"no such what-if"
//	@Failure	410	{object}	openapi.Problem	"the what-if was deleted before"
//	@Failure	500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure	507	{object}	openapi.Problem	"the disk refuses the write"
//	@Router		/v1/what-if/{id} [delete]
func (s *server) deleteWhatIf(w http.ResponseWriter, r *http.Request) error {
	return s.deleteReport(w, r, solves.KindWhatIf)
}

// deleteSimulation deletes a simulation.
//
//	@Summary	Remove a simulation that is kept
//	@Tags		scheduling
//	@ID			deleteSimulation
//	@Param		id	path	string	true	"the simulation"
//	@Produce	application/problem+json
//	@Success	204	"it is gone"
//	@Failure	400	{object}	openapi.Problem	"the operation has no query parameters"
//	@Failure	404	{object}	openapi.Problem	"no such simulation"
//	@Failure	410	{object}	openapi.Problem	"the simulation was deleted before"
//	@Failure	500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure	507	{object}	openapi.Problem	"the disk refuses the write"
//	@Router		/v1/simulations/{id} [delete]
func (s *server) deleteSimulation(w http.ResponseWriter, r *http.Request) error {
	return s.deleteReport(w, r, solves.KindSimulation)
}

// deleteCapacity deletes a plan of capacity.
//
//	@Summary	Remove a plan of capacity that is kept
//	@Tags		scheduling
//	@ID			deleteCapacity
//	@Param		id	path	string	true	"the plan"
//	@Produce	application/problem+json
//	@Success	204	"it is gone"
//	@Failure	400	{object}	openapi.Problem	"the operation has no query parameters"
//	@Failure	404	{object}	openapi.Problem	"no such plan"
//	@Failure	410	{object}	openapi.Problem	"the plan was deleted before"
//	@Failure	500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure	507	{object}	openapi.Problem	"the disk refuses the write"
//	@Router		/v1/capacity/{id} [delete]
func (s *server) deleteCapacity(w http.ResponseWriter, r *http.Request) error {
	return s.deleteReport(w, r, solves.KindCapacity)
}

func (s *server) deleteReport(w http.ResponseWriter, r *http.Request, kind string) error {
	tenant, id := solveOf(r)
	if err := s.cfg.Solves.Reports(kind).Delete(r.Context(), tenant, id); err != nil {
		return reportProblem(kind, err)
	}
	s.cfg.Logger.Info("report deleted", "request_id", requestID(r.Context()), "kind", kind, "id", id)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// reportProblem says of a report what solveProblem says of a solve.
func reportProblem(kind string, err error) error {
	words := reportWords[kind]
	switch {
	case errors.Is(err, solves.ErrNoSolve):
		return &statusError{http.StatusNotFound, words.code, "there is no " + words.name + " of that id: GET " + words.path +
			" lists them"}
	case errors.Is(err, solves.ErrGone):
		return &statusError{http.StatusGone, "gone", "the " + words.name + " of that id was deleted"}
	}
	return err
}
