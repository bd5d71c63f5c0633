package service

import (
	"container/heap"
	"sync"
	"time"
)

// queue hands out a fixed number of places, the earliest deadline first, and
// those of the same deadline in the order in which they came. A call costs
// O(log n) of those that wait, rank O(n).
type queue struct {
	places int // that may be held at a time
	most   int // that may be held and waited for together

	mu     sync.Mutex
	taken  int // admitted: held, waited for, or about to be
	held   map[*turn]struct{}
	coming time.Duration // cost of what is admitted and has not lined up
	order  int64
	heap   waitingTurns
}

// turn is a place, or the wait for one.
type turn struct {
	q        *queue
	deadline time.Time
	cost     time.Duration // expected, of its work
	first    bool          // before all that are not: it takes little
	since    time.Time     // when it got a place
	order    int64
	index    int           // in the heap; -1 when it has a place or is over
	got      chan struct{} // closed when it has a place
}

func newQueue(places, waiting int) *queue {
	return &queue{places: places, most: places + max(0, waiting), held: map[*turn]struct{}{}}
}

// renounce takes back what was admitted at this cost.
func (q *queue) renounce(cost time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken--
	q.coming -= cost
}

// lineUp lets a call that was admitted so wait for a place, or gives it one at
// once.
func (q *queue) lineUp(a admission) *turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.order++
	q.coming -= a.cost
	t := &turn{q: q, deadline: a.deadline, cost: a.cost, first: a.degraded, order: q.order, index: -1, got: make(chan struct{})}
	if len(q.held) < q.places {
		q.serve(t)
		return t
	}
	heap.Push(&q.heap, t)
	return t
}

// serve gives t a place.
func (q *queue) serve(t *turn) {
	q.held[t] = struct{}{}
	t.since = time.Now()
	close(t.got)
}

// leave gives the place back, or ends the wait for one.
func (t *turn) leave() {
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
		q.serve(heap.Pop(&q.heap).(*turn))
	}
}

// rank says how many would be served before a call of this deadline that came
// now, and itself; 0 where there is a place.
func (q *queue) rank(deadline time.Time) int {
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

// position is that of t in the queue, from 1; 0 when it has a place.
func (t *turn) position() int {
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

// load is the number of calls that wait and that hold a place.
func (q *queue) load() (waiting, held int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.heap), len(q.held)
}

// waitingTurns is a heap: degraded calls first, then by deadline, then order.
type waitingTurns []*turn

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
	t := x.(*turn)
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
