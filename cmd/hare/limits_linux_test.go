//go:build cgo

package main

import (
	"os"
	"strings"
	"testing"
)

// A limit that is too low for Go's runtime gives one line that names the limit and the remedy, and
// not the stacks of all threads.
func TestLimitsOfTheProcess(t *testing.T) {
	t.Parallel()
	inst := file(t, "inst.json", tiny)
	for _, c := range []struct {
		limit string
		want  string // part of the one line; empty where hare works
	}{
		{"-v 400000", "the limit on address space is 390 MiB, and hare needs 2048 MiB: raise it with ulimit -v 2097152"},
		{"-v 524288", "address space"},
		{"-v 786432", "address space"},
		{"-v 1048576", "the limit on address space is 1024 MiB"},
		{"-v 1310720", "address space"},
		{"-v 1572864", "address space"},
		{"-v 2000000", "address space"},
		{"-v 2097152", ""},
		{"-v 3145728", ""},
		{"-d 65536", "the limit on data is 64 MiB"},
		{"-d 131072", "data"},
		{"-d 1048576", ""},
		{"-n 4", "the limit on open files is 4, and hare needs 16: raise it with ulimit -n 16"},
		{"-n 6", "open files"},
		{"-n 16", ""},
	} {
		for _, args := range [][]string{{"--version"}, {"solve", inst, "--work-limit", "10", "-o", os.DevNull}} {
			shell := command()
			shell.Path, shell.Args = "/bin/sh", append([]string{"sh", "-c", "ulimit " + c.limit + ` && exec "$0" "$@"`,
				shell.Path}, args...)
			var errs strings.Builder
			shell.Stderr = &errs
			err := shell.Run()
			code, said := shell.ProcessState.ExitCode(), errs.String()
			if c.want == "" {
				if err != nil || said != "" {
					t.Errorf("ulimit %s, %s: %v: %s", c.limit, args[0], err, said)
				}
			} else if code != exitInternal || !strings.Contains(said, c.want) || strings.Count(said, "\n") != 1 {
				t.Errorf("ulimit %s, %s: exit %d: %s", c.limit, args[0], code, said)
			}
		}
	}
}
