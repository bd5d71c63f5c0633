// Package clusters runs managed clusters: the agents of nodes, the jobs of users, and for each cluster an online
// session that decides which job starts where. A cluster is the only client of its session. Everything that it
// knows is in a journal before anybody learns of it, so that a server may be killed at any moment: no job is lost,
// and no attempt starts twice.
//
// State and the way to the actor are in state.go. Above it are the leases of agents, the files of jobs (outputs and
// copies of checkpoints) and the actor; clusters.go makes and ends clusters.
package clusters

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/changes"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Open takes over the journals and starts the clusters that they describe.
func Open(ctx context.Context, cfg Config) (*Clusters, error) {
	cs := &Clusters{cfg: cfg.withDefaults(), clusters: map[clusterKey]*Cluster{}}
	cs.context, cs.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if cs.cfg.LogDir == "" {
		dir, err := os.MkdirTemp("", "hare-logs-")
		if err != nil {
			return nil, err
		}
		cs.cfg.LogDir, cs.ownLogs = dir, true
	}
	if cs.cfg.CheckpointDir == "" {
		cs.cfg.CheckpointDir = filepath.Join(cs.cfg.LogDir, "checkpoints")
	}
	metas, err := cfg.Store.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	var sizes map[string]int64
	if cfg.Quotas != nil {
		if sizes, err = cfg.Store.Sizes(ctx); err != nil {
			return nil, err
		}
	}
	for _, m := range metas {
		c := cs.cluster(m)
		if m.Checksum() != m.Sum {
			c.damage = &store.CorruptError{Session: m.ID, What: "the checksum of its configuration does not fit"}
		} else if err := json.Unmarshal(m.Config, &c.cfg); err != nil {
			c.damage = &store.CorruptError{Session: m.ID, What: "its configuration: " + err.Error()}
		} else if c.session, err = cfg.Sessions.Session(ctx, c.cfg.Tenant, c.cfg.Session); err != nil {
			c.damage = fmt.Errorf("the session %s of cluster %q: %w", c.cfg.Session, c.cfg.Name, err)
		}
		c.name = c.cfg.Name
		c.countStored(sizes[m.ID])
		if cfg.Quotas != nil {
			if err := c.countFiles(); err != nil {
				return nil, err
			}
		}
		if c.session != nil {
			c.session.Keep()
		}
		if c.damage == nil {
			_ = c.load() // leases run from here on; the error is given to whoever asks
		} else {
			cs.cfg.Logger.Error("a cluster is damaged; the others go on", "cluster", c.name, "error", c.damage)
		}
		cs.clusters[clusterKey{c.cfg.Tenant, c.name}] = c
		go c.run()
		go c.sweep()
	}
	return cs, nil
}

func (cs *Clusters) cluster(m store.Meta) *Cluster {
	return &Cluster{parent: cs, meta: m, inbox: make(chan *request, maxBatch), stop: make(chan struct{}),
		ended: make(chan struct{}), presences: map[string]*presence{}, feed: changes.New(0),
		copies: copies{parts: map[string]int64{}, problems: map[string]string{}}}
}

var clusterName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// Create makes a cluster of a tenant. An unknown policy and bad parameters give *hare.InvalidError, a name that
// exists *ledger.Conflict.
func (cs *Clusters) Create(ctx context.Context, tenant string, n *clusterdoc.NewCluster) (*Cluster, error) {
	if !clusterName.MatchString(n.Name) {
		return nil, &hare.InvalidError{Pointer: "/name", Code: "bad_name",
			Detail: `must be 1 to 63 of a–z, 0–9, ".", "_" and "-", with a letter or digit first`}
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	key := clusterKey{tenant, n.Name}
	switch {
	case cs.closed:
		return nil, admission.ErrDraining
	case cs.clusters[key] != nil:
		return nil, &ledger.Conflict{Code: "cluster_exists", Detail: fmt.Sprintf("cluster %q exists", n.Name)}
	case len(cs.clusters) >= cs.cfg.MaxClusters:
		return nil, &admission.LimitError{What: "clusters", Limit: cs.cfg.MaxClusters}
	}
	session, err := cs.cfg.Sessions.Create(ctx, tenant, sessions.SessionConfig{Policy: n.Policy, Parameters: n.Parameters,
		Clock: sessions.ClockServer})
	if err != nil {
		return nil, err
	}
	stored := storedConfig{tenant, n.Name, session.Info().Config.Policy, n.Parameters, session.ID()}
	m := store.Meta{ID: store.JournalPrefix + strings.ToLower(rand.Text()),
		Created: cs.cfg.Now().Truncate(time.Microsecond).UTC()}
	if m.Config, err = json.Marshal(&stored); err == nil {
		m.Sum = m.Checksum()
		err = cs.cfg.Store.Create(ctx, m)
	}
	if err != nil {
		return nil, errors.Join(err, cs.cfg.Sessions.Delete(context.WithoutCancel(ctx), tenant, session.ID()))
	}
	c := cs.cluster(m)
	c.name, c.cfg, c.session = n.Name, stored, session
	session.Keep()
	cs.clusters[key] = c
	go c.run()
	go c.sweep()
	return c, nil
}

// Cluster finds a cluster of a tenant, or returns ErrNoCluster.
func (cs *Clusters) Cluster(tenant, name string) (*Cluster, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed {
		return nil, admission.ErrDraining
	}
	if c := cs.clusters[clusterKey{tenant, name}]; c != nil {
		return c, nil
	}
	return nil, ErrNoCluster
}

// Count is the number of clusters of a tenant.
func (cs *Clusters) Count(tenant string) (n int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for key := range cs.clusters {
		if key.tenant == tenant {
			n++
		}
	}
	return n
}

// OfSession is the name of the cluster of a tenant that decides by a session; "" where there is none.
func (cs *Clusters) OfSession(tenant, session string) string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for key, c := range cs.clusters {
		if key.tenant == tenant && c.cfg.Session == session {
			return key.name
		}
	}
	return ""
}

