package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestImportPage(t *testing.T) {
	checkPage(t, "../../docs/use/import.md", changing, 8)
}

// TestImportHistoryRefuses checks that bad input ends in one line that names its place.
func TestImportHistoryRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := at("good.csv", "id,submit,start,end,gpus,nodes\na,1,2,3,1,n\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"import", "history"}, "takes the files to read"},
		{[]string{"import", "slurm", filepath.Join(dir, "none")}, "no such file"},
		{[]string{"import", "slurm", at("bad.txt", "hello\n")}, "bad.txt:1: \"hello\" begins none of the texts"},
		{[]string{"import", "history", at("bad.csv", "id,submit,gpus\na,b,1\n")},
			"bad.csv:1: no row can be read: submit: the job has no time and is left out"},
		{[]string{"import", "history", good, "--zone", "Mars"}, "--zone \"Mars\" is not a time zone"},
		{[]string{"import", "history", good, "--since", "soon"}, "--since: \"soon\" is not a time"},
		{[]string{"import", "history", good, "--speeds", "v100"}, "--speeds: \"v100\" is not TYPE=SPEED"},
		{[]string{"import", "history", good, "--weights", "heavy"}, "heavy"},
		{[]string{"import", "history", good, good}, "twice"},
		{[]string{"import", "slurm", good, "--now", "--happened", "x"}, "begins none of the texts"},
		{[]string{"import", "history", good, "--now", "--happened", "x"}, "leave it out with --now"},
		{[]string{"import", "history", good, "--now"}, "no job that runs or waits has GPUs"},
		{[]string{"profile", "slurm"}, "profile takes a source"},
	} {
		_, stderr, code := runHare(t, "", c.args...)
		if code != 2 || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("hare %s: exit code %d, %s", strings.Join(c.args, " "), code, stderr)
		}
	}
}
