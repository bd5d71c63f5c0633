package list

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// guardSnapshot is the state of the guard.
type guardSnapshot struct {
	Turns   int64 `json:"turns"`
	SinceUs int64 `json:"since_us"`
	Tickets int64 `json:"tickets"`

	Slowdowns   []int64 `json:"slowdowns,omitempty"`
	Oldest      int     `json:"oldest,omitempty"`
	BacklogUs   int64   `json:"backlog_us,omitempty"`
	Changes     int64   `json:"changes,omitempty"`
	InServiceUs int64   `json:"in_service_us,omitempty"`
	SpentUs     int64   `json:"spent_us,omitempty"`
}

// guardedSnapshot is the state of the guard of one job.
type guardedSnapshot struct {
	Work    int64 `json:"work"`
	RoundUs int64 `json:"round_us"`
	Missed  int64 `json:"missed"`
	Turns   int64 `json:"turns"`
	Ticket  int64 `json:"ticket,omitempty"`
	Chosen  bool  `json:"chosen,omitempty"`
	OnType  int   `json:"on_type,omitempty"`
	GPUs    []int `json:"gpus,omitempty"`
	// SinceUs is where it is not the time at which the wait began.
	SinceUs *int64 `json:"since_us,omitempty"`
	Back    bool   `json:"back,omitempty"`

	ClusterUs int64 `json:"cluster_us,omitempty"`
	FIFOUs    int64 `json:"fifo_us,omitempty"`
	LookUs    int64 `json:"look_us,omitempty"`
	Aged      int64 `json:"aged,omitempty"`
}

func (l *Scheduler) guardSnapshot() *guardSnapshot {
	if !l.guards() {
		return nil
	}
	g := &l.guard
	s := &guardSnapshot{Turns: g.turns, SinceUs: g.sinceUs, Tickets: g.tickets}
	if sl := &g.slowdown; l.limited() {
		s.Slowdowns, s.Oldest, s.BacklogUs, s.Changes = sl.ended.last, sl.ended.oldest, sl.backlogUs, sl.changes
		s.InServiceUs, s.SpentUs = sl.inServiceUs, sl.spentUs
	}
	return s
}

func (l *Scheduler) guardedSnapshot(j *JobState) *guardedSnapshot {
	if !l.guards() {
		return nil
	}
	x := &j.guarded
	s := &guardedSnapshot{Work: x.work, RoundUs: x.roundUs, Missed: x.missed, Turns: x.turns, Ticket: x.ticket,
		Chosen: x.chosen, OnType: x.onType, GPUs: x.gpus, Back: x.back}
	if l.limited() {
		s.ClusterUs, s.FIFOUs, s.LookUs, s.Aged = x.clusterUs, x.fifoUs, x.lookUs, x.aged
	}
	if j.waits() && x.sinceUs != j.sinceUs {
		s.SinceUs = &x.sinceUs
	}
	return s
}

// restoreGuard takes the state of the guard once jobs and GPUs are there; false says that
// the snapshot contradicts itself. A snapshot of a version without a guard begins again: all
// that jobs have missed is forgotten.
func (l *Scheduler) restoreGuard(s *schedulerSnapshot) bool {
	if !l.guards() {
		return true
	}
	g := &l.guard
	*g = guard{sinceUs: l.nowUs}
	if s.Guard == nil {
		for _, j := range l.jobs {
			l.guardArrival(j)
		}
		l.guardWaits()
		return true
	}
	*g = guard{turns: s.Guard.Turns, sinceUs: s.Guard.SinceUs, tickets: s.Guard.Tickets}
	if g.turns < 0 || g.sinceUs < 0 || g.sinceUs > l.nowUs || g.tickets < 0 || !l.restoreSlowdowns(s.Guard) {
		return false
	}
	for i, j := range l.jobs {
		y := s.Jobs[i].Guard
		if y == nil || y.Work < 0 || y.Work > mostWork || y.RoundUs <= 0 || y.RoundUs > hare.MaxExact || y.Missed < 0 ||
			y.Turns < 0 || y.Turns > g.turns || y.Ticket < 0 || y.Ticket > g.tickets || y.OnType < -1 ||
			y.OnType >= max(1, len(l.types)) || y.ClusterUs < 0 || y.FIFOUs < 0 || y.LookUs < 0 || y.Aged < 0 {
			return false
		}
		j.guarded = guarded{work: y.Work, roundUs: y.RoundUs, missed: y.Missed, turns: y.Turns, ticket: y.Ticket,
			chosen: y.Chosen, onType: y.OnType, sinceUs: j.sinceUs, back: y.Back,
			clusterUs: y.ClusterUs, fifoUs: y.FIFOUs, lookUs: y.LookUs, aged: y.Aged}
		if y.SinceUs != nil {
			if *y.SinceUs < j.sinceUs || *y.SinceUs > l.nowUs {
				return false
			}
			j.guarded.sinceUs = *y.SinceUs
		}
		if y.Back {
			g.back++
		}
		g.work += y.Work
		for _, n := range y.GPUs {
			if n < 0 || n >= len(l.gpus) || g.reservedBy[n] != nil || y.Ticket == 0 {
				return false
			}
			l.reserveGPU(j, n)
		}
		switch {
		case y.Ticket > 0 && !j.waits():
			return false
		case y.Ticket > 0:
			g.due = append(g.due, j)
		case j.waits() && !y.Back:
			l.noteWait(j)
			l.noteLate(j, y.LookUs)
		}
	}
	slices.SortFunc(g.due, func(a, b *JobState) int { return cmp.Compare(a.guarded.ticket, b.guarded.ticket) })
	for i := 1; i < len(g.due); i++ {
		if g.due[i].guarded.ticket == g.due[i-1].guarded.ticket {
			return false
		}
	}
	return true
}

// restoreSlowdowns takes the state of the limit of slowdowns; false says that the snapshot
// contradicts itself.
func (l *Scheduler) restoreSlowdowns(s *guardSnapshot) bool {
	if !l.limited() {
		return true
	}
	sl := &l.guard.slowdown
	if s.BacklogUs < 0 || s.Changes < 0 || s.InServiceUs < 0 || s.SpentUs < 0 || s.SpentUs > math.MaxInt64/lateShare/2 ||
		len(s.Slowdowns) > slowdownWindow || s.Oldest < 0 || s.Oldest > max(0, len(s.Slowdowns)-1) {
		return false
	}
	for _, slowdown := range s.Slowdowns {
		if slowdown < 1e6 {
			return false
		}
		sl.ended.add(slowdown, slowdownWindow)
	}
	sl.ended.oldest, sl.backlogUs, sl.changes = s.Oldest, s.BacklogUs, s.Changes
	sl.inServiceUs, sl.spentUs = s.InServiceUs, s.SpentUs
	return true
}
