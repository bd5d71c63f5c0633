package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

var faults = flag.Int("faults", 8, "how many wrong bits are tried in each database and each log")

// acked is what a store has acknowledged.
type acked struct {
	events map[string]int64 // by session: the last one
	solves []string
}

// chained makes rows that continue the log of a session.
type chained struct {
	id   string
	last int64
	prev store.Sum
}

func (c *chained) next(size int) store.Row {
	c.last++
	line := append(wire.AppendRecord(nil, wire.Record{Event: hare.Event{Seq: c.last, AtUs: c.last * 1e6,
		Type: hare.EventJobEnded, Job: strings.Repeat("j", size)}}), '\n')
	r := store.Row{Session: c.id, First: c.last, Last: c.last, Data: line, Prev: c.prev}
	r.Sum = r.Checksum()
	c.prev = r.Sum
	return r
}

// work commits events of two sessions, and solves, one by one.
func work(t testing.TB, s *Store, commits int) acked {
	t.Helper()
	ctx := context.Background()
	done := acked{events: map[string]int64{}}
	var logs []*chained
	for _, id := range []string{"a", "b"} {
		m := store.Meta{ID: id, Created: micros(1), Config: []byte(`{"of":"` + id + `"}`)}
		m.Sum = m.Checksum()
		if err := s.Create(ctx, m); err != nil {
			t.Fatal(err)
		}
		logs = append(logs, &chained{id: id, prev: m.Sum})
	}
	for i := range commits {
		c := logs[i%2]
		if err := s.Append(ctx, []store.Row{c.next(300 + i%5*700)}); err != nil {
			t.Fatal(err)
		}
		done.events[c.id] = c.last
		if i%6 != 5 {
			continue
		}
		num := int64(len(done.solves) + 1)
		id := fmt.Sprint("solve", num)
		b := store.SolveBatch{Events: []store.SolveRow{{Num: num, First: 1, Last: 1,
			Data: store.AppendSolveEvent(nil, &store.SolveEvent{Seq: 1, Type: "end"})}}}
		b.Events[0].Sum = b.Events[0].Checksum()
		blob := store.NewBlob(num, func(c store.SolveChunk) error {
			b.Chunks = append(b.Chunks, c)
			return nil
		})
		if _, err := blob.Write(bytes.Repeat([]byte(id), 1000)); err != nil {
			t.Fatal(err)
		}
		ref, err := blob.End()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(store.SolveState{Status: hare.StatusSucceeded, Events: 1, Result: &ref})
		if err != nil {
			t.Fatal(err)
		}
		rec := store.SolveRecord{Num: num, ID: id, Data: text}
		rec.Sum = rec.Checksum()
		b.Put = append(b.Put, rec)
		if err := s.WriteSolves(ctx, &b); err != nil {
			t.Fatal(err)
		}
		done.solves = append(done.solves, id)
	}
	return done
}

