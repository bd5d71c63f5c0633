package wire

import "github.com/hare-sched/hare"

// scanner reads the tokens of plain JSON.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\r' || s.b[s.i] == '\t') {
		s.i++
	}
}

// next skips white space and consumes the character c; it returns false where
// another one follows.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// text reads a string of plain ASCII without escapes.
func (s *scanner) text() ([]byte, bool) {
	if !s.next('"') {
		return nil, false
	}
	for i := s.i; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			t := s.b[s.i:i]
			s.i = i + 1
			return t, true
		case c < 0x20 || c >= 0x80 || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

// decimal reads a plain decimal with at most places decimals, as a multiple of
// 10^-places up to MaxExact.
func (s *scanner) decimal(places int) (int64, bool) {
	s.space()
	n, digits, from := int64(0), 0, s.i
	for ; s.i < len(s.b) && s.b[s.i]-'0' <= 9; s.i++ {
		n = n*10 + int64(s.b[s.i]-'0')
		digits++
		if digits > 16 {
			return 0, false
		}
	}
	if digits == 0 || digits > 1 && s.b[from] == '0' {
		return 0, false
	}
	left := places
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		from := s.i
		for ; s.i < len(s.b) && s.b[s.i]-'0' <= 9; s.i++ {
			if left == 0 || n > hare.MaxExact {
				return 0, false
			}
			n = n*10 + int64(s.b[s.i]-'0')
			left--
		}
		if s.i == from {
			return 0, false
		}
	}
	for ; left > 0; left-- {
		if n > hare.MaxExact {
			return 0, false
		}
		n *= 10
	}
	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		return 0, false
	}
	return n, n <= hare.MaxExact
}
