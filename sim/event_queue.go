package sim

// kind of a happening, in the order in which those of one time take place.
type kind uint8

const (
	computeEnds kind = iota
	taskEnds
	taskFails
	gpuLeaves // its window of service closes
	faultBegins
	sourceTurns
	gpuJoins
	faultEnds
	jobArrives
)

// occurrence is something that will take place, unless its task was lost by then.
type occurrence struct {
	atUs  int64
	place uint64 // among those of one time: the kind, then the order among equal kinds
	ref   int32  // a task slot, GPU, source or job
}

// orderBits are those of happening.place that hold the order: serial numbers of
// tasks, of which there are fewer than 2^59.
const orderBits = 59

func newOccurrence(atUs int64, k kind, order int64, ref int32) occurrence {
	return occurrence{atUs, uint64(k)<<orderBits | uint64(order), ref}
}

func (h *occurrence) kind() kind { return kind(h.place >> orderBits) }

func (h *occurrence) order() int64 { return int64(h.place & (1<<orderBits - 1)) }

func (h *occurrence) before(o *occurrence) bool {
	return h.atUs < o.atUs || h.atUs == o.atUs && h.place < o.place
}

// eventQueue is a 4-ary heap of happenings, the next one first.
type eventQueue []occurrence

func (a *eventQueue) push(h occurrence) {
	*a = append(*a, h)
	s := *a
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !h.before(&s[up]) {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = h
}

func (a *eventQueue) pop() occurrence {
	s := *a
	first, last := s[0], len(s)-1
	s[0] = s[last]
	*a = s[:last]
	if last > 0 {
		(*a).down(0)
	}
	return first
}

func (s eventQueue) down(i int) {
	h := s[i]
	for {
		next := 4*i + 1
		if next >= len(s) {
			break
		}
		for c, end := next+1, min(next+4, len(s)); c < end; c++ {
			if s[c].before(&s[next]) {
				next = c
			}
		}
		if !s[next].before(&h) {
			break
		}
		s[i] = s[next]
		i = next
	}
	s[i] = h
}

// order makes a heap of what has no order.
func (s eventQueue) order() {
	for i := (len(s) - 2) / 4; i >= 0 && len(s) > 1; i-- {
		s.down(i)
	}
}
