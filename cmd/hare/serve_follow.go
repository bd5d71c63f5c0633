package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

// followedDir is a directory of a helper whose session is shown.
type followedDir struct{ id, helper, dir string }

// followed reads the values of --follow. The sessions are named as their helpers, with a number from the second on.
func followed(values []string) (all []followedDir, err error) {
	count := map[string]int{}
	for _, value := range values {
		helper, dir, _ := strings.Cut(value, "=")
		if !slices.Contains([]string{"slurm", "kube", "ray"}, helper) || dir == "" {
			return nil, usageError{fmt.Errorf("--follow %.100q: give slurm=DIR, kube=DIR or ray=DIR, with the --dir of hare "+
				"slurm, hare kube or hare ray", value)}
		}
		if !ofHelper(dir) {
			return nil, usageError{fmt.Errorf("--follow %.100q: %s is no directory of a helper", value, dir)}
		}
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
		f := followedDir{helper, helper, dir}
		if count[helper]++; count[helper] > 1 {
			f.id = fmt.Sprintf("%s-%d", helper, count[helper])
		}
		all = append(all, f)
	}
	return all, nil
}

// ofHelper reports whether a helper may have the directory: it is not there yet, is empty, or has files of a helper.
func ofHelper(dir string) bool {
	entries, err := os.ReadDir(dir)
	return errors.Is(err, os.ErrNotExist) || err == nil && (len(entries) == 0 ||
		slices.ContainsFunc(entries, func(e os.DirEntry) bool {
			return e.Name() == sessiondoc.HelperFile || e.Name() == "state.json" || strings.HasPrefix(e.Name(), "journal.") ||
				strings.HasPrefix(e.Name(), "session-")
		}))
}
