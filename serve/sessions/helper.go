package sessions

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/changes"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

// followEvery is how often a server looks whether a helper has written: half of the time in which a change is to be
// seen.
const followEvery = 100 * time.Millisecond

// staleLoops is after how many loops without a word a helper counts as stopped, and staleLeast is the least time.
const (
	staleLoops = 3
	staleLeast = 10 * time.Second
)

// followed is what a server knows of a session that a helper beside another scheduler keeps in a directory. The server
// takes no lock there and writes nothing.
type followed struct {
	helper, dir string
	seen        os.FileInfo // of the state that was read or tried last; used by the follower alone

	mu    sync.Mutex
	actor *actor // which has the policy, and never runs; nil: nothing was read
	state sessiondoc.HelperState
	fault string // why the last state could not be read
}

// FollowedError says that a session is a helper's, which alone changes it.
type FollowedError struct{ Helper string }

func (e *FollowedError) Error() string {
	return fmt.Sprintf("the session is that of hare %s, which alone changes it: here it can be read", e.Helper)
}

// UnreadError says that nothing is known of a session that a helper keeps.
type UnreadError struct{ Fault string }

func (e *UnreadError) Error() string { return e.Fault }

// Follow shows the session that a helper (slurm, kube or ray) keeps in a directory, as the session id of all tenants,
// until ctx ends. What cannot be read yet is tried again, and the last state that was read stays. Where the helper
// begins another session, it takes the place of the one before.
func (ss *Sessions) Follow(ctx context.Context, id, helper, dir string) {
	f := &followed{helper: helper, dir: dir}
	s := ss.look(ss.followedAs(id, f, SessionConfig{Clock: ClockServer}))
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
	if err == nil && f.seen != nil && os.SameFile(info, f.seen) && info.ModTime().Equal(f.seen.ModTime()) {
		return s
	}
	f.seen = info
	next := &followed{helper: f.helper, dir: f.dir, seen: info}
	cfg, err := next.read(ss)
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fault = err.Error()
		return s
	}
	if f.actor == nil || f.state.Log != next.state.Log {
		return ss.followedAs(s.id, next, *cfg)
	}
	s.take(next)
	return s
}

// read reads the state of the session.
func (f *followed) read(ss *Sessions) (*SessionConfig, error) {
	path := filepath.Join(f.dir, sessiondoc.HelperFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if _, far := os.Stat(filepath.Join(f.dir, "state.json")); far == nil {
			return nil, fmt.Errorf("%s: the session of this helper is one of the server that it names by --server", f.dir)
		}
		return nil, fmt.Errorf("%s is not there: hare %s writes it with each plan", path, f.helper)
	}
	if err != nil {
		return nil, err
	}
	d := &f.state
	if err := json.Unmarshal(text, d); err != nil || d.Form != sessiondoc.HelperForm || d.Log != filepath.Base(d.Log) {
		return nil, fmt.Errorf("%s is not the state of a helper's session that this version reads", path)
	}
	if d.Helper != f.helper {
		return nil, fmt.Errorf("%s is that of hare %.20q, not of hare %s", path, d.Helper, f.helper)
	}
	log, err := os.Open(filepath.Join(f.dir, d.Log))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	line, err := bufio.NewReader(log).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("%s has no first line: %w", log.Name(), err)
	}
	header, err := wire.DecodeLogHeader(line)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", log.Name(), err)
	}
	a := &actor{atUs: d.AtUs, links: store.Chain{Last: d.Seq}, filling: newBatch(), told: d.Jobs}
	err = recovered(func() (err error) {
		a.policy, err = ss.cfg.Restore(header.Policy, d.State)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: the state of the session cannot be read: %w", path, err)
	}
	f.actor = a
	// The session began at its Origin, so that its times are those of a server's clock.
	return &SessionConfig{Cluster: header.Cluster, Policy: header.Policy, Parameters: header.Parameters,
		Clock: ClockServer, Tags: wire.Tags{Labels: map[string]string{"helper": f.helper}}}, nil
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

// view calls show with the policy after the last state.
func (f *followed) view(show func(*actor)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.actor == nil {
		return &UnreadError{f.fault}
	}
	return recovered(func() error { show(f.actor); return nil })
}

// description describes who keeps the session; nil where no helper does.
func (f *followed) description(now time.Time) *sessiondoc.Followed {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d := &sessiondoc.Followed{Helper: f.helper, Fault: f.fault}
	if f.actor != nil {
		at := f.state.Written
		most := max(staleLeast, time.Duration(staleLoops*f.state.EveryS*float64(time.Second)))
		d.At, d.Stale = &at, now.Sub(at) > most
	}
	return d
}

// handedOver is why a job waits that the session has started and the scheduler of the helper has not.
func handedOver(helper string) online.Reason {
	return online.Reason{Code: online.HandedOver, Short: "the plan starts it now", Text: "The plan starts it now, and " +
		schedulers[helper] + " had not started it when the helper last looked."}
}

var schedulers = map[string]string{"slurm": "Slurm", "kube": "Kubernetes", "ray": "Ray"}

// records yields the records of the session's log after event after, and where live is set, later ones as they come. The
// log is complete up to the last state, whatever the helper is writing.
func (f *followed) records(ctx context.Context, s *Session, after int64, live bool) iter.Seq2[wire.Record, error] {
	return func(yield func(wire.Record, error) bool) {
		f.mu.Lock()
		name, fault := f.state.Log, f.fault
		f.mu.Unlock()
		if name == "" {
			yield(wire.Record{}, &UnreadError{fault})
			return
		}
		log, err := os.Open(filepath.Join(f.dir, name))
		if err != nil {
			yield(wire.Record{}, &UnreadError{err.Error()})
			return
		}
		defer func() { _ = log.Close() }()
		in := bufio.NewReaderSize(log, 1<<16)
		_, err = in.ReadBytes('\n') // the header
		for seq := int64(1); ; {
			added, last := s.rowsAdded(), s.last.Load()
			for ; seq <= last && err == nil; seq++ {
				var line []byte
				if line, err = in.ReadBytes('\n'); err != nil {
					break
				}
				if seq <= after {
					continue
				}
				var rec wire.Record
				if rec, err = wire.DecodeRecord(line); err == nil && rec.Event.Seq != seq {
					err = fmt.Errorf("event %d is in its place", rec.Event.Seq)
				}
				if err != nil {
					break
				}
				if !yield(rec, nil) {
					return
				}
			}
			switch {
			case errors.Is(err, io.EOF):
				err = &store.CorruptError{Session: s.id, Seq: seq, What: "the end of the log is missing"}
			case err != nil:
				err = &store.CorruptError{Session: s.id, Seq: seq, What: strings.TrimSpace(err.Error())}
			case !live:
				return
			default:
				err = s.await(ctx, added, last, last)
			}
			if err != nil {
				yield(wire.Record{}, err)
				return
			}
		}
	}
}
