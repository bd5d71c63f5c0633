package admission

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Memory is a budget of bytes that the calls of all tenants share. A call claims what it is expected to take
// before it takes that, and beyond the budget it is refused. Small claims, which are most of the calls, have a
// quarter of the budget for themselves, so that a few large calls do not keep them out. Safe for concurrent use;
// a nil *Memory limits nothing.
type Memory struct {
	total int64
	// shared says that there are several tenants, of which none may have more than half.
	shared bool

	mu           sync.Mutex
	small, large memoryPool
}

type memoryPool struct {
	used   int64
	owners map[string]int64 // bytes by owner; without those that are 0
}

// smallShare is the share of the budget up to which a claim is small.
const smallShare = 256

// alone is how many times the budget a large claim may be beside which there is no other large one, so that what is
// rare and large can be done when nothing else is.
const alone = 3

// NewMemory returns a budget of total bytes. With shared, the claims of one owner may take half of it. A claim beside
// which there is no other large one may be larger, up to three times the budget, and then keeps no other owner from
// its half.
func NewMemory(total int64, shared bool) *Memory {
	return &Memory{total: total, shared: shared, small: memoryPool{owners: map[string]int64{}},
		large: memoryPool{owners: map[string]int64{}}}
}

// Total returns the budget in bytes; 0 where nothing is limited.
func (m *Memory) Total() int64 {
	if m == nil {
		return 0
	}
	return m.total
}

// Used returns the bytes of all claims.
func (m *Memory) Used() int64 {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.small.used + m.large.used
}

// MemoryError says that a call takes more memory than there is for it.
type MemoryError struct {
	Bytes int64 // what the call takes as far as is known
	Limit int64 // what one call may take
	never bool
}

// Never reports whether the call is too large for this server at any time.
func (e *MemoryError) Never() bool { return e.never }

func (e *MemoryError) Error() string {
	if e.never {
		return fmt.Sprintf("this takes about %d MiB of memory, and the server has %d MiB for one call: send less at once, "+
			"or raise hare serve --call-memory", e.Bytes>>20, e.Limit>>20)
	}
	return "the memory for calls is in use: try again"
}

// Unwrap returns ErrBusy, unless the call is too large at any time.
func (e *MemoryError) Unwrap() error {
	if e.never {
		return nil
	}
	return ErrBusy
}

// Claim is what one call has of a Memory. A nil *Claim claims nothing and is never refused. Safe for concurrent use.
type Claim struct {
	memory *Memory
	owner  string
	bytes  int64 // guarded by memory.mu
	over   bool  // released
}

// Claim returns a claim of 0 bytes of an owner, which Release must end.
func (m *Memory) Claim(owner string) *Claim {
	if m == nil {
		return nil
	}
	return &Claim{memory: m, owner: owner}
}

// Grow adds n bytes, and Resize makes the claim n bytes large. Both return a *MemoryError, or a *QuotaError where
// the owner has its share; the claim stays as it was then. To become smaller never fails.
func (c *Claim) Grow(n int64) error {
	if c == nil {
		return nil
	}
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	return c.resize(c.bytes + n)
}

// Resize makes the claim n bytes large, as Grow does.
func (c *Claim) Resize(n int64) error {
	if c == nil {
		return nil
	}
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	return c.resize(n)
}

func (c *Claim) resize(n int64) error {
	m := c.memory
	if c.over || n == c.bytes {
		return nil
	}
	if n > c.bytes {
		if err := c.fits(n); err != nil {
			return err
		}
	}
	m.pool(c.bytes).add(c.owner, -c.bytes)
	m.pool(n).add(c.owner, n)
	c.bytes = n
	return nil
}

// fits says why a claim cannot have n bytes.
func (c *Claim) fits(n int64) error {
	m := c.memory
	if n > alone*m.total {
		return &MemoryError{Bytes: n, Limit: alone * m.total, never: true}
	}
	p, limit, large := m.pool(n), m.total/4, n > m.total/smallShare
	if large {
		limit = m.total - m.total/4
	}
	others, mine := p.used, p.owners[c.owner]
	if p == m.pool(c.bytes) {
		others, mine = others-c.bytes, mine-c.bytes
	}
	if large && others == 0 {
		return nil
	}
	if m.shared && large {
		// What an owner has beyond its share, because nobody else wanted it, keeps nobody out.
		for owner, bytes := range p.owners {
			if owner != c.owner {
				others -= max(0, bytes-limit/2)
			}
		}
	}
	if m.shared && mine > 0 && mine+n > limit/2 {
		return &QuotaError{Code: "quota_memory", Limit: float64(limit / 2 >> 20), What: "MiB of memory for calls",
			After: time.Second}
	}
	if others+n > limit {
		return &MemoryError{Bytes: n, Limit: alone * m.total}
	}
	return nil
}

// Release ends the claim. It may be called repeatedly.
func (c *Claim) Release() {
	if c == nil {
		return
	}
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	_ = c.resize(0) // to become smaller never fails
	c.over = true
}

func (m *Memory) pool(n int64) *memoryPool {
	if n <= m.total/smallShare {
		return &m.small
	}
	return &m.large
}

func (p *memoryPool) add(owner string, n int64) {
	p.used += n
	if p.owners[owner] += n; p.owners[owner] == 0 {
		delete(p.owners, owner)
	}
}

type claimKey struct{}

// WithClaim returns a context whose calls claim their memory from c.
func WithClaim(ctx context.Context, c *Claim) context.Context {
	return context.WithValue(ctx, claimKey{}, c)
}

// ClaimOf returns the claim of a context; nil, which claims nothing, where it has none.
func ClaimOf(ctx context.Context) *Claim {
	c, _ := ctx.Value(claimKey{}).(*Claim)
	return c
}
