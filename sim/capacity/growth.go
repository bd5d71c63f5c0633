package capacity

import (
	"maps"
	"path"
	"slices"

	"github.com/hare-sched/hare"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// exampleOf returns the first example that names the job, or -1.
func exampleOf(likes []capacitydoc.Like, j *hare.Job) int {
	return slices.IndexFunc(likes, func(l capacitydoc.Like) bool {
		if slices.Contains(j.Users, l.Name) || j.Hints != nil && slices.ContainsFunc(j.Hints.Class,
			func(c hare.ClassLabel) bool { return c.Value == l.Name }) {
			return true
		}
		ok, err := path.Match(l.Name, j.ID)
		return err == nil && ok
	})
}

// examples are the users, accounts and names of the jobs of a history.
func examples(inst *hare.Instance) []string {
	names := map[string]bool{}
	for i := range inst.Jobs {
		for _, u := range inst.Jobs[i].Users {
			names[u] = true
		}
		if h := inst.Jobs[i].Hints; h != nil {
			for _, c := range h.Class {
				names[c.Value] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
