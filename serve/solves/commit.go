package solves

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hare-sched/hare/serve/store"
)

// groupDelay is how long the committer waits for more events before it writes a
// batch. Submissions and ends are written at once, together with the waiting events.
const groupDelay = 20 * time.Millisecond

// flushBytes is the approximate greatest size of a commit.
const flushBytes = 16 << 20

// change is a part of a batch that becomes durable as a whole or not at all.
type change struct {
	solve  *solve
	batch  store.SolveBatch
	events []Event // of solve
	// must says that the change records something that has happened: the committer
	// retries the change until the write succeeds. Other changes are refused when the
	// write fails.
	must bool
	// settle is called by the committer, in order, when the change is durable
	// or refused.
	settle func(error)
}

func (ch *change) size() int {
	n := 256 * len(ch.events)
	for i := range ch.batch.Chunks {
		n += len(ch.batch.Chunks[i].Data)
	}
	return n
}

// committer writes the changes of all solves in order (group commit): the changes
// that arrive during a commit are written together in the next commit.
type committer struct {
	store     store.SolveStore
	retry     time.Duration
	onFailing func(failing bool, err error)
	observe   func(ctx context.Context, began time.Time, bytes int, err error)

	mu      sync.Mutex
	pending []*change
	ended   bool // no further changes are accepted
	last    bool // failed writes are not retried any more
	failing bool
	urgent  chan struct{} // there is something urgent
	soon    chan struct{} // there is something
	left    chan struct{} // closed when the goroutine has ended
}

func newCommitter(store store.SolveStore, retry time.Duration, tell func(bool, error),
	note func(context.Context, time.Time, int, error)) *committer {
	c := &committer{store: store, retry: retry, onFailing: tell, observe: note, urgent: make(chan struct{}, 1),
		soon: make(chan struct{}, 1), left: make(chan struct{})}
	go c.run()
	return c
}

// add queues a change, or returns false once the committer has ended. now asks for
// a commit without groupDelay. add does not wait.
func (c *committer) add(ch *change, now bool) bool {
	c.mu.Lock()
	ended := c.ended
	if !ended {
		c.pending = append(c.pending, ch)
	}
	c.mu.Unlock()
	switch {
	case ended:
	case now:
		notify(c.urgent)
	default:
		notify(c.soon)
	}
	return !ended
}

// notify signals c without waiting.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// lastTry makes the committer try every pending change only once more, since the
// server ends.
func (c *committer) lastTry() {
	c.mu.Lock()
	c.last = true
	c.mu.Unlock()
	notify(c.urgent)
}

// end writes the pending changes, once, and ends the committer.
func (c *committer) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	notify(c.urgent)
	<-c.left
}

func (c *committer) run() {
	defer close(c.left)
	var delay <-chan time.Time
	for {
		select {
		case <-c.soon:
			if delay == nil {
				delay = time.After(groupDelay)
			}
			continue
		case <-delay:
		case <-c.urgent:
		}
		delay = nil
		for {
			group := c.take()
			if len(group) == 0 {
				break
			}
			c.commit(group)
		}
		c.mu.Lock()
		over := c.ended && len(c.pending) == 0
		c.mu.Unlock()
		if over {
			return
		}
	}
}

// take removes the changes of the next commit from the queue.
func (c *committer) take() (group []*change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, size := 0, 0
	for n < len(c.pending) && (n == 0 || size < flushBytes) {
		size += c.pending[n].size()
		n++
	}
	group = c.pending[:n:n]
	c.pending = c.pending[n:]
	if len(c.pending) == 0 {
		c.pending = nil
	}
	return group
}

// commit makes one group durable. Where the write fails, commit refuses the changes
// that may be refused and retries the others.
func (c *committer) commit(group []*change) {
	for {
		c.mu.Lock()
		last := c.last
		c.mu.Unlock()
		err := c.write(group)
		apart := err != nil && !errors.Is(err, store.ErrStorage) && len(group) > 1
		rest := group[:0:0]
		for _, ch := range group {
			if apart { // one bad change must not fail the others
				err = c.write([]*change{ch})
			}
			if err != nil && ch.must && !last {
				rest = append(rest, ch)
			} else {
				ch.settle(err)
			}
		}
		if group = rest; len(group) == 0 {
			return
		}
		c.pause()
		// Submissions that came meanwhile are written, or refused, at once.
		group = append(group, c.take()...)
	}
}

// write makes a group durable, all or none. write calls tell when writes begin to
// fail and when they work again.
func (c *committer) write(group []*change) error {
	ctx, began, size := context.Background(), time.Now(), 0
	for _, ch := range group {
		size += ch.size()
	}
	err := c.store.WriteSolves(ctx, together(group))
	c.observe(ctx, began, size, err)
	if failing := err != nil; failing != c.failing {
		c.failing = failing
		c.onFailing(failing, err)
	}
	return err
}

// pause waits before a retry. An urgent change ends the wait.
func (c *committer) pause() {
	timer := time.NewTimer(c.retry)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.urgent:
	}
}

// together merges a group into one batch: the events of one solve become one row.
func together(group []*change) *store.SolveBatch {
	b := &store.SolveBatch{}
	rows := map[int64]int{}
	for _, ch := range group {
		b.Put = append(b.Put, ch.batch.Put...)
		b.Chunks = append(b.Chunks, ch.batch.Chunks...)
		b.Begin = append(b.Begin, ch.batch.Begin...)
		b.Hold = append(b.Hold, ch.batch.Hold...)
		b.Release = append(b.Release, ch.batch.Release...)
		b.Clear = append(b.Clear, ch.batch.Clear...)
		b.Drop = append(b.Drop, ch.batch.Drop...)
		for i := range ch.events {
			e := &ch.events[i]
			x, ok := rows[ch.solve.num]
			if !ok {
				x = len(b.Events)
				rows[ch.solve.num] = x
				b.Events = append(b.Events, store.SolveRow{Num: ch.solve.num, First: e.Seq})
			}
			b.Events[x].Last = e.Seq
			b.Events[x].Data = store.AppendSolveEvent(b.Events[x].Data, e)
		}
	}
	for i := range b.Events {
		b.Events[i].Sum = b.Events[i].Checksum()
	}
	return b
}
