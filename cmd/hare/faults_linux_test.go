package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mount mounts a file system until the end of the test, where the test may do so.
func mount(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		t.Skipf("this machine lets nobody mount: %s", out)
	}
	dir := args[len(args)-1]
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
}

// kill ends the server with SIGKILL.
func (s *served) kill(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.end(t)
}

// copyTree copies a data directory.
func copyTree(t testing.TB, from string) (to string) {
	t.Helper()
	to = filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestServeStartsOnAFullDisk starts a server on a full disk, after a kill and after a clean
// end: everything can be read, writing gets 507, a key can be revoked, a backup can be made,
// doctor says that the disk is full, and all goes on once there is room.
func TestServeStartsOnAFullDisk(t *testing.T) {
	for _, how := range []string{"killed", "ended"} {
		t.Run(how, func(t *testing.T) {
			disk := t.TempDir()
			mount(t, "-t", "tmpfs", "-o", "size=4m", "none", disk)
			dir := filepath.Join(disk, "data")
			s := serve(t, -1, "--data-dir", dir)
			p := newPlayer(t, s, 4)
			p.play(t, s, 60)
			expect(t, exitDone, "hare_", "key", "create", "--data-dir", dir, "--tenant", "a", "--role", "read")
			keys := expect(t, exitDone, "valid", "key", "list", "--data-dir", dir)
			id, _, _ := strings.Cut(strings.Split(keys, "\n")[1], " ")
			if how == "killed" {
				s.kill(t)
			} else {
				s.stop(t)
			}
			ballast := filepath.Join(disk, "ballast")
			if err := exec.Command("dd", "if=/dev/zero", "of="+ballast, "bs=4096").Run(); err == nil {
				t.Fatal("the disk is never full")
			}
			s = serve(t, -1, "--data-dir", dir)
			if s.url == "" {
				t.Fatal(s.stderr())
			}
			code, log := get(t, s.url+"/v1/sessions/"+p.id+"/log")
			_, records, _ := bytes.Cut(log, []byte("\n"))
			if code != http.StatusOK || !bytes.Equal(records, p.want.log) {
				t.Errorf("%d, %d bytes of log of %d", code, len(records), len(p.want.log))
			}
			if text := p.playUntilFull(t, s); !strings.Contains(text, "storage_full") {
				t.Error(text)
			}
			out, _, _ := runHare(t, "", "doctor", "--listen", "127.0.0.1:0", "--data-dir", dir)
			if !strings.Contains(out, "FAIL  data directory   the disk of "+dir+" is full") ||
				!strings.Contains(out, "remedy: make room on the disk") || !strings.Contains(out, "1 session, ") {
				t.Error(out)
			}
			expect(t, exitDone, id+" is revoked", "key", "revoke", "--data-dir", dir, id)
			expect(t, exitDone, "1 session, ", "backup", dir, filepath.Join(t.TempDir(), "backup"))
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			before := p.total
			for end := time.Now().Add(time.Minute); p.total < before+50 && time.Now().Before(end); {
				p.play(t, s, before+50)
				time.Sleep(10 * time.Millisecond)
			}
			if p.total < before+50 {
				t.Error("nothing goes on")
			}
			s.stop(t)
		})
	}
	// Where even the reserve is gone, the message says what to do.
	disk := t.TempDir()
	mount(t, "-t", "tmpfs", "-o", "size=16k", "none", disk)
	expect(t, exitInternal, "make room on the disk of "+disk, "serve", "--listen", "127.0.0.1:0", "--data-dir", disk)
}

// TestReadOnlyDisk makes a backup and a repair from a disk that cannot be written, as Linux
// makes of a failing one, and asks doctor.
func TestReadOnlyDisk(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, -1, "--data-dir", dir)
	p := newPlayer(t, s, 5)
	p.play(t, s, 60)
	killed := copyTree(t, dir)
	bare := copyTree(t, dir)
	if err := os.Remove(filepath.Join(bare, "hare.db-shm")); err != nil {
		t.Fatal(err)
	}
	s.stop(t)
	want := fmt.Sprintf("1 session, %d events, 0 solves", p.total)
	for name, from := range map[string]string{"killed": killed, "without the index": bare, "ended": dir} {
		t.Run(name, func(t *testing.T) {
			mount(t, "--bind", from, from)
			if out, err := exec.Command("mount", "-o", "remount,ro,bind", from).CombinedOutput(); err != nil {
				t.Skipf("%s", out)
			}
			out, _, _ := runHare(t, "", "doctor", "--listen", "127.0.0.1:0", "--data-dir", from)
			if !strings.Contains(out, "ok    sessions         "+want) || strings.Contains(out, "damaged") ||
				!strings.Contains(out, "FAIL  data directory   "+from+": read-only file system") {
				t.Error(out)
			}
			expect(t, exitDone, want, "backup", from, filepath.Join(t.TempDir(), "backup"))
			expect(t, exitDone, "; no losses", "repair", from, filepath.Join(t.TempDir(), "mended"))
			expect(t, exitUsage, "hare backup "+from+" FILE", "serve", "--listen", "127.0.0.1:0", "--data-dir", from)
		})
	}
}

