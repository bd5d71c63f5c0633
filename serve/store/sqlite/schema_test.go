package sqlite

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
)

var update = flag.Bool("update", false, "write the database of this schema version")

// firstSchema is a data directory of schema version 1, and solveSchema one of version 2,
// with solves. The files are never written again: later versions must be able to read
// them.
const (
	firstSchema = "testdata/schema-1.db"
	solveSchema = "testdata/schema-2.db"
)

// asServed opens a directory as a server does, and sends ticks up to the event upto.
func asServed(t *testing.T, dir string, upto int64) (kept []store.Meta) {
	t.Helper()
	ctx := context.Background()
	s, err := sessions.Open(ctx, sessions.Config{Store: openStore(t, dir), SnapshotEvery: 10})
	if err != nil {
		t.Fatal(err)
	}
	infos, err := s.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(infos) == 0 {
		e, err := s.Create(ctx, "", sessions.SessionConfig{Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a",
			GPUs: []hare.TypeCount{{Type: "V100", Count: 2}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		infos = append(infos, e.Info())
	}
	e, err := s.Session(ctx, "", infos[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	for seq := e.Info().Last + 1; seq <= upto; seq++ {
		ev := hare.Event{Seq: seq, AtUs: seq * 1000}
		if seq == 1 {
			ev.Type, ev.Job = hare.EventJobArrived, "j"
			ev.Arrived = &hare.Job{ID: "j", WeightMicro: 1e6, Tasks: 1, On: []hare.Profile{{Type: "V100"}}}
		}
		p, err := e.Submit(ctx, ev)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	kept, err = s.Store().Sessions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return kept
}

// TestFirstSchemaIsTakenOver opens a database that version 1 wrote.
func TestFirstSchemaIsTakenOver(t *testing.T) {
	if *update && len(migrations) == 1 {
		dir := t.TempDir()
		asServed(t, dir, 25)
		_ = os.Remove(firstSchema)
		if err := Backup(context.Background(), dir, firstSchema); err != nil {
			t.Fatal(err)
		}
	}
	dir := copyOf(t, firstSchema)
	if got := asServed(t, dir, 30); len(got) != 1 || got[0].Last != 30 {
		t.Error(got)
	}
	v, err := OpenView(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if damage, err := v.Check(context.Background()); damage != nil || err != nil {
		t.Error(damage, err)
	}
}

func copyOf(t *testing.T, file string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := copyFile(file, filepath.Join(dir, databaseFile)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestMigrations checks that a migration keeps the stored data, that a failed migration
// changes nothing, and that the version before refuses a schema that it does not know.
func TestMigrations(t *testing.T) {
	ctx := context.Background()
	dir := copyOf(t, firstSchema)
	now := slices.Clone(migrations)
	defer func() { migrations = now }()
	version := func() (v int) {
		s := openStore(t, dir)
		defer s.Close()
		if err := s.read.QueryRow("SELECT max(version) FROM schema").Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	was := version()
	migrations = append(slices.Clone(now), "ALTER TABLE session ADD COLUMN note TEXT; INSERT INTO nothing VALUES (1)")
	if _, err := Open(ctx, dir); err == nil || !strings.Contains(err.Error(), "migration to version") {
		t.Fatal("a migration that fails:", err)
	}
	if _, err := OpenView(ctx, dir); err == nil || !strings.Contains(err.Error(), "start hare serve") {
		t.Error("a view before the migration:", err)
	}
	migrations = append(slices.Clone(now), "ALTER TABLE session ADD COLUMN note TEXT")
	if v := version(); v != was+1 {
		t.Errorf("version %d became %d", was, v)
	}
	if got := asServed(t, dir, 40); got[0].Last != 40 {
		t.Error(got)
	}
	migrations = now
	if _, err := Open(ctx, dir); err == nil || !strings.Contains(err.Error(), "use a newer one") {
		t.Error("by the version before:", err)
	}
}

// TestSweepAtStart checks that the next start removes the rows of a deleted session that
// a killed server had left.
func TestSweepAtStart(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openStore(t, dir)
	newSession(t, s, "a")
	newSession(t, s, "b")
	for seq := range int64(200) {
		if err := s.Append(ctx, []store.Row{row("a", seq+1, seq+1, 100), row("b", seq+1, seq+1, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.write.Exec("INSERT INTO deleted SELECT num FROM session WHERE id = 'a'; DELETE FROM session " +
		"WHERE id = 'a'"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir)
	defer s.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		var rows, left int
		if err := s.read.QueryRow("SELECT (SELECT count(*) FROM log), (SELECT count(*) FROM deleted)").Scan(&rows,
			&left); err != nil {
			t.Fatal(err)
		}
		if rows == 200 && left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(rows, "rows,", left, "sessions left")
		}
	}
}
