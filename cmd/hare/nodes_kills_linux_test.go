package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare/internal/testing/audit"
	"github.com/hare-sched/hare/internal/testing/executortest"
	clustertext "github.com/hare-sched/hare/serve/clusters/text"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

var nodeKills = flag.Int("node-kills", 4, "how many servers, agents, runners, programs, workers and whole nodes are "+
	"killed under round jobs on several nodes")

// TestNodeKills trains two jobs on two nodes each, of three that share nothing, and kills what they depend on at
// random, also whole nodes with all of their files, each time after the job has gone on. The parameters on all nodes
// are those of a plain loop, and the journal shows that no round was lost.
func TestNodeKills(t *testing.T) {
	t.Parallel() // waits most of the time
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	path := executortest.Python(t)
	k := newCluster(t)
	k.agentArgs = []string{"--devices", "cpu=3"}
	k.agents = nil
	k.serve()
	for range 3 {
		k.join()
	}
	modules := k.modules()
	jobs := []*clusterdoc.NewJob{
		{Module: "slow", GPUs: 4, Nodes: 2, Sync: "gang", Tasks: 4, Seed: 5},
		{Module: "slow", GPUs: 2, Nodes: 2, Tasks: 5, Seed: 6},
	}
	var ids []string
	var gates []*executortest.Gate // the jobs do not end before all is killed
	for _, n := range jobs {
		n.Directory, n.Retries, n.Rounds = modules, 1000, int64(40*(*nodeKills/2+1))
		n.Env = map[string]string{"PYTHONPATH": path, "TASK_S": "0.01"}
		gates = append(gates, executortest.NewGate(t, n.Env, n.Rounds-1))
		job, err := k.client.SubmitJob(t.Context(), "lab", n, "")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, job.ID)
	}
	last := make([]int64, len(jobs))
	begun := time.Now()
	look := func(i int) *clusterdoc.Job {
		t.Helper()
		job, err := k.client.ClusterJob(t.Context(), "lab", ids[i])
		if err != nil {
			t.Fatalf("%v\n%s", err, k.lastLogs())
		}
		if time.Since(begun) > 2*patience+time.Duration(*nodeKills)*20*time.Second {
			t.Fatalf("the jobs do not end: %s\n%s", clustertext.Job(job, time.Now()), k.lastLogs())
		}
		return job
	}
	kinds := []string{wholeNode, "server", "agent", "runner"} // at first
	for killed, gone := 0, begun; killed < *nodeKills; {
		i := killed % len(jobs)
		job := look(i)
		if job.State.Final() {
			t.Fatalf("the job ended before its gate was open: %s\n%s", clustertext.Job(job, time.Now()), k.lastLogs())
		}
		stuck := gates[i].Reached() && time.Since(gone) > atGate
		if len(job.Attempts) == 0 || job.Round <= last[i] && !stuck {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		last[i] = max(last[i], job.Round)
		k.killOfNodes(func() *clusterdoc.Attempt {
			job := look(i)
			return job.Attempts[len(job.Attempts)-1]
		}, &kinds)
		gone = time.Now()
		killed++
	}
	for _, gate := range gates {
		gate.Open()
	}
	attempts := 0
	for i, n := range jobs {
		job := look(i)
		for ; !job.State.Final(); job = look(i) {
			time.Sleep(20 * time.Millisecond)
		}
		if job.State != clusterdoc.JobSucceeded || job.Round != n.Rounds {
			t.Fatalf("%s\n%s", clustertext.Job(job, time.Now()), k.lastLogs())
		}
		attempts += len(job.Attempts)
		for _, task := range job.Attempts[len(job.Attempts)-1].Tasks {
			executortest.ExpectLoop(t, filepath.Join(k.dir, task.Agent, "checkpoints", job.ID), &job.NewJob, job.Tasks)
		}
	}
	if n := executortest.SumOf(k.kills); n != *nodeKills {
		t.Errorf("%d kills, not %d: %v", n, *nodeKills, k.kills)
	}
	kill9(k.server)
	report, err := audit.Journal(bytes.NewReader(k.journal()), audit.Rules{Lease: 3 * time.Second, Kill: 5 * time.Second})
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d rounds in %d attempts in %.0f s; killed: %v; %+v", int64(len(jobs))*jobs[0].Rounds, attempts,
		time.Since(begun).Seconds(), k.kills, report)
}

// join adds a node to the cluster.
func (k *killed) join() {
	k.t.Helper()
	k.agents, k.nets = append(k.agents, nil), append(k.nets, newNetwork(k.t, k.address))
	k.agent(len(k.agents) - 1)
}

// wholeNode is a node with all of its files. Another one takes its place.
const wholeNode = "node with its files"

// agentNumber is the place of the agent of a name.
func agentNumber(name string) (i int) {
	_, _ = fmt.Sscanf(name, "n%d", &i)
	return i
}

// killOfNodes kills one of the processes that the last attempt of a job on two nodes depends on, or all of a node:
// what comes next of kinds.
func (k *killed) killOfNodes(last func() *clusterdoc.Attempt, kinds *[]string) {
	k.t.Helper()
	task := k.rng.IntN(2)
	name := last().Tasks[task].Agent
	i := agentNumber(name)
	if len(*kinds) == 0 { // all of them, in a random order
		*kinds = []string{"server", "agent", "runner", runRounds, "hare_worker", "node", wholeNode}
		k.rng.Shuffle(len(*kinds), func(a, b int) { (*kinds)[a], (*kinds)[b] = (*kinds)[b], (*kinds)[a] })
	}
	what := (*kinds)[0]
	*kinds = (*kinds)[1:]
	switch what {
	case "server":
		kill9(k.server)
		k.serve()
	case "agent":
		kill9(k.agents[i])
		k.agent(i)
	case "node":
		k.killNode(i)
		time.Sleep(time.Duration(k.rng.IntN(12)) * time.Second) // it comes back before or after its lease is over
		k.agent(i)
	case wholeNode:
		k.killNode(i)
		for os.RemoveAll(filepath.Join(k.dir, name)) != nil { // a process may still write
			time.Sleep(10 * time.Millisecond)
		}
		k.join()
	default:
		executortest.KillOne(k.t, k.rng, func() []int {
			i := agentNumber(last().Tasks[task].Agent)
			if what == "runner" {
				return k.runnersOf(i)
			}
			return k.processesOf(i, what)
		})
	}
	k.kills[what]++
}

// killNode kills an agent and all that runs on its node.
func (k *killed) killNode(i int) {
	kill9(k.agents[i])
	k.agents[i] = nil
	for _, pid := range slices.Concat(k.runnersOf(i), k.processesOf(i, runRounds), k.processesOf(i, "hare_worker")) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// processesOf are the processes of jobs on a node with an argument that begins with a word.
func (k *killed) processesOf(i int, word string) []int {
	k.t.Helper()
	return roundProcesses(k.t, filepath.Join(k.dir, fmt.Sprintf("n%d", i)), word)
}
