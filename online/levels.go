package online

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// A core keeps of the levels of a job (docs/reference/model.md) what its places depend on: within, and at which
// finer levels a round is shorter. Which tasks are faster where is measured by their ends.

// addLevels notes the levels at which places for a job are chosen, from fine to coarse, of which the
// last is within.
func (c *core) addLevels(rules *hare.Job, names []string) {
	if len(names) == 0 {
		return
	}
	if rules.Within = names[len(names)-1]; rules.Within == hare.LevelAny {
		rules.Within = ""
	}
	if len(names) == 1 {
		return
	}
	p := hare.Profile{Type: "-", ComputeUs: 1}
	for i, name := range names {
		p.SyncAt = append(p.SyncAt, hare.LevelSync{Level: name, SyncUs: int64(i)})
		p.SyncUs = int64(i)
	}
	slices.SortFunc(p.SyncAt, func(a, b hare.LevelSync) int { return strings.Compare(a.Level, b.Level) })
	rules.On = []hare.Profile{p}
}

// levelsOf are the names that addLevels was given.
func (c *core) levelsOf(rules *hare.Job) []string {
	if rules == nil || !placement.UsesLevels(rules) {
		return nil
	}
	return placement.LevelNames(c.described.Topology(), rules)
}

// syncWithin is the longest time of synchronisation of a job on a type.
func (c *core) syncWithin(a *hare.Job, p *hare.Profile) int64 {
	lv := hare.NewLevels(&hare.Cluster{Topology: c.described.Topology()})
	within, _ := lv.Index(a.Within)
	return lv.SyncUs(p, within)
}
