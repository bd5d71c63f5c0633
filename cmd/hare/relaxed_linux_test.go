package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/internal/testing/audit"
	"github.com/hare-sched/hare/internal/testing/executortest"
	clustertext "github.com/hare-sched/hare/serve/clusters/text"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

var relaxedKills = flag.Int("relaxed-kills", 4, "how many agents, servers, pools, their runners and workers are "+
	"killed under three relaxed jobs")

// aboutTwoModels is the --model-memory of devices that have room for two models of the example line.
const aboutTwoModels = "0.0000000373" // 40 bytes

// relaxedJobs submits three jobs with different numbers of tasks a round, and variables for the first.
func (k *killed) relaxedJobs(rounds int64, first map[string]string) (jobs []*clusterdoc.Job) {
	k.t.Helper()
	modules := k.modules()
	for i, tasks := range []int{3, 2, 4} {
		checkpoints := filepath.Join(k.dir, fmt.Sprintf("checkpoints%d", i))
		env := map[string]string{"TASK_S": "0.01"}
		if i == 0 {
			maps.Copy(env, first)
		}
		job, err := k.client.SubmitJob(k.t.Context(), "lab", &clusterdoc.NewJob{Module: "slow", Directory: modules,
			CheckpointDirectory: checkpoints, Tasks: tasks, Rounds: rounds, Seed: int64(i), Retries: 1000, Sync: "relaxed",
			Env: env}, "")
		if err != nil {
			k.t.Fatal(err)
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// look asks for the jobs again, and says whether all have ended.
func (k *killed) look(jobs []*clusterdoc.Job) (final bool) {
	k.t.Helper()
	final = true
	for i, j := range jobs {
		now, err := k.client.ClusterJob(k.t.Context(), "lab", j.ID)
		if err != nil {
			k.t.Fatalf("%v\n%s", err, k.lastLogs())
		}
		if now.Round < j.Round {
			k.t.Errorf("job %s: round %d follows round %d, and the checkpoints are shared", j.ID, now.Round, j.Round)
		}
		jobs[i] = now
		final = final && now.State.Final()
	}
	return final
}

// expectTrained checks that jobs have succeeded with the parameters of loops, and the journal.
func (k *killed) expectTrained(jobs []*clusterdoc.Job) (attempts int, report any) {
	k.t.Helper()
	for i, j := range jobs {
		if j.State != clusterdoc.JobSucceeded || j.Round != j.Rounds {
			k.t.Fatalf("%s\n%s", clustertext.Job(j, time.Now()), k.lastLogs())
		}
		executortest.ExpectLoop(k.t, filepath.Join(k.dir, fmt.Sprintf("checkpoints%d", i)), &j.NewJob, j.Tasks)
		attempts += len(j.Attempts)
	}
	kill9(k.server)
	rules := audit.Rules{Lease: 3 * time.Second, Kill: 5 * time.Second}
	checked, err := audit.Journal(bytes.NewReader(k.journal()), rules)
	if err != nil {
		k.t.Error(err)
	}
	return attempts, checked
}

// TestRelaxedJobsShareGPUs trains three jobs on the GPUs of two nodes at the same time: GPUs go from one job to
// another again and again, each job uses GPUs of both nodes, and the parameters are those of plain loops.
func TestRelaxedJobsShareGPUs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Setenv("PYTHONPATH", executortest.Python(t))
	k := newCluster(t)
	k.agentArgs = []string{"--pass-env", "PYTHONPATH", "--model-memory", aboutTwoModels}
	k.serve()
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		_, err := k.client.CreateCluster(t.Context(), &clusterdoc.NewCluster{Name: "lab", Policy: "hlas"})
		if err == nil {
			break
		}
		if time.Since(begun) > patience { // the server starts
			t.Fatal(err)
		}
	}
	for i := range k.agents {
		k.nets = append(k.nets, newNetwork(t, k.address))
		k.agent(i)
	}
	jobs := k.relaxedJobs(60, nil)
	uses := map[string][]string{} // of each GPU, the jobs that had it
	nodes := map[string]map[string]bool{}
	shown := ""
	for begun := time.Now(); !k.look(jobs); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("the jobs do not end: %s\n%s", clustertext.Job(jobs[0], time.Now()), k.lastLogs())
		}
		for _, j := range jobs {
			if len(j.Attempts) == 0 {
				continue
			}
			at := j.Attempts[len(j.Attempts)-1]
			for _, task := range at.Tasks {
				for _, gpu := range task.GPUs {
					uses[gpu] = append(uses[gpu], j.ID)
					if nodes[j.ID] == nil {
						nodes[j.ID] = map[string]bool{}
					}
					nodes[j.ID][task.Agent] = true
				}
			}
			if text := clustertext.Job(j, time.Now()); strings.Contains(text, "parameters  on ") &&
				strings.Contains(text, " of round ") &&
				j.Round > 0 {
				shown = text
			}
		}
	}
	switches := 0
	for _, had := range uses {
		for i := range had[1:] {
			if had[i] != had[i+1] {
				switches++
			}
		}
	}
	if switches < 20 {
		t.Errorf("GPUs went from one job to another %d times", switches)
	}
	for _, j := range jobs {
		if len(nodes[j.ID]) != 2 {
			t.Errorf("job %s used GPUs of %v", j.ID, nodes[j.ID])
		}
		// Where the home has the last gradients, the job may have ended before a node says that it computed them.
		if j.TasksOn["cpu"] < (j.Rounds-1)*int64(j.Tasks) {
			t.Errorf("%d tasks of job %s have ended", j.TasksOn["cpu"], j.ID)
		}
	}
	if !strings.Contains(shown, "60 saved") {
		t.Errorf("hare jobs ID shows no home with rounds: %s", shown)
	}
	out, _, code := runHare(t, "", "logs", "--server", "http://"+k.address, "--cluster", "lab", jobs[1].ID)
	if code != 0 || strings.Count(out, "round ") != 60 || !strings.HasSuffix(out, "loss "+jobs[1].Loss+"\n") {
		t.Errorf("%d %q, the last loss was %s", code, out, jobs[1].Loss)
	}
	attempts, report := k.expectTrained(jobs)
	t.Logf("%d switches seen, %d attempts; %+v", switches, attempts, report)
}

