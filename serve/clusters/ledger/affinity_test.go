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

// driver drives a ledger by hand: it stands for the session and for the agents.
type driver struct {
	t *testing.T
	*ledger.Ledger
	nowUs   int64
	reports map[string]int64
	arrived *hare.Job // of the last job_arrived
	voids   int       // of job_cancelled
}

func newDriver(t *testing.T, agents ...string) *driver {
	d := &driver{t: t, Ledger: ledger.New(), nowUs: 1e15, reports: map[string]int64{}}
	for _, name := range agents {
		d.register(name)
	}
	return d
}

func (d *driver) apply(r *ledger.Record) {
	d.t.Helper()
	r.AtUs = d.nowUs
	if err := d.Apply(r); err != nil {
		d.t.Fatal(err)
	}
}

func (d *driver) register(name string) {
	d.t.Helper()
	d.reports[name] = 0
	d.apply(&ledger.Record{Register: &ledger.Register{Registration: clusterdoc.Registration{Name: name,
		Devices: []clusterdoc.AgentDevice{{Type: "V100"}, {Type: "V100"}}}}})
	d.decide()
}

// decide answers all events, and the last one of them by giving the GPUs to the tasks of the job, in order.
func (d *driver) decide(gpus ...[]string) {
	d.t.Helper()
	for {
		events := d.Events()
		if len(events) == 0 {
			return
		}
		answers := make([]ledger.SessionAnswer, len(events))
		for i := range events {
			switch events[i].Type {
			case hare.EventJobArrived:
				d.arrived = events[i].Arrived
			case hare.EventJobCancelled:
				d.voids++
			}
		}
		for k := range gpus {
			last := &answers[len(answers)-1]
			last.Decisions = append(last.Decisions, ledger.Decision{Job: d.arrived.ID, Task: int64(k), GPUs: gpus[k]})
		}
		gpus = nil
		d.apply(&ledger.Record{Answers: answers})
	}
}

func (d *driver) report(name string, r clusterdoc.TaskReport) {
	d.t.Helper()
	epoch, _, _, _ := d.Agent(name)
	d.apply(&ledger.Record{Sync: &ledger.SyncRecord{AgentEpoch: ledger.AgentEpoch{Agent: name, Epoch: epoch},
		After: d.reports[name], Reports: []clusterdoc.TaskReport{r}}})
	d.reports[name]++
}

// fail has a task run, save rounds and fail after a number of seconds.
func (d *driver) fail(name string, id clusterdoc.TaskID, round, seconds int64) {
	d.t.Helper()
	d.report(name, clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskRunning, Round: round})
	d.nowUs += seconds * 1e6
	one := 1
	d.report(name, clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskEnded, ExitCode: &one, Round: round})
}

// nodes are those that the job may start on; "" means any.
func (d *driver) nodes() string {
	if len(d.arrived.Only) == 0 {
		return ""
	}
	return strings.Join(d.arrived.Only[0].Values, " ")
}

func (d *driver) expect(nodes string) {
	d.t.Helper()
	if got := d.nodes(); got != nodes {
		d.t.Errorf("the job may start on %q, not on %q", got, nodes)
	}
}

func roundJob() clusterdoc.NewJob {
	return clusterdoc.NewJob{Module: "line", Directory: "/jobs", Rounds: 100, GPUs: 2, Retries: 100}
}

func TestRoundJobReturnsToItsCheckpoint(t *testing.T) {
	d := newDriver(t, "a", "b", "c")
	d.apply(&ledger.Record{Submit: &ledger.Submit{Job: roundJob()}})
	d.decide([]string{"b/0", "b/1"})
	d.expect("")
	// Nothing is saved: it may go anywhere.
	d.fail("b", clusterdoc.TaskID{Job: "j1", Attempt: 1}, 0, 60)
	d.decide([]string{"b/0", "b/1"})
	d.expect("")
	// It goes back to b, and a repetition does not bring it to the session again.
	d.fail("b", clusterdoc.TaskID{Job: "j1", Attempt: 2}, 5, 60)
	d.decide()
	d.expect("b")
	if why := d.WaitsFor("j1"); !strings.HasPrefix(why, "waits for b with the checkpoint after round 5, until ") {
		t.Error(why)
	}
	// It waits as long as it has trained, and then goes anywhere.
	if d.AffinitiesEnd(d.nowUs+60e6-1) || !d.AffinitiesEnd(d.nowUs+60e6) {
		t.Error("the job does not wait for 60 s")
	}
	d.apply(&ledger.Record{Tick: true})
	d.decide()
	d.expect("b")
	d.nowUs += 60e6
	d.apply(&ledger.Record{Tick: true})
	d.decide([]string{"c/0", "c/1"})
	d.expect("")
	if d.AffinitiesEnd(d.nowUs+1e12) || d.WaitsFor("j1") != "" {
		t.Error("the job still waits for the nodes of its checkpoint")
	}
	// It began again on c. The checkpoint of b is worth more until c has as many rounds.
	d.fail("c", clusterdoc.TaskID{Job: "j1", Attempt: 3}, 4, 10)
	d.decide([]string{"b/0", "b/1"})
	d.expect("b")
	d.fail("b", clusterdoc.TaskID{Job: "j1", Attempt: 4}, 6, 10)
	voids := d.voids
	d.decide([]string{"b/0", "b/1"})
	if d.expect("b"); d.voids != voids {
		t.Error("the job went back to the session although nothing has changed")
	}
	// A lost node is waited for; one that is drained is not.
	d.report("b", clusterdoc.TaskReport{TaskID: clusterdoc.TaskID{Job: "j1", Attempt: 5},
		State: clusterdoc.TaskRunning, Round: 7})
	d.nowUs += 1e6
	d.apply(&ledger.Record{Expire: &ledger.AgentEpoch{Agent: "b", Epoch: 1}})
	d.decide()
	d.expect("b")
	d.apply(&ledger.Record{Drain: &ledger.Drain{Agent: "b", On: true}})
	d.decide()
	d.expect("")
}

