package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// relaxedJob is a relaxed round job of six rounds with two tasks each.
func relaxedJob() clusterdoc.NewJob {
	return clusterdoc.NewJob{Module: "line", Directory: "/jobs", Rounds: 6, Tasks: 2, Retries: 1, Sync: "relaxed"}
}

func (d *driver) submitRelaxed(n clusterdoc.NewJob) {
	d.t.Helper()
	d.apply(&ledger.Record{Submit: &ledger.Submit{Job: n, Shares: true}})
}

// events answers all events, the last one of them with decisions, and returns them as text.
func (d *driver) events(decisions ...ledger.Decision) string {
	d.t.Helper()
	var all []string
	for {
		events := d.Events()
		if len(events) == 0 {
			return strings.Join(all, ", ")
		}
		answers := make([]ledger.SessionAnswer, len(events))
		for i := range events {
			e := &events[i]
			text := e.Type.String()
			switch e.Type {
			case hare.EventTaskEnded, hare.EventTaskFailed:
				text += fmt.Sprintf(" %s %d.%d %s", e.Job, e.Round, e.Task, e.GPU)
			case hare.EventJobArrived, hare.EventJobCancelled, hare.EventJobEnded:
				text += " " + e.Job
			case hare.EventGPUJoined, hare.EventGPULeft:
				text += " " + e.GPU
			}
			all = append(all, text)
		}
		answers[len(answers)-1].Decisions = decisions
		decisions = nil
		d.apply(&ledger.Record{Answers: answers})
	}
}

