package main

import (
	"runtime/debug"
)

// version of Hare; results carry it.
const version = "0.1.0"

// commit is what the Makefile built from; empty in other builds, which ask the
// build information for it.
var commit string

// longVersion names the version and the commit. It has no date, so that the same
// sources build the same bytes.
func longVersion() string {
	of := commit
	if info, ok := debug.ReadBuildInfo(); ok && of == "" {
		of = revision(info)
	}
	if of == "" {
		return version + " (of an unknown commit)"
	}
	return version + " (commit " + of + ")"
}

// revision is the commit that go build recorded, as the Makefile writes it.
func revision(info *debug.BuildInfo) string {
	of, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			of = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "-changed"
		}
	}
	if of == "" {
		return ""
	}
	return of + changed
}
