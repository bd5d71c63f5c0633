//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOutputKeepsWhatStandsThere checks that -o does not replace a link, a FIFO or
// a device.
func TestOutputKeepsWhatStandsThere(t *testing.T) {
	instance := file(t, "i.json", tiny)
	want, _, _ := runHare(t, "", "bound", instance)
	bound := func(t *testing.T, to string) {
		t.Helper()
		if out, errs, code := runHare(t, "", "bound", instance, "-o", to); code != exitDone || out != "" || errs != "" {
			t.Fatalf("exit %d: %s%s", code, out, errs)
		}
	}
	read := func(t *testing.T, name string) {
		t.Helper()
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	isLink := func(t *testing.T, name string) {
		t.Helper()
		if info, err := os.Lstat(name); err != nil || info.Mode().Type() != os.ModeSymlink {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	link := func(t *testing.T, to, name string) {
		t.Helper()
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("links", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "there"), 0o700); err != nil {
			t.Fatal(err)
		}
		old := filepath.Join(dir, "there", "old.json")
		if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		first, second, loose := filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "loose")
		link(t, "second", first)
		link(t, "there/old.json", second)
		link(t, "there/new.json", loose)
		bound(t, first)
		bound(t, loose)
		for _, name := range []string{first, second, loose} {
			isLink(t, name)
		}
		read(t, old)
		read(t, filepath.Join(dir, "there", "new.json"))
		if info, err := os.Stat(old); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file's mode: %v, %v", info, err)
		}
		if got := names(t, filepath.Join(dir, "there")); len(got) != 2 {
			t.Errorf("left: %v", got)
		}
	})
	t.Run("link to itself", func(t *testing.T) {
		loop := filepath.Join(t.TempDir(), "loop")
		link(t, "loop", loop)
		if _, errs, code := runHare(t, "", "bound", instance, "-o", loop); code != exitUsage ||
			strings.Count(errs, "\n") != 1 {
			t.Errorf("exit %d: %s", code, errs)
		}
		isLink(t, loop)
	})
	t.Run("device", func(t *testing.T) {
		null := filepath.Join(t.TempDir(), "null") // a link, so that a failure does not damage the machine
		link(t, os.DevNull, null)
		bound(t, null)
		isLink(t, null)
	})
	t.Run("FIFO", func(t *testing.T) {
		fifo := filepath.Join(t.TempDir(), "fifo")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		// The FIFO is also opened for writing, so that the test ends if nobody
		// writes.
		f, err := os.OpenFile(fifo, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		bound(t, fifo)
		if info, err := os.Lstat(fifo); err != nil || info.Mode().Type() != os.ModeNamedPipe {
			t.Fatalf("%v, %v", info, err)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(f, got); err != nil || string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("a file of a folder", func(t *testing.T) {
		dir := t.TempDir()
		to := filepath.Join(dir, "elsewhere")
		link(t, to, filepath.Join(dir, "summary.csv"))
		if _, errs, code := runHare(t, "", "simulate", "--policy", "fifo", "--generate", "5", "--gpus", "V100=4", "-o",
			dir); code != exitDone {
			t.Fatal(errs)
		}
		isLink(t, filepath.Join(dir, "summary.csv"))
		if info, err := os.Stat(to); err != nil || info.Size() == 0 {
			t.Errorf("%v, %v", info, err)
		}
	})
}

// TestFullDisk checks that a full disk is not reported as a fault of the command
// line.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	instance, full := file(t, "i.json", tiny), filepath.Join(t.TempDir(), "full")
	if err := os.Symlink("/dev/full", full); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := runHare(t, "", "bound", instance, "-o", full); code != exitInternal ||
		!strings.Contains(errs, "no space left") {
		t.Errorf("exit %d: %s", code, errs)
	}
	out, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	for _, args := range [][]string{
		{"bound", instance}, {"hash", instance}, {"solve", instance}, {"generate", "--jobs", "5"},
		{"import", "gavel", "--jobs", "5"},
		{"whatif", instance, "--add", "V100=1"}, {"simulate", "--policy", "fifo", "--generate", "5"}, {"experiment", "list"},
	} {
		c := command(args...)
		c.Stdout = out
		_ = c.Run()
		if code := c.ProcessState.ExitCode(); code != exitInternal {
			t.Errorf("%v: exit %d", args, code)
		}
	}
	for _, err := range []error{
		usageError{&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}},
		&os.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT},
	} {
		if code := exitCode(err); code != exitInternal {
			t.Errorf("%v: exit %d", err, code)
		}
	}
}

// TestOutputByTheNameOfStandardOutput checks that bytes written to the name of
// standard output are appended to its content.
func TestOutputByTheNameOfStandardOutput(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd/1"); err != nil {
		t.Skip(err)
	}
	stdout := filepath.Join(t.TempDir(), "stdout") // like /dev/stdout, but a failure does not damage the machine
	if err := os.Symlink("/proc/self/fd/1", stdout); err != nil {
		t.Fatal(err)
	}
	instance := file(t, "i.json", tiny)
	want, _, _ := runHare(t, "", "bound", instance)
	f, err := os.Create(filepath.Join(t.TempDir(), "all"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString("before\n"); err != nil {
		t.Fatal(err)
	}
	c := command("bound", instance, "-o", stdout)
	c.Stdout = f
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(f.Name()); err != nil || string(got) != "before\n"+want {
		t.Errorf("%q, %v", got, err)
	}
}
