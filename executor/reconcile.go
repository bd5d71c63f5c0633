package executor

import (
	"maps"
	"slices"
	"strings"
	"time"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// state is what an agent knows of its tasks and has to tell. It has no clock and no input or output; the actions
// that it returns are for the agent to do, in order.
type state struct {
	epoch   int64
	orders  int64 // number of the last order that was obeyed
	seen    int64 // number of the last report that the server has
	reports []clusterdoc.TaskReport
	tasks   map[clusterdoc.TaskID]*taskState
}

// taskState is a task that the agent has, or had and still has to clean up.
type taskState struct {
	order    string                 // the type of the order that has begun it
	last     *clusterdoc.TaskReport // of a parameter server that runs: what was last said of it
	end      *clusterdoc.TaskReport // nil while the task runs
	unwanted bool                   // the server gave the task away: its end is not reported
	reported int64                  // number of the report of its end
}

type actionKind int

const (
	actStart  actionKind = iota // start the task or parameter server of the order, or compute its task
	actStop                     // end the task with its grace
	actKill                     // end the task at once
	actForget                   // the server has its end: remove what is left of it
)

// action is something that the agent does.
type action struct {
	kind  actionKind
	id    clusterdoc.TaskID
	order *clusterdoc.Order // of actStart, and of actStop
	began string            // the type of the order that has begun the task
}

// grace is how long the task may take to end.
func (x *action) grace() time.Duration {
	if x.kind == actStop && x.order != nil {
		return time.Duration(x.order.GraceS * float64(time.Second))
	}
	return 0
}

func newState() *state { return &state{tasks: map[clusterdoc.TaskID]*taskState{}} }

// adopt adds a task of an earlier life of the agent.
func (s *state) adopt(id clusterdoc.TaskID, order string) { s.tasks[id] = &taskState{order: order} }

// holds are the tasks that the agent tells when it registers.
func (s *state) holds() (all []clusterdoc.TaskReport) {
	for _, id := range s.ids() {
		switch t := s.tasks[id]; {
		case t.unwanted:
		case t.end != nil:
			all = append(all, *t.end)
		case t.last != nil:
			all = append(all, *t.last)
		case t.order == clusterdoc.OrderHome: // without a port it would be taken for a simulated one
		default:
			all = append(all, clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskRunning})
		}
	}
	return all
}

// ids are the tasks in a fixed order.
func (s *state) ids() []clusterdoc.TaskID { return sortedIDs(s.tasks) }

// sortedIDs are the keys of a map in a fixed order.
func sortedIDs[T any](of map[clusterdoc.TaskID]T) []clusterdoc.TaskID {
	return slices.SortedFunc(maps.Keys(of), func(a, b clusterdoc.TaskID) int {
		if c := strings.Compare(a.Job, b.Job); c != 0 {
			return c
		}
		if a.Attempt != b.Attempt {
			return int(a.Attempt - b.Attempt)
		}
		return a.Task - b.Task
	})
}

// registered begins an epoch. told are the tasks that the registration held.
func (s *state) registered(r *clusterdoc.Registered, told []clusterdoc.TaskReport) (todo []action) {
	s.epoch, s.orders, s.seen, s.reports = r.Epoch, 0, 0, nil
	ended := map[clusterdoc.TaskID]bool{} // in the registration
	for i := range told {
		ended[told[i].TaskID] = told[i].State != clusterdoc.TaskRunning
	}
	for _, id := range s.ids() {
		t := s.tasks[id]
		switch {
		case t.end != nil && (ended[id] || t.unwanted):
			todo = append(todo, t.action(actForget, id))
			delete(s.tasks, id)
		case slices.Contains(r.Confirmed, id):
			if t.end != nil { // it ended while the agent registered
				s.report(t)
			}
		case t.end != nil:
			todo = append(todo, t.action(actForget, id))
			delete(s.tasks, id)
		case !t.unwanted:
			t.unwanted = true
			todo = append(todo, t.action(actKill, id))
		}
	}
	return todo
}

// synced takes the answer to a sync.
func (s *state) synced(a *clusterdoc.Synced) (todo []action) {
	if n := min(a.ReportsSeen-s.seen, int64(len(s.reports))); n > 0 {
		s.reports = slices.Clone(s.reports[n:])
		s.seen += n
	}
	for _, id := range s.ids() {
		if t := s.tasks[id]; t.reported > 0 && t.reported <= s.seen {
			todo = append(todo, t.action(actForget, id))
			delete(s.tasks, id)
		}
	}
	for i := range a.Orders {
		o := &a.Orders[i]
		if o.Number <= s.orders {
			continue
		}
		s.orders = o.Number
		t := s.tasks[o.TaskID]
		switch {
		case begins(o) && t == nil:
			t = &taskState{order: o.Type}
			s.tasks[o.TaskID] = t
			todo = append(todo, action{actStart, o.TaskID, o, o.Type})
		case o.Type == clusterdoc.OrderStop && t == nil:
			s.say(clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskLost})
		case o.Type == clusterdoc.OrderStop && t.end == nil:
			todo = append(todo, action{actStop, o.TaskID, o, t.order})
		}
	}
	return todo
}

// begins reports whether an order begins a task, and has what that needs.
func begins(o *clusterdoc.Order) bool {
	return o.Type == clusterdoc.OrderStart && o.Start != nil || o.Type == clusterdoc.OrderHome && o.Home != nil ||
		o.Type == clusterdoc.OrderCompute && o.Compute != nil
}

func (t *taskState) action(kind actionKind, id clusterdoc.TaskID) action {
	return action{kind: kind, id: id, began: t.order}
}

// running notes that a task was started.
func (s *state) running(id clusterdoc.TaskID) {
	if t := s.tasks[id]; t != nil && t.end == nil && !t.unwanted {
		s.say(clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskRunning})
	}
}

// progressed notes that a parameter server or a task of a round runs, or how far a round job is.
func (s *state) progressed(r clusterdoc.TaskReport) {
	if t := s.tasks[r.TaskID]; t != nil && t.end == nil && !t.unwanted {
		if t.order == clusterdoc.OrderHome {
			t.last = &r
		}
		s.say(r)
	}
}

// ended notes that no process of a task is left.
func (s *state) ended(end clusterdoc.TaskReport) (todo []action) {
	t := s.tasks[end.TaskID]
	if t == nil || t.end != nil {
		return nil
	}
	t.end = &end
	if t.unwanted {
		delete(s.tasks, end.TaskID)
		return []action{t.action(actForget, end.TaskID)}
	}
	s.report(t)
	return nil
}

func (s *state) report(t *taskState) {
	s.say(*t.end)
	t.reported = s.seen + int64(len(s.reports))
}

func (s *state) say(r clusterdoc.TaskReport) { s.reports = append(s.reports, r) }

// sync is what the agent tells the server now.
func (s *state) sync(waitS float64, faults map[int]string) *clusterdoc.Sync {
	return &clusterdoc.Sync{Epoch: s.epoch, WaitS: waitS, ReportsAfter: s.seen, Reports: slices.Clone(s.reports),
		OrdersSeen: s.orders, Faults: faults}
}
