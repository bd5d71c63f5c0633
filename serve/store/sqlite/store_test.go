package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hare-sched/hare/serve/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newSession(t *testing.T, s *Store, id string) {
	t.Helper()
	if err := s.Create(context.Background(),
		store.Meta{ID: id, Created: time.UnixMicro(1), Config: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
}

// TestRestoreOfAnotherFile checks that a file that is no backup leaves no directory behind, and one that was there.
func TestRestoreOfAnotherFile(t *testing.T) {
	file, dir := filepath.Join(t.TempDir(), "jobs.csv"), filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, []byte("id,gpus\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, there := range []bool{false, true} {
		if there {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := Restore(t.Context(), file, dir); !errors.As(err, new(*store.CorruptError)) {
			t.Errorf("a table is restored: %v", err)
		}
		if _, err := os.Stat(dir); (err == nil) != there {
			t.Errorf("the directory was there: %v; after the restore: %v", there, err)
		}
	}
}

func row(id string, first, last int64, size int) store.Row {
	return store.Row{Session: id, First: first, Last: last, Data: bytes.Repeat([]byte("x"), size)}
}

func TestRowsAreFoundByAnyEvent(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, t.TempDir())
	defer s.Close()
	for _, id := range []string{"a", "b", "c"} {
		newSession(t, s, id)
	}
	if err := s.Append(ctx, []store.Row{row("a", 1, 1, 9), row("b", 1, 5, 10), row("b", 6, 6, 10), row("b", 7, 9, 10),
		row("c", 1, 2, 9)}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		seq         int64
		bytes       int
		first, last int64
	}{
		{0, 1000, 1, 9}, {1, 1, 1, 5}, {3, 11, 1, 6}, {5, 1000, 1, 9}, {6, 0, 6, 6}, {7, 1000, 7, 9}, {9, 1000, 7, 9},
		{10, 1000, 0, 0}, {1 << 50, 1000, 0, 0},
	} {
		rows, err := s.Rows(ctx, "b", c.seq, c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		var first, last int64
		if len(rows) > 0 {
			first, last = rows[0].First, rows[len(rows)-1].Last
		}
		if first != c.first || last != c.last {
			t.Errorf("from %d, %d bytes: events %d to %d", c.seq, c.bytes, first, last)
		}
	}
	if err := s.Append(ctx, []store.Row{row("a", 2, 2, 9), row("b", 7, 7, 9)}); err == nil {
		t.Error("an event was recorded twice")
	}
	if rows, err := s.Rows(ctx, "a", 1, 1000); err != nil || len(rows) != 1 {
		t.Error("half of a refused commit stands:", len(rows), err)
	}
	if err := s.Delete(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := s.read.QueryRow("SELECT (SELECT count(*) FROM log) + (SELECT count(*) FROM deleted)").Scan(
		&left); err != nil || left != 2 {
		t.Error("rows left:", left, err)
	}
	if err := s.Append(ctx, []store.Row{row("b", 10, 10, 9)}); !errors.Is(err, store.ErrNoSession) {
		t.Error("to a deleted session:", err)
	}
	metas, err := s.Sessions(ctx)
	if err != nil || len(metas) != 2 || metas[0].ID != "a" || metas[0].Last != 1 || metas[1].Last != 2 {
		t.Error(metas, err)
	}
}

func TestSnapshotsKept(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, t.TempDir())
	defer s.Close()
	newSession(t, s, "a")
	for _, seq := range []int64{0, 100, 200, 300} {
		if err := s.SaveSnapshot(ctx, store.Snapshot{Session: "a", Seq: seq, State: []byte("state")}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Snapshots(ctx, "a")
	if err != nil || len(got) != 3 || got[0].Seq != 300 || got[1].Seq != 200 || got[2].Seq != 0 {
		t.Error(got, err)
	}
}

// TestFull fills the database up to its greatest size: recorded rows can be read, and
// writing goes on once there is space.
func TestFull(t *testing.T) {
	s := openStore(t, t.TempDir())
	defer s.Close()
	newSession(t, s, "a")
	s.maxSize = 60
	s.write.Close()
	s.write = nil
	fill(t, s, func() { s.maxSize = 0 })
}

// TestFullDisk does the same on a full disk, where the test may mount one.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("no small disk: %s", out)
	}
	defer func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	}()
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 400<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir)
	defer s.Close()
	newSession(t, s, "a")
	fill(t, s, func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	})
}