// Where a job has several nodes, so few others may be among them that one has the checkpoint.
func TestRoundJobOfSeveralNodesReachesItsCheckpoint(t *testing.T) {
	d := newDriver(t, "a", "b", "c", "d", "e")
	job := roundJob()
	job.GPUs, job.Nodes = 4, 2
	d.apply(&ledger.Record{Submit: &ledger.Submit{Job: job}})
	d.decide([]string{"d/0", "d/1"}, []string{"c/0", "c/1"})
	first, second := clusterdoc.TaskID{Job: "j1", Attempt: 1}, clusterdoc.TaskID{Job: "j1", Attempt: 1, Task: 1}
	d.report("c", clusterdoc.TaskReport{TaskID: second, State: clusterdoc.TaskRunning})
	d.report("d", clusterdoc.TaskReport{TaskID: first, State: clusterdoc.TaskRunning, Round: 3})
	d.nowUs += 30e6
	d.apply(&ledger.Record{Expire: &ledger.AgentEpoch{Agent: "d", Epoch: 1}})
	d.report("c", clusterdoc.TaskReport{TaskID: second, State: clusterdoc.TaskLost})
	d.decide()
	d.expect("a c d") // any two of them have c or d
	if names := strings.Fields(d.nodes()); !slices.IsSorted(names) {
		t.Error(names)
	}
}

// The same records give the same events, whatever the order of maps.
func TestAffinitiesAreDeterministic(t *testing.T) {
	var first string
	for range 20 {
		d := newDriver(t, "a", "b", "c", "d", "e", "f")
		job := roundJob()
		job.GPUs, job.Nodes = 6, 3
		d.apply(&ledger.Record{Submit: &ledger.Submit{Job: job}})
		d.decide([]string{"d/0", "d/1"}, []string{"c/0", "c/1"}, []string{"e/0", "e/1"})
		d.report("d", clusterdoc.TaskReport{TaskID: clusterdoc.TaskID{Job: "j1", Attempt: 1},
			State: clusterdoc.TaskRunning, Round: 3})
		for k, name := range []string{"d", "c", "e"} {
			d.report(name, clusterdoc.TaskReport{TaskID: clusterdoc.TaskID{Job: "j1", Attempt: 1, Task: k},
				State: clusterdoc.TaskLost})
		}
		all := ""
		for _, e := range d.Events() {
			all += fmt.Sprint(e.Type, e.Job, e.GPU, " ")
		}
		d.decide()
		if all += d.nodes(); first == "" {
			first = all
		}
		if all != first {
			t.Fatalf("%s\n%s", all, first)
		}
	}
	if !strings.HasSuffix(first, "a b c d e") {
		t.Error(first)
	}
}

// A job waits for the nodes with its checkpoint as long as the rounds are worth that the server's copy lacks.
func TestCopiesShortenTheWait(t *testing.T) {
	d := newDriver(t, "a", "b")
	d.apply(&ledger.Record{Submit: &ledger.Submit{Job: roundJob()}})
	d.decide([]string{"b/0", "b/1"})
	if _, ok := d.MayCopy("a", "j1", 1); ok {
		t.Error("an agent that does not run the job may bring its checkpoint")
	}
	if _, ok := d.MayCopy("b", "j1", 1); !ok {
		t.Error("the agent of the job may not bring its checkpoint")
	}
	copied := func(attempt, round int64) {
		d.apply(&ledger.Record{Copy: &ledger.Copied{Job: "j1", CheckpointCopy: clusterdoc.CheckpointCopy{
			Attempt: attempt, Round: round, Bytes: 9, SHA256: "abc"}}})
	}
	copied(1, 6)
	d.fail("b", clusterdoc.TaskID{Job: "j1", Attempt: 1}, 8, 60)
	if _, ok := d.MayCopy("b", "j1", 1); ok {
		t.Error("the checkpoint of an attempt that has ended may be brought")
	}
	d.decide()
	d.expect("b")
	if d.AffinitiesEnd(d.nowUs+15e6-1) || !d.AffinitiesEnd(d.nowUs+15e6) { // 2 of 8 rounds in 60 s
		t.Error("the job does not wait for 15 s")
	}
	if why := d.WaitsFor("j1"); !strings.HasSuffix(why, ", and starts elsewhere then, from the copy after round 6") {
		t.Error(why)
	}
	d.nowUs += 15e6
	d.apply(&ledger.Record{Tick: true})
	d.decide([]string{"a/0", "a/1"})
	orders := d.Orders("a")
	if x := orders[0].Start.Rounds.Copy; x == nil || x.Round != 6 || x.SHA256 != "abc" {
		t.Errorf("the order to start names the copy %+v", x)
	}
	copied(2, 8)
	d.fail("a", clusterdoc.TaskID{Job: "j1", Attempt: 2}, 8, 10)
	d.decide([]string{"b/0", "b/1"})
	if d.expect(""); d.Job("j1", false).CopyRound != 8 {
		t.Error(d.Job("j1", false))
	}
	// A copy that is lost counts no more.
	d.fail("b", clusterdoc.TaskID{Job: "j1", Attempt: 3}, 8, 10)
	copied(0, 0)
	d.decide()
	if d.expect("b"); d.Job("j1", false).CopyRound != 0 || len(d.Copies()) > 0 {
		t.Error(d.Job("j1", false))
	}
}
