// Package audit checks what a managed cluster did, after the fact: that no two attempts of a job ran at the same
// time, that none ran after the job had ended, that no GPU had two tasks, that epochs rose, and that nothing was
// given away before the lease of its agent and the time to kill had run out. The package reads the lines of a
// journal, or a list of what ran; it shares no code with the server and the agents that wrote them.
package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Rules are the durations that the server was started with.
type Rules struct {
	// Lease is how long an agent may go on without an answer. Kill is how long the server waits beyond that.
	Lease, Kill time.Duration
}

// Report counts what a check saw.
type Report struct {
	Records  int
	Agents   int
	Jobs     int
	Attempts int // that a report of an agent names
	Lost     int // leases that ran out
	Tasks    int // of rounds of relaxed round jobs that have ended with 0
}

// Violation is one thing that must not have happened.
type Violation struct {
	Line int // of the journal, from 1
	What string
}

func (v *Violation) Error() string { return fmt.Sprintf("line %d: %s", v.Line, v.What) }

// maxViolations is how many violations a check lists at most.
const maxViolations = 20

// Journal checks the lines of a journal. The error joins what must not have happened, each as *Violation. It takes
// time in proportion to the number of records and of the tasks that they name.
func Journal(r io.Reader, rules Rules) (Report, error) {
	c := &checker{rules: rules, agents: map[string]*agent{}, jobs: map[string]*job{}, holders: map[string]key{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		c.line++
		var rec record
		if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
			return c.report(), fmt.Errorf("line %d: %w", c.line, err)
		}
		c.take(&rec)
		if len(c.bad) >= maxViolations {
			break
		}
	}
	return c.report(), errors.Join(append(c.bad, lines.Err())...)
}

type checker struct {
	rules   Rules
	line    int
	bad     []error
	agents  map[string]*agent
	jobs    map[string]*job
	holders map[string]key // by GPU, the task that runs there
	lost    int
	named   int
	tasks   int
}

func (c *checker) report() Report {
	return Report{Records: c.line, Agents: len(c.agents), Jobs: len(c.jobs), Attempts: c.named, Lost: c.lost,
		Tasks: c.tasks}
}

func (c *checker) violation(format string, args ...any) {
	c.bad = append(c.bad, &Violation{c.line, fmt.Sprintf(format, args...)})
}

func (c *checker) take(r *record) {
	switch {
	case r.Submit != nil:
		s := &r.Submit.Job
		gpus, perTask := max(1, s.GPUs), max(1, s.GPUsPerTask)
		if s.Nodes > 0 && s.GPUsPerTask == 0 {
			perTask = gpus / s.Nodes
		}
		if s.Module != "" {
			perTask = gpus / max(1, s.Nodes) // one program a node trains on all of them
		}
		j := &job{tasks: gpus / perTask, gpus: map[int][]string{},
			rounds: s.Rounds, copied: s.Nodes > 1 && s.Shared == "", saved: map[string]int64{},
			attempts: map[int64]*attempt{}, running: map[key]string{}}
		if s.Module != "" && s.Sync == "relaxed" && r.Submit.Shares {
			j.tasks, j.sharing = 1, &sharing{tasks: max(1, s.Tasks), over: true}
			for _, seconds := range s.On {
				j.sharing.played = j.sharing.played || seconds > 0
			}
		}
		c.jobs[fmt.Sprintf("j%d", len(c.jobs)+1)] = j
	case r.Cancel != nil:
		if c.jobs[r.Cancel.Job] == nil {
			c.violation("job %q is cancelled and was never submitted", r.Cancel.Job)
		}
	case r.Register != nil:
		c.register(r)
	case r.Expire != nil:
		c.expire(r)
	case r.Sync != nil:
		c.sync(r)
	case r.Copy != nil:
		c.copy(r)
	}
	for i := range r.Answers {
		for _, d := range r.Answers[i].Decisions {
			c.decision(d.Job, d.Task, d.GPUs)
		}
	}
	for i := range r.Ordered {
		c.order(&r.Ordered[i])
	}
}

// register begins the next epoch of an agent. What the agent does not hold any more has ended.
func (c *checker) register(r *record) {
	a := c.agents[r.Register.Name]
	if a == nil {
		a = &agent{}
		c.agents[r.Register.Name] = a
	}
	a.epoch++
	a.lost, a.reports, a.heardUs = false, 0, r.At
	for _, d := range r.Register.Devices {
		if d.Fault != "" {
			c.disturb(r.Register.Name)
		}
	}
	held := map[key]bool{}
	for _, h := range r.Register.Holds {
		held[key{h.Job, h.Attempt, h.Task}] = true
	}
	c.release(r.Register.Name, held)
	for i := range r.Register.Holds {
		// What the agent holds of attempts that were given away is not confirmed, and ends.
		if h := &r.Register.Holds[i]; c.mayRun(h, r.Register.Name) || h.State != "running" {
			c.task(r.Register.Name, h)
		}
	}
}

