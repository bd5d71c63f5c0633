package admission

import (
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hare-sched/hare"
)

// Quota limits what a tenant may use. A field that is zero or left out has the server's
// default.
type Quota struct {
	// Solves limits solves and other calls that compute, both queued and running.
	Solves int `json:"solves,omitempty" minimum:"0"`
	// Rate limits requests a second; bursts may be twice as large.
	Rate float64 `json:"rate,omitempty" minimum:"0"`
	// BodyBytes limits the body of a request, before and after decompression.
	BodyBytes int64 `json:"body_bytes,omitempty" minimum:"0"`
	// StoredBytes limits what is stored: solves, what-ifs, simulations, the logs of sessions, and the journals, outputs
	// and copies of checkpoints of managed clusters.
	StoredBytes int64 `json:"stored_bytes,omitempty" minimum:"0"`
	// Sessions limits the sessions that exist.
	Sessions int `json:"sessions,omitempty" minimum:"0"`
	// Streams limits the open streams of events and decisions.
	Streams int `json:"streams,omitempty" minimum:"0"`
	// Jobs limits the jobs of managed clusters that have not ended.
	Jobs int `json:"jobs,omitempty" minimum:"0"`
} //	@name	Quota

// DefaultQuota has the defaults of a server for the fields that are zero in the quota
// with which the server starts.
var DefaultQuota = Quota{Solves: 16, Rate: 100, BodyBytes: math.MaxInt64, StoredBytes: 10 << 30, Sessions: 1000,
	Streams: 256, Jobs: 100_000}

// Check refuses fields that are negative or not a number.
func (quota Quota) Check() error {
	for _, f := range []struct {
		name string
		v    float64
	}{
		{"solves", float64(quota.Solves)}, {"rate", quota.Rate}, {"body_bytes", float64(quota.BodyBytes)},
		{"stored_bytes", float64(quota.StoredBytes)}, {"sessions", float64(quota.Sessions)},
		{"streams", float64(quota.Streams)}, {"jobs", float64(quota.Jobs)},
	} {
		if !(f.v >= 0) || math.IsInf(f.v, 0) {
			return &hare.InvalidError{Pointer: "/" + f.name, Code: "out_of_range", Detail: "must not be negative"}
		}
	}
	return nil
}

