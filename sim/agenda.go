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

// happening is something that will take place, unless its task was lost by then.
type happening struct {
	atUs  int64
	kind  kind
	order int64 // among equal kinds of one time; the serial number of a task
	ref   int32 // a task slot, GPU, source or job
}

func (h *happening) before(o *happening) bool {
	switch {
	case h.atUs != o.atUs:
		return h.atUs < o.atUs
	case h.kind != o.kind:
		return h.kind < o.kind
	}
	return h.order < o.order
}

// agenda is a binary heap of happenings, the next one first.
type agenda []happening

func (a *agenda) push(h happening) {
	*a = append(*a, h)
	s := *a
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(&s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (a *agenda) pop() happening {
	s := *a
	first, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	*a = s
	s.down(0)
	return first
}

func (s agenda) down(i int) {
	for {
		next := 2*i + 1
		if next >= len(s) {
			return
		}
		if next+1 < len(s) && s[next+1].before(&s[next]) {
			next++
		}
		if !s[next].before(&s[i]) {
			return
		}
		s[i], s[next] = s[next], s[i]
		i = next
	}
}

// order makes a heap of what has no order.
func (s agenda) order() {
	for i := len(s)/2 - 1; i >= 0; i-- {
		s.down(i)
	}
}
