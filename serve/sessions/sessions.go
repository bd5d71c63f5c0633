// Package sessions runs online sessions over a store. Each session in memory has an
// actor, a goroutine that applies the events to the session's policy. An answer is given
// once the event and its decisions are durable, so that a session can be recovered after
// a crash.
//
// State is in state.go; above it are plans, memory, writing and loading, then the actor, then what callers do with one
// session. Open and Close are at the top.
package sessions

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
	registry "github.com/hare-sched/hare/sim/policies"
)

// NewPolicy makes a policy as Create does. Errors are those of Config.New.
func (s *Sessions) NewPolicy(name string, cluster *hare.Cluster, parameters []byte) (online.Durable, error) {
	return s.cfg.New(name, cluster, parameters)
}

// DefaultPolicy is the policy of a session whose configuration names none.
const DefaultPolicy = registry.DefaultSession

// Open takes over the store and finds the sessions in it. The log of a session is read
// when the session is first used.
func Open(ctx context.Context, cfg Config) (*Sessions, error) {
	ss := &Sessions{cfg: cfg.withDefaults(), sessions: map[string]*Session{}}
	ss.memory = newMemory(ss.cfg.Memory, ss.cfg.Quotas != nil)
	ss.planners = newPlanners(ss.cfg.Planners, ss.cfg.PlanTime, ss.currentHooks)
	metas, err := cfg.Store.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	events := int64(0)
	var sizes map[string]int64
	if cfg.Quotas != nil {
		if sizes, err = cfg.Store.Sizes(ctx); err != nil {
			return nil, err
		}
	}
	for _, m := range metas {
		s := ss.session(m)
		events += m.Last
		if m.Checksum() != m.Sum {
			s.damage = &store.CorruptError{Session: m.ID, What: "the checksum of its configuration does not fit"}
		} else if s.cfg, err = decodeConfig(m.Config); err != nil {
			s.damage = &store.CorruptError{Session: m.ID, What: "its configuration: " + err.Error()}
		}
		s.release = ss.cfg.Quotas.HasSession(s.cfg.tenant)
		s.countStored(sizes[m.ID] + snapshotBytes(&s.cfg.Cluster))
		ss.sessions[m.ID] = s
		_ = s.logDamage(s.damage)
	}
	if len(metas) > 0 {
		ss.cfg.Logger.Info("sessions found", "sessions", len(metas), "events", events)
	}
	ss.commits = make(chan *batch, 64)
	ss.written = make(chan struct{})
	go ss.commitAll()
	return ss, nil
}

func (ss *Sessions) session(m store.Meta) *Session {
	m.Config = nil // Session.cfg holds the decoded form
	s := &Session{parent: ss, id: m.ID, meta: m, wake: make(chan struct{}), gone: make(chan struct{})}
	s.last.Store(m.Last)
	return s
}

// Create begins a session of a tenant, which is "" on a server without tenants. Bad
// parameters give the policy's error, *hare.InvalidError or InvalidErrors. Too many
// sessions give *admission.LimitError, or admission.ErrFull where there are Quotas; too
// many sessions of the tenant give *admission.QuotaError. Where memory has no room to make the session, the error is
// *admission.QuotaError or *MemoryError.
func (ss *Sessions) Create(ctx context.Context, tenant string, cfg SessionConfig) (_ *Session, err error) {
	cfg.tenant = tenant
	switch cfg.Clock {
	case "":
		cfg.Clock = ClockEvents
	case ClockEvents, ClockServer:
	default:
		return nil, &hare.InvalidError{Pointer: "/clock", Code: "unknown_clock",
			Detail: fmt.Sprintf("must be %q or %q", ClockEvents, ClockServer)}
	}
	if cfg.Policy == "" {
		cfg.Policy = DefaultPolicy
	}
	if cfg.Parameters != nil && !json.Valid(cfg.Parameters) {
		return nil, &hare.InvalidError{Pointer: "/parameters", Code: "malformed", Detail: "must be a JSON object"}
	}
	cfg.Parameters = registry.PlansAside(cfg.Policy, cfg.Parameters)
	if err := ss.cfg.Quotas.Room(tenant); err != nil {
		return nil, err
	}
	bytes := clusterBytes(&cfg.Cluster)
	if err := ss.claim(ctx, tenant, bytes, nil); err != nil {
		return nil, err
	}
	defer ss.memory.add(tenant, -bytes)
	policy, err := ss.cfg.New(cfg.Policy, &cfg.Cluster, cfg.Parameters)
	if err != nil {
		return nil, err
	}
	release, err := ss.cfg.Quotas.Session(tenant)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	if err := ss.reserve(); err != nil {
		return nil, err
	}
	defer ss.changes.Done()
	m := store.Meta{ID: strings.ToLower(rand.Text()), Created: ss.cfg.Now().Truncate(time.Microsecond).UTC()}
	m.Config, err = encodeConfig(&cfg)
	if err == nil {
		m.Sum = m.Checksum()
		err = ss.cfg.Store.Create(ctx, m)
	}
	if err == nil {
		// The first snapshot keeps the defaults of this version, since another version may
		// have other defaults. If the snapshot is lost, the state is made from the
		// configuration again.
		first := store.Snapshot{Session: m.ID, Chain: m.Sum, State: policy.AppendSnapshot(nil)}
		first.Sum = first.Checksum()
		if err = ss.cfg.Store.SaveSnapshot(ctx, first); err != nil {
			_ = ss.cfg.Store.Delete(context.WithoutCancel(ctx), m.ID)
		}
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.reserved--
	if err != nil {
		return nil, err
	}
	s := ss.session(m)
	s.cfg, s.release = cfg, release
	s.countStored(snapshotBytes(&cfg.Cluster))
	ss.sessions[m.ID] = s
	return s, nil
}

// reserve counts a new session, if the limits allow one more.
func (ss *Sessions) reserve() error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.closed {
		return admission.ErrDraining
	}
	if len(ss.sessions)+ss.reserved >= ss.cfg.MaxSessions {
		if ss.cfg.Quotas != nil {
			return admission.ErrFull // the tenant's own limit is not reached
		}
		return &admission.LimitError{What: "sessions", Limit: ss.cfg.MaxSessions}
	}
	ss.reserved++
	ss.changes.Add(1)
	return nil
}

