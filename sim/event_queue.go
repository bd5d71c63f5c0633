package sim

// kind is the kind of an occurrence. Occurrences at one time take place in the order of
// the kinds.
type kind uint8

const (
	computeEnds kind = iota
	taskEnds
	taskFails
	gpuLeaves // a window of service ends
	faultBegins
	sourceChanges
	gpuJoins
	faultEnds
	jobArrives
)

// occurrence is an event that will take place unless its task is lost before.
type occurrence struct {
	atUs  int64
	place uint64 // order among occurrences at one time: the kind, then the order in the kind
	ref   int32  // a task slot, GPU, source or job
}

// orderBits is the number of bits of occurrence.place that hold the order among equal
// kinds, such as serial numbers of tasks, of which there are fewer than 2^59.
const orderBits = 59

func newOccurrence(atUs int64, k kind, order int64, ref int32) occurrence {
	return occurrence{atUs, uint64(k)<<orderBits | uint64(order), ref}
}

func (oc *occurrence) kind() kind { return kind(oc.place >> orderBits) }

func (oc *occurrence) order() int64 { return int64(oc.place & (1<<orderBits - 1)) }

func (oc *occurrence) before(o *occurrence) bool {
	return oc.atUs < o.atUs || oc.atUs == o.atUs && oc.place < o.place
}

// eventQueue is a 4-ary heap of occurrences, the next one first.
type eventQueue []occurrence

func (q *eventQueue) push(h occurrence) {
	*q = append(*q, h)
	s := *q
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

func (q *eventQueue) pop() occurrence {
	s := *q
	first, last := s[0], len(s)-1
	s[0] = s[last]
	*q = s[:last]
	if last > 0 {
		(*q).down(0)
	}
	return first
}

func (q eventQueue) down(i int) {
	h := q[i]
	for {
		next := 4*i + 1
		if next >= len(q) {
			break
		}
		for c, end := next+1, min(next+4, len(q)); c < end; c++ {
			if q[c].before(&q[next]) {
				next = c
			}
		}
		if !q[next].before(&h) {
			break
		}
		q[i] = q[next]
		i = next
	}
	q[i] = h
}

// order makes a heap of occurrences in any order.
func (q eventQueue) order() {
	for i := (len(q) - 2) / 4; i >= 0 && len(q) > 1; i-- {
		q.down(i)
	}
}
