package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/pages"
	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// maxJobBody is the greatest size of the document of a job or a cluster.
const maxJobBody = 1 << 20

var errNoClusters = &statusError{http.StatusNotFound, "no_clusters", "this server manages no clusters"}

// cluster returns the cluster of the path.
func (s *server) cluster(r *http.Request) (*clusters.Cluster, error) {
	if s.cfg.Clusters == nil {
		return nil, errNoClusters
	}
	return s.cfg.Clusters.Cluster(tenantOf(r.Context()), chi.URLParam(r, "cluster"))
}

// clusterOrNew returns the cluster of the path, and makes it with the default policy where there is none: the
// first agent or job of a cluster needs no step before it.
func (s *server) clusterOrNew(r *http.Request) (*clusters.Cluster, error) {
	c, err := s.cluster(r)
	if !errors.Is(err, clusters.ErrNoCluster) {
		return c, err
	}
	c, err = s.newCluster(r, &clusterdoc.NewCluster{Name: chi.URLParam(r, "cluster")})
	if conflict := (*ledger.Conflict)(nil); errors.As(err, &conflict) {
		return s.cluster(r) // another request made it
	}
	return c, err
}

func (s *server) newCluster(r *http.Request, n *clusterdoc.NewCluster) (*clusters.Cluster, error) {
	if s.cfg.Clusters == nil {
		return nil, errNoClusters
	}
	if !s.svc.Ready() {
		return nil, admission.ErrDraining
	}
	c, err := s.cfg.Clusters.Create(r.Context(), tenantOf(r.Context()), n)
	if fault := (*hare.InvalidError)(nil); errors.As(err, &fault) && fault.Pointer != "/name" &&
		fault.Pointer != "/policy" {
		err = &hare.InvalidError{Pointer: "/parameters" + fault.Pointer, Code: fault.Code, Detail: fault.Detail}
	}
	if err == nil {
		s.cfg.Logger.Info("cluster created", "request_id", requestID(r.Context()), "cluster", n.Name)
	}
	return c, err
}

// createCluster makes a cluster.
//
//	@Summary		Make a managed cluster
//	@Description	A cluster has agents, jobs and an online session that decides. A cluster that does not exist is
//	@Description	also made, with the default policy, by its first agent or job.
//	@Tags			clusters
//	@ID				createCluster
//	@Param			body	body	clusterdoc.NewCluster	true	"its name, and how to decide"
//	@Accept			json
//	@Produce		json,application/problem+json
//	@Success		201	{object}	clusterdoc.Cluster	"the cluster; Location has its path"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		404	{object}	openapi.Problem	"this server manages no clusters"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		409	{object}	openapi.Problem	"a cluster of that name exists"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers"
//	@Failure		429	{object}	openapi.Problem	"too many clusters or sessions exist: delete some"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy or draining: Retry-After says when to try again"
//	@Failure		507	{object}	openapi.Problem	"the disk is full"
//	@Router			/v1/clusters [post]
func (s *server) createCluster(w http.ResponseWriter, r *http.Request) error {
	var n clusterdoc.NewCluster
	if err := s.readStrict(w, r, maxJobBody, &n); err != nil {
		return err
	}
	c, err := s.newCluster(r, &n)
	if err != nil {
		return err
	}
	d, err := c.Describe(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/clusters/"+n.Name)
	return answerJSON(w, http.StatusCreated, d)
}

// listClusters lists the clusters.
//
//	@Summary		List the managed clusters
//	@Tags			clusters
//	@ID				listClusters
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.ClusterList	"all clusters of the tenant, by name"
//	@Failure		404	{object}	openapi.Problem	"this server manages no clusters"
//	@Failure		500	{object}	openapi.Problem	"a journal is damaged; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"the server is shutting down"
//	@Router			/v1/clusters [get]
func (s *server) listClusters(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Clusters == nil {
		return errNoClusters
	}
	all, err := s.cfg.Clusters.List(r.Context(), tenantOf(r.Context()))
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, clusterdoc.ClusterList{Clusters: all})
}

