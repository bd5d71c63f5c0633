package sqlite

import (
	"context"
	"database/sql"

	"github.com/hare-sched/hare/serve/store"
)

// SaveHistory implements store.SessionStore.
func (s *Store) SaveHistory(ctx context.Context, id string, rows []store.HistoryRow, before int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	num, ok := s.num(id)
	if !ok {
		return store.ErrNoSession
	}
	low := num << seqBits
	bytes := 0
	err := s.inTxLocked(ctx, func(tx *sql.Tx) error {
		for i := range rows {
			r := &rows[i]
			if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO history (key, sum, data) VALUES (?, ?, ?)",
				low|r.Minute, r.Sum[:], r.Data); err != nil {
				return err
			}
			bytes += len(r.Data)
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM history WHERE key >= ? AND key < ?", low, low|clampMinute(before))
		return err
	})
	if err == nil {
		s.countPages(bytes)
	}
	return err
}

// History implements store.SessionStore.
func (s *Store) History(ctx context.Context, id string, from, to int64) ([]store.HistoryRow, error) {
	num, ok := s.num(id)
	if !ok {
		return nil, nil
	}
	low := num << seqBits
	rows, err := s.read.QueryContext(ctx, "SELECT key, sum, data FROM history WHERE key >= ? AND key < ? ORDER BY key",
		low|clampMinute(from), low|clampMinute(to))
	if err != nil {
		return nil, fault(err)
	}
	defer rows.Close()
	var out []store.HistoryRow
	for rows.Next() {
		var r store.HistoryRow
		var key int64
		var sum []byte
		if err := rows.Scan(&key, &sum, &r.Data); err != nil {
			return nil, fault(err)
		}
		r.Minute = key - low
		copy(r.Sum[:], sum)
		out = append(out, r)
	}
	return out, fault(rows.Err())
}

// clampMinute keeps a minute within the bits that a key has for it.
func clampMinute(n int64) int64 { return min(max(n, 0), maxSeq) }
