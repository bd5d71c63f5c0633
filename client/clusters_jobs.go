package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"reflect"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

func jobPath(cluster, id, more string) string {
	return clusterPath(cluster, "/jobs/"+url.PathEscape(id)+more)
}

// SubmitJob submits a job to a managed cluster. The key is the Idempotency-Key of the submission, by which the
// same submission, sent again, gives the same job; "" means a new key. The call is retried.
func (c *Client) SubmitJob(ctx context.Context, cluster string, job *clusterdoc.NewJob, key string) (
	*clusterdoc.Job, error) {
	if key == "" {
		key = NewKey()
	}
	if err := checkTexts(reflect.ValueOf(job)); err != nil {
		return nil, err
	}
	return send[clusterdoc.Job](ctx, c, call{path: clusterPath(cluster, "/jobs"), repeatable: true,
		header: http.Header{"Idempotency-Key": {key}}}, job)
}

// PreviewJob says when a job would start and end if it were submitted now and no other job came, and which jobs it
// would delay; with sooner also which smaller job would start earlier. A cluster whose policy makes no plans gives a
// *Problem with the code no_plan.
func (c *Client) PreviewJob(ctx context.Context, cluster string, job *clusterdoc.NewJob, sooner bool) (
	*clusterdoc.Preview, error) {
	if err := checkTexts(reflect.ValueOf(job)); err != nil {
		return nil, err
	}
	path := clusterPath(cluster, "/jobs:preview")
	if sooner {
		path += "?sooner=true"
	}
	return send[clusterdoc.Preview](ctx, c, call{path: path, repeatable: true}, job)
}

// ClusterJobs yields the jobs of a cluster that a query matches, in its order and each with its last attempt.
// ClusterJobs fetches them page by page.
func (c *Client) ClusterJobs(ctx context.Context, cluster string, q clusterdoc.JobQuery) iter.Seq2[*clusterdoc.Job,
	error] {
	return pages(ctx, c, clusterPath(cluster, "/jobs"), "after", q.Values(),
		func(page json.RawMessage) ([]*clusterdoc.Job, string, error) {
			var p clusterdoc.JobList
			err := json.Unmarshal(page, &p)
			return p.Jobs, p.Next, err
		})
}

// ClusterJob describes a job of a managed cluster: what it waits for, where it runs, and how its attempts ended.
func (c *Client) ClusterJob(ctx context.Context, cluster, id string) (*clusterdoc.Job, error) {
	return fetch[clusterdoc.Job](ctx, c, call{method: http.MethodGet, path: jobPath(cluster, id, ""), repeatable: true})
}

// ChangeJob changes the weight or the labels of a job that has not ended, holds it or releases it.
func (c *Client) ChangeJob(ctx context.Context, cluster, id string, change *clusterdoc.JobPatch) (*clusterdoc.Job,
	error) {
	return changeOf[clusterdoc.Job](ctx, c, http.MethodPatch, jobPath(cluster, id, ""), change)
}

// PreviewChange says what is expected of a job with a change and without it, and which other jobs would end later or
// earlier. A cluster whose policy makes no plans gives a *Problem with the code no_plan.
func (c *Client) PreviewChange(ctx context.Context, cluster, id string, change *clusterdoc.JobPatch) (
	*clusterdoc.ChangePreview, error) {
	return changeOf[clusterdoc.ChangePreview](ctx, c, http.MethodPost, jobPath(cluster, id, "/preview"), change)
}

// changeOf sends a change.
func changeOf[T any](ctx context.Context, c *Client, method, path string, change *clusterdoc.JobPatch) (*T, error) {
	if err := checkTexts(reflect.ValueOf(change)); err != nil {
		return nil, err
	}
	return send[T](ctx, c, call{method: method, path: path, repeatable: true}, change)
}

// CancelJob ends a job, and returns before its processes have ended. A job that has ended stays as it is.
func (c *Client) CancelJob(ctx context.Context, cluster, id string) (*clusterdoc.Job, error) {
	return fetch[clusterdoc.Job](ctx, c, call{method: http.MethodPost, path: jobPath(cluster, id, "/cancel"),
		repeatable: true})
}
