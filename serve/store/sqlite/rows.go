package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hare-sched/hare/serve/store"
)

// num returns the number of a session, or false where there is no such session.
func (s *Store) num(id string) (int64, bool) {
	n, ok := s.nums.Load(id)
	if !ok {
		return 0, false
	}
	return n.(int64), true
}

// Create implements store.SessionStore.
func (s *Store) Create(ctx context.Context, m store.Meta) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var num int64
	err := s.inTxLocked(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, "INSERT INTO session (id, created_us, config, sum) VALUES (?, ?, ?, ?)",
			m.ID, m.Created.UnixMicro(), m.Config, m.Sum[:])
		if err != nil {
			return err
		}
		if num, err = res.LastInsertId(); err == nil && num > maxSessions {
			return errors.New("sqlite: all session numbers are used")
		}
		return err
	})
	if err == nil {
		s.nums.Store(m.ID, num)
		s.countPages(len(m.Config))
	}
	return err
}

// Sessions implements store.SessionStore.
func (s *Store) Sessions(ctx context.Context) ([]store.Meta, error) {
	return s.sessions(ctx, "coalesce((SELECT last FROM log WHERE key >= num << 40 AND key < (num + 1) << 40 ORDER "+
		"BY key DESC LIMIT 1), 0)", "created_us, id")
}

// sessions lists all sessions, or those before an error; last is the SQL expression for the
// last event.
func (s *Store) sessions(ctx context.Context, last, order string) ([]store.Meta, error) {
	rows, err := s.read.QueryContext(ctx,
		"SELECT id, created_us, config, sum, "+last+" FROM session ORDER BY "+order)
	if err != nil {
		return nil, fault(err)
	}
	defer rows.Close()
	var metas []store.Meta
	for rows.Next() {
		var m store.Meta
		var us int64
		var sum []byte
		if err := rows.Scan(&m.ID, &us, &m.Config, &sum, &m.Last); err != nil {
			return metas, fault(err)
		}
		m.Created = micros(us)
		copy(m.Sum[:], sum)
		metas = append(metas, m)
	}
	return metas, fault(rows.Err())
}

// Delete implements store.SessionStore. The session is deleted at once. Its rows are
// deleted in small transactions, which hold up other writers only for a moment.
func (s *Store) Delete(ctx context.Context, id string) error {
	num, ok := s.num(id)
	if !ok {
		return store.ErrNoSession
	}
	err := s.inTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM session WHERE num = ?", num); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO deleted VALUES (?)", num)
		return err
	})
	if err != nil {
		return err
	}
	s.nums.Delete(id)
	// The next deletion removes what is left after a failure.
	_ = s.sweep(ctx)
	return nil
}

