package sessions_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
)

// logOf reads the answers in a log, up to its end or its first fault.
func logOf(e *sessions.Session) (answers []string, err error) {
	for rec, err := range e.Log(context.Background(), 0) {
		if err != nil {
			return answers, err
		}
		answers = append(answers, line(hare.Answer{Seq: rec.Event.Seq, Decisions: rec.Decisions}))
	}
	return answers, nil
}

// image is a data directory as a crash may leave it: some rows are in the database, the
// others in the write-ahead log.
type image struct {
	files map[string][]byte
	ids   []string
	event [][]hare.Event
	want  [][]string
}

func takeImage(t *testing.T) *image {
	t.Helper()
	dir := t.TempDir()
	im := &image{files: map[string][]byte{}}
	ctx := context.Background()
	s := openDir(t, dir)
	for i := range 3 {
		e := create(t, s)
		events := script(uint64(i+50), 900)
		im.ids = append(im.ids, e.ID())
		im.event = append(im.event, events)
		im.want = append(im.want, undisturbed(t, events))
	}
	for from := 0; from < 800; from += 40 {
		if from == 400 { // the first half goes into the database
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openDir(t, dir)
		}
		for i, id := range im.ids {
			e, err := s.Session(ctx, "", id)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := send(ctx, e, im.event[i][from:from+40]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"hare.db", "hare.db-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(b) == 0 {
			t.Fatal(name, len(b), err)
		}
		im.files[name] = b
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return im
}

// damage alters one file as a bad disk or a lost write would.
func damage(rng *rand.Rand, files map[string][]byte) (what string) {
	name := []string{"hare.db", "hare.db-wal"}[rng.IntN(2)]
	b := slices.Clone(files[name])
	at := rng.IntN(len(b))
	switch kind := rng.IntN(6); kind {
	case 0, 1:
		n := 1 + rng.IntN(8)
		for range n {
			at = rng.IntN(len(b))
			b[at] ^= 1 << rng.IntN(8)
		}
		what = fmt.Sprintf("%d bits flipped", n)
	case 2:
		b = b[:at]
		what = fmt.Sprintf("cut at %d", at)
	case 3: // a page was never written
		at &^= 4095
		clear(b[at:min(len(b), at+4096)])
		what = fmt.Sprintf("page at %d zeroed", at)
	case 4: // a page holds what another should
		to := rng.IntN(len(b)) &^ 4095
		copy(b[to:min(len(b), to+4096)], slices.Clone(b[at&^4095:]))
		what = fmt.Sprintf("page at %d copied to %d", at&^4095, to)
	case 5: // the file is missing
		delete(files, name)
		return name + " missing"
	}
	files[name] = b
	return name + " " + what
}

// TestDamageIsNeverAnswered opens damaged copies. Each copy is refused, or shows what was
// recorded up to some event and goes on from there.
func TestDamageIsNeverAnswered(t *testing.T) {
	im := takeImage(t)
	rounds := 100
	switch {
	case *soak:
		rounds = 5000
	case testing.Short():
		rounds = 15
	}
	refused, cut, whole := 0, 0, 0
	for seed := range uint64(rounds) {
		rng := rand.New(rand.NewPCG(seed, 3))
		files := map[string][]byte{"hare.db": im.files["hare.db"], "hare.db-wal": im.files["hare.db-wal"]}
		what := ""
		if seed > 0 {
			what = damage(rng, files)
		}
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		for name, b := range files {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		switch tryImage(t, im, dir, what) {
		case "refused":
			refused++
		case "cut":
			cut++
		default:
			whole++
		}
		os.RemoveAll(dir)
	}
	t.Logf("%d refused, %d cut, %d whole", refused, cut, whole)
	if refused == 0 || whole == 0 {
		t.Error("no damaged copy was refused, or none could be read to its end")
	}
}

func tryImage(t *testing.T, im *image, dir, what string) string {
	t.Helper()
	ctx := context.Background()
	store, err := sqlite.Open(ctx, dir)
	if err != nil {
		return "refused"
	}
	s, err := sessions.Open(ctx, sessionsConfig(store))
	if err != nil {
		store.Close()
		return "refused"
	}
	defer s.Close()
	result := "whole"
	for i, id := range im.ids {
		e, err := s.Session(ctx, "", id)
		if err != nil {
			result = "cut"
			continue
		}
		got, err := logOf(e)
		if len(got) > 800 || !slices.Equal(got, im.want[i][:len(got)]) {
			t.Fatalf("%s: the log of session %d is wrong", what, i)
		}
		if err != nil {
			result = "refused"
		} else if len(got) < 800 && result == "whole" {
			result = "cut"
		}
		// Some recorded events are sent again, and new ones after them.
		from := max(0, len(got)-60)
		answers, err := send(ctx, e, im.event[i][from:])
		if !slices.Equal(answers, im.want[i][from:from+len(answers)]) {
			t.Fatalf("%s: session %d answers wrongly", what, i)
		}
		if err != nil {
			result = "refused"
		} else if len(answers) != 900-from {
			t.Fatalf("%s: session %d: answers are missing", what, i)
		}
	}
	return result
}

// TestRowsAreChained alters rows in ways that SQLite's own check cannot find.
func TestRowsAreChained(t *testing.T) {
	ctx := context.Background()
	events := script(7, 500)
	want := undisturbed(t, events)
	for _, c := range []struct {
		name, sql string
		refused   bool // the session takes no events
		log       bool // the log reads to its end
	}{
		{"data", "UPDATE log SET data = CAST(replace(CAST(data AS TEXT), '\"compute_s\":1,', '\"compute_s\":2,') " +
			"AS BLOB) WHERE key = (SELECT max(key) FROM log)", true, false},
		{"decision", "UPDATE log SET data = CAST(replace(CAST(data AS TEXT), '\"a/0\",\"at_s\"', " +
			"'\"a/1\",\"at_s\"') AS BLOB) WHERE key = (SELECT max(key) FROM log)", true, false},
		{"checksum", "UPDATE log SET sum = zeroblob(32) WHERE key = (SELECT max(key) FROM log)", true, false},
		{"a row missing", "DELETE FROM log WHERE key = (SELECT key FROM log ORDER BY key DESC LIMIT 1 OFFSET 1)",
			true, false},
		{"rows exchanged", "UPDATE log SET data = (SELECT data FROM log l WHERE l.key > log.key ORDER BY key LIMIT " +
			"1) WHERE key = (SELECT key FROM log ORDER BY key DESC LIMIT 1 OFFSET 1)", true, false},
		{"before all snapshots", "UPDATE log SET sum = zeroblob(32) WHERE key = (SELECT min(key) FROM log)", false,
			false},
		{"the end behind a snapshot", "DELETE FROM log WHERE last > 300", true, true},
		{"last snapshot", "UPDATE snapshot SET state = zeroblob(8) WHERE seq = (SELECT max(seq) FROM snapshot)",
			false, true},
		{"all snapshots", "UPDATE snapshot SET sum = zeroblob(32)", false, true},
		{"no snapshot", "DELETE FROM snapshot", false, true},
		{"configuration", "UPDATE session SET config = replace(config, 'history', 'History')", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := openDir(t, dir)
			id := create(t, s).ID()
			for from := 0; from < 400; from += 20 {
				e, _ := s.Session(ctx, "", id)
				if _, err := send(ctx, e, events[from:from+20]); err != nil {
					t.Fatal(err)
				}
				if from == 360 { // the last 20 lie behind the last snapshot
					s.Close()
					s = openDir(t, dir)
				}
			}
			s.Close()
			alter(t, dir, "DELETE FROM snapshot WHERE seq = 400")
			alter(t, dir, c.sql)
			s = openDir(t, dir)
			defer s.Close()
			e, err := s.Session(ctx, "", id)
			if err != nil {
				t.Fatal(err)
			}
			got, err := logOf(e)
			if !slices.Equal(got, want[:len(got)]) {
				t.Error("the log is wrong")
			}
			if (err == nil) != c.log || err != nil && !errors.As(err, new(*store.CorruptError)) {
				t.Errorf("log of %d: %v", len(got), err)
			}
			answers, err := send(ctx, e, events[400:])
			if c.refused != errors.As(err, new(*store.CorruptError)) ||
				!c.refused && !slices.Equal(answers, want[400:]) {
				t.Errorf("%d answers, %v", len(answers), err)
			}
			if !c.refused || c.name == "configuration" {
				return
			}
			mended := t.TempDir()
			rep, err := sqlite.Salvage(ctx, dir, mended)
			all := rep.Sessions
			if err != nil || len(all) != 1 || all[0].Damage == nil || all[0].Last >= 400 {
				t.Fatalf("%+v %v", all, err)
			}
			last := all[0].Last
			s2 := openDir(t, mended)
			defer s2.Close()
			if e, err = s2.Session(ctx, "", id); err != nil {
				t.Fatal(err)
			}
			if answers, err = send(ctx, e, events[last:]); err != nil || !slices.Equal(answers, want[last:]) {
				t.Errorf("after the repair at %d: %v", last, err)
			}
		})
	}
}

func alter(t testing.TB, dir, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "hare.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

func TestBackupAndRestore(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openDir(t, dir)
	e := create(t, s)
	events := script(3, 2000)
	want := undisturbed(t, events)
	if _, err := send(ctx, e, events[:1000]); err != nil {
		t.Fatal(err)
	}
	busy := make(chan error, 1)
	go func() {
		_, err := send(ctx, e, events[1000:])
		busy <- err
	}()
	file := filepath.Join(t.TempDir(), "backup")
	if err := sqlite.Backup(ctx, dir, file); err != nil {
		t.Fatal(err)
	}
	if err := <-busy; err != nil {
		t.Fatal(err)
	}
	if err := sqlite.Backup(ctx, dir, file); !errors.Is(err, fs.ErrExist) {
		t.Error("over a file:", err)
	}
	if err := sqlite.Restore(ctx, file, dir); err == nil {
		t.Error("restored into the directory of a server")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.Restore(ctx, file, dir); !errors.Is(err, fs.ErrExist) {
		t.Error("over a database:", err)
	}
	to := filepath.Join(t.TempDir(), "new")
	if err := sqlite.Restore(ctx, file, to); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, to)
	defer s.Close()
	e, err := s.Session(ctx, "", e.ID())
	if err != nil {
		t.Fatal(err)
	}
	got, err := logOf(e)
	if err != nil || len(got) < 1000 || !slices.Equal(got, want[:len(got)]) {
		t.Fatal(len(got), err)
	}
	if got, err = send(ctx, e, events[900:]); err != nil || !slices.Equal(got, want[900:]) {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)*2/3] ^= 1
	for name, b := range map[string][]byte{"altered": b, "no database": []byte("hello"), "empty": nil} {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "new")
		if err := sqlite.Restore(ctx, file, to); !errors.As(err, new(*store.CorruptError)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(to, "hare.db")); err == nil {
			t.Errorf("%s: left a database", name)
		}
	}
}
