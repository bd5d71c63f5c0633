package main

import (
	"context"
	"errors"
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
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// onSmallDisk makes a command run with a file system of some bytes at a directory, which others do not see.
func onSmallDisk(c *exec.Cmd, dir string, bytes int) *exec.Cmd {
	mount := fmt.Sprintf(`mount -t tmpfs -o size=%d none "$0" && exec "$@"`, bytes)
	small := exec.Command("unshare", slices.Concat([]string{"-rm", "sh", "-c", mount, dir}, c.Args)...)
	small.Env = c.Env
	return small
}

// disk is a directory as a process sees it.
type disk struct {
	t    *testing.T
	path string
}

func diskOf(t *testing.T, c *exec.Cmd, dir string) *disk {
	return &disk{t, filepath.Join(fmt.Sprintf("/proc/%d/root", c.Process.Pid), dir)}
}

// fill leaves no byte free.
func (d *disk) fill() {
	d.t.Helper()
	f, err := os.Create(filepath.Join(d.path, "fill"))
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			d.t.Fatal(err)
		}
	}
}

func (d *disk) empty() {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.path, "fill")); err != nil {
		d.t.Fatal(err)
	}
}

// TestExecutorFullDisk fills the disk of the server, and then that of an agent, while jobs run. Each says so in one
// line, nothing is started twice, and all goes on once there is space.
func TestExecutorFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	if out, err := exec.Command("unshare", "-rm", "sh", "-c", "mount -t tmpfs none /mnt").CombinedOutput(); err != nil {
		t.Skipf("this machine lets nobody mount: %v %s", err, out)
	}
	k := newCluster(t)
	data, node := filepath.Join(k.dir, "data"), filepath.Join(k.dir, "n0")
	for _, dir := range []string{data, node} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	k.wrap = func(c *exec.Cmd, args []string) *exec.Cmd {
		if args[0] == "serve" {
			return onSmallDisk(c, data, 8<<20)
		}
		return onSmallDisk(c, node, 2<<20)
	}
	k.serve()
	k.agents = k.agents[:1]
	k.nets = append(k.nets, newNetwork(t, k.address))
	k.agent(0)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	// Each attempt notes that it has started, and ends when it may.
	script := fmt.Sprintf(`cd %s; echo $HARE_JOB.$HARE_ATTEMPT >> starts; `+
		`while [ ! -e go-$HARE_JOB ]; do sleep 0.02; done`, k.witnesses())
	submit := func(key string) (string, error) {
		short, stop := context.WithTimeout(ctx, 20*time.Second)
		defer stop()
		c, err := client.New(client.Config{URL: "http://" + k.address})
		if err != nil {
			t.Fatal(err)
		}
		job, err := c.SubmitJob(short, "lab", &clusterdoc.NewJob{Command: []string{"sh", "-c", script}}, key)
		if err != nil {
			return "", err
		}
		return job.ID, nil
	}
	mustSubmit := func(key string) string {
		t.Helper()
		for {
			id, err := submit(key)
			if err == nil {
				return id
			}
			if rest(ctx, 50*time.Millisecond) != nil {
				t.Fatalf("%v\n%s", err, k.lastLogs())
			}
		}
	}
	allow := func(id string) {
		if err := os.WriteFile(filepath.Join(k.witnesses(), "go-"+id), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	await := func(what string, done func() bool) {
		t.Helper()
		for !done() {
			if rest(ctx, 20*time.Millisecond) != nil {
				t.Fatalf("%s: not in time\n%s", what, k.lastLogs())
			}
		}
	}
	state := func(id string) (clusterdoc.JobState, string) {
		job, err := k.client.ClusterJob(ctx, "lab", id)
		if err != nil {
			t.Fatal(err)
		}
		return job.State, job.Reason
	}
	reach := func(id string, want clusterdoc.JobState) {
		t.Helper()
		await(id+" becomes "+string(want), func() bool { s, _ := state(id); return s == want })
	}
	logHas := func(name, text string) func() bool {
		return func() bool {
			all, err := os.ReadFile(filepath.Join(k.dir, name))
			return err == nil && strings.Contains(string(all), text)
		}
	}

	first := mustSubmit("first")
	reach(first, clusterdoc.JobRunning)
	server := diskOf(t, k.server, data)
	server.fill()
	var full *client.Problem
	await("a submission is refused", func() bool { _, err := submit("second"); return errors.As(err, &full) })
	if full.Status < 500 || !strings.Contains(full.Error(), "disk") {
		t.Errorf("the error of a full disk is %v", full)
	}
	allow(first)
	await("the server says so", logHas("server.log", "the journal of a cluster cannot be written"))
	server.empty()
	second := mustSubmit("second")
	reach(first, clusterdoc.JobSucceeded)
	reach(second, clusterdoc.JobRunning)

	agent := diskOf(t, k.agents[0], node)
	agent.fill()
	allow(second) // its end cannot be written down
	third := mustSubmit("third")
	reach(third, clusterdoc.JobFailed)
	if _, why := state(third); !strings.Contains(why, "no space left on device") {
		t.Errorf("a job on a node without space failed: %s", why)
	}
	agent.empty()
	reach(second, clusterdoc.JobSucceeded)
	fourth := mustSubmit("fourth")
	allow(fourth)
	reach(fourth, clusterdoc.JobSucceeded)
	starts, err := os.ReadFile(filepath.Join(k.witnesses(), "starts"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(starts))
	slices.Sort(lines)
	if len(slices.Compact(slices.Clone(lines))) != len(lines) {
		t.Errorf("an attempt was started twice: %v", lines)
	}
	t.Logf("attempts that were started: %v", lines)
}