// sweep removes the rows of deleted sessions.
func (s *Store) sweep(ctx context.Context) error {
	for {
		var num int64
		err := s.read.QueryRowContext(ctx,
			"SELECT num FROM deleted WHERE num NOT IN (SELECT num FROM session) LIMIT 1").Scan(&num)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		} else if err != nil {
			return err
		}
		err = s.inTx(ctx, func(tx *sql.Tx) error {
			res, err := tx.ExecContext(ctx, `DELETE FROM log WHERE key IN
				(SELECT key FROM log WHERE key >= ?1 << 40 AND key < (?1 + 1) << 40 LIMIT 64)`, num)
			if err != nil {
				return err
			}
			if n, err := res.RowsAffected(); err != nil || n > 0 {
				return err
			}
			res, err = tx.ExecContext(ctx, `DELETE FROM history WHERE key IN
				(SELECT key FROM history WHERE key >= ?1 << 40 AND key < (?1 + 1) << 40 LIMIT 10000)`, num)
			if err != nil {
				return err
			}
			if n, err := res.RowsAffected(); err != nil || n > 0 {
				return err
			}
			if _, err = tx.ExecContext(ctx, "DELETE FROM snapshot WHERE session = ?", num); err == nil {
				_, err = tx.ExecContext(ctx, "DELETE FROM deleted WHERE num = ?", num)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
}

// Append implements store.SessionStore.
func (s *Store) Append(ctx context.Context, rows []store.Row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes := 0
	err := s.inTxLocked(ctx, func(tx *sql.Tx) error {
		insert, err := tx.PrepareContext(ctx, `INSERT INTO log (key, last, prev, sum, data)
			SELECT ?1, ?2, ?3, ?4, ?5 WHERE ?6 =
			coalesce((SELECT last FROM log WHERE key >= ?7 AND key < ?8 ORDER BY key DESC LIMIT 1), 0) + 1`)
		if err != nil {
			return err
		}
		defer insert.Close()
		for i := range rows {
			r := &rows[i]
			num, ok := s.num(r.Session)
			if !ok {
				return store.ErrNoSession
			}
			if r.First < 1 || r.Last > maxSeq {
				return fmt.Errorf("sqlite: event %d is out of range", r.Last)
			}
			if r.Last < r.First {
				return store.ErrFence
			}
			low := num << seqBits
			done, err := insert.ExecContext(ctx, low|r.First, r.Last, r.Prev[:], r.Sum[:], r.Data, r.First, low,
				low+1<<seqBits)
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); err != nil {
				return err
			} else if n == 0 {
				return store.ErrFence // the row does not begin where the log ends
			}
			bytes += len(r.Data)
		}
		return nil
	})
	if err == nil {
		s.countPages(bytes)
	}
	return err
}

// Rows implements store.SessionStore.
func (s *Store) Rows(ctx context.Context, id string, seq int64, bytes int) ([]store.Row, error) {
	num, ok := s.num(id)
	if !ok {
		return nil, nil
	}
	low := num << seqBits
	at := low | min(max(seq, 0), maxSeq)
	rows, err := s.read.QueryContext(ctx, `SELECT key, last, prev, sum, data FROM log WHERE key < ?1 AND key >=
		coalesce((SELECT key FROM log WHERE key <= ?2 AND key >= ?3 ORDER BY key DESC LIMIT 1), ?3) ORDER BY key`,
		low+1<<seqBits, at, low)
	if err != nil {
		return nil, fault(err)
	}
	defer rows.Close()
	var out []store.Row
	for size := 0; (len(out) == 0 || size < bytes) && rows.Next(); {
		r := store.Row{Session: id}
		var key int64
		var prev, sum []byte
		if err := rows.Scan(&key, &r.Last, &prev, &sum, &r.Data); err != nil {
			return nil, fault(err)
		}
		r.First = key - low
		copy(r.Prev[:], prev)
		copy(r.Sum[:], sum)
		if len(out) == 0 && r.Last < seq && r.First <= seq {
			continue // this row ends before seq
		}
		out = append(out, r)
		size += len(r.Data)
	}
	return out, fault(rows.Err())
}

// SaveSnapshot implements store.SessionStore.
func (s *Store) SaveSnapshot(ctx context.Context, snap store.Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	num, ok := s.num(snap.Session)
	if !ok {
		return store.ErrNoSession
	}
	err := s.inTxLocked(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			"INSERT OR REPLACE INTO snapshot (session, seq, at_us, jobs, chain, sum, state) VALUES (?, ?, ?, ?, ?, "+
				"?, ?)",
			num, snap.Seq, snap.AtUs, snap.Jobs, snap.Chain[:], snap.Sum[:], snap.State)
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM snapshot WHERE session = ?1 AND seq > 0 AND seq NOT IN
				(SELECT seq FROM snapshot WHERE session = ?1 ORDER BY seq DESC LIMIT 2)`, num)
		}
		return err
	})
	if err == nil {
		s.countPages(len(snap.State))
	}
	return err
}

// Snapshots implements store.SessionStore.
func (s *Store) Snapshots(ctx context.Context, id string) ([]store.Snapshot, error) {
	num, ok := s.num(id)
	if !ok {
		return nil, nil
	}
	rows, err := s.read.QueryContext(ctx,
		"SELECT seq, at_us, jobs, chain, sum, state FROM snapshot WHERE session = ? ORDER BY seq DESC", num)
	if err != nil {
		return nil, fault(err)
	}
	defer rows.Close()
	var out []store.Snapshot
	for rows.Next() {
		snap := store.Snapshot{Session: id}
		var chain, sum []byte
		if err := rows.Scan(&snap.Seq, &snap.AtUs, &snap.Jobs, &chain, &sum, &snap.State); err != nil {
			return nil, fault(err)
		}
		copy(snap.Chain[:], chain)
		copy(snap.Sum[:], sum)
		out = append(out, snap)
	}
	return out, fault(rows.Err())
}
