package ledger

import (
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// MayCopy reports whether an agent may bring the checkpoint of an attempt of a job, or get the copy for it: the agent
// has the program of rank 0 of the attempt, which goes on. copy is the copy that the server has; nil where it has
// none.
func (l *Ledger) MayCopy(agent, job string, attempt int64) (copy *clusterdoc.CheckpointCopy, ok bool) {
	j := l.jobs[job]
	if j == nil || j.live == nil || j.live.number != attempt || !j.mayCopy() {
		return nil, false
	}
	t := &j.live.tasks[0]
	return j.rounds.copy, t.agent.Name == agent && !t.final()
}

// mayCopy reports whether the server keeps a copy of the job's checkpoint: of round jobs whose nodes share nothing.
func (j *job) mayCopy() bool { return j.rounds != nil && j.spec.CheckpointDirectory == "" }

// Copies are the copies that the server must have, of jobs that have not ended.
func (l *Ledger) Copies() (all []Copied) {
	for _, j := range l.byTime {
		if j != nil && j.rounds != nil && j.rounds.copy != nil && !j.state.Final() {
			all = append(all, Copied{j.id, *j.rounds.copy})
		}
	}
	return all
}

// copied notes that the server has another copy, or has lost the one that it had.
func (l *Ledger) copied(c *Copied) {
	j := l.jobs[c.Job]
	if j == nil || j.rounds == nil || j.state.Final() {
		return
	}
	l.altered.job(j)
	if c.Round > 0 {
		j.rounds.copy = &c.CheckpointCopy
		return
	}
	j.rounds.copy = nil
	if j.live == nil && j.arrived && j.relaxed == nil {
		l.restrict(j)
	}
}
