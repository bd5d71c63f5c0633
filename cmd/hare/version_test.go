package main

import (
	"regexp"
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	out, _, code := runHare(t, "", "--version")
	if code != exitDone || !regexp.MustCompile(`^hare 0\.1\.0 \((of an unknown commit|commit `+
		`[0-9a-f]{12}(-changed)?)\)\n$`).MatchString(out) {
		t.Errorf("exit %d: %s", code, out)
	}
	if word, _, code := runHare(t, "", "version"); code != exitDone || word != out {
		t.Errorf("hare version: exit %d: %s", code, word)
	}
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"},
		{Key: "vcs.modified", Value: "true"}}}
	if got := revision(info); got != "0123456789ab-changed" {
		t.Error(got)
	}
	info.Settings[1].Value = "false"
	if got := revision(info); got != "0123456789ab" {
		t.Error(got)
	}
	if got := revision(&debug.BuildInfo{}); got != "" {
		t.Error(got)
	}
	defer func(was string) { commit = was }(commit)
	if commit = "fedcba987654"; longVersion() != version+" (commit fedcba987654)" {
		t.Error(longVersion())
	}
}
