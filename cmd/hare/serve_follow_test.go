package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFollowFlag(t *testing.T) {
	dir := t.TempDir()
	for name, file := range map[string]string{"full": "state.json", "kept": "journal.ndjson", "other": "notes.txt"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := followed([]string{"slurm=" + dir + "/full", "kube=" + dir + "/kept", "slurm=" + dir + "/later"})
	want := []followedDir{{"slurm", "slurm", dir + "/full"}, {"kube", "kube", dir + "/kept"},
		{"slurm-2", "slurm", dir + "/later"}}
	if err != nil || !slices.Equal(all, want) {
		t.Error(all, err)
	}
	for value, want := range map[string]string{
		"x=" + dir:                        "give slurm=DIR, kube=DIR or ray=DIR",
		"slurm":                           "give slurm=DIR, kube=DIR or ray=DIR",
		"slurm=":                          "give slurm=DIR, kube=DIR or ray=DIR",
		"ray=" + dir + "/other":           "is no directory of a helper",
		"ray=" + dir + "/other/notes.txt": "is no directory of a helper",
	} {
		out, text, code := runHare(t, "", "serve", "--listen", "127.0.0.1:0", "--follow", value)
		if code != 2 || out != "" || strings.Count(text, "\n") != 1 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s %s", value, code, out, text)
		}
	}
}