// TestDamagedFiles damages the files below SQLite, and checks what serve, doctor, backup and
// repair say, and that what is whole is saved.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, -1, "--data-dir", dir)
	p := newPlayer(t, s, 6)
	p.play(t, s, 110)
	// What is acknowledged by now is in the log before this byte, however events were put together into commits.
	half := p.total
	log, err := os.Stat(filepath.Join(dir, "hare.db-wal"))
	if err != nil {
		t.Fatal(err)
	}
	p.play(t, s, 200)
	killed := copyTree(t, dir)
	s.stop(t)
	change := func(name string, f func([]byte) []byte) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, f(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	bit := func(b []byte) []byte { b[(log.Size()+int64(len(b)))/2] ^= 1; return b }
	cut := func(share float64) func([]byte) []byte {
		return func(b []byte) []byte { return b[:int(float64(len(b))*share)] }
	}
	for _, c := range []struct {
		name, from, want string
		fault            func(t *testing.T, dir string)
		saved            int // events, at least; -1 where nothing can be saved
	}{
		{"a bit of the log", killed, "hare.db-wal: it is damaged after ", change("hare.db-wal", bit), half},
		{"half of the log", killed, "commits that were acknowledged", change("hare.db-wal", cut(0.5)), 1},
		{"no log", killed, "hare.db-wal: it is missing or empty", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "hare.db-wal")); err != nil {
				t.Fatal(err)
			}
		}, 0},
		{"an empty database", dir, "hare.db has 0 bytes", change("hare.db", cut(0)), -1},
		{"no database", dir, "hare.db is missing", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "hare.db")); err != nil {
				t.Fatal(err)
			}
		}, -1},
		{"the last tenth of the database", dir, "it lacks the last ", change("hare.db", cut(0.9)), p.total / 2},
		{"the header", dir, "hare.db: it is not a database, or its beginning is lost",
			change("hare.db", func(b []byte) []byte { clear(b[:100]); return b }), p.total},
		{"the first page", dir, "hare.db: it is not a database, or its beginning is lost",
			change("hare.db", func(b []byte) []byte { clear(b[:4096]); return b }), p.total},
		{"a number in the header", dir, "hare.db: its header is damaged",
			change("hare.db", func(b []byte) []byte { b[19] ^= 1; return b }), p.total},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := copyTree(t, c.from)
			c.fault(t, dir)
			out := expect(t, exitUsage, c.want, "serve", "--listen", "127.0.0.1:0", "--data-dir", dir)
			if !strings.Contains(out, "hare repair "+dir+" NEWDIR") || strings.Count(out, "\n") != 1 {
				t.Error(out)
			}
			out, _, _ = runHare(t, "", "doctor", "--listen", "127.0.0.1:0", "--data-dir", dir)
			if !strings.Contains(out, "FAIL  sessions") || !strings.Contains(out, c.want) {
				t.Error(out)
			}
			expect(t, exitUsage, "hare repair "+dir+" NEWDIR", "backup", dir, filepath.Join(t.TempDir(), "backup"))
			mended := filepath.Join(t.TempDir(), "mended")
			if c.saved < 0 {
				expect(t, exitUsage, "nothing of it can be saved, restore a backup", "repair", dir, mended)
				return
			}
			out = expect(t, exitNo, c.want, "repair", dir, mended)
			var events int
			_, rest, _ := strings.Cut(out, "; saved ")
			if _, err := fmt.Sscan(rest, &events); err != nil || events < c.saved || events > p.total {
				t.Errorf("saved %d events of %d, at least %d are whole\n%s", events, p.total, c.saved, out)
			}
			s := serve(t, -1, "--data-dir", mended)
			if s.url == "" {
				t.Fatal(s.stderr())
			}
			if events > 0 {
				_, log := get(t, s.url+"/v1/sessions/"+p.id+"/log")
				_, records, _ := bytes.Cut(log, []byte("\n"))
				if bytes.Count(records, []byte("\n")) != events || !bytes.HasPrefix(p.want.log, records) {
					t.Errorf("%d events are said to be saved, the log has other ones", events)
				}
			}
			s.stop(t)
		})
	}
}

// TestFilesAreClosedToOthers serves from a directory that was made before, with the mask of
// most systems, and looks at each file that Hare makes.
func TestFilesAreClosedToOthers(t *testing.T) {
	base := t.TempDir()
	dir, backup, mended := filepath.Join(base, "data"), filepath.Join(base, "backup"), filepath.Join(base, "mended")
	restored := filepath.Join(base, "restored")
	old := unix.Umask(0o022)
	defer unix.Umask(old)
	for _, d := range []string{dir, restored} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	closed := func(root string) {
		t.Helper()
		n := 0
		if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || path == dir || path == restored {
				return err
			}
			n++
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v", path, info.Mode())
			}
			return err
		}); err != nil || n == 0 {
			t.Error(root, n, err)
		}
	}
	expect(t, exitDone, "hare_", "key", "create", "--data-dir", dir, "--tenant", "a", "--role", "read")
	s := serve(t, -1, "--data-dir", dir)
	newPlayer(t, s, 1).play(t, s, 20)
	closed(dir)
	expect(t, exitDone, "1 session", "backup", dir, backup)
	expect(t, exitDone, "1 session", "restore", backup, restored)
	s.stop(t)
	expect(t, exitDone, "1 session", "repair", dir, mended)
	for _, path := range []string{dir, backup, restored, mended} {
		closed(path)
	}
	// Files that were open are said to be, and closed at the next start.
	if err := os.Chmod(filepath.Join(dir, "hare.db"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _, code := runHare(t, "", "doctor", "--listen", "127.0.0.1:0", "--data-dir", dir)
	if want := "remedy: chmod go= " + filepath.Join(dir, "hare.db"); code != exitNo || !strings.Contains(out, want) {
		t.Error(code, out)
	}
	s = serve(t, -1, "--data-dir", dir)
	closed(dir)
	s.stop(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	s = serve(t, -1, "--data-dir", dir)
	s.stop(t)
	if !strings.Contains(s.stderr(), "level=WARN") || !strings.Contains(s.stderr(), "chmod go= "+dir) {
		t.Error(s.stderr())
	}
}
