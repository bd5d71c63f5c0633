package admission

import (
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hare-sched/hare"
)

// Quota limits what a tenant may use. A zero field of a tenant's quota means the
// server's default, and a zero field of that the value of DefaultQuota.
type Quota struct {
	// Solves limits solves and other calls that compute, both queued and running;
	// zero means 16.
	Solves int `json:"solves,omitempty"`
	// Rate limits requests a second; bursts may be twice as large. Zero means 100.
	Rate float64 `json:"rate,omitempty"`
	// BodyBytes limits the body of a request; zero means the server's limit.
	BodyBytes int64 `json:"body_bytes,omitempty"`
	// StoredBytes limits the logs of sessions and the solves that are stored; zero
	// means 10 GiB.
	StoredBytes int64 `json:"stored_bytes,omitempty"`
	// Sessions limits the sessions that exist; zero means 1,000.
	Sessions int `json:"sessions,omitempty"`
	// Streams limits the open streams of events and decisions; zero means 256.
	Streams int `json:"streams,omitempty"`
}

// DefaultQuota holds the defaults of the zero fields of a Quota.
var DefaultQuota = Quota{Solves: 16, Rate: 100, BodyBytes: math.MaxInt64, StoredBytes: 10 << 30, Sessions: 1000,
	Streams: 256}

// Check refuses fields that are negative or not a number.
func (q Quota) Check() error {
	for _, f := range []struct {
		name string
		v    float64
	}{
		{"solves", float64(q.Solves)}, {"rate", q.Rate}, {"body_bytes", float64(q.BodyBytes)},
		{"stored_bytes", float64(q.StoredBytes)}, {"sessions", float64(q.Sessions)}, {"streams", float64(q.Streams)},
	} {
		if !(f.v >= 0) || math.IsInf(f.v, 0) {
			return &hare.InvalidError{Pointer: "/" + f.name, Code: "out_of_range", Detail: "must not be negative"}
		}
	}
	return nil
}

// Or returns q with the zero fields filled from d.
func (q Quota) Or(d Quota) Quota {
	return Quota{
		Solves: or(q.Solves, d.Solves), Rate: or(q.Rate, d.Rate), BodyBytes: or(q.BodyBytes, d.BodyBytes),
		StoredBytes: or(q.StoredBytes, d.StoredBytes), Sessions: or(q.Sessions, d.Sessions),
		Streams: or(q.Streams, d.Streams),
	}
}

func or[T int | int64 | float64](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}

// QuotaError says that a tenant has reached a quota.
type QuotaError struct {
	Code  string // quota_solves, quota_rate, quota_stored_bytes, quota_sessions or quota_streams
	Limit float64
	What  string
	// After is when to try again. Where something must end first, After is a guess.
	After time.Duration
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the quota of %g %s of this tenant is reached", e.Limit, e.What)
}

// Quotas counts what tenants use. A nil *Quotas limits nothing. Safe for
// concurrent use. The memory is proportional to the number of tenants that have
// keys or still use something.
type Quotas struct {
	defaults Quota
	set      func(tenant string) Quota

	mu    sync.Mutex
	used  map[string]*usage
	sweep int // the number of tenants at which tenants that use nothing are removed
}

// usage counts what one tenant uses.
type usage struct {
	limiter  *rate.Limiter
	solves   int
	streams  int
	sessions int
	stored   int64
}

// NewQuotas returns the quotas that set gives to tenants, with the zero fields
// filled from defaults. A nil set gives no tenant a quota of its own.
func NewQuotas(defaults Quota, set func(tenant string) Quota) *Quotas {
	if set == nil {
		set = func(string) Quota { return Quota{} }
	}
	return &Quotas{defaults: defaults.Or(DefaultQuota), set: set, used: map[string]*usage{}, sweep: 1024}
}

// Of returns the quota of a tenant, with all zero fields filled.
func (q *Quotas) Of(tenant string) Quota {
	if q == nil {
		return Quota{math.MaxInt, math.Inf(1), math.MaxInt64, math.MaxInt64, math.MaxInt, math.MaxInt}
	}
	return q.set(tenant).Or(q.defaults)
}

