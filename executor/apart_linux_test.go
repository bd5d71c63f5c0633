package executor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/clusters/description"
	"github.com/hare-sched/hare/executor"
)

// Nodes that reach the server and not each other: the attempt ends in a clear line within the time that is stated, the
// next ones keep away from the node that nobody reaches, and a job with no other nodes has failed.
func TestRoundJobOnNodesThatDoNotReachEachOther(t *testing.T) {
	dir, env := moduleFolder(t)
	s := newServer(t, time.Minute)
	homes := map[string]string{}
	start := func(name string, with ...func(*executor.Config)) {
		homes[name] = t.TempDir()
		agentOf(t, s, name, homes[name], "cpu=1", 0, append(with, func(c *executor.Config) {
			c.NodePatience = 3 * time.Second
		})...)
		for all, err := s.Agents(t.Context()); len(all) < len(homes); all, err = s.Agents(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond) // the session takes nodes in the order in which they have come
		}
	}
	// Nobody finds the first one, so that no job gets on with it as its master.
	start("a", func(c *executor.Config) { c.Address = "nowhere.invalid" })
	start("b")
	n := &description.NewJob{Module: "line", Directory: dir, Env: env, Rounds: 5, Tasks: 3, GPUs: 2, Nodes: 2, Seed: 7}
	begun := time.Now()
	id := submitRounds(t, s, n)
	job := await(t, s, id, description.JobFailed, description.JobSucceeded)
	if job.State != description.JobFailed || job.Failures != 1 || len(job.Attempts) != 1 ||
		!strings.HasPrefix(job.Reason, `nodes "a" and "b" do not reach each other: task `) {
		t.Fatalf("after %v: %+v", time.Since(begun), job)
	}
	t.Logf("after %.1f s: %s", time.Since(begun).Seconds(), job.Reason)
	start("c")
	id = submitRounds(t, s, n)
	job = await(t, s, id, description.JobFailed, description.JobSucceeded)
	last := job.Attempts[len(job.Attempts)-1].Tasks
	if job.State != description.JobSucceeded || job.Failures != 0 || job.Lost != 2 || last[0].Agent == "a" {
		t.Fatalf("%+v", job)
	}
	for _, at := range job.Attempts {
		t.Logf("%s on %s and %s: %s", at.Result, at.Tasks[0].Agent, at.Tasks[1].Agent, at.Error)
	}
	expectLoop(t, homes[last[0].Agent]+"/checkpoints/"+id, n, 3)
}
