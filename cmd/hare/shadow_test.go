package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShadowPage runs the commands of docs/use/shadow.md on the jobs of a real Slurm.
func TestShadowPage(t *testing.T) { checkPage(t, "../../docs/use/shadow.md", changing, 3) }

// TestShadowRefuses checks that bad input ends in one line that names its place.
func TestShadowRefuses(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.csv")
	if err := os.WriteFile(good, []byte("id,submit,start,end,gpus,nodes\na,1,2,30,1,n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"shadow"}, "shadow takes a source"},
		{[]string{"shadow", "history"}, "shadow takes a source"},
		{[]string{"shadow", "pbs", good}, "unknown source"},
		{[]string{"shadow", "history", good, "--backfill", "1ms"}, "--backfill must be at least 1s"},
		{[]string{"shadow", "history", good, "--since", "9s", "-q"}, "every job of the window already ran"},
		{[]string{"shadow", "history", good, "--dependencies", "--record", good}, "it is a file: name a folder"},
		{[]string{"shadow", "history", good, "-o", filepath.Join(dir, "none", "x.html")}, "create it or name another"},
		{[]string{"shadow", "history", good, "-o", dir}, "is a folder"},
	} {
		_, stderr, code := runHare(t, "", c.args...)
		if code != 2 || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("hare %s: exit code %d, %s", strings.Join(c.args, " "), code, stderr)
		}
	}
}
