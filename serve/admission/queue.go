package admission

import (
	"container/heap"
	"sync"
	"time"
)

// Queue grants a fixed number of slots. The waiting call with the earliest
// deadline comes first, and of equal deadlines the call that came first. With n
// waiting calls a method is O(log n), but Rank and Position are O(n). Safe for
// concurrent use.
type Queue struct {
	slots int // number of calls that may run at a time
	most  int // number of calls that may run and wait together

	mu          sync.Mutex
	admitted    int // calls that run, wait, or were admitted and are not in the queue yet
	running     map[*Ticket]struct{}
	pendingCost time.Duration // cost of the calls that were admitted and are not in the queue yet
	order       int64
	heap        ticketHeap
}

// Ticket is a call in a queue: the call waits for a slot, or holds a slot.
type Ticket struct {
	queue    *Queue
	deadline time.Time
	cost     time.Duration // expected time of the call's work
	degraded bool          // degraded calls come before the others
	patient  bool          // may wait beyond its deadline
	since    time.Time     // when the slot was granted
	order    int64
	index    int           // index in the heap; -1 where the call does not wait
	granted  chan struct{} // closed when the slot is granted
}

// NewQueue makes a queue of this many slots, in which at most waiting calls may
// wait.
func NewQueue(slots, waiting int) *Queue {
	return &Queue{slots: slots, most: slots + max(0, waiting), running: map[*Ticket]struct{}{}}
}

// Cancel withdraws a call that was admitted at this cost and will not be enqueued.
func (q *Queue) Cancel(cost time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.admitted--
	q.pendingCost -= cost
}

// Enqueue lets a call, which Admit must have admitted, wait for a slot. Where a
// slot is free the call gets the slot at once.
func (q *Queue) Enqueue(a Call) *Ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.order++
	q.pendingCost -= a.Cost
	t := &Ticket{
		queue: q, deadline: a.Deadline, cost: a.Cost, degraded: a.Degraded, patient: a.Patient,
		order: q.order, index: -1, granted: make(chan struct{}),
	}
	if len(q.running) < q.slots {
		q.grant(t)
		return t
	}
	heap.Push(&q.heap, t)
	return t
}

// Granted returns a channel that is closed when t gets its slot.
func (t *Ticket) Granted() <-chan struct{} { return t.granted }

// Deadline is the time by which t must have a slot; it is false where t waits as long as it takes.
func (t *Ticket) Deadline() (deadline time.Time, ok bool) { return t.deadline, !t.patient }

// grant gives t a slot.
func (q *Queue) grant(t *Ticket) {
	q.running[t] = struct{}{}
	t.since = time.Now()
	close(t.granted)
}

// Release gives the slot back, or ends the wait for a slot.
func (t *Ticket) Release() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.admitted--
	if t.index >= 0 {
		heap.Remove(&q.heap, t.index)
		return
	}
	delete(q.running, t)
	if len(q.heap) > 0 {
		q.grant(heap.Pop(&q.heap).(*Ticket))
	}
}

// Rank is the position in the queue, from 1, that a call of this deadline would
// get now; 0 where a slot is free.
func (q *Queue) Rank(deadline time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.running) < q.slots {
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

// Position is the position of t in the queue, from 1; 0 when t has a slot.
func (t *Ticket) Position() int {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.index < 0 {
		return 0
	}
	n := 1
	for i := range t.queue.heap {
		if t.queue.heap.Less(i, t.index) {
			n++
		}
	}
	return n
}

// Load returns the number of calls that wait and the number of calls that run.
func (q *Queue) Load() (waiting, running int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.heap), len(q.running)
}

// ticketHeap is a heap of waiting calls: degraded calls first, then by deadline,
// then by order.
type ticketHeap []*Ticket

func (h ticketHeap) Len() int { return len(h) }

func (h ticketHeap) Less(i, j int) bool {
	if h[i].degraded != h[j].degraded {
		return h[i].degraded
	}
	if c := h[i].deadline.Compare(h[j].deadline); c != 0 {
		return c < 0
	}
	return h[i].order < h[j].order
}

func (h ticketHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *ticketHeap) Push(x any) {
	t := x.(*Ticket)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *ticketHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}
