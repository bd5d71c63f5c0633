package list

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// This file keeps the types on which a job may run, in the order in which it tries them.

// modesOf lists the types that a job may use, in the order in which it tries them.
func (l *Scheduler) modesOf(j *JobState) []Mode {
	var modes []Mode
	for i, p := range j.spec.On {
		if t, ok := l.typeOf[p.Type]; ok {
			m := Mode{t, p.ComputeUs, p.ComputeUs + j.givenSyncUs(i)}
			if p.ComputeUs == 0 {
				m.DurationUs = 0
			}
			modes = append(modes, m)
		}
	}
	l.sortModes(modes)
	return modes
}

// sortModes puts modes in the order in which a job tries them.
func (l *Scheduler) sortModes(modes []Mode) {
	slices.SortStableFunc(modes, func(a, b Mode) int {
		byName := strings.Compare(l.types[a.Type], l.types[b.Type])
		switch {
		case l.rule.TypesByName:
			return byName
		case (a.DurationUs == 0) != (b.DurationUs == 0):
			return cmp.Compare(b.DurationUs, a.DurationUs)
		}
		return cmp.Or(cmp.Compare(a.DurationUs, b.DurationUs), byName)
	})
}

// expectSpread finds the expected times of a job on the nodes in service, and reports whether they have
// changed.
func (l *Scheduler) expectSpread(j *JobState) (changed bool) {
	if l.nodes == nil || !slices.ContainsFunc(j.spec.On, func(p hare.Profile) bool { return p.SyncAt != nil }) {
		return false
	}
	if j.spread.syncUs == nil {
		j.spread.syncUs, changed = make([]int64, len(j.spec.On)), true
	}
	for i := range j.spec.On {
		p := &j.spec.On[i]
		us := p.SyncUs
		if t, known := l.typeOf[p.Type]; known {
			us = l.nodes.LeastSyncUs(j.shape, p, t, j.spec.Tasks)
		}
		changed = changed || us != j.spread.syncUs[i]
		j.spread.syncUs[i] = us
	}
	return changed
}
