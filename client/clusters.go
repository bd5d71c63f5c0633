package client

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

func clusterPath(cluster, more string) string {
	return "/v1/clusters/" + url.PathEscape(cluster) + more
}

func agentPath(cluster, agent, more string) string {
	return clusterPath(cluster, "/agents/"+url.PathEscape(agent)+more)
}

// CreateCluster makes a managed cluster. A cluster that does not exist is also made, with the default policy, by
// its first agent or job. The call is not retried when the network fails, since the server may have made the
// cluster: Clusters lists it then.
func (c *Client) CreateCluster(ctx context.Context, n *clusterdoc.NewCluster) (*clusterdoc.Cluster, error) {
	return send[clusterdoc.Cluster](ctx, c, call{path: "/v1/clusters"}, n)
}

// Clusters lists the managed clusters by name.
func (c *Client) Clusters(ctx context.Context) ([]*clusterdoc.Cluster, error) {
	list, err := fetch[clusterdoc.ClusterList](ctx, c, call{method: http.MethodGet, path: "/v1/clusters",
		repeatable: true})
	if err != nil {
		return nil, err
	}
	return list.Clusters, nil
}

// Cluster describes a managed cluster.
func (c *Client) Cluster(ctx context.Context, name string) (*clusterdoc.Cluster, error) {
	return fetch[clusterdoc.Cluster](ctx, c, call{method: http.MethodGet, path: clusterPath(name, ""), repeatable: true})
}

// DeleteCluster removes a managed cluster in which no job waits or runs, with its session and its logs.
func (c *Client) DeleteCluster(ctx context.Context, name string) error {
	return c.remove(ctx, clusterPath(name, ""))
}

// Agents lists the agents of a cluster by name, with their GPUs.
func (c *Client) Agents(ctx context.Context, cluster string) ([]*clusterdoc.Agent, error) {
	return agentsOf(fetch[clusterdoc.AgentList](ctx, c, call{method: http.MethodGet,
		path: clusterPath(cluster, "/agents"), repeatable: true}))
}

func agentsOf(list *clusterdoc.AgentList, err error) ([]*clusterdoc.Agent, error) {
	if err != nil {
		return nil, err
	}
	return list.Agents, nil
}

// Drain keeps new work from an agent: what runs there goes on. It returns all agents of the cluster.
func (c *Client) Drain(ctx context.Context, cluster, agent, reason string) ([]*clusterdoc.Agent, error) {
	return agentsOf(send[clusterdoc.AgentList](ctx, c, call{path: agentPath(cluster, agent, "/drain"),
		repeatable: true}, clusterdoc.Drain{Reason: reason}))
}

// Undrain ends Drain. It returns all agents of the cluster.
func (c *Client) Undrain(ctx context.Context, cluster, agent string) ([]*clusterdoc.Agent, error) {
	return agentsOf(fetch[clusterdoc.AgentList](ctx, c, call{method: http.MethodPost,
		path: agentPath(cluster, agent, "/undrain"), repeatable: true}))
}

// RegisterAgent lets an agent take part in a cluster. Each registration gives the agent a new epoch, so that a
// registration that is sent again does no harm.
func (c *Client) RegisterAgent(ctx context.Context, cluster string, r *clusterdoc.Registration) (
	*clusterdoc.Registered, error) {
	return send[clusterdoc.Registered](ctx, c, call{path: clusterPath(cluster, "/agents"), repeatable: true}, r)
}

// SyncAgent reports what an agent does, renews its lease and returns its orders. Where retries are allowed, the
// lease counts from before the first try.
func (c *Client) SyncAgent(ctx context.Context, cluster, agent string, s *clusterdoc.Sync) (*clusterdoc.Synced,
	error) {
	return send[clusterdoc.Synced](ctx, c, call{path: agentPath(cluster, agent, "/sync"), repeatable: true,
		header: http.Header{clusterdoc.SecretHeader: {s.Secret}}}, s)
}

// PutLog uploads a piece of the output of a task, of at most 4 MiB.
func (c *Client) PutLog(ctx context.Context, cluster, agent string, at *clusterdoc.LogChunk, piece []byte) (
	*clusterdoc.LogStored, error) {
	query := taskQuery(at.Attempt, at.Task, at.Stream, at.Offset)
	query.Set("job", at.Job)
	query.Set("epoch", strconv.FormatInt(at.Epoch, 10))
	return fetch[clusterdoc.LogStored](ctx, c, call{method: http.MethodPost, path: agentPath(cluster, agent, "/logs"),
		query: query, body: piece, plain: true, repeatable: true, header: pieceHeader(at.Secret)})
}

func pieceHeader(secret string) http.Header {
	return http.Header{"Content-Type": {"application/octet-stream"}, clusterdoc.SecretHeader: {secret}}
}

// PutCheckpoint brings a piece of the checkpoint of a round job, of at most 4 MiB.
func (c *Client) PutCheckpoint(ctx context.Context, cluster, agent string, at *clusterdoc.CheckpointChunk,
	piece []byte) (*clusterdoc.CheckpointStored, error) {
	query := checkpointQuery(at)
	query.Set("round", strconv.FormatInt(at.Round, 10))
	query.Set("bytes", strconv.FormatInt(at.Bytes, 10))
	return fetch[clusterdoc.CheckpointStored](ctx, c, call{method: http.MethodPost,
		path: agentPath(cluster, agent, "/checkpoints"), query: query, body: piece, plain: true, repeatable: true,
		header: pieceHeader(at.Secret)})
}

// GetCheckpoint returns a piece of the server's copy of the checkpoint of a round job, from an offset on, and no bytes
// at its end. The round and the size of the copy are not used.
func (c *Client) GetCheckpoint(ctx context.Context, cluster, agent string, at *clusterdoc.CheckpointChunk) (
	piece []byte, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: agentPath(cluster, agent, "/checkpoints"),
		query: checkpointQuery(at), repeatable: true,
		header: http.Header{"Accept": {"application/octet-stream"}, clusterdoc.SecretHeader: {at.Secret}},
		take: func(resp *http.Response) (err error) {
			piece, err = io.ReadAll(io.LimitReader(resp.Body, 4<<20))
			return err
		}})
	return piece, err
}

func checkpointQuery(at *clusterdoc.CheckpointChunk) url.Values {
	return url.Values{"epoch": {strconv.FormatInt(at.Epoch, 10)}, "job": {at.Job},
		"attempt": {strconv.FormatInt(at.Attempt, 10)}, "sha256": {at.SHA256},
		"offset": {strconv.FormatInt(at.Offset, 10)}}
}

// send posts a document and decodes the answer.
func send[T any](ctx context.Context, c *Client, x call, document any) (*T, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	x.method, x.body = cmp.Or(x.method, http.MethodPost), text
	return fetch[T](ctx, c, x)
}