// getCluster describes a cluster.
//
//	@Summary		Describe a managed cluster
//	@Description	session is the id of its online session: /v1/sessions/{id}/plan, …/regret and …/log are those of
//	@Description	the cluster.
//	@Tags			clusters
//	@ID				getCluster
//	@Param			cluster	path	string	true	"its name"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.Cluster	"the cluster"
//	@Failure		404	{object}	openapi.Problem	"no such cluster"
//	@Failure		500	{object}	openapi.Problem	"the journal is damaged; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"the server is shutting down"
//	@Router			/v1/clusters/{cluster} [get]
func (s *server) getCluster(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	d, err := c.Describe(r.Context())
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, d)
}

// deleteCluster removes a cluster.
//
//	@Summary		Delete a managed cluster
//	@Description	Its session, journal and logs go with it. A cluster in which jobs wait or run is refused.
//	@Tags			clusters
//	@ID				deleteCluster
//	@Param			cluster	path	string	true	"its name"
//	@Produce		application/problem+json
//	@Success		204	"it is gone"
//	@Failure		404	{object}	openapi.Problem	"no such cluster"
//	@Failure		409	{object}	openapi.Problem	"jobs of the cluster have not ended"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"the server is shutting down"
//	@Failure		507	{object}	openapi.Problem	"the disk is full"
//	@Router			/v1/clusters/{cluster} [delete]
func (s *server) deleteCluster(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Clusters == nil {
		return errNoClusters
	}
	name := chi.URLParam(r, "cluster")
	if err := s.cfg.Clusters.Delete(r.Context(), tenantOf(r.Context()), name); err != nil {
		return err
	}
	s.cfg.Logger.Info("cluster deleted", "request_id", requestID(r.Context()), "cluster", name)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// submitJob submits a job.
//
//	@Summary		Submit a job to a managed cluster
//	@Description	The job is on disk when the answer comes. It waits until the cluster's session gives it GPUs, then
//	@Description	agents start its processes. With an Idempotency-Key the same request can be sent again.
//	@Tags			clusters
//	@ID				submitJob
//	@Param			cluster			path	string				true	"its name; a cluster that does not exist is made"
//	@Param			Idempotency-Key	header	string				false	"a name for this submission: sent again, it gives the same job"
//	@Param			body			body	clusterdoc.NewJob	true	"what to run, on how many GPUs"
//	@Accept			json
//	@Produce		json,application/problem+json
//	@Success		201	{object}	clusterdoc.Job	"the job; Location has its path"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		404	{object}	openapi.Problem	"this server manages no clusters"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		409	{object}	openapi.Problem	"the Idempotency-Key belongs to another job"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers"
//	@Failure		429	{object}	openapi.Problem	"too many jobs of the cluster have not ended"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy or draining: Retry-After says when to try again"
//	@Failure		507	{object}	openapi.Problem	"the disk is full"
//	@Router			/v1/clusters/{cluster}/jobs [post]
func (s *server) submitJob(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	var n clusterdoc.NewJob
	if err := s.readStrict(w, r, maxJobBody, &n); err != nil {
		return err
	}
	if err := ledger.CheckJob(&n); err != nil {
		return err
	}
	c, err := s.clusterOrNew(r)
	if err != nil {
		return err
	}
	job, err := c.Submit(r.Context(), &n, key)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/clusters/"+chi.URLParam(r, "cluster")+"/jobs/"+job.ID)
	return answerJSON(w, http.StatusCreated, job)
}

// listJobs lists jobs.
//
//	@Summary		List the jobs of a managed cluster
//	@Description	Jobs that match all parameters, each with what it waits for and what is expected of it. Jobs in
//	@Description	lists have no env and no secret_env. Pages of one list follow by next and after: no job is lost or
//	@Description	listed twice while nothing changes.
//	@Tags			clusters
//	@ID				listJobs
//	@Param			cluster	path	string		true	"its name"
//	@Param			state	query	[]string	false	"jobs of these states alone"	Enums(waiting, starting, running, stopping, succeeded, failed, cancelled)	collectionFormat(multi)
//	@Param			user	query	string		false	"jobs of this user"
//	@Param			name	query	string		false	"jobs whose name has this part, in upper or lower case"
//	@Param			type	query	string		false	"jobs whose on has this GPU type; of those without on, jobs that run or ran there, or wait"
//	@Param			label	query	[]string	false	"jobs with all of these labels: key=value, or key for any value"	collectionFormat(multi)
//	@Param			q		query	string		false	"jobs of which the id, name, user, command (its first 1,000 bytes), module or value of a label has this part, in upper or lower case"
//	@Param			sort	query	string		false	"submitted, place, start or end (expected where not known yet), weight, gpus, user, name or state; - in front turns the order around. Jobs of which it is not known come last"	default(submitted)
//	@Param			after	query	string		false	"next of the page before, or in lists by submission the id of a job"
//	@Param			limit	query	int			false	"1 to 1000, the most jobs to list: 1000 without it"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.JobList	"jobs, each with its last attempt"
//	@Failure		400	{object}	openapi.Problem	"a parameter is invalid"
//	@Failure		404	{object}	openapi.Problem	"no such cluster"
//	@Failure		500	{object}	openapi.Problem	"the journal is damaged; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"the server is shutting down"
//	@Router			/v1/clusters/{cluster}/jobs [get]
func (s *server) listJobs(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	q := clusters.Query{}
	if q.Limit, err = pageLimit(r); err != nil {
		return err
	}
	values := r.URL.Query()
	for _, text := range values["state"] {
		state := clusterdoc.JobState(text)
		if !slices.Contains(clusterdoc.JobStates(), state) {
			return badQuery("?state=%s must be one of %s", hare.Clip(text), strings.Trim(fmt.Sprint(clusterdoc.JobStates()),
				"[]"))
		}
		q.States = append(q.States, state)
	}
	if q.Sort, err = sortOf(r, clusterdoc.JobSorts()); err != nil {
		return err
	}
	q.User, q.Name, q.Type, q.Text, q.After = values.Get("user"), values.Get("name"), values.Get("type"), values.Get("q"),
		values.Get("after")
	q.Labels = values["label"]
	list, err := c.Jobs(r.Context(), &q)
	if errors.Is(err, pages.ErrCursor) {
		return badQuery("?after= must be next of the page before, with the same sort; by submission also the id of a job, " +
			"such as j17")
	}
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, list)
}