// mayRun reports whether the task is known to run on the agent, or could have been ordered there last.
func (c *checker) mayRun(h *taskReport, name string) bool {
	j := c.jobs[h.Job]
	if j == nil {
		return false
	}
	if j.sharing != nil {
		return true
	}
	if _, ok := j.running[key{h.Job, h.Attempt, h.Task}]; ok {
		return true
	}
	for n := range j.attempts {
		if n > h.Attempt {
			return false
		}
	}
	at := j.attempts[h.Attempt]
	return at == nil && agentOf(j.gpus[h.Task]) == name
}

// expire takes the work of an agent away.
func (c *checker) expire(r *record) {
	a := c.agents[r.Expire.Agent]
	if a == nil || a.epoch != r.Expire.Epoch || a.lost {
		c.violation("agent %q of epoch %d is lost and was not there", r.Expire.Agent, r.Expire.Epoch)
		return
	}
	if after := time.Duration(r.At-a.heardUs) * time.Microsecond; after < c.rules.Lease+c.rules.Kill {
		c.violation("agent %q is lost %v after it was heard: its lease and the time to kill are %v", r.Expire.Agent, after,
			c.rules.Lease+c.rules.Kill)
	}
	a.lost = true
	c.lost++
	c.release(r.Expire.Agent, nil)
}

// release notes that the tasks of an agent have ended, but for those that it holds.
func (c *checker) release(name string, held map[key]bool) {
	for id, j := range c.jobs {
		c.releaseShared(id, j, name, held)
		for k, on := range j.running {
			if on == name && !held[k] {
				c.ended(j, k)
			}
		}
	}
}

func (c *checker) ended(j *job, k key) {
	delete(j.running, k)
	for _, gpu := range j.gpus[k.task] {
		if c.holders[gpu] == k {
			delete(c.holders, gpu)
		}
	}
}

// sync takes the reports of an agent.
func (c *checker) sync(r *record) {
	s := r.Sync
	a := c.agents[s.Agent]
	if a == nil || a.lost || a.epoch != s.Epoch {
		c.violation("a report of agent %q, epoch %d, was taken after that epoch", s.Agent, s.Epoch)
		return
	}
	if len(s.Reports) > 0 && s.After != a.reports {
		c.violation("report %d of agent %q follows report %d", s.After+1, s.Agent, a.reports)
	}
	a.reports += int64(len(s.Reports))
	a.heardUs = r.At
	if len(s.Faults) > 0 {
		c.disturb(s.Agent)
	}
	for i := range s.Reports {
		c.task(s.Agent, &s.Reports[i])
	}
}

// task takes one report of a task.
func (c *checker) task(name string, t *taskReport) {
	j := c.jobs[t.Job]
	if j == nil {
		return // an agent may say what it likes
	}
	if j.sharing != nil {
		c.sharedTask(j, name, t)
		return
	}
	k := key{t.Job, t.Attempt, t.Task}
	at := j.attempts[t.Attempt]
	if at == nil {
		if t.State != "running" && agentOf(j.gpus[t.Task]) != name {
			return // the end of something that was never there
		}
		at = &attempt{agents: map[int]string{}, final: map[int]bool{}}
		j.attempts[t.Attempt] = at
		c.named++
	}
	if first, ok := at.agents[t.Task]; ok && first != name {
		if t.State == "running" {
			c.violation("task %d of attempt %d of job %s runs on agent %q and ran on %q", t.Task, t.Attempt, t.Job, name, first)
		}
		return
	}
	c.round(j, at, name, t)
	if t.State == "running" {
		c.run(j, k, at, name)
		return
	}
	at.agents[t.Task] = name
	if at.final[t.Task] {
		return
	}
	at.final[t.Task] = true
	if t.State == "ended" && t.ExitCode != nil && *t.ExitCode == 0 {
		if at.good++; at.good == j.tasks && !j.disturbed {
			j.succeeded = t.Attempt
		}
	}
	c.ended(j, k)
}

// round takes how far a round job is: no round that an agent has said to be saved is lost on that agent, none comes
// after the last one, and a job has not succeeded before it. What a job on several nodes that share nothing has saved
// is saved on each of them. A report without a round says nothing of them, such as
// that of a pretended GPU.
func (c *checker) round(j *job, at *attempt, name string, t *taskReport) {
	if t.Round == 0 {
		return
	}
	switch {
	case t.Round > j.rounds:
		c.violation("job %s has %d rounds, and round %d is said to be done", t.Job, j.rounds, t.Round)
	case t.Round < at.round:
		c.violation("attempt %d of job %s is said to be behind round %d after round %d", t.Attempt, t.Job, t.Round,
			at.round)
	case t.State == "ended" && t.ExitCode != nil && *t.ExitCode == 0 && t.Round < j.rounds:
		c.violation("attempt %d of job %s ended with 0 behind round %d of %d", t.Attempt, t.Job, t.Round, j.rounds)
	}
	if t.Attempt > j.copyBy && t.Round < j.copyRound {
		c.violation("attempt %d of job %s is behind round %d, and the server had a copy behind round %d", t.Attempt, t.Job,
			t.Round, j.copyRound)
	}
	at.round = t.Round
	holders := []string{name}
	if j.copied {
		for _, other := range at.agents {
			if other != name && !slices.Contains(holders, other) {
				holders = append(holders, other)
			}
		}
		slices.Sort(holders)
	}
	for _, holder := range holders {
		if t.Round < j.saved[holder] {
			c.violation("attempt %d of job %s is behind round %d on agent %q, which had saved round %d", t.Attempt, t.Job,
				t.Round, holder, j.saved[holder])
		}
		j.saved[holder] = max(j.saved[holder], t.Round)
	}
}

