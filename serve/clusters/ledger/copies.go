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
	return j.copy, t.agent.Name == agent && !t.final()
}

// mayCopy reports whether the server keeps a copy of the job's checkpoint: of round jobs whose nodes share nothing.
func (j *job) mayCopy() bool { return j.spec.Module != "" && j.spec.CheckpointDirectory == "" }

// Copies are the copies that the server must have, of jobs that have not ended.
func (l *Ledger) Copies() (all []Copied) {
	for _, j := range l.byTime {
		if j != nil && j.copy != nil && !j.state.Final() {
			all = append(all, Copied{j.id, *j.copy})
		}
	}
	return all
}

// copied notes that the server has another copy, or has lost the one that it had.
func (l *Ledger) copied(c *Copied) {
	j := l.jobs[c.Job]
	if j == nil || j.state.Final() {
		return
	}
	if c.Round > 0 {
		j.copy = &c.CheckpointCopy
		return
	}
	j.copy = nil
	if j.live == nil && j.arrived && !j.relaxed {
		l.pinned(j)
	}
}

// lacksUs is how long the job has trained for the rounds that no copy of the server has.
func (j *job) lacksUs() int64 {
	lacks := j.savedRound
	if j.copy != nil {
		lacks -= j.copy.Round
	}
	if lacks <= 0 {
		return 0
	}
	return int64(float64(j.trainedUs) * (float64(lacks) / float64(j.savedRound)))
}

// of is what the program of a rank trains: that of rank 0 begins with the copy of the server.
func of(r *clusterdoc.RoundStart, rank int, j *job) *clusterdoc.RoundStart {
	if r == nil || rank > 0 || j.copy == nil {
		return r
	}
	x := *r
	x.Copy = j.copy
	return &x
}
