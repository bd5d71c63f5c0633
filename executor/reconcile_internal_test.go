package executor

import (
	"testing"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

func order(number int64, kind string, id clusterdoc.TaskID) clusterdoc.Order {
	o := clusterdoc.Order{Number: number, Type: kind, TaskID: id}
	if kind == clusterdoc.OrderStart {
		o.Start = &clusterdoc.Start{Name: "x"}
	}
	return o
}

func kinds(todo []action) (all []actionKind) {
	for _, a := range todo {
		all = append(all, a.kind)
	}
	return all
}

func TestOrdersAreObeyedOnce(t *testing.T) {
	s := newState()
	a, b := clusterdoc.TaskID{Job: "j1", Attempt: 1}, clusterdoc.TaskID{Job: "j2", Attempt: 1}
	s.registered(&clusterdoc.Registered{Epoch: 1}, nil)
	orders := []clusterdoc.Order{order(1, clusterdoc.OrderStart, a), order(2, clusterdoc.OrderStop, b)}
	if todo := s.synced(&clusterdoc.Synced{Orders: orders}); len(todo) != 1 || todo[0].kind != actStart {
		t.Error(kinds(todo))
	}
	if todo := s.synced(&clusterdoc.Synced{Orders: orders}); len(todo) != 0 {
		t.Error("an order was obeyed twice", kinds(todo))
	}
	s.running(a)
	// The task that the agent does not have is lost; the other one runs.
	if ask := s.sync(1, nil); len(ask.Reports) != 2 || ask.Reports[0].State != clusterdoc.TaskLost ||
		ask.Reports[1].State != clusterdoc.TaskRunning || ask.OrdersSeen != 2 {
		t.Errorf("%+v", ask)
	}
	if todo := s.synced(&clusterdoc.Synced{ReportsSeen: 2, Orders: []clusterdoc.Order{
		order(3, clusterdoc.OrderStop, a)}}); len(todo) != 1 || todo[0].kind != actStop {
		t.Error(kinds(todo))
	}
	s.ended(clusterdoc.TaskReport{TaskID: a, State: clusterdoc.TaskEnded, Signal: "SIGTERM"})
	if ask := s.sync(1, nil); len(ask.Reports) != 1 || ask.ReportsAfter != 2 {
		t.Errorf("%+v", ask)
	}
	if todo := s.synced(&clusterdoc.Synced{ReportsSeen: 2}); len(todo) != 0 {
		t.Error("a task was forgotten before its end was known", kinds(todo))
	}
	if todo := s.synced(&clusterdoc.Synced{ReportsSeen: 3}); len(todo) != 1 || todo[0].kind != actForget ||
		len(s.tasks) != 0 {
		t.Error(kinds(todo))
	}
}

// At a registration, tasks that are confirmed go on, others are killed, and ends that were told are forgotten.
func TestRegistration(t *testing.T) {
	s := newState()
	id := func(n int64) clusterdoc.TaskID { return clusterdoc.TaskID{Job: "j1", Attempt: n} }
	for n := range int64(4) {
		s.adopt(id(n), clusterdoc.OrderStart)
	}
	s.ended(clusterdoc.TaskReport{TaskID: id(2), State: clusterdoc.TaskEnded})
	told := s.holds()
	if len(told) != 4 || told[2].State != clusterdoc.TaskEnded {
		t.Fatalf("%+v", told)
	}
	s.ended(clusterdoc.TaskReport{TaskID: id(3), State: clusterdoc.TaskEnded}) // while the agent registers
	todo := s.registered(&clusterdoc.Registered{Epoch: 5, Confirmed: []clusterdoc.TaskID{id(0), id(3)}}, told)
	if len(todo) != 2 || todo[0].kind != actKill || todo[0].id != id(1) || todo[1].kind != actForget ||
		todo[1].id != id(2) {
		t.Error(todo)
	}
	if ask := s.sync(1, nil); ask.Epoch != 5 || len(ask.Reports) != 1 || ask.Reports[0].TaskID != id(3) {
		t.Errorf("%+v", ask)
	}
	// The end of a task that was given away is not reported.
	if todo := s.ended(clusterdoc.TaskReport{TaskID: id(1), Signal: "SIGKILL"}); len(todo) != 1 ||
		todo[0].kind != actForget || len(s.sync(1, nil).Reports) != 1 {
		t.Error(kinds(todo))
	}
}

// Homes and tasks of rounds are begun and stopped as other tasks are; a home is told to the server with its port
// alone.
func TestRelaxedOrders(t *testing.T) {
	s := newState()
	s.registered(&clusterdoc.Registered{Epoch: 1}, nil)
	home, task := clusterdoc.TaskID{Job: "j1", Attempt: 1}, clusterdoc.TaskID{Job: "j1", Attempt: 1, Task: 7}
	orders := []clusterdoc.Order{{Number: 1, Type: clusterdoc.OrderHome, TaskID: home, Home: &clusterdoc.HomeStart{}},
		{Number: 2, Type: clusterdoc.OrderCompute, TaskID: task, Compute: &clusterdoc.Compute{}},
		{Number: 3, Type: clusterdoc.OrderCompute, TaskID: clusterdoc.TaskID{Job: "j2"}}, // which lacks what it says
		{Number: 4, Type: clusterdoc.OrderStop, TaskID: task, GraceS: 2}}
	todo := s.synced(&clusterdoc.Synced{Orders: orders})
	if len(todo) != 3 || todo[0].began != clusterdoc.OrderHome || todo[1].kind != actStart ||
		todo[1].order != &orders[1] || todo[2].kind != actStop ||
		todo[2].began != clusterdoc.OrderCompute || todo[2].order.GraceS != 2 {
		t.Fatalf("%+v", todo)
	}
	if held := s.holds(); len(held) != 1 || held[0].TaskID != task {
		t.Errorf("a home without a port is told: %+v", held)
	}
	s.progressed(clusterdoc.TaskReport{TaskID: home, State: clusterdoc.TaskRunning, Port: 30001, Round: 4})
	if held := s.holds(); len(held) != 2 || held[0].Port != 30001 || held[0].Round != 4 {
		t.Errorf("%+v", held)
	}
	code := 0
	s.ended(clusterdoc.TaskReport{TaskID: task, State: clusterdoc.TaskEnded, ExitCode: &code, RanS: 3, SyncS: 1})
	ask := s.sync(0, nil)
	if len(ask.Reports) != 2 || ask.Reports[1].SyncS != 1 {
		t.Errorf("%+v", ask.Reports)
	}
	if todo := s.synced(&clusterdoc.Synced{ReportsSeen: 2}); len(todo) != 1 || todo[0].kind != actForget ||
		todo[0].began != clusterdoc.OrderCompute {
		t.Errorf("%+v", todo)
	}
	// The home is not confirmed: it is killed, and its end is not told.
	if todo := s.registered(&clusterdoc.Registered{Epoch: 2}, s.holds()); len(todo) != 1 || todo[0].kind != actKill ||
		todo[0].began != clusterdoc.OrderHome || len(s.holds()) != 0 {
		t.Errorf("%+v", todo)
	}
}
