package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare/client"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// oneAgent is a server and one agent in processes of their own, whose lease is one second.
func oneAgent(t *testing.T, env []string, args ...string) *killed {
	t.Helper()
	k := newCluster(t)
	k.server = k.start("server.log", "serve", "--listen", k.address, "--data-dir", filepath.Join(k.dir, "data"),
		"--agent-lease", "1s")
	k.agents = k.agents[:1]
	c := command(append([]string{"agent", "--server", "http://" + k.address, "--cluster", "lab", "--name", "n0",
		"--directory", filepath.Join(k.dir, "n0"), "--devices", "cpu=1"}, args...)...)
	c.Env = append(c.Env, env...)
	log, err := os.Create(filepath.Join(k.dir, "n0.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	k.agents[0] = c
	return k
}

// run submits a shell script with variables.
func (k *killed) run(script string, grace float64, env map[string]string) string {
	k.t.Helper()
	ctx, stop := context.WithTimeout(k.t.Context(), patience)
	defer stop()
	job, err := k.client.SubmitJob(ctx, "lab", &clusterdoc.NewJob{Command: []string{"sh", "-c", script}, Env: env,
		GraceS: &grace}, "")
	if err != nil {
		k.t.Fatal(err)
	}
	return job.ID
}

// A job finds neither the key of the agent nor other variables of it: not in its own environment, not in that of any
// process of the machine, and not in a command line. Its own variables are in no file any more.
func TestJobHasNoKey(t *testing.T) {
	key := fmt.Sprintf("s3cret-key-%d", os.Getpid())
	k := oneAgent(t, []string{"HARE_API_KEY=" + key, "AWS_SECRET_ACCESS_KEY=" + key})
	// [s] keeps the pattern from finding itself.
	own := fmt.Sprintf("own-token-%d", os.Getpid())
	pattern := "[s]" + key[1:]
	id := k.run(`grep -als '`+pattern+`' /proc/[0-9]*/environ /proc/[0-9]*/cmdline; `+
		`grep -rals '[o]`+own[1:]+`' ../../..; `+
		`p=$PPID; while [ $p -gt 1 ]; do tr '\0' '\n' < /proc/$p/environ | grep -a '`+pattern+`'; `+
		`p=$(cut -d' ' -f4 /proc/$p/stat); done; echo searched`, 1, map[string]string{"TOKEN": own})
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for {
		job, err := k.client.ClusterJob(ctx, "lab", id)
		if err != nil {
			t.Fatal(err)
		}
		if job.State.Final() {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	var out strings.Builder
	if err := k.client.CopyLog(ctx, "lab", id, &client.LogPosition{Attempt: 1}, &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != "searched\n" {
		t.Errorf("a job finds the key of the agent: %s", out.String())
	}
}

// The agent is killed, or stopped by the job, or killed by it, and so is the runner: nothing is left of the job before
// the server gives it away, which is five seconds after the lease.
func TestKilledAgentAndStoppedRunner(t *testing.T) {
	for name, c := range map[string]struct {
		script string // R and A are the numbers of runner and agent
		kill   bool
	}{
		"agent killed, runner stopped":  {`while :; do kill -STOP $R; done`, true},
		"both stopped by the job":       {`while :; do kill -STOP $A $R; done`, false},
		"both killed by a child of its": {`setsid sh -c "sleep 0.1; kill -KILL $A $R; sleep 1000" & wait`, false},
		"agent killed, runner killed":   {`kill -KILL $R; sleep 1000`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := oneAgent(t, nil)
			// The job begins when the agent has a runner ready again, which watches over it from then on.
			k.run(`R=$PPID; A=$(cut -d' ' -f4 /proc/$R/stat); cd `+k.dir+`; trap "" TERM; `+
				`until [ "$(grep -o '[0-9]*' n0/guard.json | head -n 1)" != $R ]; do sleep 0.01; done; `+
				`setsid sh -c 'echo $$ > part; mv part pid; sleep 1000' & until [ -e pid ]; do sleep 0.01; done; `+
				c.script, 1, nil)
			var pid int
			for begun := time.Now(); pid == 0; time.Sleep(2 * time.Millisecond) {
				text, err := os.ReadFile(filepath.Join(k.dir, "pid"))
				if err == nil {
					_, _ = fmt.Sscan(string(text), &pid)
				}
				if time.Since(begun) > patience {
					t.Fatalf("the job does not start\n%s", k.lastLogs())
				}
			}
			begun := time.Now()
			if c.kill {
				kill9(k.agents[0])
			}
			for syscall.Kill(pid, 0) == nil {
				if time.Since(begun) > 6*time.Second {
					_ = syscall.Kill(pid, syscall.SIGKILL)
					t.Fatalf("a process of the job lives on after %v\n%s", time.Since(begun), k.lastLogs())
				}
				time.Sleep(2 * time.Millisecond)
			}
			t.Logf("ended after %v", time.Since(begun))
		})
	}
}