// TestRelaxedKills kills agents, the server, pools, their runners and workers at random while three relaxed jobs share
// the GPUs of two nodes, each time after they have gone on. The parameters are those of plain loops.
func TestRelaxedKills(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	t.Setenv("PYTHONPATH", executortest.Python(t))
	k := newKilled(t, "--pass-env", "PYTHONPATH", "--model-memory", aboutTwoModels)
	rounds, held := int64(10*(*relaxedKills+1)), map[string]string{}
	gate := executortest.NewGate(t, held, rounds-1) // the first job does not end before all is killed
	jobs := k.relaxedJobs(rounds, held)
	begun, last := time.Now(), int64(0)
	for killed, gone := 0, begun; !k.look(jobs); {
		if time.Since(begun) > patience+time.Duration(*relaxedKills)*10*time.Second {
			text := ""
			for _, j := range jobs {
				text += clustertext.Job(j, time.Now())
			}
			t.Fatalf("the jobs do not end: %s\n%s", text, k.lastLogs())
		}
		sum := int64(0)
		for _, j := range jobs {
			sum += j.Round
		}
		stuck := gate.Reached() && time.Since(gone) > atGate
		if killed == *relaxedKills || sum == last && !stuck {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		last = sum
		k.killOne(killed%50 == 49, runPool, k.poolProcesses)
		gone = time.Now()
		if killed++; killed == *relaxedKills {
			gate.Open()
		}
	}
	if n := executortest.SumOf(k.kills); n != *relaxedKills {
		t.Errorf("%d kills, not %d: %v", n, *relaxedKills, k.kills)
	}
	attempts, report := k.expectTrained(jobs)
	t.Logf("%d rounds in %d attempts in %.0f s; killed: %v; %+v", 3*jobs[0].Rounds, attempts, time.Since(begun).Seconds(),
		k.kills, report)
}

// poolProcesses are the processes of the agents' pools with an argument that begins with a word.
func (k *killed) poolProcesses(word string) []int {
	k.t.Helper()
	return executortest.Processes(k.t, func(p *executortest.Process) bool { return p.HasWord(word) && p.IsIn(k.dir) })
}
