package sim

import "math/bits"

// Twister is the Mersenne Twister MT19937 (Matsumoto, Nishimura 1998) with the draws of
// Python's random module, so that policies and simulators published in Python can be
// reproduced draw by draw. A Twister is not safe for concurrent use, and its draws must
// not be used for secrets.
type Twister struct {
	state [624]uint32
	next  int
}

// NewTwister seeds as random.Random(seed) does for a seed below 2^64.
func NewTwister(seed uint64) *Twister {
	key := []uint32{uint32(seed)}
	if high := uint32(seed >> 32); high != 0 {
		key = append(key, high)
	}
	t := &Twister{next: 624}
	s := &t.state
	s[0] = 19650218
	for i := uint32(1); i < 624; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + i
	}
	i, j := uint32(1), 0
	for range 624 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1664525) + key[j] + uint32(j)
		i, j = t.wrap(i+1), (j+1)%len(key)
	}
	for range 623 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1566083941) - i
		i = t.wrap(i + 1)
	}
	s[0] = 1 << 31
	return t
}

// wrap goes on behind the last word of the state at the second.
func (t *Twister) wrap(i uint32) uint32 {
	if i < 624 {
		return i
	}
	t.state[0] = t.state[623]
	return 1
}

// Uint32 is the next word of the stream.
func (t *Twister) Uint32() uint32 {
	if t.next == 624 {
		for i := range t.state {
			y := t.state[i]&(1<<31) | t.state[(i+1)%624]&(1<<31-1)
			x := t.state[(i+397)%624] ^ y>>1
			if y&1 != 0 {
				x ^= 0x9908b0df
			}
			t.state[i] = x
		}
		t.next = 0
	}
	y := t.state[t.next]
	t.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// Below draws a number from 0 to n−1 as Python's randrange(n) does: whole bits,
// again while they are too large. n must be from 1 to 2^31.
func (t *Twister) Below(n int) int {
	shift := 32 - bits.Len32(uint32(n))
	for {
		if v := int(t.Uint32() >> shift); v < n {
			return v
		}
	}
}

// Shuffle draws a permutation as Python's shuffle does.
func (t *Twister) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, t.Below(i+1))
	}
}

// Two draws two different numbers from 0 to n−1 as Python's sample(…, 2) does;
// n must be at least 2.
func (t *Twister) Two(n int) (a, b int) {
	a = t.Below(n)
	if n > 21 { // above this size Python draws a sample of two by rejection
		for b = a; b == a; {
			b = t.Below(n)
		}
		return a, b
	}
	// The last of the pool has taken the place of the first drawn.
	if b = t.Below(n - 1); b == a {
		b = n - 1
	}
	return a, b
}