// memoryDir returns a directory in memory, where the system has one, because hundreds of
// databases are made and each is synced often.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "hare")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// copyDir copies a directory as a kill at this moment leaves it.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := memoryDir(t)
	names, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if n.Name() == "reserve" {
			continue
		}
		if err := copyFile(filepath.Join(from, n.Name()), filepath.Join(to, n.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// missing compares what a store has with what was acknowledged. said reports whether the
// store says that something of it is damaged.
func (done acked) missing(t testing.TB, r interface {
	store.SessionReader
	store.SolveReader
}) (events, solves int64, said bool) {
	t.Helper()
	ctx := context.Background()
	corrupt := func(err error) bool {
		if err != nil && !errors.As(err, new(*store.CorruptError)) {
			t.Error(err)
		}
		return err != nil
	}
	metas, err := r.Sessions(ctx)
	said = corrupt(err)
	left := map[string]int64{}
	for id, last := range done.events {
		left[id] = last
	}
	for _, m := range metas {
		last, err := store.CheckSession(ctx, r, m)
		said = corrupt(err) || said
		left[m.ID] -= last
	}
	for _, n := range left {
		events += max(0, n)
	}
	records, err := r.Solves(ctx)
	said = corrupt(err) || said
	whole := map[string]bool{}
	for i := range records {
		err := store.CheckSolve(ctx, r, &records[i])
		said = corrupt(err) || said
		whole[records[i].ID] = err == nil
	}
	for _, id := range done.solves {
		if !whole[id] {
			solves++
		}
	}
	return events, solves, said
}

// TestFaultsBelowSQLite damages each file of a data directory. Everything that was
// acknowledged is there, or a view and a start say that it is not; and repair saves what is
// whole.
func TestFaultsBelowSQLite(t *testing.T) {
	ctx := context.Background()
	live := memoryDir(t)
	s := openStore(t, live)
	// The log was begun again before, so that frames of an older log are behind its end.
	const commits = 40
	first := work(t, s, commits)
	if _, err := s.copier.Exec("PRAGMA wal_checkpoint(RESTART)"); err != nil {
		t.Fatal(err)
	}
	done := acked{events: map[string]int64{}, solves: first.solves}
	for id, last := range first.events {
		rows, err := s.Rows(ctx, id, last, 1)
		if err != nil {
			t.Fatal(err)
		}
		c := chained{id: id, last: last, prev: rows[0].Sum}
		for range commits / 5 {
			if err := s.Append(ctx, []store.Row{c.next(500)}); err != nil {
				t.Fatal(err)
			}
		}
		done.events[id] = c.last
	}
	states := map[string]string{"killed": copyDir(t, live)}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	states["clean"] = copyDir(t, live)
	// A short log from its first commit on.
	young := memoryDir(t)
	s = openStore(t, young)
	youngDone := work(t, s, 12)
	states["young"] = copyDir(t, young)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	flip := func(path string, size, at int64) error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		b := make([]byte, 1)
		_, err = f.ReadAt(b, at/8)
		b[0] ^= 1 << (at % 8)
		_, bad := f.WriteAt(b, at/8)
		return errors.Join(err, bad, f.Close())
	}
	rng := rand.New(rand.NewPCG(4, 2))
	outcomes := map[string]int{}
	try := func(state, name, what string, fault func(path string, size int64) error) {
		t.Helper()
		what = state + ", " + name + ": " + what
		was := done
		if state == "young" {
			was = youngDone
		}
		dir := copyDir(t, states[state])
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			return // not in this state
		}
		if err := fault(path, info.Size()); err != nil {
			t.Fatal(what, err)
		}
		mended := memoryDir(t)
		defer os.RemoveAll(mended)
		rep, err := Salvage(ctx, dir, mended)
		kept := int64(0)
		for _, x := range rep.Sessions {
			kept += x.Last
		}
		lost := was.events["a"] + was.events["b"] - kept
		told := len(rep.Files) > 0
		for _, x := range rep.Sessions {
			told = told || x.Damage != nil
		}
		switch {
		case err != nil:
			if !errors.As(err, new(*store.CorruptError)) || !strings.Contains(err.Error(), "nothing of it can be saved") ||
				!strings.HasPrefix(what[len(state)+2:], databaseFile+": cut to 0") &&
					!strings.HasPrefix(what[len(state)+2:], databaseFile+": removed") {
				t.Errorf("%s: repair: %v", what, err)
			}
		case lost > 0 && !told:
			t.Errorf("%s: repair loses %d events without a word", what, lost)
		case strings.Contains(what, "bit") && kept < (was.events["a"]+was.events["b"])/4:
			t.Errorf("%s: repair saves %d events of %d", what, kept, kept+lost)
		}
		view := func() (said bool) {
			v, err := OpenView(ctx, dir)
			if err != nil {
				return true
			}
			defer v.Close()
			if v.Structure(ctx) != nil {
				return true
			}
			_, _, said = was.missing(t, v)
			return said
		}()
		s, err := Open(ctx, dir)
		if err != nil {
			// A wrong bit in the version of the schema is a version of the future.
			if !errors.As(err, new(*store.CorruptError)) && !strings.Contains(err.Error(), "schema version") ||
				!strings.Contains(err.Error(), dir) && !strings.Contains(err.Error(), "schema version") {
				t.Errorf("%s: start: %v", what, err)
			}
			if !view {
				t.Errorf("%s: a start says %v, a view nothing", what, err)
			}
			outcomes["refused"]++
			return
		}
		defer s.Close()
		said := s.Damage(ctx) != nil
		events, solves, bad := was.missing(t, s)
		switch {
		case events+solves > 0 && !said && !bad:
			t.Errorf("%s: %d events and %d solves are lost without a word", what, events, solves)
		case said || bad:
			outcomes["reported"]++
			if !view {
				t.Errorf("%s: a start reports damage, a view does not", what)
			}
		default:
			outcomes["whole"]++
		}
	}
	for _, state := range []string{"killed", "clean", "young"} {
		for _, name := range []string{databaseFile, databaseFile + "-wal", databaseFile + "-shm", headFile, cleanFile,
			lockFile} {
			try(state, name, "removed", func(path string, _ int64) error { return os.Remove(path) })
			for _, share := range []float64{0, 0.3, 0.5, 0.9, 0.999} {
				try(state, name, fmt.Sprintf("cut to %g", share), func(path string, size int64) error {
					return os.Truncate(path, int64(float64(size)*share))
				})
			}
			bits := map[string]int{databaseFile: *faults, databaseFile + "-wal": *faults}[name]
			if bits == 0 {
				bits = 2
			}
			for i := range bits {
				try(state, name, fmt.Sprint("bit ", i), func(path string, size int64) error {
					if size == 0 {
						return nil
					}
					at := rng.Int64N(8 * size)
					switch i { // the header, and the last frame
					case 0, 1, 2:
						at = rng.Int64N(min(size, 32) * 8)
					case 3:
						at = 8*size - 1 - rng.Int64N(min(size, 4000)*8)
					}
					return flip(path, size, at)
				})
			}
		}
	}
	t.Log(outcomes)
	if outcomes["whole"] == 0 || outcomes["refused"] == 0 || outcomes["reported"] == 0 {
		t.Error(outcomes)
	}
}

