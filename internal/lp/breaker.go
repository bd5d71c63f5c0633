package lp

import "time"

// breaker stops the use of an engine that keeps failing. After limit failures
// in a row it refuses for cooldown; then it allows again, and one more failure
// is enough to refuse once more, until a success. It is not safe for
// concurrent use.
type breaker struct {
	limit    int
	cooldown time.Duration
	inRow    int
	until    time.Time
	gone     bool          // for good: there is no engine
	tripped  chan struct{} // closed while it refuses
}

func newBreaker(limit int, cooldown time.Duration) breaker {
	return breaker{limit: limit, cooldown: cooldown, tripped: make(chan struct{})}
}

func (b *breaker) allows(now time.Time) bool {
	select {
	case <-b.tripped:
	default:
		return true
	}
	if b.gone || now.Before(b.until) {
		return false
	}
	b.tripped = make(chan struct{})
	return true
}

func (b *breaker) success() { b.inRow = 0 }

func (b *breaker) failure(now time.Time) {
	b.inRow++
	if b.inRow < b.limit || !b.allows(now) {
		return
	}
	b.until = now.Add(b.cooldown)
	close(b.tripped)
}

// noEngine refuses from now on.
func (b *breaker) noEngine(now time.Time) {
	if b.allows(now) {
		close(b.tripped)
	}
	b.gone = true
}

// pause is how long to wait before the next start: nothing after a success or
// the first failure, then 10 ms doubling up to the cooldown.
func (b *breaker) pause() time.Duration {
	if b.inRow < 2 {
		return 0
	}
	d := 10 * time.Millisecond << min(b.inRow-2, 20)
	return min(d, b.cooldown)
}
