package ledger

import (
	"fmt"
	"slices"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// maxApart is how many pairs of nodes that do not reach each other a job remembers.
const maxApart = 20

// noteUnreachable takes the report of a task that could not reach others of its attempt, and says so in a line; ""
// where it could. elsewhere says that the next attempt can keep away from all such pairs of nodes, because enough
// others are there: this attempt is then lost and has not failed.
func (l *Ledger) noteUnreachable(j *job, at *attempt, r *clusterdoc.TaskReport) (what string, elsewhere bool) {
	own := at.tasks[r.Task].agent.Name
	known := len(j.unreachable)
	for _, k := range r.Apart {
		if k < 0 || k >= len(at.tasks) || at.tasks[k].agent.Name == own {
			continue
		}
		p := unreachablePair{own, at.tasks[k].agent.Name, l.nowUs}
		if k < r.Task { // the one of the lesser rank first
			p.first, p.second = p.second, p.first
		}
		j.unreachable = append(j.unreachable, p)
	}
	if len(j.unreachable) == known {
		return "", false
	}
	j.unreachable = slices.Delete(j.unreachable, 0, max(0, len(j.unreachable)-maxApart))
	last := j.unreachable[len(j.unreachable)-1]
	away := l.avoided(j)
	return fmt.Sprintf("nodes %q and %q do not reach each other: ", last.first, last.second),
		!slices.ContainsFunc(j.unreachable, func(p unreachablePair) bool {
			return l.recent(&p) && !slices.ContainsFunc(away, p.has)
		})
}

// recent reports whether a pair still counts.
func (l *Ledger) recent(p *unreachablePair) bool { return l.nowUs-p.atUs < maxAffinityUs }

// avoided are the nodes that a job keeps away from, sorted, so that it has none of the pairs of the last minutes. Of
// each pair it is the node that is in more of them, or else the one of the greater rank. Nodes that are needed
// because there are too few others are left out.
func (l *Ledger) avoided(j *job) (names []string) {
	var pairs []unreachablePair
	for _, p := range j.unreachable {
		if l.recent(&p) {
			pairs = append(pairs, p)
		}
	}
	for len(pairs) > 0 {
		last := pairs[len(pairs)-1]
		count := func(name string) (n int) {
			for i := range pairs {
				if pairs[i].has(name) {
					n++
				}
			}
			return n
		}
		name := last.second
		if count(last.first) > count(name) {
			name = last.first
		}
		pairs = slices.DeleteFunc(pairs, func(p unreachablePair) bool { return p.has(name) })
		if l.enough(j, append(names, name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// enough reports whether there is room for all tasks of a job without some nodes.
func (l *Ledger) enough(j *job, away []string) bool {
	_, fit := l.inService(j, away)
	for _, n := range fit {
		if n >= j.tasks {
			return true
		}
	}
	return false
}

// inService counts, by type, the GPUs in service on which a job may run, and the tasks of it that fit on them at once,
// without some nodes.
func (l *Ledger) inService(j *job, away []string) (gpus, fit map[string]int) {
	gpus, fit = map[string]int{}, map[string]int{}
	for _, a := range l.agents {
		if slices.Contains(away, a.Name) {
			continue
		}
		here := map[string]int{}
		for i := range a.devices {
			if t := a.Devices[i].Type; a.wanted(i) && j.mayRunOn(t) {
				here[t]++
			}
		}
		for t, n := range here {
			gpus[t] += n
			if n /= j.perTask; j.spec.Nodes > 1 {
				n = min(n, 1)
			}
			fit[t] += n
		}
	}
	return gpus, fit
}
