package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hare-sched/hare/serve/store"
)

// chunkBits is the number of low bits of a key of solve_chunk that number the chunk; the
// high bits are the blob. Keys of solve_event use seqBits, as the keys of log do.
const chunkBits = 24

// sweepChunks is how many chunks are deleted in one transaction, for which other writers
// wait.
const sweepChunks = 16

var _ store.SolveStore = (*Store)(nil)

// Durable implements store.SolveStore.
func (*Store) Durable() bool { return true }

// Statements of the writer. Each is prepared once a transaction.
const (
	putSolve = "INSERT INTO solve (num, id, sum, data) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (num) DO UPDATE SET " +
		"sum = ?3, data = ?4"
	putRow       = "INSERT INTO solve_event (key, last, sum, data) VALUES (?, ?, ?, ?)"
	putChunk     = "INSERT INTO solve_chunk (key, data) VALUES (?, ?)"
	beginBlob    = "INSERT INTO solve_loose (blob, released) VALUES (?, 0)"
	holdBlob     = "DELETE FROM solve_loose WHERE blob = ?"
	releaseBlob  = "INSERT OR REPLACE INTO solve_loose (blob, released) VALUES (?, 1)"
	clearEvents  = "DELETE FROM solve_event WHERE key >= ?1 << 40 AND key < (?1 + 1) << 40"
	dropSolve    = "DELETE FROM solve WHERE num = ?"
	releaseBegun = "UPDATE solve_loose SET released = 1 WHERE released = 0"
)

// WriteSolves implements store.SolveStore.
func (s *Store) WriteSolves(ctx context.Context, b *store.SolveBatch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes := 0
	err := s.inTxLocked(ctx, func(tx *sql.Tx) error {
		prepared := map[string]*sql.Stmt{} // closed by the end of the transaction
		exec := func(text string, args ...any) (err error) {
			stmt := prepared[text]
			if stmt == nil {
				if stmt, err = tx.PrepareContext(ctx, text); err != nil {
					return err
				}
				prepared[text] = stmt
			}
			_, err = stmt.ExecContext(ctx, args...)
			return err
		}
		each := func(text string, numbers []int64) error {
			for _, n := range numbers {
				if err := exec(text, n); err != nil {
					return err
				}
			}
			return nil
		}
		if err := errors.Join(each(clearEvents, b.Clear), each(dropSolve, b.Drop), each(beginBlob, b.Begin),
			each(holdBlob, b.Hold), each(releaseBlob, b.Release)); err != nil {
			return err
		}
		for i := range b.Put {
			rec := &b.Put[i]
			if rec.Num < 1 || rec.Num > maxSessions {
				return fmt.Errorf("sqlite: solve %d is out of range", rec.Num)
			}
			if err := exec(putSolve, rec.Num, rec.ID, rec.Sum[:], rec.Data); err != nil {
				return err
			}
			bytes += len(rec.Data)
		}
		for i := range b.Events {
			row := &b.Events[i]
			if row.First < 1 || row.Last > maxSeq {
				return fmt.Errorf("sqlite: event %d is out of range", row.Last)
			}
			if err := exec(putRow, row.Num<<seqBits|row.First, row.Last, row.Sum[:], row.Data); err != nil {
				return err
			}
			bytes += len(row.Data)
		}
		for i := range b.Chunks {
			c := &b.Chunks[i]
			if c.Index >= 1<<chunkBits || c.Blob < 1 || c.Blob >= 1<<(63-chunkBits) {
				return fmt.Errorf("sqlite: chunk %d of blob %d is out of range", c.Index, c.Blob)
			}
			if err := exec(putChunk, c.Blob<<chunkBits|int64(c.Index), c.Data); err != nil {
				return err
			}
			bytes += len(c.Data)
		}
		return nil
	})
	if err == nil {
		s.countPages(bytes)
	}
	return err
}

// SweepSolves implements store.SolveStore.
func (s *Store) SweepSolves(ctx context.Context, all bool) (more bool, err error) {
	if all {
		if err := s.inTx(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, releaseBegun)
			return err
		}); err != nil {
			return false, err
		}
	}
	var blob int64
	err = s.read.QueryRowContext(ctx, "SELECT blob FROM solve_loose WHERE released = 1 LIMIT 1").Scan(&blob)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	} else if err != nil {
		return false, fault(err)
	}
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `DELETE FROM solve_chunk WHERE key IN
			(SELECT key FROM solve_chunk WHERE key >= ?1 << 24 AND key < (?1 + 1) << 24 LIMIT ?2)`, blob, sweepChunks)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == sweepChunks {
			return err
		}
		_, err = tx.ExecContext(ctx, holdBlob, blob)
		return err
	})
	return err == nil, err
}

// Solves implements store.SolveReader.
func (s *Store) Solves(ctx context.Context) ([]store.SolveRecord, error) { return s.solves(ctx, "num") }

// solves lists all records, or those before an error.
func (s *Store) solves(ctx context.Context, order string) ([]store.SolveRecord, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT num, id, sum, data FROM solve ORDER BY "+order)
	if err != nil {
		return nil, fault(err)
	}
	defer rows.Close()
	var all []store.SolveRecord
	for rows.Next() {
		var rec store.SolveRecord
		var sum []byte
		if err := rows.Scan(&rec.Num, &rec.ID, &sum, &rec.Data); err != nil {
			return all, fault(err)
		}
		copy(rec.Sum[:], sum)
		all = append(all, rec)
	}
	return all, fault(rows.Err())
}

// SolveEvents implements store.SolveReader.
func (s *Store) SolveEvents(ctx context.Context, num, seq int64, bytes int) ([]store.SolveRow, error) {
	low := num << seqBits
	at := low | min(max(seq, 0), maxSeq)
	rows, err := s.read.QueryContext(ctx, `SELECT key, last, sum, data FROM solve_event WHERE key < ?1 AND key >=
		coalesce((SELECT key FROM solve_event WHERE key <= ?2 AND key >= ?3 ORDER BY key DESC LIMIT 1), ?3)
		ORDER BY key`,
		low+1<<seqBits, at, low)
	if err != nil {
		return nil, fault(err)
	}
	defer rows.Close()
	var out []store.SolveRow
	for size := 0; (len(out) == 0 || size < bytes) && rows.Next(); {
		row := store.SolveRow{Num: num}
		var key int64
		var sum []byte
		if err := rows.Scan(&key, &row.Last, &sum, &row.Data); err != nil {
			return nil, fault(err)
		}
		row.First = key - low
		copy(row.Sum[:], sum)
		if len(out) == 0 && row.Last < seq && row.First <= seq {
			continue // this row ends before seq
		}
		out = append(out, row)
		size += len(row.Data)
	}
	return out, fault(rows.Err())
}

// Chunk implements store.SolveReader.
func (s *Store) Chunk(ctx context.Context, blob int64, index int) (data []byte, err error) {
	err = s.read.QueryRowContext(ctx, "SELECT data FROM solve_chunk WHERE key = ?",
		blob<<chunkBits|int64(index)).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return data, fault(err)
}

// LastBlob implements store.SolveReader.
func (s *Store) LastBlob(ctx context.Context) (last int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT max(coalesce((SELECT max(key) >> 24 FROM solve_chunk), 0),
		coalesce((SELECT max(blob) FROM solve_loose), 0))`).Scan(&last)
	return last, fault(err)
}