// Session finds a session of a tenant, or returns store.ErrNoSession. A session whose
// configuration is damaged belongs to the tenant "", because its tenant is not known.
func (ss *Sessions) Session(_ context.Context, tenant, id string) (*Session, error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.closed {
		return nil, admission.ErrDraining
	}
	s, ok := ss.sessions[id]
	if !ok || s.cfg.tenant != tenant && s.followed == nil {
		return nil, store.ErrNoSession
	}
	return s, nil
}

// Count returns the number of sessions of all tenants, and the number of those in memory.
func (ss *Sessions) Count() (exist, active int) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.sessions {
		s.mu.RLock()
		if s.actor != nil {
			active++
		}
		s.mu.RUnlock()
	}
	return len(ss.sessions), active
}

// Memory returns the estimated bytes of the sessions in memory and of those that are being made.
func (ss *Sessions) Memory() int64 {
	ss.memory.mu.Lock()
	defer ss.memory.mu.Unlock()
	return ss.memory.used
}

// Planners counts the questions for plans that wait, the plans that are being made, and
// the planners that were left alone because they did not end in time.
func (ss *Sessions) Planners() (waiting, running, abandoned int) { return ss.planners.count() }

// List describes all sessions of a tenant, the oldest first.
func (ss *Sessions) List(_ context.Context, tenant string) ([]Info, error) {
	ss.mu.Lock()
	infos := []Info{}
	for _, s := range ss.sessions {
		if s.cfg.tenant == tenant || s.followed != nil {
			infos = append(infos, s.Info())
		}
	}
	ss.mu.Unlock()
	slices.SortFunc(infos, func(a, b Info) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return infos, nil
}

// Delete ends a session of a tenant and removes the session's log. Events that have no
// answer yet are answered, or get store.ErrNoSession.
func (ss *Sessions) Delete(ctx context.Context, tenant, id string) error {
	ss.mu.Lock()
	s, ok := ss.sessions[id]
	ok = ok && s.cfg.tenant == tenant && s.followed == nil
	closed := ss.closed
	if ok && !closed {
		delete(ss.sessions, id)
		ss.reserved++ // the session counts until its log is gone
		ss.changes.Add(1)
		defer ss.changes.Done()
	}
	ss.mu.Unlock()
	if closed {
		return admission.ErrDraining
	}
	if !ok {
		return store.ErrNoSession
	}
	s.stop(store.ErrNoSession)
	err := ss.cfg.Store.Delete(ctx, id)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.reserved--
	if err != nil && !errors.Is(err, store.ErrNoSession) {
		// The session goes on as if it had been unloaded.
		m := s.meta
		m.Last = s.last.Load()
		again := ss.session(m)
		again.cfg, again.damage, again.release = s.cfg, s.damage, s.release
		again.stored.Store(s.stored.Load())
		again.kept.Store(s.kept.Load())
		ss.sessions[id] = again
		return err
	}
	s.release()
	s.countStored(-s.stored.Load())
	return nil
}

// Close answers the submitted events, saves a snapshot of every session in memory, and
// closes the store.
func (ss *Sessions) Close() error {
	ss.mu.Lock()
	if ss.closed {
		ss.mu.Unlock()
		return nil
	}
	ss.closed = true
	ss.mu.Unlock()
	ss.changes.Wait() // sessions that are being created are ended too
	ss.mu.Lock()
	all := make([]*Session, 0, len(ss.sessions))
	for _, s := range ss.sessions {
		all = append(all, s)
	}
	ss.mu.Unlock()
	for _, s := range all {
		s.finish(admission.ErrDraining)
	}
	ss.actors.Wait()
	ss.planners.close()
	close(ss.commits)
	<-ss.written
	return ss.cfg.Store.Close()
}
