package sim

// before is the order in which units are chosen: by falling priority, deficit and
// share, then by entry. No two are equal.
func (x *pick) before(y *pick) bool {
	if x.priority != y.priority {
		return x.priority > y.priority
	}
	return x.tied(y)
}

func (x *pick) tied(y *pick) bool {
	if x.deficitS != y.deficitS {
		return x.deficitS > y.deficitS
	}
	if x.share != y.share {
		return x.share > y.share
	}
	return x.entry < y.entry
}

// picks is a binary heap of units that may be chosen, the next one first. A type
// wants a quarter of them or so; to sort them all took a third of a round.
type picks []pick

func (h picks) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// pop takes the next one off.
func (h *picks) pop() pick {
	s := *h
	x, last := s[0], len(s)-1
	s[0] = s[last]
	*h = s[:last]
	(*h).down(0)
	return x
}

func (h picks) down(i int) {
	if i >= len(h) {
		return
	}
	x := h[i]
	for {
		next := 2*i + 1
		if next >= len(h) {
			break
		}
		if next+1 < len(h) && h[next+1].before(&h[next]) {
			next++
		}
		if !h[next].before(&x) {
			break
		}
		h[i] = h[next]
		i = next
	}
	h[i] = x
}

func falling(x, y float64) int {
	if x > y {
		return -1
	}
	return 1
}
