package service

import (
	"context"
	"errors"
	"slices"
)

// Reader is the reading half of a Store.
type Reader interface {
	Sessions(ctx context.Context) ([]Meta, error)
	Rows(ctx context.Context, id string, seq int64, bytes int) ([]Row, error)
	Snapshots(ctx context.Context, id string) ([]Snapshot, error)
}

// Check reads the whole log of a session, and says with which event what can
// be trusted ends. The error, *CorruptError, says why not later.
func Check(ctx context.Context, store Reader, m Meta) (last int64, err error) {
	return check(ctx, store, m, func([]Row) error { return nil })
}

// check is Check, and hands over what can be trusted.
func check(ctx context.Context, store Reader, m Meta, good func([]Row) error) (last int64, err error) {
	if m.sum() != m.Sum {
		return 0, &CorruptError{Session: m.ID, What: "the checksum of its configuration does not fit"}
	}
	links := chain{session: m.ID, sum: m.Sum}
	for bytes := readBytes; ; {
		rows, err := store.Rows(ctx, m.ID, links.last+1, bytes)
		if errors.As(err, new(*CorruptError)) && bytes > 1 {
			bytes = 1 // up to the very row that cannot be read
			continue
		}
		if err != nil {
			return links.last, named(err, m.ID, links.last+1)
		}
		if len(rows) == 0 {
			break
		}
		n := 0
		for n < len(rows) && err == nil {
			before := links
			if err = links.next(&rows[n]); err == nil {
				_, err = decodeRow(&rows[n])
			}
			if err != nil {
				links = before
				break
			}
			n++
		}
		if bad := good(rows[:n]); bad != nil {
			return links.last, bad
		}
		if err != nil {
			return links.last, err
		}
	}
	snapshots, err := store.Snapshots(ctx, m.ID)
	if err != nil {
		return links.last, err
	}
	for i := range snapshots {
		m.Last = max(m.Last, snapshots[i].Seq)
	}
	if links.last < m.Last {
		return links.last, &CorruptError{Session: m.ID, Seq: links.last + 1, What: "the end of the log is missing"}
	}
	return links.last, nil
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

// Salvage copies to an empty store what can be trusted of each session, and
// leaves out those whose configuration cannot be. An error ends it before all
// are copied.
func Salvage(ctx context.Context, from Reader, to Store) (all []Salvaged, err error) {
	metas, err := from.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range metas {
		s := Salvaged{ID: m.ID, Was: m.Last}
		if m.sum() == m.Sum {
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
func salvageSnapshots(ctx context.Context, from Reader, to Store, m Meta, last int64) error {
	if m.sum() != m.Sum {
		return nil
	}
	snapshots, err := from.Snapshots(ctx, m.ID)
	if err != nil {
		return nil // they are a help, not the truth
	}
	for _, s := range slices.Backward(snapshots) {
		if s.Seq <= last && s.sum() == s.Sum {
			if err := to.SaveSnapshot(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}
