package clusters

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"maps"
	"time"

	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

func (p *presence) update(l *ledger.Ledger, name string) {
	p.epoch, p.reports, p.alive, _ = l.Agent(name)
	p.secret = l.SecretSum(name)
	p.orders, p.faults, p.devices = l.Orders(name), l.Faults(name), l.Devices(name)
}

// publish shows what agents ask for as of the durable state.
func (c *Cluster) publish() {
	changed := c.ledger.Changed()
	if len(changed) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range changed {
		p := c.presences[name]
		if p == nil {
			p = &presence{wake: make(chan struct{})}
			c.presences[name] = p
		}
		p.update(c.ledger, name)
		close(p.wake)
		p.wake = make(chan struct{})
	}
}

// overdue are the agents whose lease has run out, and with it the time in which they end their processes.
func (c *Cluster) overdue() (names []string) {
	for _, name := range c.ledger.AgentNames() {
		if !c.leased(name) {
			names = append(names, name)
		}
	}
	return names
}

// leased reports whether the processes of an agent may still run.
func (c *Cluster) leased(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.presences[name]
	return p != nil && c.parent.cfg.Now().Sub(p.answered) <= c.parent.cfg.Lease+c.parent.cfg.Kill
}

// Register lets an agent take part. The error is hare.InvalidErrors, *ledger.Conflict, or one of the store's.
func (c *Cluster) Register(ctx context.Context, r *clusterdoc.Registration) (*clusterdoc.Registered, error) {
	if err := ledger.CheckRegistration(r); err != nil {
		return nil, err
	}
	answer := &clusterdoc.Registered{Secret: rand.Text(), LeaseS: c.parent.cfg.Lease.Seconds(),
		LogLimitBytes: c.parent.cfg.LogLimit}
	err := c.do(ctx, &request{
		prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
			if err := l.Registrable(r, c.leased); err != nil {
				return nil, err
			}
			full := c.parent.cfg.Quotas.Room(c.cfg.Tenant)
			rec, known := l.Registration(r, sum(answer.Secret), full != nil)
			if full != nil && !known {
				return nil, full
			}
			// Until the answer is sent, the agent has no lease under the new epoch; from here on it may have one.
			c.grantLease(r.Name)
			return &ledger.Record{Register: rec}, nil
		},
		after: func(l *ledger.Ledger) {
			answer.Epoch, _, _, _ = l.Agent(r.Name)
			answer.Confirmed = l.Confirmed(r.Name, r.Holds)
			answer.ClusterID = c.meta.ID
			c.grantLease(r.Name)
		},
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// grantLease notes that an agent is answered now.
func (c *Cluster) grantLease(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.presences[name]
	if p == nil {
		p = &presence{wake: make(chan struct{})}
		c.presences[name] = p
	}
	p.answered = c.parent.cfg.Now()
	p.heard = p.answered
}

// Sync takes the reports of an agent, renews its lease, and answers with its orders: at once where there are
// some, else after the time that the agent is ready to wait.
func (c *Cluster) Sync(ctx context.Context, name string, s *clusterdoc.Sync) (*clusterdoc.Synced, error) {
	p, err := c.present(name, s.Epoch, s.Secret)
	if err != nil {
		return nil, err
	}
	if err := ledger.CheckSync(s, p.devices); err != nil {
		return nil, err
	}
	if int64(len(s.Reports))+s.ReportsAfter > p.reports || !sameFaults(s.Faults, p.faults) {
		// Where the disk takes no report, the agent keeps its lease and tells it again.
		if err := c.takeReports(ctx, name, s); err != nil && !errors.Is(err, store.ErrStorage) {
			return nil, err
		}
	}
	gone, err := c.gone(ctx, s.Checkpoints)
	if err != nil {
		return nil, err
	}
	wait := time.Duration(min(max(s.WaitS, 0), c.parent.cfg.Lease.Seconds()/3) * float64(time.Second))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for last := false; ; {
		answer, wake, err := c.synced(name, s)
		if err != nil {
			return nil, err
		}
		if answer.EndedJobs = gone; last || len(gone) > 0 || len(answer.Orders) > 0 || wait == 0 {
			return answer, nil
		}
		select {
		case <-wake:
		case <-timer.C:
			last = true
		case <-c.ended:
			last = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// sum is the form in which secrets of registrations are kept. They have 130 random bits, so that a slow hash is not
// needed.
func sum(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

// gone are those of jobs that have ended, or that the cluster does not have.
func (c *Cluster) gone(ctx context.Context, jobs []string) (gone []string, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	err = c.do(ctx, &request{
		prepare: func(*ledger.Ledger) (*ledger.Record, error) { return nil, nil },
		after: func(l *ledger.Ledger) {
			for _, id := range jobs {
				if l.Gone(id) {
					gone = append(gone, id)
				}
			}
		}})
	return gone, err
}

// present returns a copy of what is known of an agent, or why it may not go on: *ledger.Conflict, or ErrSecret where
// the secret is not that of the registration that began the epoch.
func (c *Cluster) present(name string, epoch int64, secret string) (presence, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.presences[name]
	switch {
	case p == nil:
		return presence{}, &ledger.Conflict{Code: "unknown_agent", Detail: "no agent of that name has registered: register"}
	case p.epoch != epoch || !p.alive:
		return presence{}, staleEpoch
	case p.secret == "":
		return presence{}, noSecret
	case subtle.ConstantTimeCompare([]byte(p.secret), []byte(sum(secret))) != 1:
		return presence{}, ErrSecret
	}
	p.heard = c.parent.cfg.Now()
	return *p, nil
}

var staleEpoch = &ledger.Conflict{Code: "stale_epoch",
	Detail: "the agent's epoch is over: end all of its tasks that are not confirmed, and register again"}

// noSecret is for agents that registered with a server that gave no secrets.
var noSecret = &ledger.Conflict{Code: "unknown_agent",
	Detail: "the agent registered when the server gave no secrets yet: register again"}

// synced makes the answer to a sync and renews the lease with it.
func (c *Cluster) synced(name string, s *clusterdoc.Sync) (*clusterdoc.Synced, <-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.presences[name]
	// An agent whose lease has run out for so long that the actor may be giving its work away gets no new one.
	if p.epoch != s.Epoch || !p.alive || c.parent.cfg.Now().Sub(p.answered) > c.parent.cfg.Lease+c.parent.cfg.Kill {
		return nil, nil, staleEpoch
	}
	answer := &clusterdoc.Synced{LeaseS: c.parent.cfg.Lease.Seconds(), ReportsSeen: p.reports}
	for i := range p.orders {
		if p.orders[i].Number > s.OrdersSeen {
			answer.Orders = append(answer.Orders, p.orders[i])
		}
	}
	p.answered = c.parent.cfg.Now()
	return answer, p.wake, nil
}

// takeReports records what is new in a sync.
func (c *Cluster) takeReports(ctx context.Context, name string, s *clusterdoc.Sync) error {
	return c.do(ctx, &request{
		prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
			epoch, seen, alive, _ := l.Agent(name)
			if epoch != s.Epoch || !alive {
				return nil, staleEpoch
			}
			rec := &ledger.SyncRecord{AgentEpoch: ledger.AgentEpoch{Agent: name, Epoch: epoch}, After: s.ReportsAfter}
			if skip := seen - s.ReportsAfter; skip < 0 {
				return nil, &ledger.Conflict{Code: "reports_missing", Detail: "the reports before the first are not known: " +
					"register again"}
			} else if skip < int64(len(s.Reports)) {
				rec.After, rec.Reports = seen, s.Reports[skip:]
			}
			if !sameFaults(s.Faults, l.Faults(name)) {
				faults := map[int]string{} // not nil, which would be read back as "nothing has changed"
				maps.Copy(faults, s.Faults)
				rec.Faults = &faults
			}
			if len(rec.Reports) == 0 && rec.Faults == nil {
				return nil, nil
			}
			return &ledger.Record{Sync: rec}, nil
		},
		after: func(l *ledger.Ledger) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.presences[name].update(l, name)
		},
	})
}

func sameFaults(a, b map[int]string) bool {
	if len(a) != len(b) {
		return false
	}
	for i, why := range a {
		if w, ok := b[i]; !ok || w != why {
			return false
		}
	}
	return true
}
