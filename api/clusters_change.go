package api

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// changeJob changes a job.
//
//	@Summary		Change, hold or release a job of a managed cluster
//	@Description	A job that is held does not start until it is released. A new weight counts at once for a job that
//	@Description	waits, which the scheduler takes for one that has just arrived, and for one that runs when it starts
//	@Description	again. The job keeps who changed it, when and why. A change that is there already does nothing.
//	@Tags			clusters
//	@ID				changeJob
//	@Param			cluster	path	string					true	"its name"
//	@Param			job		path	string					true	"the id of the job"
//	@Param			body	body	clusterdoc.JobPatch	true	"what is to change"
//	@Accept			json
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.Job	"the job as it is now"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		404	{object}	openapi.Problem	"no such cluster, or no such job"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		409	{object}	openapi.Problem	"the job has ended, or it runs and cannot be held"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy or draining: Retry-After says when to try again"
//	@Failure		507	{object}	openapi.Problem	"the disk is full"
//	@Router			/v1/clusters/{cluster}/jobs/{job} [patch]
func (s *server) changeJob(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	var change clusterdoc.JobPatch
	if err := s.readStrict(w, r, maxJobBody, &change); err != nil {
		return err
	}
	job, err := c.Change(r.Context(), chi.URLParam(r, "job"), &change, whoAsks(r))
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, job)
}

// whoAsks is how a job remembers who asked for something; "" on a server without keys.
func whoAsks(r *http.Request) string {
	if key := callerOf(r.Context()); key != nil {
		return "key " + key.ID
	}
	return ""
}

// previewChange says what would come of a change of a job.
//
//	@Summary		Say who would pay for a change of a job
//	@Description	The server plans with the change and without it, and says when the job would start and end if no
//	@Description	other job came, and which other jobs would end later or earlier. Nothing is changed. Only policies that
//	@Description	make plans can tell: rolling.
//	@Tags			clusters
//	@ID				previewChange
//	@Param			cluster	path	string					true	"its name"
//	@Param			job		path	string					true	"the id of the job"
//	@Param			body	body	clusterdoc.JobPatch	true	"what is to change"
//	@Accept			json
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.ChangePreview	"what is expected"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		404	{object}	openapi.Problem	"no such cluster, or no such job"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		409	{object}	openapi.Problem	"the job has ended, it runs and cannot be held, or the scheduler is being told of what has happened: ask again"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		501	{object}	openapi.Problem	"the policy of the cluster makes no plans (no_plan)"
//	@Failure		503	{object}	openapi.Problem	"busy or draining: Retry-After says when to try again"
//	@Router			/v1/clusters/{cluster}/jobs/{job}/preview [post]
func (s *server) previewChange(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	var change clusterdoc.JobPatch
	if err := s.readStrict(w, r, maxJobBody, &change); err != nil {
		return err
	}
	preview, err := c.PreviewChange(r.Context(), chi.URLParam(r, "job"), &change)
	if err != nil {
		return previewError(err)
	}
	return answerJSON(w, http.StatusOK, preview)
}
