// Package sqlite keeps solves and the logs of sessions in one SQLite database in a data
// directory. The database has a write-ahead log, one writer, and one fsync a commit.
//
// database.go has the connections and transactions; above it are the rows of sessions and solves, then opening and
// closing, and at the top views, backups and repairs.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hare-sched/hare/internal/atomicfile"
	"github.com/hare-sched/hare/serve/store"
)

var _ store.SessionStore = (*Store)(nil)

// Open opens or creates the database in dir, for this process alone. Damage gives
// *store.CorruptError, also where a commit that was acknowledged is missing. A database is
// only created in a directory that never had one. On a full disk, Open succeeds where
// store.Reserve has left room for SQLite's own files, and writing fails. After a clean end,
// Open does not wait for the check of all pages, which takes a minute where a few GB come
// from the disk. Damage waits for that check; once the check has found damage, nothing more
// is written.
func Open(ctx context.Context, dir string) (_ *Store, err error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	s := &Store{dir: dir, signal: make(chan struct{}, 1), ended: make(chan struct{}), swept: make(chan struct{}),
		checked: make(chan struct{})}
	s.trace = traceOf(dir) // before the lock is a trace
	if s.lock, err = lockDir(dir); err != nil {
		return nil, err
	}
	s.clean = true
	defer func() {
		if err != nil {
			_ = s.closeFiles(false)
		}
	}()
	err = s.open(ctx)
	for noRoom(err) && store.UseReserve(dir) {
		_ = s.closeDatabases()
		err = s.open(ctx)
	}
	if err != nil {
		return nil, named(dir, fault(err))
	}
	if !s.clean {
		close(s.checked)
	}
	_ = store.Reserve(dir) // a full disk has no room for it
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
	if err == nil {
		err = orphans(ctx, s.read)
	}
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

func (s *Store) open(ctx context.Context) (err error) {
	path := filepath.Join(s.dir, databaseFile)
	fresh, err := intact(s.dir, s.trace)
	if err == nil && fresh {
		err = create(ctx, path)
	}
	if err != nil {
		return err
	}
	closeToOthers(s.dir)
	if s.write, err = s.connect(); err != nil {
		return err
	}
	// The mark of a clean end is removed first, and durably by the sync below: a mark is
	// only valid for the last end.
	if err := os.Remove(filepath.Join(s.dir, cleanFile)); errors.Is(err, fs.ErrNotExist) {
		if err := check(ctx, s.write); err != nil {
			return err
		}
		s.clean = false
	} else if err != nil {
		return err
	}
	if err := atomicfile.SyncDir(s.dir); err != nil {
		return err
	}
	if err := migrate(ctx, s.write); err != nil {
		return err
	}
	if !s.clean {
		if err := orphans(ctx, s.write); err != nil {
			return err
		}
	}
	if s.head, err = keepHead(s.dir); err != nil {
		return err
	}
	if err := s.head.beforeEmptying(); err != nil {
		return err
	}
	// Rows that a killed process wrote but did not sync are in the write-ahead log. The
	// checkpoint makes them durable before anyone sees them. On a full disk, where the
	// database cannot grow, the log is synced in place.
	if _, err := s.write.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		if !errors.Is(fault(err), store.ErrStorage) {
			return err
		}
		if err := syncFile(path + "-wal"); err != nil {
			return err
		}
	}
	if err := errors.Join(s.head.afterEmptying(), atomicfile.SyncDir(s.dir)); err != nil {
		return err
	}
	s.copier, err = sql.Open("sqlite", dsn(path, "busy_timeout(1000)", "synchronous(FULL)"))
	if err != nil {
		return err
	}
	s.copier.SetMaxOpenConns(1)
	s.read, err = sql.Open("sqlite", dsn(path, "busy_timeout(5000)", "query_only(1)"))
	if err != nil {
		return err
	}
	s.read.SetMaxOpenConns(8)
	s.read.SetMaxIdleConns(8)
	if _, err := schemaVersion(ctx, s.copier); err != nil {
		return err
	}
	return s.loadNumbers(ctx, "num")
}

// checkpoints copies the write-ahead log into the database while commits go on. Writers
// only wait, for a moment, where the copy never catches up.
func (s *Store) checkpoints() {
	defer close(s.ended)
	for range s.signal {
		// A commit meets an error of a checkpoint again, and reports it. The check of all
		// pages reads a snapshot, during which the log cannot begin again.
		var busy, log, done int
		inspected, _ := s.inspected()
		_ = store.Reserve(s.dir) // what was given up on a full disk
		if s.copier.QueryRow("PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &log, &done) == nil && log > walMost &&
			inspected {
			s.mu.Lock()
			_, _ = s.copier.Exec("PRAGMA wal_checkpoint(RESTART)")
			s.mu.Unlock()
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
	err := s.closeDatabases()
	if clean && err == nil {
		// A lost mark only makes the next start take longer.
		_ = os.WriteFile(filepath.Join(s.dir, cleanFile), nil, 0o600)
	}
	return fault(errors.Join(err, s.lock.Close()))
}

// closeDatabases closes the connections. The last one copies the write-ahead log into the
// database and removes the log.
func (s *Store) closeDatabases() error {
	var errs []error
	if s.head != nil {
		errs = append(errs, s.head.beforeEmptying())
	}
	for _, db := range []**sql.DB{&s.read, &s.copier, &s.write} {
		if *db != nil {
			errs = append(errs, (*db).Close())
			*db = nil
		}
	}
	if s.head != nil {
		errs = append(errs, s.head.afterEmptying()) // another process that reads keeps the log
		s.head.close()
		s.head = nil
	}
	return errors.Join(errs...)
}
