package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	msqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/hare-sched/hare/internal/atomicfile"
	"github.com/hare-sched/hare/serve/store"
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
// After walMost pages, writing waits for the copy, so that the log can begin again.
const (
	walPages = 1000
	walMost  = 16_000
)

// Store implements store.SessionStore and store.SolveStore.
type Store struct {
	dir   string
	lock  *flock.Flock
	clean bool   // the last end was clean
	trace string // a file of an earlier start
	read  *sql.DB
	nums  sync.Map // id to session.num

	mu      sync.Mutex // one writer at a time
	head    *headKeeper
	write   *sql.DB // a pool of one connection
	pages   int     // approximate number of pages written since the last checkpoint
	maxSize int     // greatest size of the database in pages; for tests of a full disk

	checked chan struct{} // closed when all pages were checked
	damage  error         // the outcome of that check; set before checked is closed

	copier *sql.DB       // copies the write-ahead log; its one connection also keeps the log from being removed
	signal chan struct{} // asks for a checkpoint of the write-ahead log
	ended  chan struct{}
	stop   context.CancelFunc // ends the sweep that began with Open
	swept  chan struct{}
}

// named adds the file or the directory to an error that does not say where it was.
func named(dir string, err error) error {
	var bad *store.CorruptError
	switch path := filepath.Join(dir, databaseFile); {
	case errors.As(err, &bad) && bad.Session == "" && !strings.Contains(bad.What, path):
		return &store.CorruptError{What: path + ": " + bad.What}
	case errors.Is(err, store.ErrStorage):
		return fmt.Errorf("%s: %w", dir, err)
	}
	return err
}

// inspected reports whether all pages were checked, and with which outcome.
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
	return atomicfile.SyncDir(filepath.Dir(filepath.Clean(dir)))
}

// create makes a database under another name first, so that no crash leaves an empty one.
func create(ctx context.Context, path string) (err error) {
	part := path + ".new"
	remove := func() {
		for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
			_ = os.Remove(part + suffix)
		}
	}
	remove()
	defer remove()
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	// The file is synced as a whole at its end.
	db, err := sql.Open("sqlite", dsn(part, "journal_mode(WAL)", "synchronous(OFF)"))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	if err := errors.Join(migrate(ctx, db), db.Close()); err != nil {
		return err
	}
	return publish(part, path)
}

// loadNumbers reads the numbers of the sessions.
func (s *Store) loadNumbers(ctx context.Context, order string) error {
	rows, err := s.read.QueryContext(ctx, "SELECT num, id FROM session ORDER BY "+order)
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

// orphans looks for rows of a session that is not there, which SQLite's check does not know:
// a wrong bit in the number of a session, or of its last row, would part them.
func orphans(ctx context.Context, db *sql.DB) error {
	var num int64
	err := db.QueryRowContext(ctx, `WITH RECURSIVE n (num) AS (
			SELECT (SELECT key FROM log ORDER BY key LIMIT 1) >> 40
			UNION ALL
			SELECT (SELECT key FROM log WHERE key >= (num + 1) << 40 ORDER BY key LIMIT 1) >> 40 FROM n
				WHERE num IS NOT NULL)
		SELECT num FROM n WHERE num IS NOT NULL AND num NOT IN (SELECT num FROM session)
			AND num NOT IN (SELECT num FROM deleted) LIMIT 1`).Scan(&num)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fault(err)
	}
	return &store.CorruptError{What: fmt.Sprintf("there are events of session number %d and no such session", num)}
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
			if err = tx.Commit(); err == nil {
				_ = s.head.advance()
			}
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
		// A value of another type than its column has been damaged.
		if err != nil && strings.HasPrefix(err.Error(), "sql: Scan error") {
			return &store.CorruptError{What: err.Error()}
		}
		return err
	}
	if e.Code() == sqlite3.SQLITE_IOERR_SHORT_READ { // a page that should be there is cut
		return &store.CorruptError{What: err.Error()}
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB,
		sqlite3.SQLITE_ERROR: // no statement of this package is wrong: the schema is not as it was
		return &store.CorruptError{What: err.Error()}
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM:
		return fmt.Errorf("%w: %w", store.ErrStorage, err)
	}
	return err
}

// noRoom reports whether an error may come from a full disk. SQLite says of some of its files
// only that they could not be made.
func noRoom(err error) bool {
	var e *msqlite.Error
	if errors.As(err, &e) {
		code := e.Code() & 0xff
		return code == sqlite3.SQLITE_FULL || code == sqlite3.SQLITE_IOERR || code == sqlite3.SQLITE_CANTOPEN
	}
	return errors.Is(err, syscall.ENOSPC)
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

// publish gives a finished file its name, durably, and never replaces another file.
func publish(part, dst string) error {
	if err := syncFile(part); err != nil {
		return err
	}
	if err := os.Link(part, dst); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(dst))
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func micros(us int64) time.Time { return time.UnixMicro(us).UTC() }
