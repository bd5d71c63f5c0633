package service

import (
	"context"
	"errors"
)

// Check reads the whole log of a session, and says with which event what can
// be trusted ends. The error, *CorruptError, says why not later.
func Check(ctx context.Context, store Store, m Meta) (last int64, err error) {
	if m.sum() != m.Sum {
		return 0, &CorruptError{Session: m.ID, What: "the checksum of its configuration does not fit"}
	}
	links := chain{session: m.ID, sum: m.Sum}
	for {
		rows, err := store.Rows(ctx, m.ID, links.last+1, readBytes)
		if err != nil {
			return links.last, err
		}
		if len(rows) == 0 {
			break
		}
		for i := range rows {
			before := links.last
			if err := links.next(&rows[i]); err != nil {
				return before, err
			}
			if _, err := decodeRow(&rows[i]); err != nil {
				return before, err
			}
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

// Repair cuts the log of a damaged session behind the last event that can be
// trusted, which it returns; the session goes on from there. What lay behind is
// lost, acknowledged or not: only an operator can want that. A log that is
// whole is left alone.
func (s *Sessions) Repair(ctx context.Context, id string) (last int64, err error) {
	e, err := s.Session(ctx, id)
	if err != nil {
		return 0, err
	}
	if e.broken != nil {
		return 0, e.broken // without its configuration nothing can be trusted
	}
	// Whoever uses the session now is sent away.
	e.stop(ErrDraining)
	m := e.meta
	m.Last = e.last.Load()
	last, err = Check(ctx, s.cfg.Store, m)
	if errors.As(err, new(*CorruptError)) {
		err = s.cfg.Store.Cut(ctx, id, last)
	}
	if err != nil {
		last = m.Last
	}
	m.Last = last
	again := s.session(m)
	again.cfg = e.cfg
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[id] == e && !s.closed {
		s.sessions[id] = again
	}
	return last, err
}
