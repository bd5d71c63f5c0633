package main

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// managedServer serves managed clusters that have no agents.
func managedServer(t *testing.T) string {
	t.Helper()
	kept, err := sessions.Open(t.Context(), sessions.Config{Store: store.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	managed, err := clusters.Open(t.Context(), clusters.Config{Store: store.NewMemory(), Sessions: kept})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(servetest.New(t, service.New(service.Config{Solver: solver.Config{Version: "test"}}),
		api.Config{Sessions: kept, Clusters: managed}))
	t.Cleanup(func() {
		srv.Close()
		if err := errors.Join(managed.Close(), kept.Close()); err != nil {
			t.Error(err)
		}
	})
	return srv.URL
}

func TestClusterCommands(t *testing.T) {
	t.Setenv("HARE_SERVER", managedServer(t))
	for _, step := range []struct {
		args           string
		code           int
		stdout, stderr string // parts of what is printed; "" means nothing at all
	}{
		{"jobs", exitUsage, "", "--cluster is missing, and the server has no cluster yet"},
		{"cluster list", 0, "no clusters: the first hare agent or hare submit makes one\n", ""},
		{"cluster create A_b", exitUsage, "", "/name: must be 1 to 63 of"},
		{"cluster create lab --policy best", exitUsage, "", "/policy: "},
		{"cluster create lab --parameters {", exitUsage, "", "--parameters: must be a JSON object"},
		{"cluster create lab --policy fifo", 0, "cluster lab is made, with the policy fifo\n", ""},
		{"cluster create lab", exitUsage, "", `cluster "lab" exists`},
		{"jobs", 0, "cluster lab: 0 agents, 0 of 0 GPUs free; no jobs\n", ""},
		{"submit --gpus 2 --on V100,T4 --name bert -- python train.py --epochs 3", 0, "j1\n", ""},
		{"submit --idempotency-key k -- sleep 5", 0, "j2\n", ""},
		{"submit --idempotency-key k -- sleep 5", 0, "j2\n", ""},
		{"submit --idempotency-key k -- sleep 6", exitUsage, "", "the Idempotency-Key belongs to another job"},
		{"jobs j1", 0, "job j1 (bert): waiting: waits for the first agent of the cluster: start hare agent on a node\n" +
			"  command       python train.py --epochs 3\n  wants         2 GPUs, on T4 or V100\n", ""},
		{"jobs", 0, "waits for the first agent of the cluster: start hare agent on a " +
			"node\n", ""},
		{"jobs --state waiting", 0, "j2  sleep  waiting", ""},
		{"jobs j7", exitUsage, "", "cluster lab has no job j7"},
		{"jobs --cluster lib", exitUsage, "", "--cluster lib: the server "},
		{"jobs --state done", exitUsage, "", `--state "done": must be one of waiting, `},
		{"logs j1", exitNo, "", "hare: job j1 has not started: waits for the first agent"},
		{"logs j7 --follow", exitUsage, "", "cluster lab has no job j7"},
		{"logs j1 --stream out", exitUsage, "", `--stream "out": must be stdout or stderr`},
		{"logs j1 --offset 5", exitUsage, "", "--offset counts the bytes of one output"},
		{"agents", 0, "no agents: start hare agent on each node\n", ""},
		{"drain n1", exitUsage, "", "cluster lab has no node n1: hare agents lists the nodes"},
		{"submit", exitUsage, "", "hare submit needs a command behind --"},
		{"submit --gpus 0 -- x", exitUsage, "", "--gpus must be positive"},
		{"submit --gpus 3 --nodes 2 -- x", exitUsage, "", "/nodes: 3 GPUs cannot be spread equally over 2 nodes"},
		{"submit --gpus 3 --gpus-per-node 2 -- x", exitUsage, "", "--gpus-per-node 2: 3 GPUs are no multiple of it"},
		{"submit --on V100=3 -- x", exitUsage, "", "give seconds by --seconds V100=3"},
		{"submit --seconds V100 -- x", exitUsage, "", "--seconds V100: must be a GPU type and a positive number"},
		{"submit --seconds V100=NaN -- x", exitUsage, "", "--seconds V100=NaN: must be"},
		{"submit --env HARE_TEST_NOT_SET -- x", exitUsage, "", "your environment has no such variable"},
		{"submit --secret-env HARE_TEST_NOT_SET -- x", exitUsage, "", "no such variable: set it there"},
		{"submit --secret-env A=s3cret -- x", exitUsage, "", "--secret-env A: every user of the machine can read a value"},
		{"submit --env RANK=1 -- x", exitUsage, "", "/env/RANK: is set by the agent"},
		{"submit --dir here -- x", exitUsage, "", "/directory: must be an absolute path"},
		{"submit --retries -1 -- x", exitUsage, "", "--retries must not be negative"},
		{"submit --module m --directory d --rounds 1 --sync relaxed --gpus 2", exitUsage, "",
			"leave --gpus out, or take --sync rigid for GPUs of its own"},
		{"submit --module m --directory d --rounds 1 --sync bsp", exitUsage, "", "/sync: must be relaxed, rigid or gang"},
		{"submit --json --follow -- x", exitUsage, "", "take --wait with --json"},
		{"cluster delete lab", exitUsage, "", "2 jobs have not ended: cancel them"},
		{"cancel j1 j2 --wait", 0, "j1 cancelled\nj2 cancelled\n", ""},
		{"cancel j1", 0, "j1 cancelled\n", ""},
		{"cancel", exitUsage, "", "hare cancel takes the IDs of jobs"},
		{"cluster show lab", 0, "cluster lab, policy fifo: 0 agents, 0 of 0 GPUs free; 2 cancelled\nsession ", ""},
		{"submit --cluster labb -- true", 0, "j1\n",
			"hare: cluster labb is new and has no agent; the server also has lab\n"},
		{"submit --cluster labb -- true", 0, "j2\n", ""},
		{"cluster delete lab", 0, "cluster lab is deleted\n", ""},
		{"cluster show lab", exitUsage, "", "has no cluster of that name"},
	} {
		out, errs, code := runHare(t, "", strings.Fields(step.args)...)
		if code != step.code || !strings.Contains(out, step.stdout) || !strings.Contains(errs, step.stderr) ||
			step.stdout == "" && out != "" || step.stderr == "" && errs != "" || strings.Count(errs, "\n") > 1 {
			t.Errorf("hare %s: exit code %d\n%s%s", step.args, code, out, errs)
		}
	}
}

// TestSubmitFields checks that each flag of hare submit is the field that it should be.
func TestSubmitFields(t *testing.T) {
	t.Setenv("HARE_SERVER", managedServer(t))
	t.Setenv("HARE_CLUSTER", "lab")
	t.Setenv("OURS", "a b")
	t.Setenv("TOKEN", "s3cret")
	out, errs, code := runHare(t, "", "submit", "--json", "--gpus", "4", "--gpus-per-node", "2", "--gpus-per-task", "2",
		"--on", "K80", "--seconds", "V100=3600,T4=9000.5", "--env", "OURS", "--env", "X=a,b=c", "--secret-env",
		"TOKEN", "--dir", "/d",
		"--checkpoint-dir", "/c", "--retries", "3", "--grace", "1m", "--estimate", "2h", "--class", "user=ann",
		"--weight", "2.5", "--name", "n", "--", "run", "--gpus", "7", "")
	if code != 0 {
		t.Fatal(errs)
	}
	var got clusterdoc.Job
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got.NewJob)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"n","command":["run","--gpus","7",""],"gpus":4,"gpus_per_task":2,"nodes":2,` +
		`"on":{"K80":0,"T4":9000.5,"V100":3600},"env":{"OURS":"a b","X":"a,b=c"},"secret_env":{"TOKEN":"***"},` +
		`"directory":"/d","checkpoint_directory":"/c","retries":3,"grace_s":60,"weight":2.5,"estimate_s":7200,` +
		`"class":{"user":"ann"}}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// TestSubmitSync checks that round jobs ask for GPUs of their own only where a flag says so.
func TestSubmitSync(t *testing.T) {
	t.Setenv("HARE_SERVER", managedServer(t))
	t.Setenv("HARE_CLUSTER", "lab")
	for flags, want := range map[string][2]any{
		"":                           {"relaxed", 0},
		"--tasks 4 --sync relaxed":   {"relaxed", 0},
		"--tasks 4 --gpus 2":         {"rigid", 2},
		"--tasks 4 --sync rigid":     {"rigid", 1},
		"--sync gang":                {"gang", 1},
		"--gpus 2 --gpus-per-node 1": {"rigid", 2},
	} {
		out, errs, code := runHare(t, "", strings.Fields("submit --json --module m --directory d --rounds 1 "+flags)...)
		var got clusterdoc.Job
		if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || got.Sync != want[0] || got.GPUs != want[1] {
			t.Errorf("%s: %s %s", flags, out, errs)
		}
	}
}

var atNine = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

func exampleJob() *clusterdoc.Job {
	started, code := atNine.Add(12*time.Second), 1
	lost := started.Add(90 * time.Second)
	return &clusterdoc.Job{ID: "j3", NewJob: clusterdoc.NewJob{Name: "bert\x1b[31m", Command: []string{"sh", "-c",
		"echo $RANK"}, GPUs: 2, GPUsPerTask: 1, Retries: 2}, State: clusterdoc.JobRunning, Submitted: atNine,
		Started: &started, Failures: 1,
		Attempts: []*clusterdoc.Attempt{
			{Attempt: 1, Result: "failed", Error: "task 1: exit code 1", Ordered: started, Ended: &lost,
				Tasks: []*clusterdoc.TaskInfo{
					{Task: 0, Agent: "n1", GPUs: []string{"n1/0"}, State: clusterdoc.TaskEnded, Signal: "SIGTERM"},
					{Task: 1, Agent: "n2", GPUs: []string{"n2/3"}, State: clusterdoc.TaskEnded, ExitCode: &code}}},
			{Attempt: 2, Ordered: lost, Tasks: []*clusterdoc.TaskInfo{
				{Task: 0, Agent: "n1", GPUs: []string{"n1/0"}, State: clusterdoc.TaskRunning},
				{Task: 1, Agent: "n1", GPUs: []string{"n1/1"}, State: clusterdoc.TaskRunning}}},
		}}
}

func TestJobText(t *testing.T) {
	const want = `job j3 (bert\x1b[31m): running
  command       sh -c 'echo $RANK'
  wants         2 GPUs; retries: 1 of 2 used
  submitted     2026-11-23 09:00:00 UTC, 2h00m ago
  started       2026-11-23 09:00:12 UTC, after 12s
  attempt 1     failed, 1m30s, on n1/0 n2/3: task 1: exit code 1
    task 0      n1/0 ended: SIGTERM
    task 1      n2/3 ended: exit code 1
  attempt 2     goes on, 1h58m, on n1/0,1
    task 0      n1/0 running
    task 1      n1/1 running
`
	if got := jobText(exampleJob(), atNine.Add(2*time.Hour)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// relaxedJob is a relaxed round job with a home and two tasks of round 7.
func relaxedJob() *clusterdoc.Job {
	round, first, second := int64(7), 0, 3
	return &clusterdoc.Job{ID: "j4", NewJob: clusterdoc.NewJob{Name: "line", Module: "line", Directory: "/jobs",
		Rounds: 20, Tasks: 4, Sync: "relaxed", On: map[string]float64{"V100": 2, "T4": 0}}, State: clusterdoc.JobRunning,
		Submitted: atNine, Started: &atNine, Round: 6, Loss: "0.25", Home: "n1", TasksOut: 2,
		TasksOn: map[string]int64{"V100": 20, "T4": 8},
		Attempts: []*clusterdoc.Attempt{{Attempt: 1, Ordered: atNine, Tasks: []*clusterdoc.TaskInfo{
			{Task: 0, Agent: "n1", State: clusterdoc.TaskRunning},
			{Task: 29, Agent: "n2", GPUs: []string{"n2/1"}, State: clusterdoc.TaskRunning, Round: &round, RoundTask: &first},
			{Task: 32, Agent: "n1", GPUs: []string{"n1/0"}, State: clusterdoc.TaskOrdered, Round: &round,
				RoundTask: &second}}}}}
}

func TestRelaxedJobText(t *testing.T) {
	const want = `job j4 (line): running
  module        line in /jobs
  rounds        6 of 20 saved, the last one with loss 0.25; 4 tasks a round, relaxed
  wants         GPUs round by round, on T4 or V100 (2 s a task)
  tasks         8 on T4, 20 on V100 have ended
  submitted     2026-11-23 09:00:00 UTC, 2h00m ago
  started       2026-11-23 09:00:00 UTC, after 0s
  attempt 1     goes on, 2h00m, on n1/0 n2/1
    home        n1 running
    GPU         n2/1: task 0 of round 7, running
    GPU         n1/0: task 3 of round 7, ordered
`
	if got := jobText(relaxedJob(), atNine.Add(2*time.Hour)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestJobTable(t *testing.T) {
	cluster := &clusterdoc.Cluster{Name: "lab", Agents: 1, GPUs: 4, FreeGPUs: 2,
		Jobs: map[clusterdoc.JobState]int{clusterdoc.JobRunning: 1}}
	const want = `cluster lab: 1 agent, 2 of 4 GPUs free; 1 running
ID  NAME          STATE    GPUS  TIME   WHERE AND WHY
j3  bert\x1b[31m  running  2     2m18s  n1/0,1; attempt 2
7 jobs not shown: hare jobs --state, --once or --json
`
	got := jobTable(cluster, []*clusterdoc.Job{exampleJob()}, 7, atNine.Add(150*time.Second))
	if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLatestJobsHaveRoom(t *testing.T) {
	var jobs []*clusterdoc.Job
	for i, s := range []clusterdoc.JobState{"failed", "waiting", "succeeded", "running", "failed"} {
		jobs = append(jobs, &clusterdoc.Job{ID: string(rune('a' + i)), State: s})
	}
	for room, want := range map[int]string{9: "abcde", 4: "bcde", 3: "bde", 2: "bd", 1: "d", 0: "d"} {
		got := ""
		for _, j := range latest(append([]*clusterdoc.Job(nil), jobs...), room) {
			got += j.ID
		}
		if got != want {
			t.Errorf("room for %d: %s, want %s", room, got, want)
		}
	}
}

func TestAgentTable(t *testing.T) {
	got := agentTable([]*clusterdoc.Agent{
		{Name: "n1", State: "draining", Reason: "new fans", SeenS: 0.4, Homes: []string{"j4", "j5"},
			Devices: []*clusterdoc.Device{{GPU: "n1/0", Type: "V100", State: "busy", Job: "j3"},
				{GPU: "n1/1", Type: "V100", State: "busy", Job: "j3"},
				{GPU: "n1/2", Type: "T4", State: "quarantined", Reason: "XID 79"}}},
		{Name: "node2", State: "lost", SeenS: 4000, Devices: []*clusterdoc.Device{{GPU: "node2/0", Type: "T4"}}}})
	const want = `NODE   STATE     GPUS         BUSY  SEEN       JOBS AND FAULTS
n1     draining  V100=2,T4=1  2     0s ago     j3 on 0,1; home of j4,j5; new fans; GPU 2 quarantined: XID 79
node2  lost      T4=1         0     1h06m ago  
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLiveTableDrawsInPlace(t *testing.T) {
	var out strings.Builder
	table := liveTable{w: &out, width: 10, height: 4}
	for _, text := range []string{"a\nb\nc\nd\n", "0123456789A\n"} {
		if err := table.draw(text); err != nil {
			t.Fatal(err)
		}
	}
	const want = "\r\x1b[Ka\n\r\x1b[Kb\n\r\x1b[Kc\n\x1b[J" + "\x1b[3A\r\x1b[K012345678…\n\x1b[J"
	if out.String() != want {
		t.Errorf("%q", out.String())
	}
}
