package capacity

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// Like is how the jobs of one example grow, in place of Request.Growth.
type Like struct {
	// Name is a user, an account or a name of jobs, or a pattern for their IDs, such as *-resnet-*.
	Name string `json:"name"`
	// Factor multiplies the jobs: 3 adds two users like this one, 0 takes them away.
	Factor float64 `json:"factor"`
	// Jobs is how many jobs of the history it names.
	Jobs int `json:"jobs"`
}

// names says that the job is one of the example.
func (l *Like) names(j *hare.Job) bool {
	if slices.Contains(j.Users, l.Name) {
		return true
	}
	if j.Hints != nil && slices.ContainsFunc(j.Hints.Class, func(c hare.ClassLabel) bool { return c.Value == l.Name }) {
		return true
	}
	ok, err := path.Match(l.Name, j.ID)
	return err == nil && ok
}

// readGrow reads growth by example, as ann=3. A job grows by the first example that names it.
func readGrow(texts []string, inst *hare.Instance) ([]Like, error) {
	if len(texts) > MaxOptions {
		return nil, fault("growth", "%d examples: at most %d are taken", len(texts), MaxOptions)
	}
	var likes []Like
	for _, text := range texts {
		at := max(strings.LastIndexByte(text, '='), 0)
		l := Like{Name: strings.TrimSpace(text[:at])}
		var err error
		if l.Factor, err = strconv.ParseFloat(strings.TrimPrefix(text[at:], "="), 64); err != nil || l.Name == "" {
			return nil, fault("growth", "%.80q: give a factor such as 1.3, or NAME=FACTOR such as ann=2", text)
		}
		if !(l.Factor >= 0 && l.Factor <= maxGrowth) {
			return nil, fault("growth", "%.80q: give a factor from 0 to %d", text, maxGrowth)
		}
		if slices.ContainsFunc(likes, func(o Like) bool { return o.Name == l.Name }) {
			return nil, fault("growth", "%.80q is given twice", l.Name)
		}
		likes = append(likes, l)
	}
	for i := range inst.Jobs {
		if at := exampleOf(likes, &inst.Jobs[i]); at >= 0 {
			likes[at].Jobs++
		}
	}
	for _, l := range likes {
		if l.Jobs == 0 {
			return nil, fault("growth", "no job of the history has the user, account, name or ID %.80q%s", l.Name,
				hare.Guess(l.Name, examples(inst)))
		}
	}
	return likes, nil
}

// exampleOf returns the first example that names the job, or -1.
func exampleOf(likes []Like, j *hare.Job) int {
	return slices.IndexFunc(likes, func(l Like) bool { return l.names(j) })
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
