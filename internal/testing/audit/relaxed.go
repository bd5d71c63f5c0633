package audit

// ordered is what a record says of a home (task 0) or of a task of a round that it ordered.
type ordered struct {
	Job     string `json:"job"`
	Attempt int64  `json:"attempt"`
	Task    int    `json:"task"`
	On      string `json:"on"`
	Round   int64  `json:"round"`
	Of      int    `json:"of"`
}

// sharing is what is known of a relaxed round job.
type sharing struct {
	tasks   int  // of a round
	played  bool // the job says its seconds, so that its home may be played and need not say where it is reached
	attempt int64
	home    string
	over    bool // the home has ended
	ready   bool // the home has said that it runs
	last    int  // the greatest number of a task
	out     map[int]*roundTask
	round   int64        // that is being computed, counted over all attempts
	done    map[int]bool // the tasks of the round that have ended with 0
	ever    map[int]bool // those that were ordered; one that was lost may have brought its gradient
}

// roundTask is a task of a round that was ordered and has not ended.
type roundTask struct {
	ordered
	back bool // the session has taken the task back
}

// order takes what a record ordered.
func (c *checker) order(o *ordered) {
	j := c.jobs[o.Job]
	if j == nil || j.sharing == nil {
		c.violation("a home or a task of a round of job %q is ordered, which is no relaxed round job", o.Job)
		return
	}
	s := j.sharing
	node := o.On
	if o.Task > 0 {
		node = agentOf([]string{o.On})
	}
	if a := c.agents[node]; a == nil || a.lost {
		c.violation("task %d of attempt %d of job %s is ordered on agent %q, which is not there", o.Task, o.Attempt, o.Job,
			node)
	}
	if o.Task == 0 {
		switch {
		case !s.over:
			c.violation("job %s has a home on agent %q, and gets another one on %q", o.Job, s.home, node)
		case len(s.out) > 0:
			c.violation("attempt %d of job %s begins while %d tasks of attempt %d are out", o.Attempt, o.Job, len(s.out),
				s.attempt)
		case o.Attempt <= s.attempt:
			c.violation("attempt %d of job %s begins after attempt %d", o.Attempt, o.Job, s.attempt)
		}
		*s = sharing{tasks: s.tasks, played: s.played, attempt: o.Attempt, home: node,
			out: map[int]*roundTask{}, done: map[int]bool{}, ever: map[int]bool{}}
		return
	}
	switch other, held := c.holders[o.On]; {
	case held:
		c.violation("GPU %s has task %d of job %s and is ordered task %d of job %s", o.On, other.task, other.job, o.Task,
			o.Job)
	case o.Attempt != s.attempt || s.over:
		c.violation("task %d of attempt %d of job %s is ordered, and its home has ended or is that of attempt %d", o.Task,
			o.Attempt, o.Job, s.attempt)
	case !s.ready:
		c.violation("task %d of attempt %d of job %s is ordered before its home runs", o.Task, o.Attempt, o.Job)
	case o.Task <= s.last:
		c.violation("task %d of attempt %d of job %s is ordered after task %d", o.Task, o.Attempt, o.Job, s.last)
	case o.Of < 0 || o.Of >= s.tasks || o.Round < 0 || o.Round >= j.rounds:
		c.violation("job %s has %d rounds of %d tasks, and task %d of round %d is ordered", o.Job, j.rounds, s.tasks, o.Of,
			o.Round)
	case o.Round != s.round:
		c.violation("a task of round %d of job %s is ordered while round %d has %d of %d tasks", o.Round, o.Job, s.round,
			len(s.done), s.tasks)
	case s.done[o.Of]:
		c.violation("task %d of round %d of job %s is ordered again, and had ended", o.Of, o.Round, o.Job)
	}
	for _, t := range s.out {
		if t.Of == o.Of && !t.back {
			c.violation("task %d of round %d of job %s is ordered on %s and on %s", o.Of, o.Round, o.Job, t.On, o.On)
		}
	}
	if s.out == nil {
		return // there is no attempt
	}
	s.last, s.ever[o.Of] = max(s.last, o.Task), true
	s.out[o.Task] = &roundTask{ordered: *o}
	c.holders[o.On] = key{o.Job, o.Attempt, o.Task}
}

// sharedDecision takes a start of a task of a round, or, without GPUs, the end of one.
func (c *checker) sharedDecision(id string, j *job, task int, gpus []string) {
	for _, gpu := range gpus {
		if k, ok := c.holders[gpu]; ok {
			c.violation("GPU %s is given to job %s while task %d of job %s runs there", gpu, id, k.task, k.job)
		}
	}
	if len(gpus) > 0 {
		return
	}
	for _, t := range j.sharing.out {
		if t.Of == task {
			t.back = true
		}
	}
}

// sharedTask takes a report of a home or of a task of a round.
func (c *checker) sharedTask(j *job, name string, t *taskReport) {
	s := j.sharing
	if t.Attempt != s.attempt {
		return // of an attempt that was given away, or that was never there
	}
	good := t.State == "ended" && t.ExitCode != nil && *t.ExitCode == 0
	if t.Task > 0 {
		o := s.out[t.Task]
		switch {
		case o == nil:
		case agentOf([]string{o.On}) != name:
			if t.State == "running" {
				c.violation("task %d of attempt %d of job %s runs on agent %q and was ordered on %s", t.Task, t.Attempt, t.Job,
					name, o.On)
			}
		case t.State != "running":
			c.endRoundTask(s, o)
			if good && !o.back {
				c.tasks++
				s.done[o.Of] = true
			}
			if len(s.done) == s.tasks {
				s.round++
				clear(s.done)
				clear(s.ever)
			}
		}
		return
	}
	if name != s.home || s.over {
		if name != s.home && t.State == "running" {
			c.violation("the home of attempt %d of job %s runs on agent %q and was ordered on %q", t.Attempt, t.Job, name,
				s.home)
		}
		return
	}
	at := j.attempts[t.Attempt]
	if at == nil {
		at = &attempt{agents: map[int]string{0: name}}
		j.attempts[t.Attempt] = at
		c.named++
	}
	if !s.ready && t.State == "running" && (t.Port > 0 || s.played) {
		s.ready, s.round = true, t.Round
		if t.Round == 0 && j.saved[name] > 0 {
			c.violation("attempt %d of job %s begins again on agent %q, which had saved round %d", t.Attempt, t.Job, name,
				j.saved[name])
		}
	}
	if s.ready && t.Round > s.round && (t.Round > s.round+1 || len(s.ever) < s.tasks) {
		c.violation("job %s has saved round %d, and %d of %d tasks of round %d were ordered", t.Job, t.Round, len(s.ever),
			s.tasks, s.round)
	}
	c.round(j, at, name, t)
	if t.State != "running" {
		s.over = true
	}
}

func (c *checker) endRoundTask(s *sharing, o *roundTask) {
	delete(s.out, o.Task)
	if c.holders[o.On] == (key{o.Job, o.Attempt, o.Task}) {
		delete(c.holders, o.On)
	}
}

// releaseShared notes that the home and the tasks of an agent have ended, but for those that it holds.
func (c *checker) releaseShared(id string, j *job, name string, held map[key]bool) {
	s := j.sharing
	if s == nil {
		return
	}
	if s.home == name && !held[key{id, s.attempt, 0}] {
		s.over = true
	}
	for n, o := range s.out {
		if agentOf([]string{o.On}) == name && !held[key{id, s.attempt, n}] {
			c.endRoundTask(s, o)
		}
	}
}
