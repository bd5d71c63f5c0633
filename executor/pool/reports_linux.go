package pool

import (
	"errors"
	"sync"
	"time"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// reports are the parameter servers and tasks of the process as its agent knows them. Safe for concurrent use.
type reports struct {
	mu      sync.Mutex
	entries map[clusterdoc.TaskID]*entry
	agent   *outbox // nil where no agent is connected
}

// entry is a parameter server or task as the agent knows it.
type entry struct {
	report clusterdoc.TaskReport
	final  bool
	stop   func(grace time.Duration) // ends it in good order
	kill   func()
}

// connect tells an agent what there is. It takes the place of the agent before.
func (s *reports) connect(agent *outbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agent != nil {
		s.agent.close()
	}
	s.agent = agent
	for _, e := range s.entries {
		s.tell(e)
	}
	agent.send(&Event{Type: Ready})
}

// tell sends the report of an entry. The caller holds s.mu.
func (s *reports) tell(e *entry) {
	if s.agent != nil {
		report := e.report
		s.agent.send(&Event{Type: Report, Report: &report})
	}
}

// connected reports whether no other agent has connected since.
func (s *reports) connected(agent *outbox) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agent == agent
}

// add makes an entry for a parameter server or task, and reports whether there was none.
func (s *reports) add(id clusterdoc.TaskID, e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.entries[id]; was != nil {
		s.tell(was)
		return false
	}
	e.report = clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskOrdered}
	s.entries[id] = e
	return true
}

// say tells the agent where a parameter server or task stands.
func (s *reports) say(e *entry, change func(*clusterdoc.TaskReport)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.final {
		return
	}
	change(&e.report)
	e.final = e.report.State == clusterdoc.TaskEnded || e.report.State == clusterdoc.TaskLost
	s.tell(e)
}

// end does a Stop, Kill or Forget of an agent.
func (s *reports) end(q *Request, agent *outbox) {
	s.mu.Lock()
	e := s.entries[*q.Task]
	over := e == nil || e.final
	switch {
	case e == nil && q.Type != Forget:
		agent.send(&Event{Type: Report, Report: &clusterdoc.TaskReport{TaskID: *q.Task, State: clusterdoc.TaskLost,
			Error: "the node does not have it any more"}})
	case e != nil && q.Type == Forget && e.final:
		delete(s.entries, *q.Task)
	}
	s.mu.Unlock()
	switch {
	case over:
	case q.Type == Stop:
		e.stop(time.Duration(q.GraceS * float64(time.Second)))
	case q.Type == Kill:
		e.kill()
	}
}

// lostError is an error that is not a failure of the job.
type lostError struct{ reason string }

func (e *lostError) Error() string { return e.reason }

// errGone says that a parameter server has ended.
var errGone = &lostError{"the parameter server of the job has ended"}

// ended makes a report that of an end: with exit code 0 where there is no error.
func ended(r *clusterdoc.TaskReport, err error, signal string) {
	r.State = clusterdoc.TaskEnded
	var lost *lostError
	code := 0
	switch {
	case err == nil:
		r.ExitCode = &code
	case errors.As(err, &lost):
		r.State, r.Error = clusterdoc.TaskLost, lost.reason
	case signal != "":
		r.Signal = signal
	default:
		code = 1
		r.ExitCode, r.Error = &code, err.Error()
	}
}
