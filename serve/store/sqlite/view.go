package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	msqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/hare-sched/hare/serve/store"
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

// OpenView opens a data directory, or a file that Backup wrote, and changes neither: both
// may be on a full disk or one that cannot be written. *store.CorruptError says that a file
// is damaged, that a commit which was acknowledged is missing, or that path is neither.
// OpenView makes no further checks.
func OpenView(ctx context.Context, path string) (*View, error) {
	db, path, err := openRead(ctx, path)
	if err != nil {
		return nil, err
	}
	return newView(ctx, db, path)
}

// openRead opens the database of a data directory, or a backup, with one connection.
func openRead(ctx context.Context, path string) (db *sql.DB, file string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, "", err
	}
	if info.IsDir() {
		if err := checkFiles(path); err != nil {
			return nil, "", err
		}
		path = filepath.Join(path, databaseFile)
	} else {
		header, size, err := readHeader(path)
		if err != nil {
			return nil, "", err
		}
		what := headerFault(header)
		if what == "" {
			what = sizeFault(header, size)
		}
		if !bytes.HasPrefix(header, []byte(dbMagic)) {
			return nil, "", &store.CorruptError{What: path + " is neither a data directory nor a backup of Hare: " + what}
		}
		if what != "" {
			return nil, "", &store.CorruptError{What: path + ": " + what}
		}
	}
	// SQLite keeps the index of the write-ahead log in a file, which cannot be made on a disk
	// that is full or cannot be written. Without that file SQLite reads without locks, which
	// is safe where no server can run.
	modes := []string{"mode=ro", "mode=ro&vfs=unix-none&_pragma=locking_mode(EXCLUSIVE)"}
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
		modes[1] = "mode=ro&immutable=1"
	}
	for i, mode := range modes {
		if i > 0 && inUse(filepath.Dir(path)) {
			break
		}
		if db, err = openMode(ctx, path, mode); !errors.Is(err, store.ErrStorage) {
			return db, path, err
		}
	}
	return nil, "", fmt.Errorf("%s: %w", path, err)
}

// openMode opens a database with these parameters of SQLite.
func openMode(ctx context.Context, path, mode string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn(path, "busy_timeout(5000)")+"&"+mode)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	version, err := schemaVersion(ctx, db)
	var e *msqlite.Error
	switch {
	case errors.As(err, &e) && e.Code() == sqlite3.SQLITE_ERROR: // there is no such table
		err = &store.CorruptError{What: path + " is neither a data directory nor a backup of Hare: " + err.Error()}
	case err != nil:
		if err = fault(err); errors.As(err, new(*store.CorruptError)) {
			err = &store.CorruptError{What: path + ": " + e.Error()}
		}
	default:
		err = checkVersion(version)
	}
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

// newView begins a view, which owns db.
func newView(ctx context.Context, db *sql.DB, path string) (*View, error) {
	v := &View{path: path}
	v.s.read = db
	// An open transaction sees the database at one moment.
	_, err := db.ExecContext(ctx, "BEGIN")
	if err == nil {
		// Whoever lists the sessions meets the damage again.
		if err = fault(v.s.loadNumbers(ctx, "num")); errors.As(err, new(*store.CorruptError)) {
			_ = v.s.loadNumbers(ctx, "num DESC")
			err = nil
		}
	}
	if err != nil {
		_ = db.Close()
		return nil, fault(err)
	}
	return v, nil
}

// Structure runs SQLite's own check of all pages. A damaged page gives
// *store.CorruptError, also where the page is not in use.
func (v *View) Structure(ctx context.Context) error {
	if err := check(ctx, v.s.read); err != nil {
		return fault(err)
	}
	return orphans(ctx, v.s.read)
}

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

// bothWays lists the rows of a table from its beginning and, where a page is damaged, also
// from its end: the rows on both sides of the damage, with its error.
func bothWays[T any, K comparable](list func(order string) ([]T, error), key func(T) K) ([]T, error) {
	all, err := list("num")
	if !errors.As(err, new(*store.CorruptError)) {
		return all, err
	}
	seen := map[K]bool{}
	for _, x := range all {
		seen[key(x)] = true
	}
	rest, _ := list("num DESC")
	for _, x := range slices.Backward(rest) {
		if !seen[key(x)] {
			all = append(all, x)
		}
	}
	return all, err
}

// Sessions implements store.SessionReader. Where the ends of logs cannot be read,
// Meta.Last is 0. Where the list is damaged, it returns *store.CorruptError with the rest.
func (v *View) Sessions(ctx context.Context) ([]store.Meta, error) {
	metas, err := v.s.Sessions(ctx)
	if errors.As(err, new(*store.CorruptError)) {
		return bothWays(func(order string) ([]store.Meta, error) { return v.s.sessions(ctx, "0", order) },
			func(m store.Meta) string { return m.ID })
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

// History implements store.SessionReader.
func (v *View) History(ctx context.Context, id string, from, to int64) ([]store.HistoryRow, error) {
	return v.s.History(ctx, id, from, to)
}

// Solves implements store.SolveReader. Where the list is damaged, it returns
// *store.CorruptError with the rest.
func (v *View) Solves(ctx context.Context) ([]store.SolveRecord, error) {
	return bothWays(func(order string) ([]store.SolveRecord, error) { return v.s.solves(ctx, order) },
		func(rec store.SolveRecord) int64 { return rec.Num })
}

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
