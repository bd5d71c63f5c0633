// Package sqlite keeps solves and the logs of sessions in one SQLite database in a data
// directory. The database has a write-ahead log, one writer, and one fsync a commit.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	msqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/hare-sched/hare/store"
)

// Names of files in the data directory. SQLite adds files with the suffixes -wal and -shm
// to the first.
const (
	databaseFile = "hare.db"
	lockFile     = "lock"
	cleanFile    = "clean" // exists after a clean end, when all pages were sound, until the next start
)

// seqBits is the number of low bits of a key of log that number the event; the high bits
// are the session. With one key in one tree a commit writes one page, where an index
// beside the table would make it two.
const (
	seqBits     = 40
	maxSeq      = 1<<seqBits - 1
	maxSessions = 1<<(63-seqBits) - 1
)

// The write-ahead log is copied into the database in the background after walPages pages.
// After walMost pages, writing waits for the copy, so that the log can begin anew.
const (
	walPages = 1000
	walMost  = 16_000
)

// Store implements store.SessionStore and store.SolveStore.
type Store struct {
	dir  string
	lock *os.File
	read *sql.DB
	nums sync.Map // id to session.num

	mu      sync.Mutex // one writer at a time
	write   *sql.DB    // a pool of one connection
	pages   int        // approximate number of pages written since the last checkpoint
	maxSize int        // greatest size of the database in pages; for tests of a full disk

	checked chan struct{} // closed when all pages were checked
	damage  error         // the outcome of that check; set before checked is closed

	signal chan struct{} // asks for a checkpoint of the write-ahead log
	ended  chan struct{}
	stop   context.CancelFunc // ends the sweep that began with Open
	swept  chan struct{}
}

var _ store.SessionStore = (*Store)(nil)

// Open opens or creates the database in dir, for this process alone. Damage gives
// *store.CorruptError. After a clean end, Open does not wait for the check of all pages,
// which takes a minute where a few GB come from the disk. Damage waits for that check;
// once the check has found damage, nothing more is written.
func Open(ctx context.Context, dir string) (_ *Store, err error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	s := &Store{dir: dir, signal: make(chan struct{}, 1), ended: make(chan struct{}), swept: make(chan struct{}),
		checked: make(chan struct{})}
	if s.lock, err = lockDir(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.closeFiles(false)
		}
	}()
	if err := s.open(ctx); err != nil {
		return nil, fault(err)
	}
	go s.checkpoints()
	// A server that was killed may have left rows of deleted sessions.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go func() {
		defer close(s.swept)
		if s.inspect(background) == nil {
			_ = s.sweep(background) // after a failure, the next deletion sweeps again
		}
	}()
	return s, nil
}

// inspect checks all pages, where Open has not.
func (s *Store) inspect(ctx context.Context) error {
	if done, _ := s.inspected(); done {
		return nil
	}
	err := fault(check(ctx, s.read))
	if ctx.Err() == nil {
		s.damage = err
		close(s.checked)
	}
	return err
}

// Damage waits until all pages were checked and returns the outcome: nil,
// *store.CorruptError, or the error that kept the check from its end. It returns the
// error of ctx where ctx ends first.
func (s *Store) Damage(ctx context.Context) error {
	select {
	case <-s.checked:
		return s.damage
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inspected says whether all pages were checked, and with which outcome.
func (s *Store) inspected() (bool, error) {
	select {
	case <-s.checked:
		return true, s.damage
	default:
		return false, nil
	}
}

// makeDir makes a directory and syncs its parent, so that the name survives a crash.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncDir(filepath.Dir(filepath.Clean(dir)))
}

func (s *Store) open(ctx context.Context) (err error) {
	if s.write, err = s.connect(); err != nil {
		return err
	}
	// The mark of a clean end is removed first, and durably by the sync below: a mark is
	// only valid for the last end.
	if err := os.Remove(filepath.Join(s.dir, cleanFile)); errors.Is(err, fs.ErrNotExist) {
		if err := check(ctx, s.write); err != nil {
			return err
		}
		close(s.checked)
	} else if err != nil {
		return err
	}
	if err := syncDir(s.dir); err != nil {
		return err
	}
	if err := migrate(ctx, s.write); err != nil {
		return err
	}
	// Rows that a killed process wrote but did not sync are in the write-ahead log. The
	// checkpoint makes them durable before anyone sees them.
	if _, err := s.write.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return err
	}
	if err := syncDir(s.dir); err != nil {
		return err
	}
	s.read, err = sql.Open("sqlite", dsn(filepath.Join(s.dir, databaseFile), "busy_timeout(5000)", "query_only(1)"))
	if err != nil {
		return err
	}
	s.read.SetMaxOpenConns(8)
	s.read.SetMaxIdleConns(8)
	return s.loadNumbers(ctx)
}

