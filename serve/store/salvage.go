package store

import (
	"context"
	"errors"
	"math"
	"slices"
)

// SessionReader is the reading half of a SessionStore.
type SessionReader interface {
	Sessions(ctx context.Context) ([]Meta, error)
	Rows(ctx context.Context, id string, seq int64, bytes int) ([]Row, error)
	Snapshots(ctx context.Context, id string) ([]Snapshot, error)
	History(ctx context.Context, id string, from, to int64) ([]HistoryRow, error)
}

// CheckSession reads the whole log of a session and returns the last event that can be
// trusted. The error, a *CorruptError, says what is wrong with the next event.
func CheckSession(ctx context.Context, store SessionReader, m Meta) (last int64, err error) {
	return check(ctx, store, m, func([]Row) error { return nil })
}

// check does what CheckSession does, and calls good with the rows that can be trusted.
func check(ctx context.Context, store SessionReader, m Meta, good func([]Row) error) (last int64, err error) {
	if m.Checksum() != m.Sum {
		return 0, &CorruptError{Session: m.ID, What: "the checksum of its configuration does not fit"}
	}
	links := Chain{Session: m.ID, Sum: m.Sum}
	for bytes := ReadBytes; ; {
		rows, err := store.Rows(ctx, m.ID, links.Last+1, bytes)
		if errors.As(err, new(*CorruptError)) && bytes > 1 {
			bytes = 1 // read single rows up to the damaged one
			continue
		}
		if err != nil {
			return links.Last, withSession(err, m.ID, links.Last+1)
		}
		if len(rows) == 0 {
			break
		}
		n := 0
		for n < len(rows) && err == nil {
			before := links
			if err = links.Next(&rows[n]); err == nil && !IsJournal(m.ID) {
				_, err = DecodeRow(&rows[n])
			}
			if err != nil {
				links = before
				break
			}
			n++
		}
		if bad := good(rows[:n]); bad != nil {
			return links.Last, bad
		}
		if err != nil {
			return links.Last, err
		}
	}
	snapshots, err := store.Snapshots(ctx, m.ID)
	if err != nil {
		return links.Last, err
	}
	for i := range snapshots {
		m.Last = max(m.Last, snapshots[i].Seq)
	}
	if links.Last < m.Last {
		return links.Last, &CorruptError{Session: m.ID, Seq: links.Last + 1, What: "the end of the log is missing"}
	}
	return links.Last, nil
}

// withSession adds the session to an error of damage in the store.
func withSession(err error, id string, seq int64) error {
	var bad *CorruptError
	if errors.As(err, &bad) && bad.Session == "" {
		return &CorruptError{Session: id, Seq: seq, What: bad.What}
	}
	return err
}

// Salvaged is the outcome for one session. Damage is nil where the whole session was
// kept.
type Salvaged struct {
	ID     string
	Last   int64 // the last event that was kept
	Was    int64 // the last event that is known to have existed
	Damage error
}

// SalvageSessions copies to an empty store the part of each session that can be trusted.
// A session whose configuration is damaged is left out. An error ends the copying early,
// except *CorruptError, which says that the list of sessions is damaged: those that from
// could list are copied.
func SalvageSessions(ctx context.Context, from SessionReader, to SessionStore) (all []Salvaged, err error) {
	metas, listed := from.Sessions(ctx)
	if listed != nil && !errors.As(listed, new(*CorruptError)) {
		return nil, listed
	}
	for _, m := range metas {
		s := Salvaged{ID: m.ID, Was: m.Last}
		if m.Checksum() == m.Sum {
			err = to.Create(ctx, m)
		}
		if err != nil {
			return all, err
		}
		s.Last, s.Damage = check(ctx, from, m, func(rows []Row) error {
			if len(rows) == 0 {
				return nil
			}
			return to.Append(ctx, rows)
		})
		if s.Damage != nil && !errors.As(s.Damage, new(*CorruptError)) {
			return all, s.Damage
		}
		err = errors.Join(salvageSnapshots(ctx, from, to, m, s.Last), salvageHistory(ctx, from, to, m))
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, listed
}

// salvageHistory copies the rows of the history that can be trusted.
func salvageHistory(ctx context.Context, from SessionReader, to SessionStore, m Meta) error {
	rows, err := from.History(ctx, m.ID, 0, math.MaxInt64)
	rows = slices.DeleteFunc(rows, func(r HistoryRow) bool { return r.Checksum(m.ID) != r.Sum })
	if err != nil || len(rows) == 0 || m.Checksum() != m.Sum {
		return nil // what a cluster did is of use without its history
	}
	return to.SaveHistory(ctx, m.ID, rows, 0)
}

// salvageSnapshots copies the snapshots at or before the last event that was kept. A
// snapshot that does not fit the log is found when it is used; without any snapshot, the
// log is read from its start.
func salvageSnapshots(ctx context.Context, from SessionReader, to SessionStore, m Meta, last int64) error {
	if m.Checksum() != m.Sum {
		return nil
	}
	snapshots, err := from.Snapshots(ctx, m.ID)
	if err != nil {
		return nil // the log alone holds the whole state
	}
	for _, s := range slices.Backward(snapshots) {
		if s.Seq <= last && s.Checksum() == s.Sum {
			if err := to.SaveSnapshot(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}
