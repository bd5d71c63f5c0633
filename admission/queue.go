package admission

import (
	"container/heap"
	"sync"
	"time"
)

// Queue hands out a fixed number of places, the earliest deadline first, and
// those of the same deadline in the order in which they came. A call costs
// O(log n) of those that wait, Rank O(n).
type Queue struct {
	places int // that may be held at a time
	most   int // that may be held and waited for together

	mu     sync.Mutex
	taken  int // admitted: held, waited for, or about to be
	held   map[*Turn]struct{}
	coming time.Duration // cost of what is admitted and has not lined up
	order  int64
	heap   waitingTurns
}

// Turn is a place, or the wait for one.
type Turn struct {
	q        *Queue
	deadline time.Time
	cost     time.Duration // expected, of its work
	first    bool          // before all that are not: it takes little
	since    time.Time     // when it got a place
	order    int64
	index    int           // in the heap; -1 when it has a place or is over
	got      chan struct{} // closed when it has a place
}

// NewQueue makes a queue of so many places, for which so many calls may wait.
func NewQueue(places, waiting int) *Queue {
	return &Queue{places: places, most: places + max(0, waiting), held: map[*Turn]struct{}{}}
}

// Renounce takes back what was admitted at this cost.
func (q *Queue) Renounce(cost time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken--
	q.coming -= cost
}

// LineUp lets a call that was admitted so wait for a place, or gives it one at
// once.
func (q *Queue) LineUp(a Call) *Turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.order++
	q.coming -= a.Cost
	t := &Turn{q: q, deadline: a.Deadline, cost: a.Cost, first: a.Degraded, order: q.order, index: -1, got: make(chan struct{})}
	if len(q.held) < q.places {
		q.serve(t)
		return t
	}
	heap.Push(&q.heap, t)
	return t
}

// Granted is closed when t has a place.
func (t *Turn) Granted() <-chan struct{} { return t.got }

// Deadline is by when t must have a place.
func (t *Turn) Deadline() time.Time { return t.deadline }

// serve gives t a place.
func (q *Queue) serve(t *Turn) {
	q.held[t] = struct{}{}
	t.since = time.Now()
	close(t.got)
}

// Leave gives the place back, or ends the wait for one.
func (t *Turn) Leave() {
	q := t.q
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken--
	if t.index >= 0 {
		heap.Remove(&q.heap, t.index)
		return
	}
	delete(q.held, t)
	if len(q.heap) > 0 {
		q.serve(heap.Pop(&q.heap).(*Turn))
	}
}

// Rank says how many would be served before a call of this deadline that came
// now, and itself; 0 where there is a place.
func (q *Queue) Rank(deadline time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.held) < q.places {
		return 0
	}
	n := 1
	for _, t := range q.heap {
		if !deadline.Before(t.deadline) {
			n++
		}
	}
	return n
}

// Position is that of t in the queue, from 1; 0 when it has a place.
func (t *Turn) Position() int {
	t.q.mu.Lock()
	defer t.q.mu.Unlock()
	if t.index < 0 {
		return 0
	}
	n := 1
	for i := range t.q.heap {
		if t.q.heap.Less(i, t.index) {
			n++
		}
	}
	return n
}

// Load is the number of calls that wait and that hold a place.
func (q *Queue) Load() (waiting, held int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.heap), len(q.held)
}

// waitingTurns is a heap: degraded calls first, then by deadline, then order.
type waitingTurns []*Turn

func (h waitingTurns) Len() int { return len(h) }

func (h waitingTurns) Less(i, j int) bool {
	if h[i].first != h[j].first {
		return h[i].first
	}
	if c := h[i].deadline.Compare(h[j].deadline); c != 0 {
		return c < 0
	}
	return h[i].order < h[j].order
}

func (h waitingTurns) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *waitingTurns) Push(x any) {
	t := x.(*Turn)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *waitingTurns) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}
