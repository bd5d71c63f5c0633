package policies_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

// Snapshots that an earlier version stored are still read, and the sessions go on with the decisions of that version.
// A file of testdata/snapshots has the snapshot in its first line, and then the events that followed, with their
// decisions. Nothing rewrites these files: they are what users have stored.
func TestStoredSnapshots(t *testing.T) {
	files, err := filepath.Glob("testdata/snapshots/*.ndjson")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			head, lines, _ := bytes.Cut(text, []byte("\n"))
			var stored struct {
				Policy   string
				Snapshot []byte
			}
			if err := json.Unmarshal(head, &stored); err != nil {
				t.Fatal(err)
			}
			p, err := registry.RestoreSession(stored.Policy, stored.Snapshot)
			if err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(lines) {
				r, err := wire.DecodeRecord(line)
				if err != nil {
					t.Fatal(err)
				}
				got, err := p.Step(r.Event.AtUs, []hare.Event{r.Event})
				if err != nil || !slices.Equal(got, r.Decisions) {
					t.Fatalf("%s: decided %v, %v", line, got, err)
				}
			}
			// A snapshot of today of the same session is read as well, and is the same when taken again.
			again, err := registry.RestoreSession(stored.Policy, p.AppendSnapshot(nil))
			if err != nil || !bytes.Equal(again.AppendSnapshot(nil), p.AppendSnapshot(nil)) {
				t.Error("a new snapshot differs after it was restored", err)
			}
		})
	}
}
