package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// migrations make the schema, one version after the other. A released migration is never
// changed: a change of the schema is a further migration.
var migrations = []string{
	`CREATE TABLE session (
		num        INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again
		id         TEXT NOT NULL UNIQUE,
		created_us INTEGER NOT NULL,
		config     BLOB NOT NULL,                     -- JSON
		sum        BLOB NOT NULL
	);
	CREATE TABLE log (
		key  INTEGER PRIMARY KEY,                     -- session.num << 40 | first event
		last INTEGER NOT NULL,                        -- last event
		prev BLOB NOT NULL,                           -- sum of the row before
		sum  BLOB NOT NULL,
		data BLOB NOT NULL                            -- a JSON line an event
	);
	CREATE TABLE snapshot (
		session INTEGER NOT NULL,                     -- session.num
		seq     INTEGER NOT NULL,
		at_us   INTEGER NOT NULL,
		jobs    INTEGER NOT NULL,
		chain   BLOB NOT NULL,
		sum     BLOB NOT NULL,
		state   BLOB NOT NULL,
		PRIMARY KEY (session, seq)
	);
	CREATE TABLE deleted (num INTEGER PRIMARY KEY);       -- sessions with rows yet to be removed`,
	`CREATE TABLE solve (
		num  INTEGER PRIMARY KEY,                     -- in order of submission
		id   TEXT NOT NULL UNIQUE,
		sum  BLOB NOT NULL,
		data BLOB NOT NULL                            -- JSON
	);
	CREATE TABLE solve_event (
		key  INTEGER PRIMARY KEY,                     -- solve.num << 40 | first event
		last INTEGER NOT NULL,                        -- last event
		sum  BLOB NOT NULL,
		data BLOB NOT NULL                            -- a JSON line an event
	);
	CREATE TABLE solve_chunk (
		key  INTEGER PRIMARY KEY,                     -- blob << 24 | number of the chunk
		data BLOB NOT NULL
	);
	CREATE TABLE solve_loose (                            -- blobs that no solve has:
		blob     INTEGER PRIMARY KEY,
		released INTEGER NOT NULL                     -- 0 being written, 1 to be removed
	);`,
	`CREATE TABLE history (
		key  INTEGER PRIMARY KEY,                     -- session.num << 40 | minute since 1970
		sum  BLOB NOT NULL,
		data BLOB NOT NULL                            -- JSON
	);`,
}

// migrate brings the schema to the version that this program knows.
func migrate(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS schema (version INTEGER PRIMARY KEY, applied TEXT "+
		"NOT NULL)")
	if err != nil {
		return err
	}
	version, err := schemaVersion(ctx, db)
	if err != nil {
		return err
	}
	if version > len(migrations) {
		return checkVersion(version)
	}
	for ; version < len(migrations); version++ {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, migrations[version])
		if err == nil {
			_, err = tx.ExecContext(ctx, "INSERT INTO schema VALUES (?, ?)", version+1,
				time.Now().UTC().Format(time.RFC3339))
		}
		if err != nil {
			_ = tx.Rollback()
			return fmt.Errorf("sqlite: migration to version %d: %w", version+1, err)
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

func schemaVersion(ctx context.Context, db *sql.DB) (version int, err error) {
	err = db.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM schema").Scan(&version)
	return version, err
}

// checkVersion returns an error where this program cannot read a schema of this version.
func checkVersion(version int) error {
	switch {
	case version > len(migrations):
		return fmt.Errorf("sqlite: it has schema version %d, this program knows %d: use a newer one", version,
			len(migrations))
	case version < len(migrations):
		return fmt.Errorf("sqlite: it has schema version %d, this program reads %d: start hare serve on the data "+
			"directory once, which migrates it", version, len(migrations))
	}
	return nil
}
