package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

// ClusterChanges yields what changes of a cluster after the change of a number, until ctx ends, the cluster is
// deleted, or the caller stops. Who reads again what a change names has what the lists have. With 0, or where the
// server does not know the number, it begins with a change that has Reset. A stream that breaks is resumed.
func (c *Client) ClusterChanges(ctx context.Context, cluster string, after int64) iter.Seq2[*clusterdoc.Changes,
	error] {
	return changesOf(c.follow(ctx, clusterPath(cluster, "/changes"), after),
		func(d *clusterdoc.Changes) { d.Reset = true })
}

// SessionChanges is ClusterChanges for a session; the numbers are those of its events.
func (c *Client) SessionChanges(ctx context.Context, id string, after int64) iter.Seq2[*sessiondoc.Changes, error] {
	return changesOf(c.follow(ctx, sessionPath(id, "/changes"), after), func(d *sessiondoc.Changes) { d.Reset = true })
}

func changesOf[T any](messages iter.Seq2[message, error], reset func(*T)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for m, err := range messages {
			d := new(T)
			if err == nil {
				if err = json.Unmarshal(m.data, d); err != nil {
					err = fmt.Errorf("client: change %d is not what was expected: %w", m.id, err)
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if m.event == eventReset {
				reset(d)
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

// ClusterHistory returns what a cluster did from a time until another one, in rows of whole minutes. Zero times are a
// day ago and now, and a zero step is a minute.
func (c *Client) ClusterHistory(ctx context.Context, cluster string, from, to time.Time, step time.Duration) (
	*clusterdoc.History, error) {
	query := url.Values{}
	for name, at := range map[string]time.Time{"from": from, "to": to} {
		if !at.IsZero() {
			query.Set(name, at.Format(time.RFC3339))
		}
	}
	if step > 0 {
		query.Set("step_s", strconv.FormatInt(int64(step/time.Second), 10))
	}
	return fetch[clusterdoc.History](ctx, c, call{method: http.MethodGet, path: clusterPath(cluster, "/history"),
		query: query, repeatable: true})
}