// List describes the clusters of a tenant by name.
func (cs *Clusters) List(ctx context.Context, tenant string) ([]*clusterdoc.Cluster, error) {
	cs.mu.Lock()
	var found []*Cluster
	for key, c := range cs.clusters {
		if key.tenant == tenant {
			found = append(found, c)
		}
	}
	cs.mu.Unlock()
	slices.SortFunc(found, func(a, b *Cluster) int { return strings.Compare(a.name, b.name) })
	all := []*clusterdoc.Cluster{}
	for _, c := range found {
		d, err := c.Describe(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// Delete removes a cluster in which no job waits or runs, with its session, journal and logs.
func (cs *Clusters) Delete(ctx context.Context, tenant, name string) error {
	c, err := cs.Cluster(tenant, name)
	if err != nil {
		return err
	}
	err = c.do(ctx, &request{prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
		if n := l.Unended(); n > 0 {
			return nil, &ledger.Conflict{Code: "cluster_busy", Detail: fmt.Sprintf("%d jobs have not ended: cancel them, or "+
				"wait", n)}
		}
		return nil, nil
	}})
	if err != nil && !errors.As(err, new(*store.CorruptError)) {
		return err
	}
	cs.mu.Lock()
	if cs.closed || cs.clusters[clusterKey{tenant, name}] != c {
		cs.mu.Unlock()
		return ErrNoCluster
	}
	delete(cs.clusters, clusterKey{tenant, name})
	c.deleted = true
	close(c.stop)
	cs.mu.Unlock()
	<-c.ended
	cs.cfg.Quotas.Jobs(tenant, -c.counted)
	err = cs.cfg.Store.Delete(ctx, c.meta.ID)
	if c.session != nil {
		err = errors.Join(err, cs.cfg.Sessions.Delete(ctx, tenant, c.session.ID()))
	}
	err = errors.Join(err, os.RemoveAll(c.logDir()), os.RemoveAll(c.copyDir()))
	c.countStored(-c.stored.Load())
	return err
}

// Close ends the actors and closes the store of the journals. Agents go on until their leases run out.
func (cs *Clusters) Close() error {
	cs.mu.Lock()
	if cs.closed {
		cs.mu.Unlock()
		return nil
	}
	cs.closed = true
	for _, c := range cs.clusters {
		close(c.stop)
	}
	cs.mu.Unlock()
	cs.cancel()
	for _, c := range cs.clusters {
		<-c.ended
	}
	err := cs.cfg.Store.Close()
	if cs.ownLogs {
		err = errors.Join(err, os.RemoveAll(cs.cfg.LogDir))
	}
	return err
}

// Describe describes the cluster.
func (c *Cluster) Describe(ctx context.Context) (*clusterdoc.Cluster, error) {
	d := &clusterdoc.Cluster{Name: c.name, Created: c.meta.Created, Policy: c.cfg.Policy, Parameters: c.cfg.Parameters,
		Session: c.cfg.Session}
	err := c.do(ctx, &request{prepare: func(*ledger.Ledger) (*ledger.Record, error) { return nil, nil },
		after: func(l *ledger.Ledger) { l.Counts(d) }})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Changes yields what has changed of the cluster after the change of a number, as changes.Feed.Follow does. The
// numbers are those of the records of the journal, which outlast the server.
func (c *Cluster) Changes(ctx context.Context, after int64) iter.Seq2[changes.Change, error] {
	return c.feed.Follow(ctx, after, c.ended, c.endErr)
}

// Agents describes the agents of the cluster by name.
func (c *Cluster) Agents(ctx context.Context) (all []*clusterdoc.Agent, err error) {
	err = c.do(ctx, &request{prepare: func(*ledger.Ledger) (*ledger.Record, error) { return nil, nil },
		after: func(l *ledger.Ledger) { all = l.Agents() }})
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.parent.cfg.Now()
	for _, a := range all {
		if p := c.presences[a.Name]; p != nil && !p.heard.IsZero() {
			a.SeenS = now.Sub(p.heard).Seconds()
		}
	}
	return all, err
}

// Drain keeps new work from an agent, or lets it have work again.
func (c *Cluster) Drain(ctx context.Context, agent string, on bool, reason string) error {
	if err := ledger.CheckReason(reason); err != nil {
		return err
	}
	return c.do(ctx, &request{prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
		if _, _, _, known := l.Agent(agent); !known {
			return nil, ErrNoAgent
		}
		return &ledger.Record{Drain: &ledger.Drain{Agent: agent, On: on, Reason: reason}}, nil
	}})
}
