package admission

import (
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hare-sched/hare"
)

// Quota is what a tenant may have. Zero fields mean the default: that of the
// server for one that is set for a tenant.
type Quota struct {
	Solves      int     `json:"solves,omitempty"`       // solves and other calls that compute, queued and running; zero means 16
	Rate        float64 `json:"rate,omitempty"`         // requests a second, twice as many at once; zero means 100
	BodyBytes   int64   `json:"body_bytes,omitempty"`   // of a request; zero means the server's limit
	StoredBytes int64   `json:"stored_bytes,omitempty"` // of logs of sessions, and of solves; zero means 10 GiB
	Sessions    int     `json:"sessions,omitempty"`     // that exist; zero means 1,000
	Streams     int     `json:"streams,omitempty"`      // of events and decisions that are open; zero means 256
}

// DefaultQuota is what the zero Quota means.
var DefaultQuota = Quota{Solves: 16, Rate: 100, BodyBytes: math.MaxInt64, StoredBytes: 10 << 30, Sessions: 1000, Streams: 256}

// Check refuses what is negative or not a number.
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

// Or fills the zero fields with those of d.
func (q Quota) Or(d Quota) Quota {
	return Quota{
		Solves: or(q.Solves, d.Solves), Rate: or(q.Rate, d.Rate), BodyBytes: or(q.BodyBytes, d.BodyBytes),
		StoredBytes: or(q.StoredBytes, d.StoredBytes), Sessions: or(q.Sessions, d.Sessions), Streams: or(q.Streams, d.Streams),
	}
}

func or[T int | int64 | float64](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}

// QuotaError says that a tenant has as much as it may.
type QuotaError struct {
	Code  string // quota_solves, quota_rate, quota_stored_bytes, quota_sessions or quota_streams
	Limit float64
	What  string
	// After is when to try again; for those that something must end for, a guess.
	After time.Duration
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the quota of %g %s of this tenant is reached", e.Limit, e.What)
}

// Quotas counts what tenants use. A nil *Quotas limits nothing. Safe for
// concurrent use. Its memory is bounded by the number of tenants with keys, and
// of those that still have something.
type Quotas struct {
	defaults Quota
	set      func(tenant string) Quota

	mu    sync.Mutex
	used  map[string]*usage
	sweep int // the number of tenants at which those that use nothing are forgotten
}

// usage is of one tenant.
type usage struct {
	limiter  *rate.Limiter
	solves   int
	streams  int
	sessions int
	stored   int64
}

// NewQuotas counts by the defaults where set gives zeroes; nil sets nothing.
func NewQuotas(defaults Quota, set func(tenant string) Quota) *Quotas {
	if set == nil {
		set = func(string) Quota { return Quota{} }
	}
	return &Quotas{defaults: defaults.Or(DefaultQuota), set: set, used: map[string]*usage{}, sweep: 1024}
}

// Of is the quota of a tenant, without zeroes.
func (q *Quotas) Of(tenant string) Quota {
	if q == nil {
		return Quota{math.MaxInt, math.Inf(1), math.MaxInt64, math.MaxInt64, math.MaxInt, math.MaxInt}
	}
	return q.set(tenant).Or(q.defaults)
}

// Usage is what a tenant has of its quota: Solves, StoredBytes, Sessions and
// Streams.
func (q *Quotas) Usage(tenant string) (u Quota) {
	if q == nil {
		return u
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.used[tenant]; a != nil {
		u = Quota{Solves: a.solves, StoredBytes: a.stored, Sessions: a.sessions, Streams: a.streams}
	}
	return u
}

// of finds the usage of a tenant, with the lock held.
func (q *Quotas) of(tenant string) *usage {
	a := q.used[tenant]
	if a != nil {
		return a
	}
	if len(q.used) >= q.sweep {
		for t, a := range q.used {
			idle := a.limiter == nil || a.limiter.Tokens() >= float64(a.limiter.Burst())
			if idle && a.solves+a.streams+a.sessions == 0 && a.stored == 0 {
				delete(q.used, t)
			}
		}
		q.sweep = max(1024, 2*len(q.used))
	}
	a = &usage{}
	q.used[tenant] = a
	return a
}

// Allow counts one request; *QuotaError says when the next one may come.
func (q *Quotas) Allow(tenant string) error {
	if q == nil {
		return nil
	}
	limit := q.Of(tenant).Rate
	burst := int(min(1e9, math.Ceil(2*limit)))
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.of(tenant)
	switch {
	case a.limiter == nil:
		a.limiter = rate.NewLimiter(rate.Limit(limit), burst)
	case a.limiter.Limit() != rate.Limit(limit):
		a.limiter.SetLimit(rate.Limit(limit))
		a.limiter.SetBurst(burst)
	}
	if a.limiter.Allow() {
		return nil
	}
	missing := 1 - a.limiter.Tokens()
	return &QuotaError{Code: "quota_rate", Limit: limit, What: "requests a second", After: time.Duration(missing / limit * float64(time.Second))}
}

// Acquire takes the place of one solve, queued or running, until release is
// called, once.
func (q *Quotas) Acquire(tenant string) (release func(), err error) {
	return q.take(tenant, func(a *usage) *int { return &a.solves }, q.Of(tenant).Solves,
		&QuotaError{Code: "quota_solves", What: "solves and other calls at a time that compute", After: time.Second})
}

// HasSolve takes the place of a solve that was taken in before a restart.
func (q *Quotas) HasSolve(tenant string) (release func()) {
	release, _ = q.take(tenant, func(a *usage) *int { return &a.solves }, math.MaxInt, nil)
	return release
}

// Stream takes the place of one stream, as Acquire does.
func (q *Quotas) Stream(tenant string) (release func(), err error) {
	return q.take(tenant, func(a *usage) *int { return &a.streams }, q.Of(tenant).Streams,
		&QuotaError{Code: "quota_streams", What: "open streams", After: time.Second})
}

// Session takes the place of a session, until release is called when it is
// deleted.
func (q *Quotas) Session(tenant string) (release func(), err error) {
	return q.take(tenant, func(a *usage) *int { return &a.sessions }, q.Of(tenant).Sessions,
		&QuotaError{Code: "quota_sessions", What: "sessions", After: time.Minute})
}

// HasSession takes the place of a session that exists already.
func (q *Quotas) HasSession(tenant string) (release func()) {
	release, _ = q.take(tenant, func(a *usage) *int { return &a.sessions }, math.MaxInt, nil)
	return release
}

func (q *Quotas) take(tenant string, field func(*usage) *int, limit int, full *QuotaError) (func(), error) {
	if q == nil {
		return func() {}, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.of(tenant)
	n := field(a)
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

// Stored counts bytes that a tenant stores more, or less, than before.
func (q *Quotas) Stored(tenant string, bytes int64) {
	if q == nil || bytes == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.of(tenant).stored += bytes
}

// Room says with *QuotaError that a tenant may store nothing more.
func (q *Quotas) Room(tenant string) error {
	if q == nil {
		return nil
	}
	limit := q.Of(tenant).StoredBytes
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.used[tenant]; a != nil && a.stored >= limit {
		return &QuotaError{Code: "quota_stored_bytes", Limit: float64(limit), What: "stored bytes", After: time.Minute}
	}
	return nil
}
