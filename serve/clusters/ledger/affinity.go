package ledger

import (
	"slices"
	"strings"
)

// restrict restricts a round job, of which an attempt has just ended, to nodes that reach its checkpoint. The job
// waits for them as long as its attempts have trained for the rounds that it would lose elsewhere, which are those
// that no copy of the server has, and 10 minutes at most: the wait and the training that is repeated are never more
// than twice the smaller of the two. It says whether the job has arrived at the session again.
func (l *Ledger) restrict(j *job) bool {
	was := j.affinity
	j.affinity = nil
	away := l.avoided(j)
	nodes := l.reach(j)
	if nodes != nil || away != nil {
		j.affinity = &affinity{nodes, away, l.nowUs + maxAffinityUs}
		if nodes != nil {
			j.affinity.untilUs = l.nowUs + min(j.rounds.uncopiedUs(), maxAffinityUs)
		}
		if !slices.Contains(l.affinities, j) {
			l.affinities = append(l.affinities, j)
		}
	}
	if j.affinity == nil && was == nil || j.affinity != nil && was != nil && slices.Equal(j.affinity.nodes, was.nodes) &&
		slices.Equal(j.affinity.avoid, was.avoid) && j.arrived {
		return false
	}
	l.withdraw(j)
	l.arrive(j)
	return true
}

// reach are nodes such that the job has its checkpoint wherever it runs among them; nil where it may run anywhere, or
// where nobody who has the checkpoint takes jobs. A job of n nodes may have n − 1 others besides those that have the
// checkpoint, so that one of its nodes has the checkpoint.
func (l *Ledger) reach(j *job) []string {
	r := j.rounds
	if r == nil || r.saved == 0 || j.spec.CheckpointDirectory != "" || r.copy != nil && r.copy.Round >= r.saved {
		return nil
	}
	var nodes []string
	away := l.avoided(j)
	for _, a := range r.holders {
		if !a.draining && !slices.Contains(away, a.Name) {
			nodes = append(nodes, a.Name)
		}
	}
	if nodes == nil {
		return nil
	}
	var others []*agent
	for _, a := range l.agents {
		if !a.lost && !a.draining && !slices.Contains(r.holders, a) && !slices.Contains(away, a.Name) {
			others = append(others, a)
		}
	}
	room := func(a *agent) (n int) {
		for i := range a.devices {
			if a.wanted(i) && j.mayRunOn(a.Devices[i].Type) {
				n++
			}
		}
		return n
	}
	slices.SortFunc(others, func(a, b *agent) int {
		if d := room(b) - room(a); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, a := range others[:min(len(others), j.tasks-1)] {
		nodes = append(nodes, a.Name)
	}
	slices.Sort(nodes)
	return nodes
}

// AffinitiesEnd reports whether a job has waited long enough for the nodes that have its checkpoint.
func (l *Ledger) AffinitiesEnd(nowUs int64) bool {
	return slices.ContainsFunc(l.affinities, func(j *job) bool { return l.affinityEnds(j, nowUs) })
}

// affinityEnds reports whether a job that waits goes to any node from now on.
func (l *Ledger) affinityEnds(j *job, nowUs int64) bool {
	return j.affinity != nil && j.live == nil && !j.state.Final() && (nowUs >= j.affinity.untilUs ||
		len(j.affinity.nodes) > 0 && l.reach(j) == nil || len(j.affinity.avoid) > 0 && !l.enough(j, j.affinity.avoid))
}

// endAffinities lets the jobs go to any node whose time is over.
func (l *Ledger) endAffinities() {
	l.affinities = slices.DeleteFunc(l.affinities, func(j *job) bool {
		if !l.affinityEnds(j, l.nowUs) {
			return j.affinity == nil || j.live != nil || j.state.Final()
		}
		j.affinity = nil
		if j.relaxed != nil {
			j.relaxed.anywhere = true
		}
		l.withdraw(j)
		l.arrive(j)
		return true
	})
}
