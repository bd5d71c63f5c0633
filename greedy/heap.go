package greedy

// timed is something that happens to at, a class or a GPU, at a time.
type timed struct {
	time int64
	at   int32
}

func (x timed) before(y timed) bool { return x.time < y.time || x.time == y.time && x.at < y.at }

// timeline is a heap of what happens, the earliest first. container/heap would
// box each element, which costs as much as the rest of a colouring.
type timeline []timed

func (h *timeline) push(x timed) {
	s := append(*h, x)
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !x.before(s[up]) {
			break
		}
		s[i], i = s[up], up
	}
	s[i] = x
	*h = s
}

// pop takes the earliest out of a heap that is not empty.
func (h *timeline) pop() timed {
	s := *h
	first, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	if len(s) > 0 {
		s.replace(last)
	}
	*h = s
	return first
}

// replace puts x in place of the earliest.
func (h timeline) replace(x timed) {
	i := 0
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1].before(h[c]) {
			c++
		}
		if !h[c].before(x) {
			break
		}
		h[i], i = h[c], c
	}
	h[i] = x
}
