package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/internal/testing/executortest"
	clustertext "github.com/hare-sched/hare/serve/clusters/text"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// trainWide is the example line with 2 MiB of parameters beside, so that a checkpoint has several pieces, which waits
// at round 8 until a file is there.
const trainWide = `import os, time
from line import batch, optimiser
import line

BACKEND = "plain"
WIDTH = 270_000

def build():
    return line.build() | {"bulk": [1.0] * WIDTH}

def loss(parameters, batch):
    while parameters["bulk"][0] < 0.93 and not os.path.exists(os.environ.get("GATE", "/")):
        time.sleep(0.01)
    value, gradients = line.loss(parameters, batch)
    return value, gradients | {"bulk": [0.1] * WIDTH}
`

// wideJob writes the modules of a round job with large checkpoints. It returns the job and the file that it waits for.
func (k *killed) wideJob() (n *clusterdoc.NewJob, gate string) {
	k.t.Helper()
	modules, env := k.modules(), map[string]string{"PYTHONPATH": executortest.Python(k.t)}
	if err := os.WriteFile(filepath.Join(modules, "wide.py"), []byte(trainWide), 0o600); err != nil {
		k.t.Fatal(err)
	}
	gate = filepath.Join(k.dir, "gate")
	env["GATE"] = gate
	return &clusterdoc.NewJob{Module: "wide", Directory: modules, Rounds: 24, GPUs: 1, Tasks: 1, Seed: 5, Env: env}, gate
}

// TestCopyOutlivesServerAndNode kills the server while a checkpoint is brought to it, and then takes the node with all
// of its files away. The job goes on from the copy on another node, bit for bit.
func TestCopyOutlivesServerAndNode(t *testing.T) {
	t.Parallel() // waits most of the time
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	k := newCluster(t)
	n, gate := k.wideJob()
	k.serve()
	for range k.agents {
		k.nets = append(k.nets, newNetwork(t, k.address))
	}
	k.agent(0)
	job, err := k.client.SubmitJob(t.Context(), "lab", n, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	defer stop()
	parts := filepath.Join(k.dir, "data", "checkpoints", "*", job.ID, "*.part")
	killed := 0
	for killed == 0 {
		if files, _ := filepath.Glob(parts); len(files) > 0 {
			kill9(k.server)
			if files, _ = filepath.Glob(parts); len(files) > 0 {
				killed++
			}
			k.serve()
		}
		if rest(ctx, time.Millisecond) != nil {
			t.Fatalf("no checkpoint is brought\n%s", k.lastLogs())
		}
	}
	look := func(what string, done func() bool) {
		t.Helper()
		for !done() {
			if job, err = k.client.ClusterJob(ctx, "lab", job.ID); err != nil {
				t.Fatalf("%s: %v\n%s", what, err, k.lastLogs())
			}
			if rest(ctx, 10*time.Millisecond) != nil {
				t.Fatalf("%s: not in time: %s\n%s", what, clustertext.Job(job, time.Now()), k.lastLogs())
			}
		}
	}
	look("a copy", func() bool { return job.CopyRound > 0 })
	copied := job.CopyRound
	if text := clustertext.Job(job, time.Now()); !strings.Contains(text, "the cluster has the checkpoint after round") {
		t.Error(text)
	}
	kill9(k.agents[0])
	for _, pid := range k.runners() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	k.agents[0] = nil
	for os.RemoveAll(filepath.Join(k.dir, "n0")) != nil { // a process may still write
		if rest(ctx, 10*time.Millisecond) != nil {
			t.Fatal("the files of the node stay")
		}
	}
	k.agent(1)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	look("the end", func() bool { return job.State.Final() })
	if job.State != clusterdoc.JobSucceeded || job.Round != n.Rounds || job.Failures != 0 {
		t.Fatalf("%s\n%s", clustertext.Job(job, time.Now()), k.lastLogs())
	}
	// A server or agent that gets no processor for a whole lease costs an attempt more.
	second := slices.IndexFunc(job.Attempts, func(at *clusterdoc.Attempt) bool { return at.Tasks[0].Agent == "n1" })
	if second < 1 || slices.ContainsFunc(job.Attempts[second:], func(at *clusterdoc.Attempt) bool {
		return at.Tasks[0].Agent != "n1"
	}) {
		t.Fatalf("%s\n%s", clustertext.Job(job, time.Now()), k.lastLogs())
	}
	executortest.ExpectLoop(t, filepath.Join(k.dir, "n1", "checkpoints", job.ID), n, n.Tasks)
	went := 0
	for _, at := range job.Attempts[second:] {
		var out bytes.Buffer
		if err := k.client.CopyLog(ctx, "lab", job.ID, &client.LogPosition{Attempt: at.Attempt}, &out); err != nil {
			t.Error(err)
		}
		switch text := out.String(); {
		case strings.HasPrefix(text, "goes on from the checkpoint after "):
			went++
		case text != "":
			t.Errorf("attempt %d did not go on from the copy: %s", at.Attempt, text)
		}
	}
	if went == 0 {
		t.Error("no attempt went on from the copy")
	}
	doctor := func(want string) {
		t.Helper()
		dir := filepath.Join(k.dir, "data")
		out, _, _ := runHare(t, "", "doctor", "--listen", "127.0.0.1:0", "--data-dir", dir)
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	doctor("ok    checkpoints      1 copies of round jobs, 2.1 MiB, every checksum fits")
	files, err := filepath.Glob(filepath.Join(k.dir, "data", "checkpoints", "*", job.ID, "*"))
	// A copy that was under way when the job ended is no copy.
	files = slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, ".part") })
	if err != nil || len(files) != 1 || os.Truncate(files[0], 1000) != nil {
		t.Fatal(files, err)
	}
	doctor(files[0] + " is damaged: its SHA-256 is not that of its name")
	t.Logf("the server had the checkpoint after round %d of %d", copied, n.Rounds)
}

