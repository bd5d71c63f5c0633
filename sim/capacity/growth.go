package capacity

import (
	"path"
	"slices"

	"github.com/hare-sched/hare"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// readGrow reads growth by example. A job grows by the first example that names it, in the order of their names.
func (p *plan) readGrow() (likes []capacitydoc.Like) {
	for _, name := range sortedKeys(p.Grow) {
		x := p.Grow[name]
		if !(x >= 0 && x <= maxGrowth) {
			p.bad("/grow/"+hare.EscapePointer(name), "out_of_range", "%v: give a factor from 0 to %d", x, maxGrowth)
		}
		likes = append(likes, capacitydoc.Like{Name: name, Factor: x})
	}
	if len(likes) > capacitydoc.MaxOptions {
		p.bad("/grow", "too_many", "%d examples: at most %d are taken", len(likes), capacitydoc.MaxOptions)
		return nil
	}
	for i := range p.Instance.Jobs {
		if at := exampleOf(likes, &p.Instance.Jobs[i]); at >= 0 {
			likes[at].Jobs++
		}
	}
	for _, l := range likes {
		if l.Jobs == 0 {
			p.bad("/grow/"+hare.EscapePointer(l.Name), "unknown_name", "no job of the history has the user, account, name "+
				"or ID %.80q%s", l.Name, hare.Guess(l.Name, examples(p.Instance)))
		}
	}
	return likes
}

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
	return sortedKeys(names)
}