// TestAcknowledgedCommitsAreMissed checks the faults that no scan of the log alone can see.
func TestAcknowledgedCommitsAreMissed(t *testing.T) {
	ctx := context.Background()
	live := memoryDir(t)
	s := openStore(t, live)
	work(t, s, 30)
	dir := copyDir(t, live)
	other := copyDir(t, live)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wal := filepath.Join(dir, databaseFile+"-wal")
	text, err := os.ReadFile(wal)
	if err != nil {
		t.Fatal(err)
	}
	w, err := scanWAL(wal, 0)
	if err != nil || !w.valid || w.commits < 30 {
		t.Fatalf("%+v %v", w, err)
	}
	last := walHeaderBytes + int64(w.frames-1)*(frameHeaderBytes+4096)
	for _, c := range []struct {
		name, want string
		text       []byte
	}{
		{"the last commit is torn", "of 37 commits that were acknowledged", text[:last+100]},
		{"the log is half", "of 37 commits that were acknowledged", text[:len(text)/2]},
		{"the log is empty", "it is missing or empty, and had 37 commits", nil},
		{"a wrong bit in the last commit", "of 37 commits that were acknowledged",
			append(bytes.Clone(text[:last+2000]), append([]byte{text[last+2000] ^ 4}, text[last+2001:]...)...)},
		{"a wrong bit in the header", "its header is damaged", append([]byte{text[0] ^ 1}, text[1:]...)},
	} {
		if err := os.WriteFile(wal, c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		var bad *store.CorruptError
		if _, err := Open(ctx, dir); !errors.As(err, &bad) || !strings.Contains(bad.What, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := OpenView(ctx, dir); !errors.As(err, &bad) {
			t.Errorf("%s: a view: %v", c.name, err)
		}
	}
	// What was written and not acknowledged may be missing.
	if err := os.WriteFile(wal, append(text[:len(text):len(text)], make([]byte, 5000)...), 0o600); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Another program that reads the database and closes it empties the log.
	db, err := (&Store{dir: other}).connect()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(check(ctx, db), db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(other, databaseFile+"-wal")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	s = openStore(t, other)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOldHeadAccusesNobody gives a directory the head of an earlier moment, as a loss of
// power may, since the head has no fsync of its own.
func TestOldHeadAccusesNobody(t *testing.T) {
	live := memoryDir(t)
	s := openStore(t, live)
	work(t, s, 6)
	early := copyDir(t, live)
	m := store.Meta{ID: "c", Created: micros(1), Config: []byte("{}")}
	m.Sum = m.Checksum()
	if err := s.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	before := copyDir(t, live)
	c := chained{id: "c", prev: m.Sum}
	if err := s.Append(t.Context(), []store.Row{c.next(20_000)}); err != nil {
		t.Fatal(err)
	}
	late := copyDir(t, live)
	if _, err := s.copier.Exec("PRAGMA wal_checkpoint(RESTART)"); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), []store.Row{c.next(10)}); err != nil {
		t.Fatal(err)
	}
	anew := copyDir(t, live)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// The last commit was being written: one of its frames is on disk and not the one before.
	torn := copyDir(t, late)
	wal := filepath.Join(torn, databaseFile+"-wal")
	w, err := scanWAL(filepath.Join(before, databaseFile+"-wal"), 0)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(wal, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(make([]byte, 4000), walHeaderBytes+int64(w.frames+1)*(frameHeaderBytes+4096))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"an earlier commit": late, "an earlier log": anew, "a torn commit": torn} {
		_ = os.Remove(filepath.Join(dir, headFile))
		old := early
		if name == "a torn commit" {
			old = before
		}
		if err := copyFile(filepath.Join(old, headFile), filepath.Join(dir, headFile)); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFirstStart checks which directories may get a new database.
func TestFirstStart(t *testing.T) {
	for _, c := range []struct {
		files string
		fresh bool
	}{
		{"", true}, {"lock", true}, {"lock keys.json keys.lock", true}, {"logs", true}, {"hare.db.new", true},
		{"hare.db", false}, {"lock clean", false}, {"lock logs", false}, {"hare.db-wal", false}, {"hare.db-shm", false},
	} {
		dir := memoryDir(t)
		for _, name := range strings.Fields(c.files) {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(t.Context(), dir)
		if c.fresh != (err == nil) || err != nil && !errors.As(err, new(*store.CorruptError)) {
			t.Errorf("%q: %v", c.files, err)
		}
		if err != nil {
			continue
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := os.Remove(filepath.Join(dir, databaseFile)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), dir); !errors.As(err, new(*store.CorruptError)) {
			t.Errorf("%q, and then the database is lost: %v", c.files, err)
		}
	}
}
