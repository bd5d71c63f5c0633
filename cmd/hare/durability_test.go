package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

// newPlayer returns a client with a new session.
func newPlayer(t testing.TB, s *served, seed uint64) *player {
	t.Helper()
	machines, cluster := newSimulatedCluster(seed)
	policy, err := registry.OpenSession("hlas", cluster, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &player{machines: machines, want: &undisturbed{policy: policy}, id: newSession(t, s.url, "hlas", cluster)}
}

// alter changes a database without the server.
func alter(t testing.TB, dir, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "hare.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement, args...); err != nil {
		t.Fatal(err)
	}
}

// expect runs a command and checks its exit code and a part of its output.
func expect(t testing.TB, code int, want string, args ...string) string {
	t.Helper()
	c := command(args...)
	out, _ := c.CombinedOutput()
	if got := c.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), want) {
		t.Errorf("hare %s: exit %d, want %d and %q\n%s", strings.Join(args, " "), got, code, want, out)
	}
	return string(out)
}

// TestOperator damages a data directory in several ways and applies the remedies.
func TestOperator(t *testing.T) {
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	dir := at("data")
	s := serve(t, -1, "--data-dir", dir, "--snapshot-every", "100")
	a, b := newPlayer(t, s, 1), newPlayer(t, s, 2)
	a.play(t, s, 400)
	b.play(t, s, 400)
	// A second server cannot use the directory.
	expect(t, exitUsage, "is in use by another server", "serve", "--listen", "127.0.0.1:0", "--data-dir", dir)
	expect(t, exitDone, "2 sessions, ", "backup", dir, at("good"))
	expect(t, exitUsage, "file already exists", "backup", dir, at("good"))
	expect(t, exitUsage, "is in use by another server", "restore", at("good"), dir)
	doctor := func(dir, want string) string {
		t.Helper()
		// The exit code of doctor also depends on the checks of the machine.
		out, _, _ := runHare(t, "", "doctor", "--listen", "127.0.0.1:0", "--data-dir", dir)
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
		return out
	}
	doctor(dir, "ok    sessions         2 sessions, ")
	a.play(t, s, 600)
	s.stop(t)
	expect(t, exitUsage, "file already exists", "restore", at("good"), dir)
	expect(t, exitDone, "2 sessions, ", "restore", at("good"), at("restored"))
	s = serve(t, -1, "--data-dir", at("restored"))
	b.play(t, s, 500) // fewer events had been answered when the backup was made
	s.stop(t)

	// One row of one session is altered.
	alter(t, dir, "UPDATE log SET data = zeroblob(length(data)) WHERE key = (SELECT max(key) FROM log WHERE key < 2 << "+
		"40)")
	alter(t, dir, "DELETE FROM snapshot WHERE session = 1 AND seq > 100")
	doctor(dir, "the log of session "+a.id+" is damaged at event ")
	expect(t, exitNo, "is written, with the damage in it", "backup", dir, at("bad"))
	expect(t, exitUsage, "is damaged at event", "restore", at("bad"), at("none"))
	s = serve(t, -1, "--data-dir", dir)
	for range 3 {
		if code, body := get(t, s.url+"/v1/sessions/"+a.id); code != http.StatusInternalServerError ||
			!bytes.Contains(body, []byte("corrupt_log")) {
			t.Errorf("%d %s", code, body)
		}
	}
	if n := strings.Count(s.stderr(), "a session is damaged"); n != 1 || !strings.Contains(s.stderr(), a.id) {
		t.Errorf("%d lines in the log\n%s", n, s.stderr())
	}
	s.stop(t)
	for _, from := range []string{dir, at("bad")} {
		to := filepath.Join(t.TempDir(), "new")
		out := expect(t, exitNo, "2 sessions, 0 solves; losses in 1 session", "repair", from, to)
		var kept int64
		if _, err := fmt.Sscanf(strings.TrimPrefix(out, a.id), ": kept %d events of", &kept); err != nil || kept < 100 ||
			kept >= int64(a.total) {
			t.Errorf("%v: %s", err, out)
		}
		expect(t, exitUsage, "file already exists", "repair", from, to)
		s = serve(t, -1, "--data-dir", to)
		_, log := get(t, s.url+"/v1/sessions/"+a.id+"/log")
		_, records, _ := bytes.Cut(log, []byte("\n"))
		if n := int64(bytes.Count(records, []byte("\n"))); n != kept || !bytes.HasPrefix(a.want.log, records) {
			t.Errorf("kept %d events, %d are there", kept, n)
		}
		// The session continues after the records that were kept.
		rest := a.want.log[len(records):]
		first, _, _ := bytes.Cut(rest, []byte("\n"))
		rec, err := wire.DecodeRecord(first)
		if err != nil {
			t.Fatal(err)
		}
		l := connect(s, a.id)
		got, err := l.exchange(append(wire.AppendEvent(nil, rec.Event), '\n'), 1)
		l.close()
		if want := wire.AppendAnswer(nil, hare.Answer{Seq: rec.Event.Seq, Decisions: rec.Decisions}); err != nil ||
			string(got[0]) != string(want)+"\n" {
			t.Errorf("%v: %s\nwant %s", err, got, want)
		}
		s.stop(t)
	}

	// A page of the file is lost: the server refuses to start, and repair recovers
	// the rest.
	text, err := os.ReadFile(filepath.Join(dir, "hare.db"))
	if err != nil {
		t.Fatal(err)
	}
	broken := bytes.Clone(text)
	page := bytes.LastIndex(broken, []byte(`{"event":{"seq":`)) &^ 4095
	clear(broken[page : page+4096])
	if err := os.MkdirAll(at("broken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at("broken"), "hare.db"), broken, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, exitUsage, "hare repair "+at("broken")+" NEWDIR", "serve", "--listen", "127.0.0.1:0", "--data-dir",
		at("broken"))
	doctor(at("broken"), "FAIL  sessions")
	expect(t, exitNo, "2 sessions, ", "repair", at("broken"), at("mended"))
	var events int
	if _, kept, ok := strings.Cut(doctor(at("mended"), "every checksum fits"), "2 sessions, "); ok {
		_, _ = fmt.Sscan(kept, &events)
	}
	if all := a.total + b.total; events < 100 || events >= all {
		t.Errorf("%d events of %d were saved", events, all)
	}

	// These paths cannot be data directories.
	alter(t, at("restored"), "INSERT INTO schema VALUES (99, '')")
	expect(t, exitUsage, "has schema version 99, this program knows", "serve", "--listen", "127.0.0.1:0", "--data-dir",
		at("restored"))
	doctor(at("restored"), "schema version 99")
	expect(t, exitUsage, "not a directory", "serve", "--listen", "127.0.0.1:0", "--data-dir",
		filepath.Join(at("good"), "x"))
	expect(t, exitUsage, "is neither a data directory nor a backup", "repair", file(t, "text", "hello"), at("none"))
	if _, err := os.Stat(filepath.Join(at("none"), "hare.db")); err == nil {
		t.Error("what was refused left a database")
	}
}

func TestCompletionOfDirectories(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"serve --data-dir ", ":16"}, // the shell completes directories
		{"doctor --data-dir ", ":16"},
		{"backup ", ":16"},
		{"backup data ", ":0"}, // the shell completes files
		{"restore ", ":0"},
		{"restore file ", ":16"},
		{"repair data ", ":16"},
		{"repair data new ", ":4"}, // the shell completes nothing
		{"serve --snap", "--snapshot-every"},
		{"online --policy ", "hlas"},
	} {
		out, _, _ := runHare(t, "", append([]string{"__complete"}, strings.Split(c.line, " ")...)...)
		if !strings.Contains(out, c.want) {
			t.Errorf("hare %s<TAB>: no %s in %s", c.line, c.want, out)
		}
	}
}