// TestCopyOnFullDisk has a server whose disk has no room for a checkpoint, and then none at all. The job goes on in
// its one attempt; a line says so, and a copy is there once there is space.
func TestCopyOnFullDisk(t *testing.T) {
	t.Parallel() // waits most of the time
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	if out, err := exec.Command("unshare", "-rm", "sh", "-c", "mount -t tmpfs none /mnt").CombinedOutput(); err != nil {
		t.Skipf("this machine lets nobody mount: %v %s", err, out)
	}
	k := newCluster(t)
	n, gate := k.wideJob()
	data := filepath.Join(k.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	k.wrap = func(c *exec.Cmd, args []string) *exec.Cmd {
		if args[0] == "serve" {
			return onSmallDisk(c, data, 16<<20)
		}
		return c
	}
	k.serve()
	k.agents = k.agents[:1]
	k.nets = append(k.nets, newNetwork(t, k.address))
	k.agent(0)
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	defer stop()
	for k.isUp(ctx) != nil {
		if rest(ctx, 10*time.Millisecond) != nil {
			t.Fatal(k.lastLogs())
		}
	}
	disk := diskOf(t, k.server, data)
	disk.fill()
	fill := filepath.Join(disk.path, "fill")
	if err := os.Truncate(fill, fileSize(t, fill)-1<<20); err != nil {
		t.Fatal(err)
	}
	job, err := k.client.SubmitJob(ctx, "lab", n, "")
	if err != nil {
		t.Fatal(err)
	}
	look := func(what string, done func() bool) {
		t.Helper()
		for !done() {
			if job, err = k.client.ClusterJob(ctx, "lab", job.ID); err != nil {
				t.Fatalf("%s: %v\n%s", what, err, k.lastLogs())
			}
			if rest(ctx, 10*time.Millisecond) != nil {
				t.Fatalf("%s: not in time: %s\n%s", what, clustertext.Job(job, time.Now()), k.lastLogs())
			}
		}
	}
	look("the problem", func() bool { return job.CopyProblem != "" })
	if text := clustertext.Job(job, time.Now()); !strings.Contains(text, "no newer one: the disk of the server is full") {
		t.Error(text)
	}
	log, err := os.ReadFile(filepath.Join(k.dir, "server.log"))
	if err != nil || bytes.Count(log, []byte("no copy of the checkpoint of a job is kept; the job goes on")) != 1 {
		t.Errorf("%v: %s", err, log)
	}
	disk.empty()
	look("a copy", func() bool { return job.CopyRound > 0 && job.CopyProblem == "" })
	// Without any space the lease of the agent goes on though no report is taken, so that the job does, too.
	disk.fill()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if rest(ctx, 10*time.Second) != nil { // lease, time to kill, and some
		t.Fatal(ctx.Err())
	}
	disk.empty()
	look("the end", func() bool { return job.State.Final() })
	if job.State != clusterdoc.JobSucceeded || job.Round != n.Rounds || len(job.Attempts) != 1 {
		t.Fatalf("%s\n%s", clustertext.Job(job, time.Now()), k.lastLogs())
	}
	executortest.ExpectLoop(t, filepath.Join(k.dir, "n0", "checkpoints", job.ID), n, n.Tasks)
}

// isUp is nil once the server answers and has the agent.
func (k *killed) isUp(ctx context.Context) error {
	c, err := k.client.Cluster(ctx, "lab")
	if err == nil && c.Agents == 0 {
		err = fmt.Errorf("no agent")
	}
	return err
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