// loadNumbers reads the numbers of the sessions.
func (s *Store) loadNumbers(ctx context.Context) error {
	rows, err := s.read.QueryContext(ctx, "SELECT num, id FROM session")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var num int64
		var id string
		if err := rows.Scan(&num, &id); err != nil {
			return err
		}
		s.nums.Store(id, num)
	}
	return rows.Err()
}

// connect makes the connection of the writer.
func (s *Store) connect() (*sql.DB, error) {
	pragmas := []string{"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(0)"}
	if s.maxSize > 0 {
		pragmas = append(pragmas, fmt.Sprintf("max_page_count(%d)", s.maxSize))
	}
	db, err := sql.Open("sqlite", dsn(filepath.Join(s.dir, databaseFile), pragmas...)+"&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// dsn returns the data source name of a file, whatever characters its path has.
func dsn(path string, pragmas ...string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	q := url.Values{}
	for _, p := range pragmas {
		q.Add("_pragma", p)
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: q.Encode()}).String()
}

// check runs SQLite's own check of all pages.
func check(ctx context.Context, db *sql.DB) error {
	var what string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&what); err != nil {
		return err
	}
	if what != "ok" {
		return &store.CorruptError{What: what}
	}
	return nil
}

// inTx runs f in one durable transaction.
func (s *Store) inTx(ctx context.Context, f func(tx *sql.Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inTxLocked(ctx, f)
}

func (s *Store) inTxLocked(ctx context.Context, f func(tx *sql.Tx) error) error {
	if _, err := s.inspected(); errors.As(err, new(*store.CorruptError)) {
		return err // writing would spread the damage
	}
	if s.write == nil {
		db, err := s.connect()
		if err != nil {
			return fault(err)
		}
		s.write = db
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err == nil {
		if err = f(tx); err == nil {
			err = tx.Commit()
		} else {
			_ = tx.Rollback()
		}
	}
	if err != nil && !errors.Is(err, store.ErrNoSession) {
		// The connection may be in any state after a failure: it is replaced.
		_ = s.write.Close()
		s.write = nil
	}
	return fault(err)
}

// fault maps an error of SQLite to an error of package store.
func fault(err error) error {
	var e *msqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return &store.CorruptError{What: err.Error()}
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM:
		return fmt.Errorf("%w: %w", store.ErrStorage, err)
	}
	return err
}

// checkpoints copies the write-ahead log into the database while commits go on. Writers
// only wait, for a moment, where the copy never catches up.
func (s *Store) checkpoints() {
	defer close(s.ended)
	db, err := sql.Open("sqlite", dsn(filepath.Join(s.dir, databaseFile), "busy_timeout(1000)", "synchronous(FULL)"))
	if err != nil {
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for range s.signal {
		// A commit meets an error of a checkpoint again, and reports it. The check of all
		// pages reads a snapshot, during which the log cannot begin anew.
		var busy, log, done int
		inspected, _ := s.inspected()
		if db.QueryRow("PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &log, &done) == nil && log > walMost &&
			inspected {
			s.mu.Lock()
			_, _ = db.Exec("PRAGMA wal_checkpoint(RESTART)")
			s.mu.Unlock()
		}
	}
}

// countPages counts what is written to the write-ahead log. The lock must be held.
func (s *Store) countPages(bytes int) {
	s.pages += 1 + bytes/4096
	if s.pages >= walPages {
		s.pages = 0
		select {
		case s.signal <- struct{}{}:
		default:
		}
	}
}

// Close implements store.SessionStore.
func (s *Store) Close() error {
	s.stop()
	<-s.swept
	close(s.signal)
	<-s.ended
	done, damage := s.inspected()
	return s.closeFiles(done && damage == nil)
}

// closeFiles closes the connections and the lock, and marks a clean end.
func (s *Store) closeFiles(clean bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.read != nil {
		errs = append(errs, s.read.Close())
	}
	if s.write != nil {
		errs = append(errs, s.write.Close())
		s.write = nil
	}
	if clean && errors.Join(errs...) == nil {
		// A lost mark only makes the next start take longer.
		_ = os.WriteFile(filepath.Join(s.dir, cleanFile), nil, 0o600)
	}
	errs = append(errs, s.lock.Close())
	return fault(errors.Join(errs...))
}

func micros(us int64) time.Time { return time.UnixMicro(us).UTC() }
