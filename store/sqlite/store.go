// Package sqlite keeps solves and the logs of sessions in one SQLite database in
// a data directory: write-ahead log, an fsync a commit, one writer.
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

// Names of files in the data directory. SQLite adds -wal and -shm to the first.
const (
	databaseFile = "hare.db"
	lockFile     = "lock"
	cleanFile    = "clean" // is there from a clean end, after which all pages were sound, to the next start
)

// seqBits are the bits of a key of the log that number the event; the session
// stands above them. One key in one tree makes one page written a commit,
// where an index beside the table would make two.
const (
	seqBits     = 40
	maxSeq      = 1<<seqBits - 1
	maxSessions = 1<<(63-seqBits) - 1
)

// walPages is when the log is copied into the database in the background, and
// walMost when writing waits for that, which lets the log begin anew.
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
	write   *sql.DB    // of one connection
	pages   int        // about how many were written since the last checkpoint
	maxSize int        // pages of the database; for tests of a full disk

	checked chan struct{} // closed when all pages were checked
	damage  error         // what that found; set before checked is closed

	signal chan struct{} // asks for a checkpoint
	ended  chan struct{}
	stop   context.CancelFunc // ends the sweeping that began with Open
	swept  chan struct{}
}

var _ store.SessionStore = (*Store)(nil)

// Open opens or creates the database in dir, for this process alone. What is
// damaged is *store.CorruptError. After a clean end it does not wait for the
// check of all pages, which takes a minute where a few GB come from the disk:
// Damage does, and once it has found something nothing more is written.
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
	// What a server that was killed had not removed yet.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go func() {
		defer close(s.swept)
		if s.inspect(background) == nil {
			_ = s.sweep(background) // again with the next deletion
		}
	}()
	return s, nil
}

// inspect checks all pages, if Open has not.
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

// Damage waits until all pages were checked and says what was found, as
// *store.CorruptError, or what kept it from that; or it returns the error of
// ctx.
func (s *Store) Damage(ctx context.Context) error {
	select {
	case <-s.checked:
		return s.damage
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inspected says that all pages were checked, and what was found.
func (s *Store) inspected() (bool, error) {
	select {
	case <-s.checked:
		return true, s.damage
	default:
		return false, nil
	}
}

// makeDir makes a directory whose name survives a crash.
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
	// The mark goes first, and durably so below: it is of the last end alone.
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
	// What a killed process had written, but not synced, was found in the log
	// and will be shown: it has to be durable first.
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
	return s.number(ctx)
}

// number learns the numbers of the sessions.
func (s *Store) number(ctx context.Context) error {
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

// dsn names a file, whatever characters its path has.
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

// check is SQLite's own check of all pages.
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
		return err // writing would spread it
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
		// Whatever state the failure left the connection in ends with it.
		_ = s.write.Close()
		s.write = nil
	}
	return fault(err)
}

// fault says what an error of SQLite means to the service.
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

// checkpoints copies the write-ahead log into the database while commits go
// on. Only when it never catches up does it hold them up, for a moment.
func (s *Store) checkpoints() {
	defer close(s.ended)
	db, err := sql.Open("sqlite", dsn(filepath.Join(s.dir, databaseFile), "busy_timeout(1000)", "synchronous(FULL)"))
	if err != nil {
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for range s.signal {
		// An error here is met again by a commit, which reports it. While pages
		// are checked, which reads one moment, the log cannot begin anew.
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

// wrote counts what goes into the write-ahead log, with the lock held.
func (s *Store) wrote(bytes int) {
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

// closeFiles closes what is open, and marks the end as a clean one.
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
		// Without the mark the next start takes longer, no more.
		_ = os.WriteFile(filepath.Join(s.dir, cleanFile), nil, 0o600)
	}
	errs = append(errs, s.lock.Close())
	return fault(errors.Join(errs...))
}

func micros(us int64) time.Time { return time.UnixMicro(us).UTC() }
