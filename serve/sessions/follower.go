package sessions

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/changes"
	"github.com/hare-sched/hare/serve/store"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

// followEvery is how often a server looks whether a helper has written: half of the time in which a change is to be
// seen.
const followEvery = 100 * time.Millisecond

// followRetry is how long after a failure the same state is read again: what it names may have become readable.
const followRetry = time.Second

// Follow shows the session that a helper (slurm, kube or ray) keeps in a directory, as the session id of all tenants,
// until ctx ends. What cannot be read yet is tried again, and the last state that was read stays. Where the helper
// begins another session, it takes the place of the one before.
func (ss *Sessions) Follow(ctx context.Context, id, helper, dir string) {
	f := &followed{helper: helper, dir: dir}
	s := ss.look(ss.followedAs(id, f, SessionConfig{Clock: ClockServer, Tags: f.tags()}))
	go func() {
		tick := time.NewTicker(followEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s = ss.look(s)
			case <-ctx.Done():
				return
			}
		}
	}()
}

// followedAs puts a session in the place of the one of the same ID.
func (ss *Sessions) followedAs(id string, f *followed, cfg SessionConfig) *Session {
	m := store.Meta{ID: id, Created: f.state.Origin, Last: f.state.Seq}
	if m.Created.IsZero() {
		m.Created = ss.cfg.Now().UTC()
	}
	s := ss.session(m)
	s.cfg, s.followed = cfg, f
	if f.actor != nil {
		f.actor.session = s
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	before := ss.sessions[id]
	if !ss.closed {
		ss.sessions[id] = s
	}
	if before != nil {
		before.finish(store.ErrNoSession)
	}
	return s
}

// look reads what the helper of a session has written since the last time, and returns the session that takes the
// place of the session where the helper has begun another one.
func (ss *Sessions) look(s *Session) *Session {
	f := s.followed
	info, err := os.Stat(filepath.Join(f.dir, sessiondoc.HelperFile))
	if err == nil && f.seen != nil && os.SameFile(info, f.seen) && info.ModTime().Equal(f.seen.ModTime()) &&
		(f.retry.IsZero() || time.Now().Before(f.retry)) {
		return s
	}
	f.seen, f.retry = info, time.Time{}
	next := &followed{helper: f.helper, dir: f.dir, seen: info}
	cfg, err := next.read(ss)
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fault, f.retry = err.Error(), time.Now().Add(followRetry)
		return s
	}
	if f.actor == nil || f.state.Log != next.state.Log {
		return ss.followedAs(s.id, next, *cfg)
	}
	s.take(next)
	return s
}

// take takes a later state of the same session.
func (s *Session) take(next *followed) {
	next.actor.session = s
	s.wakeMu.Lock()
	follows := s.feed != nil
	s.wakeMu.Unlock()
	f := s.followed
	f.mu.Lock()
	last, from := f.state.Seq, int64(-1) // −1: readers read all
	var things []changes.Thing
	if follows && slices.Equal(f.inService(), next.inService()) {
		from, things = last, f.differences(next)
	}
	f.actor, f.state, f.fault = next.actor, next.state, ""
	f.mu.Unlock()
	s.extend(next.state.Seq)
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	s.planned = next.state.Seq
	if s.feed != nil {
		s.feed.Add(from, next.state.Seq, things)
	}
}

func (f *followed) rows() []online.JobRow {
	if o, ok := f.actor.policy.(online.Observable); ok {
		return o.Rows()
	}
	return nil
}

// inService lists the GPUs in service by type.
func (f *followed) inService() (all []string) {
	if o, ok := f.actor.policy.(online.Observable); ok {
		for _, g := range o.Status().GPUs {
			all = append(all, fmt.Sprint(g.Type, g.InService))
		}
	}
	return all
}

// differences are the jobs of which lists say something else in the next state.
func (f *followed) differences(next *followed) []changes.Thing {
	all := []changes.Thing{{Kind: changes.Plan}}
	before := map[string]online.JobRow{}
	for _, r := range f.rows() {
		before[r.Job] = r
	}
	for _, r := range next.rows() {
		if b, there := before[r.Job]; !there || f.state.Jobs[r.Job] != next.state.Jobs[r.Job] || !reflect.DeepEqual(b, r) {
			all = append(all, changes.Thing{Kind: changes.Job, Name: r.Job})
		}
		delete(before, r.Job)
	}
	for _, job := range slices.Sorted(maps.Keys(before)) {
		all = append(all, changes.Thing{Kind: changes.Job, Name: job, Gone: true})
	}
	return all
}
