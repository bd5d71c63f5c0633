package sessions

import (
	"context"
	"iter"
	"strconv"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/changes"
)

// Changes yields what has changed of the session after the event of a number, as changes.Feed.Follow does: jobs, GPUs
// and nodes that joined or left, and plans that came into force.
func (s *Session) Changes(ctx context.Context, after int64) iter.Seq2[changes.Change, error] {
	return func(yield func(changes.Change, error) bool) {
		if s.damage != nil {
			yield(changes.Change{}, s.damage)
			return
		}
		s.wakeMu.Lock()
		if s.feed == nil {
			s.feed = changes.New(s.last.Load())
		}
		feed := s.feed
		s.followers++
		s.wakeMu.Unlock()
		defer func() {
			s.wakeMu.Lock()
			defer s.wakeMu.Unlock()
			s.followers--
		}()
		feed.Follow(ctx, after, s.gone, func() error { return s.ended })(yield)
	}
}

// Planned is the number of the last durable event with which a plan came into force, since the server started.
func (s *Session) Planned() int64 {
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	return s.planned
}

// dropFeed forgets what has changed, where nobody follows the session.
func (s *Session) dropFeed() {
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	if s.followers == 0 {
		s.feed = nil
	}
}

// resetFeed says that what has changed up to the last durable event is not known.
func (s *Session) resetFeed() {
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	if s.feed != nil {
		s.feed.Add(-1, s.last.Load(), nil)
	}
}

// announce tells the feed what a batch that has become durable has changed.
func (s *Session) announce(b *batch) {
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	if b.planned > 0 {
		s.planned = b.planned
	}
	if s.feed != nil {
		s.feed.Add(b.row.First-1, b.row.Last, b.things())
	}
}

// things are what the events of the batch have changed.
func (b *batch) things() (all []changes.Thing) {
	for _, p := range b.promises {
		if p.view != nil || p.err != nil || p.duplicate {
			continue
		}
		e := &p.event
		if e.Job != "" {
			all = append(all, changes.Thing{Kind: changes.Job, Name: e.Job, Gone: jobChange(e.Type) < 0})
		}
		node := e.Node()
		switch e.Type {
		case hare.EventGPUJoined, hare.EventGPULeft:
			all = append(all, changes.Thing{Kind: changes.GPU, Name: e.GPU, Gone: e.Type == hare.EventGPULeft})
		case hare.EventNodeJoined:
			n := 0
			for _, g := range node.GPUs {
				for range g.Count {
					all = append(all, changes.Thing{Kind: changes.GPU, Name: node.Name + "/" + strconv.Itoa(n)})
					n++
				}
			}
		case hare.EventNodeLeft:
			all = append(all, changes.Thing{Kind: changes.GPU, Name: node.Name, Gone: true})
		}
		for i := range p.answer.Decisions {
			if d := &p.answer.Decisions[i]; d.Job != e.Job {
				all = append(all, changes.Thing{Kind: changes.Job, Name: d.Job})
			}
		}
	}
	if b.planned > 0 {
		all = append(all, changes.Thing{Kind: changes.Plan})
	}
	return all
}