// getClusterJob describes a job.
//
//	@Summary		Describe a job of a managed cluster
//	@Description	reason says what it waits for, or why it failed. place, expected_in_s, expected_end_in_s and
//	@Description	earliest_end_in_s are what the plan of the cluster's session expects and proves, where there is one.
//	@Description	The values of secret_env are ***, and for keys of role read those of env too.
//	@Tags			clusters
//	@ID				getClusterJob
//	@Param			cluster	path	string	true	"its name"
//	@Param			job		path	string	true	"the id of the job"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.Job	"the job with all of its attempts"
//	@Failure		404	{object}	openapi.Problem	"no such cluster, or no such job"
//	@Failure		500	{object}	openapi.Problem	"the journal is damaged; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"the server is shutting down"
//	@Router			/v1/clusters/{cluster}/jobs/{job} [get]
func (s *server) getClusterJob(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	job, err := c.Job(r.Context(), chi.URLParam(r, "job"))
	if err != nil {
		return err
	}
	if key := callerOf(r.Context()); key != nil && key.Role < access.RoleSolve {
		ledger.Mask(job)
	}
	return answerJSON(w, http.StatusOK, job)
}

// cancelJob cancels a job.
//
//	@Summary		Cancel a job of a managed cluster
//	@Description	A waiting job ends at once. The processes of a running one get SIGTERM, and SIGKILL after the
//	@Description	job's grace. A job that has ended stays as it is.
//	@Tags			clusters
//	@ID				cancelJob
//	@Param			cluster	path	string	true	"its name"
//	@Param			job		path	string	true	"the id of the job"
//	@Produce		json,application/problem+json
//	@Success		202	{object}	clusterdoc.Job	"the job as it is now"
//	@Failure		404	{object}	openapi.Problem	"no such cluster, or no such job"
//	@Failure		500	{object}	openapi.Problem	"the journal is damaged; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"the server is shutting down"
//	@Failure		507	{object}	openapi.Problem	"the disk is full"
//	@Router			/v1/clusters/{cluster}/jobs/{job}/cancel [post]
func (s *server) cancelJob(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	job, err := c.Cancel(r.Context(), chi.URLParam(r, "job"), whoAsks(r))
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusAccepted, job)
}
