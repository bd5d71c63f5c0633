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
	policyWakes // the policy asked for a tick
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
	(*q).up(len(*q)-1, h)
}

// up puts h where i is free, or where one of the occurrences above i is, which then go down.
func (q eventQueue) up(i int, h occurrence) {
	for i > 0 {
		above := (i - 1) / 4
		if !h.before(&q[above]) {
			break
		}
		q[i] = q[above]
		i = above
	}
	q[i] = h
}

// pop removes the next occurrence. The last one, which takes a free place, mostly belongs near the
// leaves. So pop moves up the first of each four children, down to a leaf, without a look at the
// last one, and then lets the last one rise from there.
func (q *eventQueue) pop() occurrence {
	s := *q
	first, end := s[0], len(s)-1
	last := s[end]
	s = s[:end]
	*q = s
	i := 0
	for next := 1; next+4 <= len(s); next = 4*i + 1 {
		four := (*[4]occurrence)(s[next:])
		least, other := 0, 2
		if four[1].before(&four[0]) {
			least = 1
		}
		if four[3].before(&four[2]) {
			other = 3
		}
		if four[other&3].before(&four[least&3]) {
			least = other
		}
		s[i] = four[least&3]
		i = next + least
	}
	if next := 4*i + 1; next < len(s) {
		for c := next + 1; c < len(s); c++ {
			if s[c].before(&s[next]) {
				next = c
			}
		}
		s[i] = s[next]
		i = next
	}
	if end > 0 {
		s.up(i, last)
	}
	return first
}

// down lets the occurrence at i go down to where it belongs.
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
