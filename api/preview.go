package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/wire"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// previewJob says what would happen to a job.
//
//	@Summary		Say when a job would start if it were submitted now
//	@Description	The server plans with the job and without it, as the cluster's session would after its arrival,
//	@Description	and says when the job would start and end if no other job came, and which jobs it would delay.
//	@Description	With ?sooner=true it also says which smaller job would start earlier.
//	@Description	Nothing is recorded. Only policies that make plans can tell: rolling.
//	@Tags			clusters
//	@ID				previewJob
//	@Param			cluster	path	string				true	"its name"
//	@Param			body	body	clusterdoc.NewJob	true	"what to run, on how many GPUs"
//	@Param			sooner	query	bool				false	"say which smaller job would start earlier"
//	@Accept			json
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.Preview	"what is expected"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed; or a bad query"
//	@Failure		404	{object}	openapi.Problem	"no such cluster"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		501	{object}	openapi.Problem	"the policy of the cluster makes no plans (no_plan)"
//	@Failure		503	{object}	openapi.Problem	"busy or draining: Retry-After says when to try again"
//	@Router			/v1/clusters/{cluster}/jobs:preview [post]
func (s *server) previewJob(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	var n clusterdoc.NewJob
	if err := s.readStrict(w, r, maxJobBody, &n); err != nil {
		return err
	}
	sooner, err := flag(r, "sooner")
	if err != nil {
		return err
	}
	preview, err := c.Preview(r.Context(), &n, sooner)
	if err != nil {
		return previewError(err)
	}
	return answerJSON(w, http.StatusOK, preview)
}

func previewError(err error) error {
	if none := (*sessions.NoPlansError)(nil); errors.As(err, &none) {
		return &statusError{http.StatusNotImplemented, "no_plan", "the policy " + none.Policy + " makes no plans, so that " +
			"nobody knows when a job would start: a cluster with the policy rolling has previews"}
	}
	return err
}

// previewSessionJob says what would happen to a job of a session.
//
//	@Summary		Say when a job would start if it arrived at a session now
//	@Description	The body is the job of an event job_arrived. The server plans with the job and without it, on copies
//	@Description	of the session, and says when it would start and end if no other job came, and which jobs it would
//	@Description	delay. Nothing is recorded: the sessions of hare serve --follow can be asked, too. Only policies that
//	@Description	make plans can tell: rolling.
//	@Tags			sessions
//	@ID				previewSessionJob
//	@Param			id		path	string		true	"the session"
//	@Param			body	body	openapi.ArrivingJob	true	"the job"
//	@Accept			json
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.Preview	"what is expected"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		404	{object}	openapi.Problem	"no such session, or its policy makes no plans (no_plan)"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy or draining: Retry-After says when to try again"
//	@Router			/v1/sessions/{id}/jobs:preview [post]
func (s *server) previewSessionJob(w http.ResponseWriter, r *http.Request) error {
	session, err := s.session(r)
	if err != nil {
		return err
	}
	text, err := s.readBody(w, r, maxJobBody)
	if err != nil {
		return err
	}
	job, err := decode(s, r, text, wire.DecodeArrivingJob)
	if err != nil {
		return err
	}
	preview, err := clusters.PreviewOfSession(r.Context(), session, job)
	if bad := (*hare.InvalidError)(nil); errors.As(err, &bad) {
		return &hare.InvalidError{Pointer: strings.TrimPrefix(bad.Pointer, "/job"), Code: bad.Code, Detail: bad.Detail}
	}
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, preview)
}