func fill(t *testing.T, s *Store, makeRoom func()) {
	t.Helper()
	ctx := context.Background()
	seq := int64(1)
	var err error
	for ; seq < 1000; seq++ {
		if err = s.Append(ctx, []store.Row{row("a", seq, seq, 5000)}); err != nil {
			break
		}
	}
	if !errors.Is(err, store.ErrStorage) || seq < 5 {
		t.Fatalf("event %d: %v", seq, err)
	}
	for range 3 {
		if err := s.Append(ctx, []store.Row{row("a", seq, seq, 50_000)}); !errors.Is(err, store.ErrStorage) {
			t.Fatal("again:", err)
		}
		rows, err := s.Rows(ctx, "a", 1, 1<<30)
		if err != nil || int64(len(rows)) != seq-1 {
			t.Fatalf("%d rows of %d: %v", len(rows), seq-1, err)
		}
	}
	makeRoom()
	for range 10 {
		if err := s.Append(ctx, []store.Row{row("a", seq, seq, 5000)}); err != nil {
			t.Fatal("with room:", err)
		}
		seq++
	}
	rows, err := s.Rows(ctx, "a", 1, 1<<30)
	if err != nil || int64(len(rows)) != seq-1 {
		t.Fatalf("%d rows of %d: %v", len(rows), seq-1, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openStore(t, dir)
	if _, err := Open(ctx, dir); err == nil {
		t.Error("two servers on one directory")
	}
	if _, err := s.write.Exec("INSERT INTO schema VALUES (99, '')"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, dir); err == nil {
		t.Error("a schema of the future was opened")
	}
	odd := filepath.Join(t.TempDir(), "a b?c#d%20e")
	s = openStore(t, odd)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(odd, databaseFile)); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(odd, databaseFile), bytes.Repeat([]byte("no database "), 1000),
		0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, odd); !errors.As(err, new(*store.CorruptError)) {
		t.Error("a file that is no database:", err)
	}
}

// After a clean end the pages are checked in the background. Damage that this check finds
// ends all writing, and the next start fails.
func TestDamageIsFoundAside(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openStore(t, dir)
	m := store.Meta{ID: "a", Created: micros(1), Config: []byte("{}")}
	if err := s.Create(ctx, m); err != nil {
		t.Fatal(err)
	}
	row := func(seq int64) []store.Row {
		return []store.Row{{Session: "a", First: seq, Last: seq, Data: make([]byte, 1000)}}
	}
	for seq := int64(1); seq <= 100; seq++ {
		if err := s.Append(ctx, row(seq)); err != nil {
			t.Fatal(err)
		}
	}
	reopen := func(damage bool) {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, cleanFile)); err != nil {
			t.Fatal(err)
		}
		if damage {
			path := filepath.Join(dir, databaseFile)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)/2&^4095] = 0xee // no kind of page
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s = openStore(t, dir)
		if _, err := os.Stat(filepath.Join(dir, cleanFile)); err == nil {
			t.Error("the mark of a clean end is there while the directory is used")
		}
		if err := s.Damage(ctx); damage != errors.As(err, new(*store.CorruptError)) {
			t.Errorf("found %v", err)
		}
	}
	reopen(false)
	if err := s.Append(ctx, row(101)); err != nil {
		t.Fatal(err)
	}
	reopen(true)
	if err := s.Append(ctx, row(102)); !errors.As(err, new(*store.CorruptError)) {
		t.Error("written:", err)
	}
	if rows, err := s.Rows(ctx, "a", 101, 1); err != nil || len(rows) != 1 || rows[0].First != 101 {
		t.Error("a sound page is not read:", rows, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, dir); !errors.As(err, new(*store.CorruptError)) {
		t.Error("started:", err)
	}
}

// TestLogIsBounded writes without pause and checks that the write-ahead log begins again.
func TestLogIsBounded(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openStore(t, dir)
	defer s.Close()
	newSession(t, s, "a")
	for seq := range int64(300) {
		if err := s.Append(ctx, []store.Row{row("a", seq+1, seq+1, 500<<10)}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, databaseFile+"-wal"))
	if err != nil || info.Size() > 2*walMost*4096 {
		t.Error(fmt.Sprint("the write-ahead log has ", info.Size()>>20, " MiB"), err)
	}
}
