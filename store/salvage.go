package store

import (
	"context"
	"errors"
	"slices"
)

// SessionReader is the reading half of a Store.
type SessionReader interface {
	Sessions(ctx context.Context) ([]Meta, error)
	Rows(ctx context.Context, id string, seq int64, bytes int) ([]Row, error)
	Snapshots(ctx context.Context, id string) ([]Snapshot, error)
}

// CheckSession reads the whole log of a session, and says with which event what can
// be trusted ends. The error, *CorruptError, says why not later.
func CheckSession(ctx context.Context, store SessionReader, m Meta) (last int64, err error) {
	return check(ctx, store, m, func([]Row) error { return nil })
}

// check is CheckSession, and hands over what can be trusted.
func check(ctx context.Context, store SessionReader, m Meta, good func([]Row) error) (last int64, err error) {
	if m.Checksum() != m.Sum {
		return 0, &CorruptError{Session: m.ID, What: "the checksum of its configuration does not fit"}
	}
	links := Chain{Session: m.ID, Sum: m.Sum}
	for bytes := ReadBytes; ; {
		rows, err := store.Rows(ctx, m.ID, links.Last+1, bytes)
		if errors.As(err, new(*CorruptError)) && bytes > 1 {
			bytes = 1 // up to the very row that cannot be read
			continue
		}
		if err != nil {
			return links.Last, named(err, m.ID, links.Last+1)
		}
		if len(rows) == 0 {
			break
		}
		n := 0
		for n < len(rows) && err == nil {
			before := links
			if err = links.Next(&rows[n]); err == nil {
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

// named says of damage in the store whose log it was met in.
func named(err error, id string, seq int64) error {
	var bad *CorruptError
	if errors.As(err, &bad) && bad.Session == "" {
		return &CorruptError{Session: id, Seq: seq, What: bad.What}
	}
	return err
}

// Salvaged is what became of a session. Damage is nil where all of it was kept.
type Salvaged struct {
	ID     string
	Last   int64 // the last event that was kept
	Was    int64 // the last event that is known of
	Damage error
}

// SalvageSessions copies to an empty store what can be trusted of each session, and
// leaves out those whose configuration cannot be. An error ends it before all
// are copied.
func SalvageSessions(ctx context.Context, from SessionReader, to SessionStore) (all []Salvaged, err error) {
	metas, err := from.Sessions(ctx)
	if err != nil {
		return nil, err
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
		if err := salvageSnapshots(ctx, from, to, m, s.Last); err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

// salvageSnapshots copies those of the events that were kept. Whether they fit
// the log is found when they are used; without any, it is read from its start.
func salvageSnapshots(ctx context.Context, from SessionReader, to SessionStore, m Meta, last int64) error {
	if m.Checksum() != m.Sum {
		return nil
	}
	snapshots, err := from.Snapshots(ctx, m.ID)
	if err != nil {
		return nil // they are a help, not the truth
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
