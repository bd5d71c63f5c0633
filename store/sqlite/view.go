package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"

	"github.com/hare-sched/hare/store"
)

// View is a read-only view of a data directory or a backup at one moment. It takes no
// lock: a server may go on meanwhile.
type View struct {
	s    Store // only the reading half is used
	path string
}

var (
	_ store.SessionReader = (*View)(nil)
	_ store.SolveReader   = (*View)(nil)
)

// OpenView opens a data directory, or a file that Backup wrote. Any other file gives
// *store.CorruptError. OpenView makes no further checks.
func OpenView(ctx context.Context, path string) (_ *View, err error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, databaseFile)
		_, err = os.Stat(path)
	}
	if err != nil {
		return nil, err
	}
	v := &View{path: path}
	if v.s.read, err = sql.Open("sqlite", dsn(path, "busy_timeout(5000)", "query_only(1)")); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = v.s.read.Close()
		}
	}()
	// One connection with one open transaction sees the database at one moment.
	v.s.read.SetMaxOpenConns(1)
	if _, err := v.s.read.ExecContext(ctx, "BEGIN"); err != nil {
		return nil, fault(err)
	}
	version, err := schemaVersion(ctx, v.s.read)
	if err != nil {
		return nil, &store.CorruptError{What: path + " is no data directory and no backup of Hare: " + err.Error()}
	}
	if err := checkVersion(version); err != nil {
		return nil, err
	}
	return v, fault(v.s.loadNumbers(ctx))
}

// Structure runs SQLite's own check of all pages. A damaged page gives
// *store.CorruptError, also where the page is not in use.
func (v *View) Structure(ctx context.Context) error { return fault(check(ctx, v.s.read)) }

// Check reads every row of every session and every solve. damage joins a
// *store.CorruptError for each damaged session and solve.
func (v *View) Check(ctx context.Context) (damage, err error) {
	metas, err := v.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	var bad []error
	for _, m := range metas {
		if _, err := store.CheckSession(ctx, v, m); errors.As(err, new(*store.CorruptError)) {
			bad = append(bad, err)
		} else if err != nil {
			return nil, err
		}
	}
	solves, err := v.Solves(ctx)
	if err != nil {
		return nil, err
	}
	for i := range solves {
		if err := store.CheckSolve(ctx, v, &solves[i]); errors.As(err, new(*store.CorruptError)) {
			bad = append(bad, err)
		} else if err != nil {
			return nil, err
		}
	}
	return errors.Join(bad...), nil
}

// Bytes returns the size of the database with its write-ahead log.
func (v *View) Bytes() (n int64) {
	for _, path := range []string{v.path, v.path + "-wal"} {
		if info, err := os.Stat(path); err == nil {
			n += info.Size()
		}
	}
	return n
}

// Sessions implements store.SessionReader. Where the ends of logs cannot be read,
// Meta.Last is 0.
func (v *View) Sessions(ctx context.Context) ([]store.Meta, error) {
	metas, err := v.s.Sessions(ctx)
	if errors.As(err, new(*store.CorruptError)) {
		return v.s.sessions(ctx, "0")
	}
	return metas, err
}

// Rows implements store.SessionReader.
func (v *View) Rows(ctx context.Context, id string, seq int64, bytes int) ([]store.Row, error) {
	return v.s.Rows(ctx, id, seq, bytes)
}

// Snapshots implements store.SessionReader.
func (v *View) Snapshots(ctx context.Context, id string) ([]store.Snapshot, error) {
	return v.s.Snapshots(ctx, id)
}

// Solves implements store.SolveReader.
func (v *View) Solves(ctx context.Context) ([]store.SolveRecord, error) { return v.s.Solves(ctx) }

// SolveEvents implements store.SolveReader.
func (v *View) SolveEvents(ctx context.Context, num, seq int64, bytes int) ([]store.SolveRow, error) {
	return v.s.SolveEvents(ctx, num, seq, bytes)
}

// Chunk implements store.SolveReader.
func (v *View) Chunk(ctx context.Context, blob int64, index int) ([]byte, error) {
	return v.s.Chunk(ctx, blob, index)
}

// LastBlob implements store.SolveReader.
func (v *View) LastBlob(ctx context.Context) (int64, error) { return v.s.LastBlob(ctx) }

// Close ends the view.
func (v *View) Close() error { return v.s.read.Close() }
