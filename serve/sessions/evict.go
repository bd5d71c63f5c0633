package sessions

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hare-sched/hare/serve/admission"
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
