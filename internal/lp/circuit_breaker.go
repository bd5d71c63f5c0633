package lp

import "time"

// circuitBreaker stops the use of an engine that keeps failing. After limit failures in
// a row it opens and refuses for cooldown. Then it allows use again, and one more
// failure opens it again, until a success. It is not safe for concurrent use.
type circuitBreaker struct {
	limit     int
	cooldown  time.Duration
	failures  int
	until     time.Time
	permanent bool          // the breaker stays open: there is no engine
	open      chan struct{} // closed (as a channel) while the breaker refuses
}

func newCircuitBreaker(limit int, cooldown time.Duration) circuitBreaker {
	return circuitBreaker{limit: limit, cooldown: cooldown, open: make(chan struct{})}
}

func (cb *circuitBreaker) allows(now time.Time) bool {
	select {
	case <-cb.open:
	default:
		return true
	}
	if cb.permanent || now.Before(cb.until) {
		return false
	}
	cb.open = make(chan struct{})
	return true
}

func (cb *circuitBreaker) success() { cb.failures = 0 }

func (cb *circuitBreaker) failure(now time.Time) {
	cb.failures++
	if cb.failures < cb.limit || !cb.allows(now) {
		return
	}
	cb.until = now.Add(cb.cooldown)
	close(cb.open)
}

// noEngine opens the breaker for good.
func (cb *circuitBreaker) noEngine(now time.Time) {
	if cb.allows(now) {
		close(cb.open)
	}
	cb.permanent = true
}

// pause returns the time to wait before the next start: nothing after a success or the
// first failure, then 10 ms, doubled up to the cooldown.
func (cb *circuitBreaker) pause() time.Duration {
	if cb.failures < 2 {
		return 0
	}
	d := 10 * time.Millisecond << min(cb.failures-2, 20)
	return min(d, cb.cooldown)
}
