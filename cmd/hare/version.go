package main

import (
	"runtime/debug"
)

// version is the version of Hare; results carry it.
const version = "0.1.0"

// commit is the commit that the Makefile built. It is empty in other builds, which read
// the build information instead.
var commit string

// longVersion returns the version and the commit. It contains no date, so that the same
// sources give the same binary.
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

// revision returns the commit that go build recorded, in the Makefile's form.
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