// TestServeDiskFull fills the disk of a server, where the test may mount one.
// Events are refused with 507, reads still work, and the session continues once
// there is space.
func TestServeDiskFull(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=3m", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("no small disk: %s", out)
	}
	defer func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	}()
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, -1, "--data-dir", filepath.Join(dir, "data"))
	p := newPlayer(t, s, 9)
	full := p.playUntilFull(t, s)
	for range 2 {
		code, _ := get(t, s.url+"/v1/sessions/"+p.id)
		other, log := get(t, s.url+"/v1/sessions/"+p.id+"/log")
		_, records, _ := bytes.Cut(log, []byte("\n"))
		if code != http.StatusOK || other != http.StatusOK || !bytes.HasPrefix(p.want.log, records) ||
			bytes.Count(records, []byte("\n")) < p.total {
			t.Errorf("on a full disk: %d, %d, %d bytes of log", code, other, len(records))
		}
		if again := p.playUntilFull(t, s); !strings.Contains(again, "storage_full") {
			t.Errorf("first %s\nthen %s", full, again)
		}
	}
	if resp, err := http.Post(s.url+"/v1/sessions", "application/json",
		strings.NewReader(`{"cluster":`+twoGPUs+`}`)); err != nil || resp.StatusCode != http.StatusInsufficientStorage {
		t.Error("a new session:", resp.Status, err)
	}
	before := p.total
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for i := 0; p.total < before+200 && i < 50; i++ { // the server tries again after a second
		time.Sleep(100 * time.Millisecond)
		p.play(t, s, before+200)
	}
	_, log := get(t, s.url+"/v1/sessions/"+p.id+"/log")
	if _, records, _ := bytes.Cut(log, []byte("\n")); !bytes.HasPrefix(p.want.log, records) || p.total < before+200 {
		t.Errorf("with room: %d events, %d before", p.total, before)
	}
	s.stop(t)
	if text := s.stderr(); strings.Count(text, "make room on the disk") == 0 ||
		!strings.Contains(text, "events are taken again") {
		t.Error(text)
	}
	t.Logf("full at event %d, %d answered in all", before, p.total)
}

// playUntilFull sends events one by one until the server refuses one with 507, and
// returns that answer.
func (p *player) playUntilFull(t testing.TB, s *served) string {
	t.Helper()
	for range 20_000 {
		p.batch(t)
		resp, err := http.Post(s.url+"/v1/sessions/"+p.id+"/events", "application/x-ndjson",
			bytes.NewReader(append(wire.AppendEvent(nil, p.sent[p.answered]), '\n')))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		_, err = b.ReadFrom(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusInsufficientStorage {
			var problem struct{ Code string }
			if err := json.Unmarshal(b.Bytes(), &problem); err != nil || problem.Code != "storage_full" {
				t.Error(b.String(), err)
			}
			return b.String()
		}
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status, b.String())
		}
		p.heard(t, [][]byte{b.Bytes()})
	}
	t.Fatal("the disk is never full")
	return ""
}
