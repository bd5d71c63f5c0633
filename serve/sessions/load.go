package sessions

import (
	"context"
	"errors"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

// load brings the state of the session into memory, if the state is not there: the last
// snapshot, and the later events with their recorded decisions. Recorded decisions are
// kept even where this version of the policy would decide otherwise.
func (a *actor) load() error {
	if bad := a.session.quarantine.Load(); bad != nil {
		return bad
	}
	if a.policy != nil || a.damage != nil {
		return a.damage
	}
	a.dropPlans()
	err := a.read()
	if errors.As(err, new(*planPanicError)) {
		a.skipPlans = true
		err = a.read()
	}
	a.skipPlans = false
	err = a.session.logDamage(err)
	if errors.As(err, new(*store.CorruptError)) {
		a.damage = err
	}
	return err
}

func (a *actor) read() error {
	if len(a.filling.row.Data) > 0 || a.writing != nil {
		a.flush() // only after a policy failed: its earlier decisions stay valid
	}
	ctx := context.Background()
	snapshots, err := a.session.parent.cfg.Store.Snapshots(ctx, a.session.id)
	if err != nil {
		return err
	}
	// A damaged snapshot, and one that this version cannot read, is skipped: an older
	// snapshot with more of the log, or the whole log, gives the same state.
	var bad error
	for i := range snapshots {
		s := &snapshots[i]
		if s.Session != a.session.id || s.Checksum() != s.Sum {
			bad = &store.CorruptError{Session: a.session.id, Seq: s.Seq,
				What: "the checksum of a snapshot does not fit"}
			continue
		}
		policy, err := a.session.parent.cfg.Restore(a.session.cfg.Policy, s.State)
		if err != nil {
			bad = err
			continue
		}
		if err = a.replay(ctx, policy, s); err == nil {
			return nil
		}
		if !errors.As(err, new(*adoptError)) {
			return err
		}
		bad = err
	}
	policy, err := a.session.parent.cfg.New(a.session.cfg.Policy, &a.session.cfg.Cluster, a.session.cfg.Parameters)
	if err == nil {
		err = a.replay(ctx, policy, &store.Snapshot{Session: a.session.id, Chain: a.session.meta.Sum})
	}
	if err != nil {
		return errors.Join(err, bad)
	}
	return nil
}

// planPanicError says that the policy panicked with a plan of the log.
type planPanicError struct{ seq int64 }

func (e *planPanicError) Error() string {
	return fmt.Sprintf("the policy panicked with the plan of event %d", e.seq)
}

// takeRecorded lets policy take the plan that the log has before an event. The decisions of
// the log hold even where this version refuses the plan: the plan is left out then, and
// another one is made.
func (a *actor) takeRecorded(policy online.Durable, rec *wire.Record) error {
	p, ok := policy.(online.Planned)
	if !ok || a.skipPlans {
		return nil
	}
	err := recovered(func() error { return p.Take(rec.Plan) })
	if err == nil {
		return nil
	}
	a.session.parent.cfg.Logger.Error("a plan in the log of a session is not taken: the session goes on without the "+
		"plan", "session", a.session.id, "event", rec.Event.Seq, "error", err)
	if !errors.As(err, new(*hare.InvalidError)) {
		return &planPanicError{rec.Event.Seq} // the state is unknown
	}
	return nil
}

// adoptError says that recorded events do not fit the state before them.
type adoptError struct{ *store.CorruptError }

func (e *adoptError) Unwrap() error { return e.CorruptError }

// replay lets policy adopt the events of the log after s, and makes policy the actor's
// policy.
func (a *actor) replay(ctx context.Context, policy online.Durable, s *store.Snapshot) error {
	links := store.Chain{Session: a.session.id, Sum: s.Chain}
	atUs, jobs, fresh := s.AtUs, s.Jobs, 0
	jobBytes := stateExtra(&a.session.cfg.Cluster, s.State)
	extra := jobBytes
	if s.Seq > 0 {
		// The log must hold the row that ends with the snapshot's event.
		rows, err := a.session.parent.cfg.Store.Rows(ctx, a.session.id, s.Seq, 1)
		if err != nil {
			return err
		}
		if len(rows) == 0 || rows[0].Last != s.Seq || rows[0].Sum != s.Chain || rows[0].Checksum() != s.Chain {
			return &store.CorruptError{Session: a.session.id, Seq: s.Seq,
				What: "the log does not lead to the snapshot"}
		}
		links.Last = s.Seq
	}
	for {
		rows, err := a.session.parent.cfg.Store.Rows(ctx, a.session.id, links.Last+1, store.ReadBytes)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			break
		}
		for i := range rows {
			if err := links.Next(&rows[i]); err != nil {
				return err
			}
			records, err := store.DecodeRow(&rows[i])
			if err != nil {
				return err
			}
			for _, rec := range records {
				if rec.Event.AtUs < atUs {
					return &store.CorruptError{Session: a.session.id, Seq: rec.Event.Seq, What: "its time goes back"}
				}
				if rec.Plan != nil {
					if err := a.takeRecorded(policy, &rec); err != nil {
						return err
					}
				}
				if err := policy.Adopt(rec.Event.AtUs, rec.Event, rec.Decisions); err != nil {
					return &adoptError{&store.CorruptError{Session: a.session.id, Seq: rec.Event.Seq,
						What: "it does not fit the state: " + err.Error()}}
				}
				atUs = rec.Event.AtUs
				bytes := eventBytes(&rec.Event, jobs, jobBytes)
				extra += bytes
				if jobChange(rec.Event.Type) != 0 {
					jobBytes += bytes
				}
				jobs += jobChange(rec.Event.Type)
				fresh++
			}
		}
	}
	if links.Last < a.session.last.Load() {
		return &store.CorruptError{Session: a.session.id, Seq: links.Last + 1, What: "the end of the log is missing"}
	}
	a.policy, a.links, a.atUs, a.jobs, a.fresh = policy, links, atUs, jobs, fresh
	a.jobBytes = jobBytes
	_ = a.session.grow(extra-a.session.extra.Load(), false)
	if links.Last > a.session.last.Load() {
		a.session.extend(links.Last) // a commit that reported an error was durable all the same
		a.session.resetFeed()
	}
	return nil
}
