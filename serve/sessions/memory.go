package sessions

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
)

// The bytes that a loaded session takes, as measured with the policies of package sim/policies.
const (
	sessionBytes = 32 << 10 // of a session without GPUs and jobs
	gpuBytes     = 200
	nodeBytes    = 100
	jobBytes     = 2 << 10
	profileBytes = 100 // of a type of GPU on which a job may run
	stateBytes   = 70  // of a GPU in a snapshot
	stateFactor  = 4   // bytes in memory, for each byte of jobs in a snapshot
)

// evictWait is how long a session that is asked to leave memory may be busy with its events before it is left alone.
const evictWait = 100 * time.Millisecond

// MemoryError says that the sessions in memory, all of which are in use, leave no room for one more.
type MemoryError struct {
	Bytes, Limit int64 // what the session takes, and what all may take
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("the session takes about %d MiB of memory, and the sessions in use leave less of the %d MiB of "+
		"hare serve --session-memory: try again", e.Bytes>>20, e.Limit>>20)
}

// memory counts the estimated bytes of the sessions that are loaded or being made. Safe for concurrent use.
type memory struct {
	limit int64 // of all; 0 means none
	share int64 // of one tenant

	mu     sync.Mutex
	used   int64
	owners map[string]int64 // without those that use nothing
}

func newMemory(cfg *Config) *memory {
	m := &memory{limit: cfg.Memory, share: math.MaxInt64, owners: map[string]int64{}}
	if m.limit > 0 && cfg.Quotas != nil {
		m.share = m.limit / 2
	}
	return m
}

// add counts bytes of a tenant, also beyond the limits; bytes may be negative.
func (m *memory) add(tenant string, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(tenant, bytes)
}

func (m *memory) count(tenant string, bytes int64) {
	m.used += bytes
	if m.owners[tenant] += bytes; m.owners[tenant] == 0 {
		delete(m.owners, tenant)
	}
}

// claim counts bytes of a tenant if there is room. Otherwise it returns how many bytes of the tenant, or of anybody,
// must be given back first. What is larger than a limit has room where nothing else counts against that limit.
func (m *memory) claim(tenant string, bytes int64) (own, all int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	missing := func(used, limit int64) int64 { return max(0, min(used, bytes-(limit-used))) }
	if m.limit > 0 {
		own, all = missing(m.owners[tenant], m.share), missing(m.used, m.limit)
	}
	if own == 0 && all == 0 {
		m.count(tenant, bytes)
	}
	return own, all
}

// claim counts bytes of a tenant for a session that is to be loaded or made. Where there is no room, sessions that are
// not in use leave memory, the least recently used first and but never, those of the tenant alone where its own share
// is used up. The error is *admission.QuotaError or *MemoryError.
func (ss *Sessions) claim(ctx context.Context, tenant string, bytes int64, but *Session) error {
	for range 3 { // another may take what was given back
		own, all := ss.memory.claim(tenant, bytes)
		switch {
		case own == 0 && all == 0:
			return nil
		case own > 0 && ss.evict(ctx, own, func(s *Session) bool { return s != but && s.cfg.tenant == tenant }):
		case own > 0:
			return &admission.QuotaError{Code: "quota_session_memory", Limit: float64(ss.memory.share >> 20),
				What: "MiB of sessions in memory", After: time.Second}
		case !ss.evict(ctx, all, func(s *Session) bool { return s != but }):
			return &MemoryError{bytes, ss.memory.limit}
		}
	}
	return &MemoryError{bytes, ss.memory.limit}
}

// evict lets sessions leave memory that are not in use until bytes are given back. It says whether they are; where all
// that are not in use have fewer, none leaves.
func (ss *Sessions) evict(ctx context.Context, bytes int64, which func(*Session) bool) bool {
	type idle struct {
		s         *Session
		used, has int64
	}
	var found []idle
	sum := int64(0)
	ss.mu.Lock()
	for _, s := range ss.sessions {
		if has := s.claimed.Load(); has > 0 && which(s) && !s.busy() {
			found = append(found, idle{s, s.used.Load(), has})
			sum += has
		}
	}
	ss.mu.Unlock()
	if sum < bytes {
		return false
	}
	slices.SortFunc(found, func(a, b idle) int { return cmp.Compare(a.used, b.used) })
	for i := range found {
		if found[i].s.evict(ctx) {
			if bytes -= found[i].has; bytes <= 0 {
				return true
			}
		}
	}
	return false
}

