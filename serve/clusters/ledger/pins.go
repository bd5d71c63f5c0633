package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// maxPinUs is the longest time in microseconds that a round job waits for a node that has its checkpoint.
const maxPinUs = 10 * 60 * 1e6

// pin is where a round job starts again: on nodes of which one has the last checkpoint, until a time.
type pin struct {
	nodes   []string // sorted; nil: any
	away    []string // sorted: that the job keeps away from
	untilUs int64
}

// saved notes who has the checkpoint of a round job. An attempt that had to begin again has fewer rounds than the one
// before, whose checkpoint is worth more until the new one has caught up.
func (j *job) saved(at *attempt, round int64) {
	at.saved = true
	if round < j.savedRound {
		return
	}
	j.savedRound = round
	j.holders = nil
	for k := range at.tasks {
		if a := at.tasks[k].agent; !slices.Contains(j.holders, a) {
			j.holders = append(j.holders, a)
		}
	}
}

// pinned restricts a round job, of which an attempt has just ended, to nodes that reach its checkpoint. The job waits
// for them as long as its attempts have trained for the rounds that it would lose elsewhere, which are those that no
// copy of the server has, and 10 minutes at most: the wait and the training that is repeated are never more than twice
// the smaller of the two. It says whether the job has arrived at the session again.
func (l *Ledger) pinned(j *job) bool {
	was := j.pin
	j.pin = nil
	away := l.away(j)
	nodes := l.reach(j)
	if nodes != nil || away != nil {
		j.pin = &pin{nodes, away, l.nowUs + maxPinUs}
		if nodes != nil {
			j.pin.untilUs = l.nowUs + min(j.lacksUs(), maxPinUs)
		}
		if !slices.Contains(l.pins, j) {
			l.pins = append(l.pins, j)
		}
	}
	if j.pin == nil && was == nil || j.pin != nil && was != nil && slices.Equal(j.pin.nodes, was.nodes) &&
		slices.Equal(j.pin.away, was.away) && j.arrived {
		return false
	}
	l.void(j)
	l.arrive(j)
	return true
}

// reach are nodes such that the job has its checkpoint wherever it runs among them; nil where it may run anywhere, or
// where nobody who has the checkpoint takes jobs. A job of n nodes may have n − 1 others beside those that have the
// checkpoint, so that one of its nodes has the checkpoint.
func (l *Ledger) reach(j *job) []string {
	if j.savedRound == 0 || j.spec.CheckpointDirectory != "" || j.copy != nil && j.copy.Round >= j.savedRound {
		return nil
	}
	var nodes []string
	away := l.away(j)
	for _, a := range j.holders {
		if !a.draining && !slices.Contains(away, a.Name) {
			nodes = append(nodes, a.Name)
		}
	}
	if nodes == nil {
		return nil
	}
	var others []*agent
	for _, a := range l.agents {
		if !a.lost && !a.draining && !slices.Contains(j.holders, a) && !slices.Contains(away, a.Name) {
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

func (j *job) mayRunOn(gpuType string) bool {
	_, ok := j.spec.On[gpuType]
	return ok || len(j.spec.On) == 0
}

// PinsEnd reports whether a job has waited long enough for the nodes that have its checkpoint.
func (l *Ledger) PinsEnd(nowUs int64) bool {
	return slices.ContainsFunc(l.pins, func(j *job) bool { return l.pinEnds(j, nowUs) })
}

// pinEnds reports whether a job that waits goes to any node from now on.
func (l *Ledger) pinEnds(j *job, nowUs int64) bool {
	return j.pin != nil && j.live == nil && !j.state.Final() && (nowUs >= j.pin.untilUs ||
		len(j.pin.nodes) > 0 && l.reach(j) == nil || len(j.pin.away) > 0 && !l.enough(j, j.pin.away))
}

// unpin lets the jobs go to any node whose time is over.
func (l *Ledger) unpin() {
	l.pins = slices.DeleteFunc(l.pins, func(j *job) bool {
		if !l.pinEnds(j, l.nowUs) {
			return j.pin == nil || j.live != nil || j.state.Final()
		}
		j.pin, j.anywhere = nil, j.relaxed
		l.void(j)
		l.arrive(j)
		return true
	})
}

// only are the nodes that the session may give a job.
func (j *job) only() []hare.LabelValues {
	if j.pin == nil || j.relaxed || j.pin.nodes == nil {
		return nil // the home of a relaxed job needs no GPU
	}
	return []hare.LabelValues{{Label: hare.LabelNode, Values: j.pin.nodes}}
}

// Pinned says for which nodes a round job waits that has its checkpoint there; "" where it waits for none.
func (l *Ledger) Pinned(id string) string {
	j := l.jobs[id]
	if j == nil || j.pin == nil || j.pin.nodes == nil || j.state != clusterdoc.JobWaiting {
		return ""
	}
	var names []string
	for _, a := range j.holders {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	from := ""
	if j.copy != nil {
		from = fmt.Sprintf(", from the copy behind round %d", j.copy.Round)
	}
	return fmt.Sprintf("waits for %s with the checkpoint behind round %d, until %s, and starts elsewhere then%s",
		strings.Join(names, " or "), j.savedRound, instant(j.pin.untilUs).Format(time.DateTime+" MST"), from)
}
