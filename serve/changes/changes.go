// Package changes remembers what has changed last of a cluster or a session. A reader that reads again what a change
// names has what a list of everything would show.
//
// A feed has each thing once, with the number of its last change. What a reader gets is therefore one change, however
// long ago it has read, and a slow reader takes no memory: it reads later, and less often.
package changes

import (
	"container/list"
	"context"
	"iter"
	"sync"
	"time"
)

// Kind says what has changed.
type Kind uint8

// The kinds of things.
const (
	Job  Kind = iota
	Node      // an agent, by its name
	GPU
	Plan // without a name
)

// Thing is what has changed.
type Thing struct {
	Kind Kind
	Name string
	// Gone says that lists of what there is lose the thing.
	Gone bool
}

// Change is all that has changed between two numbers.
type Change struct {
	// Seq is the number of the last change. They rise, and need not follow each other.
	Seq int64
	// Reset says that the feed does not know what has changed: everything is to be read.
	Reset  bool
	Things []Thing // each once, by their last change
}

// most is how many things a feed remembers.
const most = 10_000

// Every is the time between two changes that a reader gets.
const Every = 100 * time.Millisecond

// Feed is the last changes of one cluster or session. Safe for concurrent use.
type Feed struct {
	mu     sync.Mutex
	seq    int64
	floor  int64 // the last change of those that are forgotten
	things map[key]*list.Element
	order  *list.List // of entry, by their last change
	wake   chan struct{}
}

type key struct {
	kind Kind
	name string
}

type entry struct {
	thing Thing
	seq   int64
}

// New is a feed that knows nothing of the changes up to the one of a number.
func New(seq int64) *Feed {
	f := &Feed{wake: make(chan struct{})}
	f.forget(seq)
	return f
}

func (f *Feed) forget(seq int64) {
	f.seq, f.floor, f.things, f.order = seq, seq, map[key]*list.Element{}, list.New()
}

// Add adds the changes after the one numbered last, up to the one numbered seq. Where they do not follow those that
// the feed has, it forgets all.
func (f *Feed) Add(last, seq int64, things []Thing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	reset := last != f.seq
	if reset {
		f.forget(seq)
	}
	f.seq = seq
	if len(things) == 0 && !reset {
		return
	}
	for _, t := range things {
		k := key{t.Kind, t.Name}
		if e := f.things[k]; e != nil {
			e.Value = entry{t, seq}
			f.order.MoveToBack(e)
			continue
		}
		f.things[k] = f.order.PushBack(entry{t, seq})
		if len(f.things) > most {
			first := f.order.Remove(f.order.Front()).(entry)
			f.floor = first.seq
			delete(f.things, key{first.thing.Kind, first.thing.Name})
		}
	}
	close(f.wake)
	f.wake = make(chan struct{})
}

// Since is all that has changed after the change of a number, and a channel that is closed when more changes.
func (f *Feed) Since(after int64) (Change, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := Change{Seq: f.seq}
	if after < f.floor || after > f.seq {
		c.Reset = true
		return c, f.wake
	}
	e := f.order.Back()
	for ; e != nil && e.Value.(entry).seq > after; e = e.Prev() {
		c.Things = append(c.Things, e.Value.(entry).thing)
	}
	for i, k := 0, len(c.Things)-1; i < k; i, k = i+1, k-1 {
		c.Things[i], c.Things[k] = c.Things[k], c.Things[i]
	}
	return c, f.wake
}

// Follow yields what changes after the change of a number: the first change at once, the next ones Every after it at
// the earliest. It begins with a reset where the number is −1, or of no change that the feed knows. It ends with the
// error of ctx, or with that of why once ended is closed.
func (f *Feed) Follow(ctx context.Context, after int64, ended <-chan struct{}, why func() error) iter.Seq2[Change,
	error] {
	return func(yield func(Change, error) bool) {
		for {
			c, more := f.Since(after)
			after = c.Seq
			var pause <-chan time.Time
			if c.Reset || len(c.Things) > 0 {
				if !yield(c, nil) {
					return
				}
				more, pause = nil, time.After(Every)
			}
			select {
			case <-more:
			case <-pause:
			case <-ended:
				yield(Change{}, why())
				return
			case <-ctx.Done():
				yield(Change{}, ctx.Err())
				return
			}
		}
	}
}