// busy reports whether events of the session wait.
func (s *Session) busy() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.actor != nil && len(s.actor.inbox) > 0
}

// evict asks the session to leave memory and says whether it has.
func (s *Session) evict(ctx context.Context) bool {
	s.mu.RLock()
	a := s.actor
	s.mu.RUnlock()
	if a == nil {
		return true
	}
	timer := time.NewTimer(evictWait)
	defer timer.Stop()
	select {
	case a.evict <- struct{}{}:
	case <-a.left:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
	select {
	case <-a.left:
		return true
	case <-a.stays:
		return false
	}
}

// gpusOf counts the GPUs that a session is created with.
func gpusOf(c *hare.Cluster) (n int64) {
	for i := range c.Nodes {
		for _, g := range c.Nodes[i].GPUs {
			n += int64(g.Count)
		}
	}
	return n
}

// freeGPUs are the GPUs of a session that count for nothing in what is stored.
const freeGPUs = 1000

// snapshotBytes is what counts as stored for the GPUs in the snapshots of a session, of which the store keeps three.
func snapshotBytes(c *hare.Cluster) int64 { return 3 * stateBytes * max(0, gpusOf(c)-freeGPUs) }

// clusterBytes estimates what the GPUs of a session take in memory.
func clusterBytes(c *hare.Cluster) int64 {
	return sessionBytes + nodeBytes*int64(len(c.Nodes)) + gpuBytes*gpusOf(c)
}

// claim counts what the session is expected to take once it is loaded. Those of managed clusters are never refused.
func (s *Session) claim(ctx context.Context) (int64, error) {
	bytes := clusterBytes(&s.cfg.Cluster) + s.extra.Load()
	if s.kept.Load() {
		s.parent.memory.add(s.cfg.tenant, bytes)
		return bytes, nil
	}
	return bytes, s.parent.claim(ctx, s.cfg.tenant, bytes, s)
}

// grow counts what jobs and GPUs take that come, or gives back what those took that go. The error is that of
// Sessions.claim.
func (s *Session) grow(bytes int64, refuse bool) error {
	if bytes = max(bytes, -s.extra.Load()); bytes == 0 {
		return nil
	}
	if bytes > 0 && refuse && !s.kept.Load() {
		if err := s.parent.claim(context.Background(), s.cfg.tenant, bytes, s); err != nil {
			return err
		}
	} else {
		s.parent.memory.add(s.cfg.tenant, bytes)
	}
	s.extra.Add(bytes)
	s.claimed.Add(bytes)
	return nil
}

// unclaim gives back what a session took that has left memory.
func (s *Session) unclaim() { s.parent.memory.add(s.cfg.tenant, -s.claimed.Swap(0)) }

// eventBytes estimates what an event adds to the memory of its session, or takes from it, where jobs jobs take bytes.
func eventBytes(e *hare.Event, jobs, bytes int64) int64 {
	switch e.Type {
	case hare.EventJobArrived:
		return jobBytes + profileBytes*int64(len(e.Arrived.On))
	case hare.EventJobEnded, hare.EventJobCancelled:
		return -bytes / max(1, jobs)
	case hare.EventGPUJoined:
		return gpuBytes
	case hare.EventGPULeft:
		return -gpuBytes
	}
	return 0
}

// stateExtra estimates what the jobs of a session take in memory, and the GPUs that joined, by its snapshot.
func stateExtra(s *Session, state []byte) int64 {
	return stateFactor * max(0, int64(len(state))-stateBytes*gpusOf(&s.cfg.Cluster))
}
