package executor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor"
	"github.com/hare-sched/hare/internal/testing/executortest"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Nodes that reach the server and not each other: the attempt ends in a clear line within the time that is stated, the
// next ones keep away from the node that nobody reaches, and a job with no other nodes has failed.
func TestRoundJobOnNodesThatDoNotReachEachOther(t *testing.T) {
	// One program of each attempt gives up after short. The other ones are patient, so that no load makes a node that
	// is reached look like one that is not.
	const short, long = 3 * time.Second, 30 * time.Second
	dir, env := moduleFolder(t)
	s := newServer(t, time.Minute)
	homes, stops, lives := map[string]string{}, map[string]func(){}, map[string]int64{}
	start := func(name string, patience time.Duration) {
		if stop := stops[name]; stop != nil {
			stop()
		} else {
			homes[name] = t.TempDir()
		}
		stops[name] = agentOf(t, s, name, homes[name], "cpu=1", 0, func(c *executor.Config) {
			c.NodePatience = patience
			if name == "a" { // nobody finds it, so that no job gets on with it as its master
				c.Address = "nowhere.invalid"
			}
		})
		lives[name]++
		for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			all, err := s.Agents(t.Context())
			if err != nil || time.Since(begun) > time.Minute {
				t.Fatalf("agent %s does not register: %+v %v", name, all, err)
			}
			// The session takes nodes in the order in which they have come.
			if slices.ContainsFunc(all, func(x *clusterdoc.Agent) bool { return x.Name == name && x.Epoch == lives[name] }) {
				return
			}
		}
	}
	// took is how long an attempt ran until its nodes did not reach each other.
	took := func(at *clusterdoc.Attempt) time.Duration { return at.Ended.Sub(at.Ordered) }
	start("a", long)
	start("b", short)
	n := &clusterdoc.NewJob{Module: "line", Directory: dir, Env: env, Rounds: 5, Tasks: 3, GPUs: 2, Nodes: 2, Seed: 7}
	id := submitRounds(t, s, n)
	job := await(t, s, id, clusterdoc.JobFailed, clusterdoc.JobSucceeded)
	if job.State != clusterdoc.JobFailed || job.Failures != 1 || len(job.Attempts) != 1 || !strings.HasPrefix(job.Reason,
		`nodes "a" and "b" do not reach each other: task 1: the node that holds the parameters cannot be reached at `) {
		t.Fatalf("%+v", job)
	}
	if d := took(job.Attempts[0]); d < short || d > long-5*time.Second {
		t.Errorf("the attempt ran for %v, and a program gives up after %v", d, short)
	}
	t.Logf("after %.1f s: %s", took(job.Attempts[0]).Seconds(), job.Reason)
	start("a", short)
	start("b", long)
	start("c", long)
	id = submitRounds(t, s, n)
	job = await(t, s, id, clusterdoc.JobFailed, clusterdoc.JobSucceeded)
	last := job.Attempts[len(job.Attempts)-1].Tasks
	if job.State != clusterdoc.JobSucceeded || job.Failures != 0 || job.Lost != 2 || last[0].Agent == "a" {
		for _, at := range job.Attempts {
			t.Logf("%s on %s and %s: %s", at.Result, at.Tasks[0].Agent, at.Tasks[1].Agent, at.Error)
		}
		t.Fatalf("%+v", job)
	}
	for i, at := range job.Attempts {
		t.Logf("%s on %s and %s: %s", at.Result, at.Tasks[0].Agent, at.Tasks[1].Agent, at.Error)
		if d := took(at); i < 2 && (d < short || d > long-5*time.Second ||
			!strings.Contains(at.Error, "do not reach each other: task 0: the program of rank 1 has not been heard for 3s")) {
			t.Errorf("attempt %d ran for %v: %s", at.Attempt, d, at.Error)
		}
	}
	executortest.ExpectLoop(t, homes[last[0].Agent]+"/checkpoints/"+id, n, 3)
}
