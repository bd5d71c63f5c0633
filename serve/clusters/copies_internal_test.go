package clusters

import (
	"os"
	"path/filepath"
	"testing"
)

// A file that is removed or renamed after its directory was read takes no room, and is no fault of the disk.
func TestSizeOfFileThatIsGone(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("12345"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 || os.Remove(filepath.Join(dir, "a")) != nil {
		t.Fatal(entries, err)
	}
	for i, want := range []int64{0, 5} {
		if size, err := sizeOf(entries[i]); err != nil || size != want {
			t.Errorf("%s: %d %v", entries[i].Name(), size, err)
		}
	}
}
