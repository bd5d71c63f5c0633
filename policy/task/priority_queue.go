package task

// waiting is a binary heap of jobs by key, then arrival. A desk makes it anew for
// each fill and seldom empties it, so what counts is init.
type waiting []*seat

func (s *seat) before(o *seat) bool {
	return s.key < o.key || s.key == o.key && s.serial < o.serial
}

func (w waiting) init() {
	for i := len(w)/2 - 1; i >= 0; i-- {
		w.down(i)
	}
}

// pop takes the first off.
func (w *waiting) pop() *seat {
	s := *w
	x, last := s[0], len(s)-1
	s[0] = s[last]
	*w = s[:last]
	if last > 0 {
		(*w).down(0)
	}
	return x
}

func (w waiting) down(i int) {
	x := w[i]
	for {
		next := 2*i + 1
		if next >= len(w) {
			break
		}
		if next+1 < len(w) && w[next+1].before(w[next]) {
			next++
		}
		if !w[next].before(x) {
			break
		}
		w[i] = w[next]
		i = next
	}
	w[i] = x
}