// copy takes that the server has another copy of a checkpoint, which an attempt that may run has brought, or none.
func (c *checker) copy(r *record) {
	j := c.jobs[r.Copy.Job]
	switch {
	case j == nil || j.rounds == 0:
		c.violation("the server has a checkpoint of job %q, which is no round job", r.Copy.Job)
		return
	case r.Copy.Round == 0:
	case r.Copy.Round <= j.copyRound || r.Copy.Round > j.rounds || r.Copy.Attempt < j.copyBy:
		c.violation("the copy behind round %d of job %s, by attempt %d, follows the one behind round %d, by attempt %d",
			r.Copy.Round, r.Copy.Job, r.Copy.Attempt, j.copyRound, j.copyBy)
	}
	for n := range j.attempts {
		if n > r.Copy.Attempt && r.Copy.Round > 0 {
			c.violation("attempt %d of job %s has brought a checkpoint after attempt %d", r.Copy.Attempt, r.Copy.Job, n)
		}
	}
	j.copyRound, j.copyBy = r.Copy.Round, r.Copy.Attempt
}

// run takes the report that a task runs.
func (c *checker) run(j *job, k key, at *attempt, name string) {
	if j.running[k] == name {
		return
	}
	at.agents[k.task] = name
	switch {
	case at.final[k.task]:
		c.violation("task %d of attempt %d of job %s runs again", k.task, k.attempt, k.job)
		return
	case j.succeeded != 0:
		c.violation("attempt %d of job %s runs, and attempt %d had succeeded", k.attempt, k.job, j.succeeded)
	case k.task < 0 || k.task >= j.tasks:
		c.violation("job %s has %d tasks, and its task %d runs", k.job, j.tasks, k.task)
	}
	for other := range j.running {
		if other.attempt != k.attempt {
			c.violation("attempt %d of job %s runs on agent %q while attempt %d runs on %q", k.attempt, k.job, name,
				other.attempt, j.running[other])
		}
	}
	j.running[k] = name
	for _, gpu := range j.gpus[k.task] {
		if other, ok := c.holders[gpu]; ok && other != k {
			c.violation("GPU %s has task %d of job %s and task %d of job %s", gpu, other.task, other.job, k.task, k.job)
		}
		c.holders[gpu] = k
	}
	if on := agentOf(j.gpus[k.task]); on != name {
		c.violation("task %d of job %s runs on agent %q and was given GPUs of %q", k.task, k.job, name, on)
	}
}

// decision takes GPUs that the session gives to a task, or, without GPUs, takes back.
func (c *checker) decision(id string, task int, gpus []string) {
	j := c.jobs[id]
	if j == nil {
		c.violation("job %q is given GPUs and was never submitted", id)
		return
	}
	if j.sharing != nil {
		c.sharedDecision(id, j, task, gpus)
		return
	}
	if len(gpus) == 0 || j.succeeded != 0 {
		return // the start of a round that does not come
	}
	for k := range j.running {
		if k.task == task {
			c.violation("task %d of job %s is given GPUs while its attempt %d runs", task, id, k.attempt)
		}
	}
	for _, gpu := range gpus {
		if k, ok := c.holders[gpu]; ok {
			c.violation("GPU %s is given to job %s while task %d of job %s runs there", gpu, id, k.task, k.job)
		}
		if c.agents[agentOf(gpus)] == nil {
			c.violation("GPU %s is given to job %s, and its agent has never registered", gpu, id)
		}
	}
	j.gpus[task] = gpus
	j.disturbed = false
}

// disturb notes that jobs on an agent may have been told to end: exit code 0 does not say that they succeeded.
func (c *checker) disturb(name string) {
	for _, j := range c.jobs {
		for _, gpus := range j.gpus {
			j.disturbed = j.disturbed || agentOf(gpus) == name
		}
	}
}

// agentOf is the agent of the GPUs of a task; "" where there are none.
func agentOf(gpus []string) string {
	if len(gpus) == 0 {
		return ""
	}
	for i := len(gpus[0]) - 1; i >= 0; i-- {
		if gpus[0][i] == '/' {
			return gpus[0][:i]
		}
	}
	return gpus[0]
}
