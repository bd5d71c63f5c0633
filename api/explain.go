package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain"
	"github.com/hare-sched/hare/plot"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// maxListedJobs limits how many jobs of a solve one answer lists.
const maxListedJobs = 10_000

// solved returns the instance and the result of the solve in the path.
func (s *server) solved(r *http.Request) (*hare.Instance, *hare.Result, error) {
	return s.stored(r, chi.URLParam(r, "id"))
}

// stored returns the instance and the result of a stored solve of the caller's tenant.
// For a replan, the instance is the remaining work that was planned.
func (s *server) stored(r *http.Request, id string) (*hare.Instance, *hare.Result, error) {
	tenant := tenantOf(r.Context())
	res, err := s.cfg.Solves.Result(r.Context(), tenant, id)
	if err != nil {
		return nil, nil, err
	}
	inst, err := s.planned(r.Context(), tenant, id, res)
	return inst, res, err
}

// planned returns the instance that a result schedules: for a replan the remaining work
// of the earlier plan, otherwise the instance of the request.
func (s *server) planned(ctx context.Context, tenant, id string, res *hare.Result) (*hare.Instance, error) {
	switch {
	case res.Replan == nil:
		return s.cfg.Solves.Instance(ctx, tenant, id)
	case res.Replan.Rest == nil:
		return nil, plot.ErrNoSchedule // option detail "none" omits rest and schedule
	}
	return res.Replan.Rest, nil
}

// secondsOf reads a positive time in seconds from the query and returns microseconds; 0
// where the parameter is absent.
func secondsOf(r *http.Request, name string) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	us, err := hare.ParseMicros(text)
	if err != nil || us <= 0 || us > hare.MaxExact {
		return 0, &statusError{http.StatusBadRequest, "bad_query",
			"?" + name + "= must be a positive number of seconds, with at most six decimals"}
	}
	return us, nil
}

// explainJob explains a job of a stored solve.
//
//	@Summary		Say why a job of a solve starts and ends when it does
//	@Description	The answer has the start and the end of the job, the reason for each of its waits, the price
//	@Description	that it pays at the certificate's prices, and its cost on each type alone. With by_s or
//	@Description	earlier_s the answer also has the least changes with which the job ends in time: one more GPU
//	@Description	of a type, a greater weight, or fewer rounds, each with the jobs that it delays. Statements
//	@Description	apply to this result; changes show what Hare would answer with the same options, seed and work
//	@Description	limit. The search for changes runs in the queue until the time limit passes; the answer marks
//	@Description	changes whose search did not end.
//	@Tags			scheduling
//	@ID				explainJob
//	@Param			id				path	string	true	"the solve"
//	@Param			job				path	string	true	"the job, percent-encoded"
//	@Param			by_s			query	number	false	"look for changes with which the job ends by then"
//	@Param			earlier_s		query	number	false	"look for changes with which it ends earlier by so much"
//	@Param			time_limit_s	query	number	false	"how long to look for changes (10, at most the server's limit)"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	explaindoc.Answer	"the explanation"
//	@Failure		400	{object}	openapi.Problem		"a query parameter is unknown or not a time"
//	@Failure		404	{object}	openapi.Problem		"no such solve, no result yet (no_result), or no such job in it: the nearest is named"
//	@Failure		406	{object}	openapi.Problem		"the server has none of the media types that the client accepts"
//	@Failure		410	{object}	openapi.Problem		"the solve is deleted or expired"
//	@Failure		422	{object}	openapi.Problem		"the result leaves its schedule out"
//	@Failure		500	{object}	openapi.Problem		"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem		"busy, late or draining: Retry-After says when to try again"
//	@Router			/v1/solves/{id}/jobs/{job} [get]
func (s *server) explainJob(w http.ResponseWriter, r *http.Request) error {
	if _, err := negotiate(r, kindJSON); err != nil {
		return err
	}
	job := chi.URLParam(r, "job")
	if r.URL.RawPath != "" { // the router decodes the path only where RawPath is empty
		var err error
		if job, err = url.PathUnescape(job); err != nil {
			return &statusError{http.StatusBadRequest, "bad_path", "the job in the path is not percent-encoded"}
		}
	}
	req := explain.Request{Job: job}
	var limit int64
	for name, to := range map[string]*int64{"by_s": &req.ByUs, "earlier_s": &req.EarlierUs, "time_limit_s": &limit} {
		us, err := secondsOf(r, name)
		if err != nil {
			return err
		}
		*to = us
	}
	if req.ByUs > 0 && req.EarlierUs > 0 {
		return &statusError{http.StatusBadRequest, "bad_query", "give ?by_s= or ?earlier_s=, not both"}
	}
	inst, res, err := s.solved(r)
	if err != nil {
		return err
	}
	// The cap of one day keeps the conversion from overflowing; servers allow less.
	x, err := s.svc.Explain(r.Context(), inst, res, req, time.Duration(min(limit, 86400*1e6))*time.Microsecond)
	if err != nil {
		return jobNotFound(err)
	}
	return answerJSON(w, http.StatusOK, x)
}

// listSolvedJobs lists the jobs of a stored solve.
//
//	@Summary		List the jobs of a solve with their times
//	@Description	The answer has the start, end, wait, completion time, stretch and share of the value of each
//	@Description	job. The list is empty if the solve found no schedule.
//	@Tags			scheduling
//	@ID				listSolveJobs
//	@Param			id		path	string	true	"the solve"
//	@Param			sort	query	string	false	"share, stretch, wait or jct (the greatest first), start or end"	Enums(share,stretch,wait,jct,start,end)	default(share)
//	@Param			limit	query	int		false	"the most to list (100)"																				minimum(1)	maximum(10000)
//	@Produce		json,application/problem+json
//	@Success		200	{object}	explaindoc.JobList	"the jobs"
//	@Failure		400	{object}	openapi.Problem		"a query parameter is unknown"
//	@Failure		404	{object}	openapi.Problem		"no such solve, or (no_result) no result yet"
//	@Failure		406	{object}	openapi.Problem		"the server has none of the media types that the client accepts"
//	@Failure		410	{object}	openapi.Problem		"the solve is deleted or expired"
//	@Failure		422	{object}	openapi.Problem		"the result leaves its jobs out, or sort is not known"
//	@Failure		500	{object}	openapi.Problem		"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem		"busy or draining: Retry-After says when to try again"
//	@Router			/v1/solves/{id}/jobs [get]
func (s *server) listSolvedJobs(w http.ResponseWriter, r *http.Request) error {
	if _, err := negotiate(r, kindJSON); err != nil {
		return err
	}
	limit := int64(100)
	if q := r.URL.Query(); q.Has("limit") {
		var ok bool
		if limit, ok = digits(q.Get("limit")); !ok || limit < 1 || limit > maxListedJobs {
			return &statusError{http.StatusBadRequest, "bad_query", "?limit= must be a whole number from 1 to 10000"}
		}
	}
	inst, res, err := s.solved(r)
	if err != nil {
		return err
	}
	jobs, err := explain.ListJobs(inst, res, r.URL.Query().Get("sort"), int(limit))
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, explaindoc.JobList{Count: len(inst.Jobs), Jobs: jobs})
}

// jobNotFound turns an error about an absent job into a 404.
func jobNotFound(err error) error {
	var none *explain.NoJobError
	if errors.As(err, &none) {
		return &statusError{http.StatusNotFound, "no_such_job", none.Error()}
	}
	return err
}