// orders are the orders of an agent that have not ended, as text.
func (d *driver) orders(name string) string {
	var all []string
	for _, o := range d.Orders(name) {
		text := fmt.Sprintf("%s %s.%d.%d", o.Type, o.Job, o.Attempt, o.Task)
		if c := o.Compute; c != nil {
			text += fmt.Sprintf(" round %d.%d on %d at %s", c.Round, c.Task, c.Device, c.Address)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func (d *driver) same(what, got, want string) {
	d.t.Helper()
	if got != want {
		d.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func start(round int64, task int, gpu string) ledger.Decision {
	return ledger.Decision{Job: "j1", Round: round, Task: int64(task), GPUs: []string{gpu}}
}

func of(attempt int64, task int) clusterdoc.TaskID {
	return clusterdoc.TaskID{Job: "j1", Attempt: attempt, Task: task}
}

// homeRuns has the home of an attempt run on a node, from a round.
func (d *driver) homeRuns(name string, attempt, round int64) {
	d.t.Helper()
	d.report(name, clusterdoc.TaskReport{TaskID: of(attempt, 0), State: clusterdoc.TaskRunning, Port: 4711,
		Round: round})
}

func (d *driver) ended(name string, id clusterdoc.TaskID, exit int) {
	d.t.Helper()
	d.report(name, clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskEnded, ExitCode: &exit, RanS: 2, SyncS: 1,
		Round: 6})
}

// begun is a relaxed job whose home on a has begun with round 0, and whose tasks are on a/1 and b/0.
func begun(t *testing.T, n clusterdoc.NewJob) *driver {
	d := newDriver(t, "a", "b", "c")
	d.submitRelaxed(n)
	d.events(start(0, 0, "a/1"), start(0, 1, "b/0"))
	d.homeRuns("a", 1, 0)
	return d
}

func TestRelaxedJob(t *testing.T) {
	d := newDriver(t, "a", "b", "c")
	d.submitRelaxed(relaxedJob())
	d.same("events", d.events(start(0, 0, "a/1"), start(0, 1, "b/0")), "job_arrived j1")
	d.same("orders of a", d.orders("a"), "home j1.1.0")
	d.same("orders of b", d.orders("b"), "")
	home := d.Orders("a")[0].Home
	if home.Module != "line" || home.Tasks != 2 || home.Rounds != 6 || home.Secret == "" || home.Pretend {
		t.Errorf("%+v", home)
	}
	if job := d.Job("j1", true); job.State != clusterdoc.JobStarting || job.Home != "a" || job.TasksOut != 2 ||
		job.Attempts[0].Tasks[2].State != clusterdoc.TaskWaiting {
		t.Errorf("%+v", job)
	}
	d.homeRuns("a", 1, 4) // the checkpoint has four rounds
	d.same("orders of a", d.orders("a"), "home j1.1.0, compute j1.1.1 round 4.0 on 1 at :4711")
	d.same("orders of b", d.orders("b"), "compute j1.1.2 round 4.1 on 0 at :4711")
	if c := d.Orders("b")[0].Compute; c.Secret != home.Secret || c.GPUType != "V100" {
		t.Errorf("%+v", c)
	}
	d.ended("b", of(1, 2), 0)
	d.ended("a", of(1, 1), 0)
	d.same("events", d.events(start(1, 0, "b/0"), start(1, 1, "b/1")),
		"task_ended j1 0.1 b/0, task_ended j1 0.0 a/1")
	d.same("orders of b", d.orders("b"),
		"compute j1.1.3 round 5.0 on 0 at :4711, compute j1.1.4 round 5.1 on 1 at :4711")
	d.ended("b", of(1, 4), 0)
	d.ended("b", of(1, 3), 0)
	// The job leaves the session behind the last round, and starts of a round behind it are not ordered.
	d.same("events", d.events(), "task_ended j1 1.1 b/1, task_ended j1 1.0 b/0, job_ended j1")
	if job := d.Job("j1", true); job.State != clusterdoc.JobRunning || job.TasksOn["V100"] != 4 || job.TasksOut != 0 {
		t.Errorf("%+v", job)
	}
	d.ended("a", of(1, 0), 0)
	d.same("events", d.events(), "")
	if job := d.Job("j1", true); job.State != clusterdoc.JobSucceeded || job.Round != 6 || job.Home != "" {
		t.Errorf("%+v", job)
	}
	d.same("orders", d.orders("a")+d.orders("b"), "")
}

func TestHomesAreSpread(t *testing.T) {
	d := newDriver(t, "a", "b")
	d.submitRelaxed(relaxedJob())
	d.submitRelaxed(relaxedJob())
	other := func(task int64, gpu string) ledger.Decision {
		return ledger.Decision{Job: "j2", Task: task, GPUs: []string{gpu}}
	}
	d.events(start(0, 0, "a/0"), start(0, 1, "b/0"), other(0, "a/1"), other(1, "b/1"))
	d.same("orders", d.orders("a")+", "+d.orders("b"), "home j1.1.0, home j2.1.0")
}

// A home that begins behind the last round needs no task.
func TestRelaxedJobThatWasDone(t *testing.T) {
	d := newDriver(t, "a", "b")
	d.submitRelaxed(relaxedJob())
	d.events(start(0, 0, "a/1"), start(0, 1, "b/0"))
	d.homeRuns("a", 1, 6)
	d.same("orders", d.orders("a")+d.orders("b"), "home j1.1.0")
	d.ended("a", of(1, 0), 0)
	d.same("events", d.events(), "job_ended j1")
	if job := d.Job("j1", true); job.State != clusterdoc.JobSucceeded {
		t.Errorf("%+v", job)
	}
}

// A home that has saved all rounds may say so before the last tasks have been reported.
func TestHomeEndsBeforeItsLastTasksAreReported(t *testing.T) {
	n := relaxedJob()
	n.Rounds = 1
	d := begun(t, n)
	d.ended("a", of(1, 0), 0)
	d.ended("a", of(1, 1), 0)
	d.report("b", clusterdoc.TaskReport{TaskID: of(1, 2), State: clusterdoc.TaskLost})
	d.same("events", d.events(), "task_ended j1 0.0 a/1, job_ended j1")
	if job := d.Job("j1", true); job.State != clusterdoc.JobSucceeded {
		t.Errorf("%+v", job)
	}
}

func TestRelaxedTasksThatAreLost(t *testing.T) {
	d := begun(t, relaxedJob())
	// A worker dies: the task is given out again under another number.
	d.report("a", clusterdoc.TaskReport{TaskID: of(1, 1), State: clusterdoc.TaskLost})
	d.same("events", d.events(start(0, 0, "a/1")), "task_failed j1 0.0 a/1")
	d.same("orders of a", d.orders("a"), "home j1.1.0, compute j1.1.3 round 0.0 on 1 at :4711")
	// A node is lost that computes: its GPUs leave, and the session gives the task out again.
	d.apply(&ledger.Record{Expire: &ledger.AgentEpoch{Agent: "b", Epoch: 1}})
	d.same("events", d.events(ledger.Decision{Job: "j1", Task: 1}, start(0, 1, "c/0")), "gpu_left b/0, gpu_left b/1")
	d.same("orders of c", d.orders("c"), "compute j1.1.4 round 0.1 on 0 at :4711")
	// An agent comes back without a task that it was given.
	d.register("c")
	d.same("orders of c", d.orders("c"), "")
	d.same("confirmed", fmt.Sprint(d.Confirmed("c", []clusterdoc.TaskReport{{TaskID: of(1, 4)}})), "[]")
	// A GPU fails: what it computes is told to end, and the GPU leaves then.
	faults := map[int]string{1: "XID 79"}
	d.apply(&ledger.Record{Sync: &ledger.SyncRecord{AgentEpoch: ledger.AgentEpoch{Agent: "a", Epoch: 1},
		After: d.reports["a"], Faults: &faults}})
	d.same("orders of a", d.orders("a"), "home j1.1.0, compute j1.1.3 round 0.0 on 1 at :4711, stop j1.1.3")
	d.report("a", clusterdoc.TaskReport{TaskID: of(1, 3), State: clusterdoc.TaskEnded, Signal: "SIGKILL"})
	d.same("events", d.events(), "gpu_left a/1")
	if job := d.Job("j1", true); job.State != clusterdoc.JobRunning || len(job.Attempts) != 1 || job.Lost != 0 {
		t.Errorf("%+v", job)
	}
}

// Tasks that are lost again and again end the attempt.
func TestRelaxedTasksThatAreLostInARow(t *testing.T) {
	d := begun(t, relaxedJob())
	number := 2
	for range 200 {
		d.report("b", clusterdoc.TaskReport{TaskID: of(1, number), State: clusterdoc.TaskLost})
		if d.Job("j1", true).State == clusterdoc.JobStopping {
			break
		}
		d.events(start(0, 1, "b/0"))
		if number = d.Job("j1", true).Attempts[0].Tasks[2].Task; number < 3 {
			t.Fatal(number)
		}
	}
	job := d.Job("j1", true)
	d.same("error", job.Attempts[0].Error, "101 tasks were lost in a row, the last one on GPU b/0")
	d.same("orders of a", d.orders("a"),
		"home j1.1.0, compute j1.1.1 round 0.0 on 1 at :4711, stop j1.1.1, stop j1.1.0")
}

// The loss of the home ends the attempt; the job waits for the node with its checkpoint, and goes elsewhere then.
func TestHomeIsLost(t *testing.T) {
	for _, back := range []bool{true, false} {
		d := begun(t, relaxedJob())
		d.homeRuns("a", 1, 3)
		d.nowUs += 60e6
		d.ended("a", of(1, 1), 0)
		d.events()
		d.apply(&ledger.Record{Expire: &ledger.AgentEpoch{Agent: "a", Epoch: 1}})
		// The GPU of the task that is still out is not given away before the task has ended.
		d.same("events", d.events(), "gpu_left b/0, job_cancelled j1, gpu_left a/0, gpu_left a/1")
		d.same("orders of b", d.orders("b"), "compute j1.1.2 round 0.1 on 0 at :4711, stop j1.1.2")
		d.report("b", clusterdoc.TaskReport{TaskID: of(1, 2), State: clusterdoc.TaskEnded, Signal: "SIGKILL"})
		d.same("events", d.events(), "gpu_joined b/0")
		if job := d.Job("j1", true); job.State != clusterdoc.JobWaiting || job.Attempts[0].Result != "lost" ||
			job.Lost != 1 {
			t.Errorf("%+v", job)
		}
		if why := d.WaitsFor("j1"); !strings.HasPrefix(why, "waits for a with the checkpoint after round 3, until ") {
			t.Error(why)
		}
		if back {
			d.register("a")
			d.submitRelaxed(relaxedJob())
			d.same("events", d.events(start(0, 0, "c/0"), start(0, 1, "c/1")), "job_arrived j2")
			d.same("orders", d.orders("a"), "home j1.2.0")
			continue
		}
		if d.AffinitiesEnd(d.nowUs+60e6-1) || !d.AffinitiesEnd(d.nowUs+60e6) {
			t.Error("the job does not wait for 60 s")
		}
		d.nowUs += 60e6
		d.apply(&ledger.Record{Tick: true})
		d.same("events", d.events(start(0, 0, "b/0"), start(0, 1, "c/1")), "job_arrived j1, tick")
		d.same("orders", d.orders("b"), "home j1.2.0")
		d.homeRuns("b", 2, 0)
		if job := d.Job("j1", true); job.Round != 0 {
			t.Errorf("%+v", job)
		}
	}
}

// A home that is lost while no task has a GPU takes the job from the session before the job arrives again.
func TestHomeIsLostBetweenRounds(t *testing.T) {
	d := begun(t, relaxedJob())
	d.ended("b", of(1, 2), 0)
	d.ended("a", of(1, 1), 0)
	d.same("events", d.events(), "task_ended j1 0.1 b/0, task_ended j1 0.0 a/1")
	d.report("a", clusterdoc.TaskReport{TaskID: of(1, 0), State: clusterdoc.TaskLost})
	d.same("events", d.events(start(0, 0, "b/1"), start(0, 1, "b/0")), "job_cancelled j1, job_arrived j1")
	d.same("orders of b", d.orders("b"), "home j1.2.0")
}

// What the module does wrong fails the attempt.
func TestRelaxedJobFails(t *testing.T) {
	d := begun(t, relaxedJob())
	exit := 1
	d.report("b", clusterdoc.TaskReport{TaskID: of(1, 2), State: clusterdoc.TaskEnded, ExitCode: &exit,
		Error: "line.py:6: IndexError"})
	d.same("events", d.events(), "gpu_left a/1, job_cancelled j1")
	d.same("orders of a", d.orders("a"),
		"home j1.1.0, compute j1.1.1 round 0.0 on 1 at :4711, stop j1.1.1, stop j1.1.0")
	d.report("a", clusterdoc.TaskReport{TaskID: of(1, 1), State: clusterdoc.TaskEnded, Signal: "SIGKILL"})
	d.report("a", clusterdoc.TaskReport{TaskID: of(1, 0), State: clusterdoc.TaskEnded, Signal: "SIGTERM", Round: 1})
	d.same("events", d.events(start(0, 0, "c/0")), "gpu_joined a/1, job_arrived j1")
	job := d.Job("j1", true)
	d.same("error", job.Attempts[0].Error, "task 2: line.py:6: IndexError")
	if job.Failures != 1 || job.Home != "a" { // where the checkpoint is
		t.Errorf("%+v", job)
	}
	d.ended("a", of(2, 0), 1)
	d.events()
	if job = d.Job("j1", true); job.State != clusterdoc.JobFailed || job.TasksOut != 0 {
		t.Errorf("%+v", job)
	}
}

func TestRelaxedJobIsCancelled(t *testing.T) {
	d := begun(t, relaxedJob())
	d.apply(&ledger.Record{Cancel: &ledger.Cancel{Job: "j1"}})
	d.same("events", d.events(), "gpu_left a/1, gpu_left b/0, job_cancelled j1")
	d.ended("a", of(1, 1), 0)
	d.ended("a", of(1, 0), 0)
	d.report("b", clusterdoc.TaskReport{TaskID: of(1, 2), State: clusterdoc.TaskLost})
	d.same("events", d.events(), "gpu_joined a/1, gpu_joined b/0")
	if job := d.Job("j1", true); job.State != clusterdoc.JobCancelled || len(job.TasksOn) != 0 {
		t.Errorf("%+v", job)
	}
}

// A home leaves a node that is drained where another node reaches its checkpoint; what the node computes is finished.
func TestHomeOnADrainedNode(t *testing.T) {
	d := begun(t, relaxedJob())
	d.apply(&ledger.Record{Drain: &ledger.Drain{Agent: "a", On: true}})
	d.same("orders of a", d.orders("a"), "home j1.1.0, compute j1.1.1 round 0.0 on 1 at :4711")
	d.ended("a", of(1, 1), 0)
	d.same("events", d.events(), "gpu_left a/0, task_ended j1 0.0 a/1, gpu_left a/1")
	if a := d.Agents()[0]; a.State != "draining" || !slices.Equal(a.Homes, []string{"j1"}) {
		t.Errorf("%+v", a)
	}
	n := relaxedJob()
	n.CheckpointDirectory = "/shared"
	d = begun(t, n)
	d.homeRuns("a", 1, 2)
	d.apply(&ledger.Record{Drain: &ledger.Drain{Agent: "a", On: true}})
	d.report("a", clusterdoc.TaskReport{TaskID: of(1, 1), State: clusterdoc.TaskLost})
	d.report("a", clusterdoc.TaskReport{TaskID: of(1, 0), State: clusterdoc.TaskEnded, Signal: "SIGTERM", Round: 2})
	d.report("b", clusterdoc.TaskReport{TaskID: of(1, 2), State: clusterdoc.TaskLost})
	d.same("events", d.events(start(0, 0, "b/0")),
		"gpu_left a/1, gpu_left b/0, job_cancelled j1, gpu_left a/0, gpu_joined b/0, job_arrived j1")
	if job := d.Job("j1", true); job.Attempts[0].Result != "moved" || job.Lost+job.Failures != 0 || job.Home != "b" {
		t.Errorf("%+v %+v", job, job.Attempts[0])
	}
}

// A job that runs on every type uses a type that comes later from its next round on.
func TestRelaxedJobLearnsATypeBetweenRounds(t *testing.T) {
	d := begun(t, relaxedJob())
	d.apply(&ledger.Record{Register: &ledger.Register{Registration: clusterdoc.Registration{Name: "t",
		Devices: []clusterdoc.AgentDevice{{Type: "T4"}}}}})
	d.same("events", d.events(), "gpu_joined t/0")
	d.ended("a", of(1, 1), 0)
	d.ended("b", of(1, 2), 0)
	d.same("events", d.events(start(0, 0, "t/0"), start(0, 1, "c/0")),
		"task_ended j1 0.0 a/1, task_ended j1 0.1 b/0, job_cancelled j1, job_arrived j1")
	d.same("orders of t", d.orders("t"), "compute j1.1.3 round 1.0 on 0 at :4711")
}

// A home that is played says no port, and is told to stop behind the last round.
func TestHomeIsPlayed(t *testing.T) {
	n := relaxedJob()
	n.Rounds, n.On = 1, map[string]float64{"V100": 2}
	d := newDriver(t, "a", "b")
	d.submitRelaxed(n)
	d.events(start(0, 0, "a/1"), start(0, 1, "b/0"))
	if !d.Orders("a")[0].Home.Pretend {
		t.Error("the home is not to be played")
	}
	d.report("a", clusterdoc.TaskReport{TaskID: of(1, 0), State: clusterdoc.TaskRunning})
	if c := d.Orders("b")[0].Compute; c.PretendS != 2 || c.Address != "" {
		t.Errorf("%+v", c)
	}
	d.ended("a", of(1, 1), 0)
	d.ended("b", of(1, 2), 0)
	d.same("orders of a", d.orders("a"), "home j1.1.0, stop j1.1.0")
	exit := 0
	d.report("a", clusterdoc.TaskReport{TaskID: of(1, 0), State: clusterdoc.TaskEnded, ExitCode: &exit})
	d.same("events", d.events(), "task_ended j1 0.0 a/1, task_ended j1 0.1 b/0, job_ended j1")
	if job := d.Job("j1", true); job.State != clusterdoc.JobSucceeded {
		t.Errorf("%+v", job)
	}
}

// A relaxed job of a journal from before jobs shared GPUs has its GPUs until its end.
func TestOldRelaxedJobIsRigid(t *testing.T) {
	for _, sync := range []string{"", "relaxed"} {
		d := newDriver(t, "a")
		n := roundJob()
		n.Sync, n.GPUs = sync, 0
		d.apply(&ledger.Record{Submit: &ledger.Submit{Job: n}})
		d.decide([]string{"a/1"})
		d.same("orders", d.orders("a"), "start j1.1.0")
		if job := d.Job("j1", true); ledger.Shares(&job.NewJob) {
			t.Errorf("%+v", job)
		}
	}
}