// Usage returns what a tenant uses. Only the fields Solves, StoredBytes, Sessions
// and Streams are set.
func (q *Quotas) Usage(tenant string) (u Quota) {
	if q == nil {
		return u
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if have := q.used[tenant]; have != nil {
		u = Quota{Solves: have.solves, StoredBytes: have.stored, Sessions: have.sessions, Streams: have.streams}
	}
	return u
}

// usageOf returns the usage of a tenant. The caller holds the lock.
func (q *Quotas) usageOf(tenant string) *usage {
	u := q.used[tenant]
	if u != nil {
		return u
	}
	if len(q.used) >= q.sweep {
		for t, u := range q.used {
			idle := u.limiter == nil || u.limiter.Tokens() >= float64(u.limiter.Burst())
			if idle && u.solves+u.streams+u.sessions == 0 && u.stored == 0 {
				delete(q.used, t)
			}
		}
		q.sweep = max(1024, 2*len(q.used))
	}
	u = &usage{}
	q.used[tenant] = u
	return u
}

// Allow counts one request. The error is a *QuotaError, which says when the next
// request is allowed.
func (q *Quotas) Allow(tenant string) error {
	if q == nil {
		return nil
	}
	limit := q.Of(tenant).Rate
	burst := int(min(1e9, math.Ceil(2*limit)))
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.usageOf(tenant)
	switch {
	case u.limiter == nil:
		u.limiter = rate.NewLimiter(rate.Limit(limit), burst)
	case u.limiter.Limit() != rate.Limit(limit):
		u.limiter.SetLimit(rate.Limit(limit))
		u.limiter.SetBurst(burst)
	}
	if u.limiter.Allow() {
		return nil
	}
	missing := 1 - u.limiter.Tokens()
	return &QuotaError{Code: "quota_rate", Limit: limit, What: "requests a second",
		After: time.Duration(missing / limit * float64(time.Second))}
}

// Acquire counts one more solve, queued or running, until release is called.
// release must be called once.
func (q *Quotas) Acquire(tenant string) (release func(), err error) {
	return q.take(tenant, func(u *usage) *int { return &u.solves }, q.Of(tenant).Solves,
		&QuotaError{Code: "quota_solves", What: "solves and other calls at a time that compute", After: time.Second})
}

// HasSolve counts a solve that was accepted before a restart, also beyond the
// quota.
func (q *Quotas) HasSolve(tenant string) (release func()) {
	release, _ = q.take(tenant, func(u *usage) *int { return &u.solves }, math.MaxInt, nil)
	return release
}

// Stream counts one more open stream until release is called.
func (q *Quotas) Stream(tenant string) (release func(), err error) {
	return q.take(tenant, func(u *usage) *int { return &u.streams }, q.Of(tenant).Streams,
		&QuotaError{Code: "quota_streams", What: "open streams", After: time.Second})
}

// Session counts one more session until release is called, when the session is
// deleted.
func (q *Quotas) Session(tenant string) (release func(), err error) {
	return q.take(tenant, func(u *usage) *int { return &u.sessions }, q.Of(tenant).Sessions,
		&QuotaError{Code: "quota_sessions", What: "sessions", After: time.Minute})
}

// HasSession counts a session that exists already, also beyond the quota.
func (q *Quotas) HasSession(tenant string) (release func()) {
	release, _ = q.take(tenant, func(u *usage) *int { return &u.sessions }, math.MaxInt, nil)
	return release
}

func (q *Quotas) take(tenant string, field func(*usage) *int, limit int, full *QuotaError) (func(), error) {
	if q == nil {
		return func() {}, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := field(q.usageOf(tenant))
	if *n >= limit {
		full.Limit = float64(limit)
		return nil, full
	}
	*n++
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		*n--
	}, nil
}

// Stored adds to the number of bytes that a tenant stores; bytes may be negative.
func (q *Quotas) Stored(tenant string, bytes int64) {
	if q == nil || bytes == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.usageOf(tenant).stored += bytes
}

// Room returns a *QuotaError where a tenant may store nothing more.
func (q *Quotas) Room(tenant string) error {
	if q == nil {
		return nil
	}
	limit := q.Of(tenant).StoredBytes
	q.mu.Lock()
	defer q.mu.Unlock()
	if u := q.used[tenant]; u != nil && u.stored >= limit {
		return &QuotaError{Code: "quota_stored_bytes", Limit: float64(limit), What: "stored bytes", After: time.Minute}
	}
	return nil
}
