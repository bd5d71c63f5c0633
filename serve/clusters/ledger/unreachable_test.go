package ledger_test

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare/serve/clusters/ledger"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// twoNodes is a command job on two nodes.
func twoNodes() clusterdoc.NewJob {
	return clusterdoc.NewJob{Command: []string{"true"}, GPUs: 4, Nodes: 2}
}

// part has an attempt of job j1 end because a task did not reach another one.
func (d *driver) part(attempt int64, nodes [2]string, task, other int) {
	d.t.Helper()
	one := 1
	for _, k := range []int{task, 1 - task} {
		r := clusterdoc.TaskReport{TaskID: clusterdoc.TaskID{Job: "j1", Attempt: attempt, Task: k},
			State: clusterdoc.TaskEnded, ExitCode: &one, Error: "no way"}
		if k == task {
			r.Apart = []int{other}
		}
		d.report(nodes[k], r)
	}
}

// away are the nodes that the job keeps away from.
func (d *driver) away() string {
	if len(d.arrived.Exclude) == 0 {
		return ""
	}
	return strings.Join(d.arrived.Exclude[0].Values, " ")
}

// A job whose nodes do not reach each other goes to others, and this is no failure of the job.
func TestNodesThatDoNotReachEachOther(t *testing.T) {
	d := newDriver(t, "a", "b", "c")
	d.apply(&ledger.Record{Submit: &ledger.Submit{Job: twoNodes()}})
	start := func(one, two string) {
		t.Helper()
		d.decide([]string{one + "/0", one + "/1"}, []string{two + "/0", two + "/1"})
	}
	start("a", "b")
	d.part(1, [2]string{"a", "b"}, 0, 1)
	job := d.Job("j1", true)
	if job.State != clusterdoc.JobWaiting || job.Failures != 0 || job.Reason != `starts again after attempt 1: nodes `+
		`"a" and "b" do not reach each other: task 0: no way` {
		t.Fatalf("%+v", job)
	}
	start("a", "c")
	if d.away() != "b" {
		t.Errorf("away from %q", d.away())
	}
	// Now it is clear which of the nodes is to blame.
	d.part(2, [2]string{"a", "c"}, 1, 0)
	start("b", "c")
	if d.away() != "a" {
		t.Errorf("away from %q", d.away())
	}
	// With too few nodes left it is a failure, and retries count.
	d.part(3, [2]string{"b", "c"}, 0, 1)
	if job := d.Job("j1", true); job.State != clusterdoc.JobFailed || job.Failures != 1 || job.Lost != 2 {
		t.Errorf("%+v", job)
	}
}

// The nodes are left alone for ten minutes, and not where a node is lost that the job needs.
func TestNodesAreTriedAgain(t *testing.T) {
	for _, lose := range []bool{false, true} {
		d := newDriver(t, "a", "b", "c")
		d.apply(&ledger.Record{Submit: &ledger.Submit{Job: twoNodes()}})
		d.decide([]string{"a/0", "a/1"}, []string{"b/0", "b/1"})
		d.part(1, [2]string{"a", "b"}, 0, 1)
		d.decide()
		if d.away() != "b" || d.AffinitiesEnd(d.nowUs+10*60e6-1) || !d.AffinitiesEnd(d.nowUs+10*60e6) {
			t.Error(d.away())
		}
		if lose {
			d.apply(&ledger.Record{Expire: &ledger.AgentEpoch{Agent: "c", Epoch: 1}})
		} else {
			d.nowUs += 10 * 60e6
		}
		d.apply(&ledger.Record{Tick: true})
		d.decide()
		if d.away() != "" {
			t.Errorf("lost %v: away from %q", lose, d.away())
		}
	}
}

// What an agent says of tasks that are not there, or of its own, is not used.
func TestApartIsChecked(t *testing.T) {
	for _, other := range []int{-1, 0, 2, 7, 1 << 40} {
		d := newDriver(t, "a", "b", "c")
		d.apply(&ledger.Record{Submit: &ledger.Submit{Job: twoNodes()}})
		d.decide([]string{"a/0", "a/1"}, []string{"b/0", "b/1"})
		d.part(1, [2]string{"a", "b"}, 0, other)
		if job := d.Job("j1", true); job.State != clusterdoc.JobFailed || job.Reason != "task 0: no way" {
			t.Errorf("task 0 does not reach task %d: the job is %s: %s", other, job.State, job.Reason)
		}
	}
	long := &clusterdoc.Sync{Reports: []clusterdoc.TaskReport{{TaskID: clusterdoc.TaskID{Job: "j1"},
		State: clusterdoc.TaskEnded, Apart: make([]int, 1e6)}}}
	if err := ledger.CheckSync(long, 2); err != nil || len(long.Reports[0].Apart) > 1000 {
		t.Errorf("%d tasks are said to be out of reach: %v", len(long.Reports[0].Apart), err)
	}
}
