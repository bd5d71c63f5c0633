package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
		{"jobs --state failed", 0, "no job matches\n", ""},
		{"jobs --user ann", 0, "cluster lab: 0 agents, 0 of 0 GPUs free; 2 waiting\n", ""},
		{"jobs --name BER --label team --type T4 --sort -weight", 0, "2 waiting\n", ""},
		{"jobs --sort wait", exitUsage, "", `--sort "wait": must be one of submitted, place`},
		{"jobs --user ann j1", exitUsage, "", "--user is for the list: leave the ID out"},
		{"submit --dry-run -- sleep 5", 0, "nobody knows when it would start: waits for the first agent of the cluster", ""},
		{"submit --dry-run --wait -- sleep 5", exitUsage, "", "--dry-run submits nothing: leave --wait out"},
		{"submit --dry-run --user " + strings.Repeat("u", 101) + " -- x", exitUsage, "", "/user: must be at most 100"},
		{"submit --label =1 -- x", exitUsage, "", `--label "=1": must be NAME=VALUE`},
		{"jobs j7", exitUsage, "", "cluster lab has no job j7"},
		{"jobs --cluster lib", exitUsage, "", "--cluster lib: the server "},
		{"jobs --state done", exitUsage, "", `--state "done": must be one of waiting, `},
		{"logs j1", exitNo, "", "hare: job j1 has not started: waits for the first agent"},
		{"logs j7 --follow", exitUsage, "", "cluster lab has no job j7"},
		{"logs j1 --stream out", exitUsage, "", `--stream "out": must be stdout or stderr`},
		{"logs j1 --offset 5", exitUsage, "", "--offset counts the bytes of one output"},
		{"agents", 0, "no agents: start hare agent on each node\n", ""},
		{"drain n1", exitUsage, "", "cluster lab has no node n1: hare agents lists the nodes"},
		{"submit", exitUsage, "", "hare submit needs a command after --"},
		{"submit --gpus 0 -- x", exitUsage, "", "--gpus must be positive"},
		{"submit --gpus 3 --nodes 2 -- x", exitUsage, "", "/nodes: 3 GPUs cannot be spread equally over 2 nodes"},
		{"submit --gpus 3 --gpus-per-node 2 -- x", exitUsage, "", "--gpus-per-node 2: 3 GPUs are not a multiple of it"},
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
		{"hold j2 --reason night", 0, "j2 waiting: is held: night\n", ""},
		{"jobs j2", 0, "UTC: held: night\n", ""},
		{"set j2 --weight 3 --label team=vision", 0, "j2 waiting: is held: night\n", ""},
		{"set j2 --remove-label team --label at=noon", 0, "j2 waiting", ""},
		{"jobs j2", 0, "UTC: label at=noon, without label team\n", ""},
		{"release j2", 0, "j2 waiting", ""},
		{"set j2 --weight 4 --dry-run", exitUsage, "", "makes no plans"},
		{"set j2", exitUsage, "", "--weight, --label or --remove-label"},
		{"set j2 --weight 0", exitUsage, "", "--weight must be positive"},
		{"set j2 --label a=b --remove-label a", exitUsage, "", "--remove-label a: --label sets it"},
		{"set --weight 2", exitUsage, "", "hare set takes the IDs of jobs"},
		{"hold", exitUsage, "", "hare hold takes the IDs of jobs"},
		{"hold j7", exitUsage, "", "cluster lab has no job j7"},
		{"cancel j1 j2 --wait", 0, "j1 cancelled\nj2 cancelled\n", ""},
		{"cancel j1", 0, "j1 cancelled\n", ""},
		{"hold j1", exitUsage, "", "job j1 has ended"},
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
// TestSubmitSooner asks when a job of two GPUs would start, one of which is busy.
func TestSubmitSooner(t *testing.T) {
	url := managedServer(t)
	t.Setenv("HARE_SERVER", url)
	t.Setenv("HARE_CLUSTER", "lab")
	answer, err := http.Post(url+"/v1/clusters/lab/agents", "application/json", strings.NewReader(`{"protocol":4,`+
		`"version":"test","name":"a","incarnation":"0123456789abcdef","devices":[{"type":"V100"},{"type":"V100"}]}`))
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	if _, errs, code := runHare(t, "", "submit", "--seconds", "V100=6000", "--", "x"); code != 0 {
		t.Fatal(errs)
	}
	out, errs, code := runHare(t, "", "submit", "--gpus", "2", "--seconds", "V100=600", "--dry-run", "--", "x")
	const want = "\nwith --gpus 1 and 2 times its time it would start now and end in about 20 min\nif no other job comes"
	if code != 0 || !strings.Contains(out, want) {
		t.Error(code, out, errs)
	}
	out, errs, code = runHare(t, "", "submit", "--seconds", "V100=600", "--dry-run", "--", "x")
	if code != 0 || strings.Contains(out, "with --gpus") {
		t.Error(code, out, errs)
	}
	out, errs, code = runHare(t, "", "hold", "j1", "--dry-run")
	if code == 0 || !strings.Contains(errs, "job j1 runs: only a job that waits can be held; hare cancel j1 ends it") {
		t.Error(code, out, errs)
	}
}

func TestSubmitFields(t *testing.T) {
	t.Setenv("HARE_SERVER", managedServer(t))
	t.Setenv("HARE_CLUSTER", "lab")
	t.Setenv("OURS", "a b")
	t.Setenv("TOKEN", "s3cret")
	out, errs, code := runHare(t, "", "submit", "--json", "--gpus", "4", "--gpus-per-node", "2", "--gpus-per-task", "2",
		"--on", "K80", "--seconds", "V100=3600,T4=9000.5", "--env", "OURS", "--env", "X=a,b=c", "--secret-env",
		"TOKEN", "--dir", "/d",
		"--checkpoint-dir", "/c", "--retries", "3", "--grace", "1m", "--estimate", "2h", "--class", "user=ann",
		"--weight", "2.5", "--name", "n", "--user", "ann", "--label", "team=vision", "--label", "k=a=b",
		"--", "run", "--gpus", "7", "")
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
	const want = `{"name":"n","user":"ann","labels":{"k":"a=b","team":"vision"},` +
		`"command":["run","--gpus","7",""],"gpus":4,"gpus_per_task":2,"nodes":2,` +
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
