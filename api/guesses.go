package api

import (
	"container/list"
	"math"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// An address may send badKeyBurst calls with bad keys at once, and badKeyRate a second
// after that. Keys are too long to be guessed in any case: the limit keeps the load and
// the log small.
const (
	badKeyBurst = 20
	badKeyRate  = 1
	// badKeyAddresses limits the size of the table: the least recently seen address is
	// removed.
	badKeyAddresses = 16_384
)

// badKeyLimiter limits calls with bad keys by address with token buckets. It is safe
// for concurrent use.
type badKeyLimiter struct {
	mu      sync.Mutex
	buckets map[netip.Prefix]*list.Element
	order   list.List // of *badKeyBucket, the most recently used first
}

type badKeyBucket struct {
	network netip.Prefix
	limiter *rate.Limiter
}

func newBadKeyLimiter() *badKeyLimiter {
	return &badKeyLimiter{buckets: map[netip.Prefix]*list.Element{}}
}

// allow counts a call from an address and port. Where the call is refused, wait is the
// time until the next one may come.
func (bl *badKeyLimiter) allow(address string, now time.Time) (wait time.Duration, ok bool) {
	from := network(address)
	bl.mu.Lock()
	defer bl.mu.Unlock()
	e := bl.buckets[from]
	if e == nil {
		if len(bl.buckets) >= badKeyAddresses {
			last := bl.order.Back()
			delete(bl.buckets, last.Value.(*badKeyBucket).network)
			bl.order.Remove(last)
		}
		e = bl.order.PushFront(&badKeyBucket{from, rate.NewLimiter(badKeyRate, badKeyBurst)})
		bl.buckets[from] = e
	}
	bl.order.MoveToFront(e)
	l := e.Value.(*badKeyBucket).limiter
	if l.AllowN(now, 1) {
		return 0, true
	}
	return time.Duration((1 - l.TokensAt(now)) / badKeyRate * float64(time.Second)), false
}

// network returns the network that one caller is assumed to control: an IPv4 address or
// an IPv6 /64.
func network(address string) netip.Prefix {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{} // callers that do not come over TCP share one bucket
	}
	ip := at.Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits) // no error: the number of bits fits
	return p
}

// retryAfter formats a time to wait in whole seconds, at least 1.
func retryAfter(wait time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(min(wait.Seconds(), 86_400)))))
}