// Or returns q with the zero fields filled from d.
func (quota Quota) Or(d Quota) Quota {
	return Quota{
		Solves: or(quota.Solves, d.Solves), Rate: or(quota.Rate, d.Rate), BodyBytes: or(quota.BodyBytes, d.BodyBytes),
		StoredBytes: or(quota.StoredBytes, d.StoredBytes), Sessions: or(quota.Sessions, d.Sessions),
		Streams: or(quota.Streams, d.Streams), Jobs: or(quota.Jobs, d.Jobs),
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
	// Code is quota_solves, quota_rate, quota_stored_bytes, quota_sessions, quota_streams, quota_jobs or
	// quota_session_memory.
	Code  string
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
	jobs     int
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
func (qs *Quotas) Of(tenant string) Quota {
	if qs == nil {
		return Quota{math.MaxInt, math.Inf(1), math.MaxInt64, math.MaxInt64, math.MaxInt, math.MaxInt,
			math.MaxInt}
	}
	return qs.set(tenant).Or(qs.defaults)
}

// Usage returns what a tenant uses. The fields Rate and BodyBytes are not set.
func (qs *Quotas) Usage(tenant string) (u Quota) {
	if qs == nil {
		return u
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if have := qs.used[tenant]; have != nil {
		u = Quota{Solves: have.solves, StoredBytes: have.stored, Sessions: have.sessions, Streams: have.streams,
			Jobs: have.jobs}
	}
	return u
}

// usageOf returns the usage of a tenant. The caller holds the lock.
func (qs *Quotas) usageOf(tenant string) *usage {
	u := qs.used[tenant]
	if u != nil {
		return u
	}
	if len(qs.used) >= qs.sweep {
		for t, u := range qs.used {
			idle := u.limiter == nil || u.limiter.Tokens() >= float64(u.limiter.Burst())
			if idle && u.solves+u.streams+u.sessions+u.jobs == 0 && u.stored == 0 {
				delete(qs.used, t)
			}
		}
		qs.sweep = max(1024, 2*len(qs.used))
	}
	u = &usage{}
	qs.used[tenant] = u
	return u
}

// Allow counts one request. The error is a *QuotaError, which says when the next
// request is allowed.
func (qs *Quotas) Allow(tenant string) error {
	if qs == nil {
		return nil
	}
	limit := qs.Of(tenant).Rate
	burst := int(min(1e9, math.Ceil(2*limit)))
	qs.mu.Lock()
	defer qs.mu.Unlock()
	u := qs.usageOf(tenant)
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
func (qs *Quotas) Acquire(tenant string) (release func(), err error) {
	return qs.take(tenant, func(u *usage) *int { return &u.solves }, qs.Of(tenant).Solves,
		&QuotaError{Code: "quota_solves", What: "solves and other calls at a time that compute", After: time.Second})
}

// SolveRoom returns the error of Acquire where a tenant may have no further solve now, and counts nothing.
func (qs *Quotas) SolveRoom(tenant string) error {
	release, err := qs.Acquire(tenant)
	if err == nil {
		release()
	}
	return err
}

// HasSolve counts a solve that was accepted before a restart, also beyond the
// quota.
func (qs *Quotas) HasSolve(tenant string) (release func()) {
	release, _ = qs.take(tenant, func(u *usage) *int { return &u.solves }, math.MaxInt, nil)
	return release
}

// Stream counts one more open stream until release is called.
func (qs *Quotas) Stream(tenant string) (release func(), err error) {
	return qs.take(tenant, func(u *usage) *int { return &u.streams }, qs.Of(tenant).Streams,
		&QuotaError{Code: "quota_streams", What: "open streams", After: time.Second})
}

// Session counts one more session until release is called, when the session is
// deleted.
func (qs *Quotas) Session(tenant string) (release func(), err error) {
	return qs.take(tenant, func(u *usage) *int { return &u.sessions }, qs.Of(tenant).Sessions,
		&QuotaError{Code: "quota_sessions", What: "sessions", After: time.Minute})
}

// HasSession counts a session that exists already, also beyond the quota.
func (qs *Quotas) HasSession(tenant string) (release func()) {
	release, _ = qs.take(tenant, func(u *usage) *int { return &u.sessions }, math.MaxInt, nil)
	return release
}

func (qs *Quotas) take(tenant string, field func(*usage) *int, limit int, full *QuotaError) (func(), error) {
	if qs == nil {
		return func() {}, nil
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	n := field(qs.usageOf(tenant))
	if *n >= limit {
		full.Limit = float64(limit)
		return nil, full
	}
	*n++
	return func() {
		qs.mu.Lock()
		defer qs.mu.Unlock()
		*n--
	}, nil
}

// Stored adds to the number of bytes that a tenant stores; bytes may be negative.
func (qs *Quotas) Stored(tenant string, bytes int64) {
	if qs == nil || bytes == 0 {
		return
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.usageOf(tenant).stored += bytes
}

// Room returns a *QuotaError where a tenant may store nothing more.
func (qs *Quotas) Room(tenant string) error {
	if qs == nil {
		return nil
	}
	limit := qs.Of(tenant).StoredBytes
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if u := qs.used[tenant]; u != nil && u.stored >= limit {
		return &QuotaError{Code: "quota_stored_bytes", Limit: float64(limit), What: "stored bytes", After: time.Minute}
	}
	return nil
}

// StoreWithin adds bytes to what a tenant stores, unless they are more than it may still store.
func (qs *Quotas) StoreWithin(tenant string, bytes int64) bool {
	if qs == nil {
		return true
	}
	limit := qs.Of(tenant).StoredBytes
	qs.mu.Lock()
	defer qs.mu.Unlock()
	u := qs.usageOf(tenant)
	if bytes > limit-u.stored {
		return false
	}
	u.stored += bytes
	return true
}

// Jobs adds to the number of jobs of managed clusters of a tenant that have not ended; n may be negative.
func (qs *Quotas) Jobs(tenant string, n int) {
	if qs == nil || n == 0 {
		return
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.usageOf(tenant).jobs += n
}

// JobRoom returns a *QuotaError where a tenant may submit no further job to its managed clusters.
func (qs *Quotas) JobRoom(tenant string) error {
	if qs == nil {
		return nil
	}
	limit := qs.Of(tenant).Jobs
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if u := qs.used[tenant]; u != nil && u.jobs >= limit {
		return &QuotaError{Code: "quota_jobs", Limit: float64(limit), What: "jobs of clusters that have not ended",
			After: time.Minute}
	}
	return nil
}
