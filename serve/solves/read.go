package solves

import (
	"context"
	"fmt"
	"iter"
	"sort"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
)

// List returns defaultSolves at a time, unless the filter asks for more, and at most
// mostSolves.
const (
	defaultSolves = 100
	mostSolves    = 1000
)

// List describes the solves of a tenant that pass the filter, the newest first, and
// returns the cursor of the next page, "" at the end. A bad cursor gives
// *hare.InvalidError. O(solves of the tenant).
func (ss *Solves) List(_ context.Context, tenant string, f Filter) (infos []Info, next string, err error) {
	return ss.list("", tenant, f)
}

func (ss *Solves) list(kind, tenant string, f Filter) (infos []Info, next string, err error) {
	limit := min(f.Limit, mostSolves)
	if limit <= 0 {
		limit = defaultSolves
	}
	before := int64(1<<63 - 1)
	if f.After != "" {
		before, err = strconv.ParseInt(f.After, 36, 64)
		if err != nil || before < 1 {
			return nil, "", &hare.InvalidError{Pointer: "/after", Code: "invalid_cursor",
				Detail: "must be the cursor that a list gave"}
		}
	}
	ss.mu.Lock()
	all := ss.lists[listKey{tenant, kind}]
	all = append([]*solve(nil), all[:sort.Search(len(all), func(i int) bool { return all[i].num >= before })]...)
	ss.mu.Unlock()
	for i := len(all) - 1; i >= 0; i-- {
		info, err := all[i].info()
		if err != nil || f.Status != "" && f.Status != info.Status ||
			f.Termination != "" && f.Termination != info.Termination ||
			f.InstanceSHA256 != "" && !strings.EqualFold(f.InstanceSHA256, info.InstanceSHA256) ||
			!info.Tags.Has(f.Labels) ||
			f.Text != "" && !info.Tags.Mention(f.Text) && !strings.Contains(info.ID, strings.ToLower(f.Text)) {
			continue
		}
		if len(infos) == limit {
			return infos, next, nil
		}
		infos = append(infos, info)
		next = strconv.FormatInt(all[i].num, 36)
	}
	return infos, "", nil
}

// Events gives the durable events of a solve after event after, then each new event, and
// ends after the event of type done. A slow reader holds up nobody. An error is the last
// element of the sequence: that of ctx, ErrNoSolve, ErrGone, admission.ErrDraining where
// the solve waits for the next start of the server, or *store.CorruptError.
func (ss *Solves) Events(ctx context.Context, tenant, id string, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s, err := ss.find("", tenant, id)
		if err != nil {
			yield(Event{}, err)
			return
		}
		after := max(0, after)
		for {
			events, wake, err := s.eventsAfter(ctx, after)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for i := range events {
				if !yield(events[i], nil) || events[i].Type == EventDone {
					return
				}
				after = events[i].Seq
			}
			if len(events) > 0 {
				continue
			}
			if wake == nil {
				return
			}
			select {
			case <-wake:
			case <-ctx.Done():
				yield(Event{}, ctx.Err())
				return
			}
		}
	}
}

// eventsAfter returns some of the durable events after event after. Where there are none,
// wake is closed when there may be more; wake is nil where there will never be more.
func (s *solve) eventsAfter(ctx context.Context, after int64) (events []Event, wake <-chan struct{}, err error) {
	s.mu.Lock()
	wake, last := s.wake, s.lastDurable
	gone, over, parked := s.stored.GoneUs != 0, store.Finished(s.stored.Status), s.suspended
	if n := len(s.tail); n > 0 && s.tail[0].Seq <= after+1 && after < last {
		events = append(events, s.tail[after+1-s.tail[0].Seq:]...)
	}
	s.mu.Unlock()
	switch {
	case gone:
		return nil, nil, ErrGone
	case len(events) > 0:
		return events, wake, nil
	case after < last:
		events, err = s.parent.readEvents(ctx, s, after)
		for len(events) > 0 && events[len(events)-1].Seq > last {
			events = events[:len(events)-1] // written, but its commit is not settled yet
		}
		if err == nil && len(events) == 0 {
			err = &store.CorruptError{Solve: s.id, What: fmt.Sprintf("event %d is missing", after+1)}
		}
		if s.isGone() {
			err = ErrGone // removed meanwhile
		}
		return events, wake, err
	case over:
		return nil, nil, nil
	case parked:
		return nil, nil, admission.ErrDraining
	}
	return nil, wake, nil
}

func (s *solve) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored.GoneUs != 0
}

// readEvents reads some events after event after from the store, and checks them.
func (ss *Solves) readEvents(ctx context.Context, s *solve, after int64) (events []Event, err error) {
	rows, err := ss.cfg.Store.SolveEvents(ctx, s.num, after+1, store.ReadBytes)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		got, err := store.DecodeSolveRow(s.id, &rows[i])
		if err != nil {
			return events, err
		}
		for x := range got {
			if got[x].Seq <= after {
				continue
			}
			if got[x].Seq != after+1 {
				return events, &store.CorruptError{Solve: s.id, What: fmt.Sprintf("event %d is missing", after+1)}
			}
			after++
			events = append(events, got[x])
		}
	}
	return events, nil
}
