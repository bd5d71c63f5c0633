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

// Calls with bad keys that an address may send: at once, and a second after
// that. No key could be guessed without: this bounds the noise.
const (
	guessBurst = 20
	guessRate  = 1
	// guessAddresses bounds the table: the address that was quiet longest
	// leaves it.
	guessAddresses = 16_384
)

// guesses limits calls with bad keys by address. Safe for concurrent use.
type guesses struct {
	mu    sync.Mutex
	by    map[netip.Prefix]*list.Element
	order list.List // of *guesser, that of the last call first
}

type guesser struct {
	from    netip.Prefix
	limiter *rate.Limiter
}

func newGuesses() *guesses { return &guesses{by: map[netip.Prefix]*list.Element{}} }

// allow counts a call from an address and port; wait is when the next one may
// come where it is refused.
func (g *guesses) allow(address string, now time.Time) (wait time.Duration, ok bool) {
	from := network(address)
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.by[from]
	if e == nil {
		if len(g.by) >= guessAddresses {
			last := g.order.Back()
			delete(g.by, last.Value.(*guesser).from)
			g.order.Remove(last)
		}
		e = g.order.PushFront(&guesser{from, rate.NewLimiter(guessRate, guessBurst)})
		g.by[from] = e
	}
	g.order.MoveToFront(e)
	l := e.Value.(*guesser).limiter
	if l.AllowN(now, 1) {
		return 0, true
	}
	return time.Duration((1 - l.TokensAt(now)) / guessRate * float64(time.Second)), false
}

// network is what one guesser commands: an address, or 64 bits of IPv6.
func network(address string) netip.Prefix {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{} // not TCP: all share one place
	}
	ip := at.Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits) // the number of bits fits
	return p
}

// retryAfter is a time to wait in whole seconds, 1 at least.
func retryAfter(wait time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(min(wait.Seconds(), 86_400)))))
}
