package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/hare-sched/hare/internal/atomicfile"
)

// holds checks that a directory has one file, with a content and a mode.
func holds(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || string(text) != content {
		t.Errorf("the file has %q, not %q: %v", text, content, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != mode {
		t.Errorf("the file has the mode %v, not %v: %v", info.Mode(), mode, err)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("the directory has %v: %v", all, err)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	if err := atomicfile.Write(path, 0o600, []byte("a"), []byte("b")); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "ab", 0o600)
	if err := atomicfile.Write(path, 0o400, []byte("c")); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "c", 0o400)
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	if err := atomicfile.Write(path, 0o600, []byte("old")); err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(*atomicfile.File){
		(*atomicfile.File).Discard,
		func(f *atomicfile.File) { // Commit cannot sync a closed file
			_ = f.Close()
			if err := f.Commit(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("Commit of a closed file: %v", err)
			}
		},
	} {
		f, err := atomicfile.Create(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("new"); err != nil {
			t.Fatal(err)
		}
		end(f)
		holds(t, path, "old", 0o600)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := atomicfile.Write(filepath.Join(dir, "none", "state"), 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that does not exist: %v", err)
	}
	taken := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(taken, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(taken, 0o600); err == nil {
		t.Error("a file has replaced a directory")
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("left behind: %v, %v", all, err)
	}
	if err := atomicfile.SyncDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("SyncDir of no directory: %v", err)
	}
}
