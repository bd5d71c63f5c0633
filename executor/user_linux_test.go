package executor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor"
	"github.com/hare-sched/hare/executor/runner"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// openDir is a directory that all users may enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hare-open-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// other is a user that has nothing on this machine.
func other(t *testing.T) *runner.User {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may start tasks as another user")
	}
	return &runner.User{Name: "nobody", Home: "/nowhere", Shell: "/bin/false", UID: 65534, GID: 65533,
		Groups: []uint32{65533, 65532}}
}

// A task of another user has its own rights and variables, and can neither stop its runner nor read what the agent and
// the runner know.
func TestTasksRunAsAnotherUser(t *testing.T) {
	user := other(t)
	s := newServer(t, time.Minute)
	dir := filepath.Join(openDir(t), "agent")
	shared := openDir(t)
	agentOf(t, s, "a", dir, "cpu=1", 0, func(c *executor.Config) { c.RunAs = user })
	id := submit(t, s, clusterdoc.NewJob{Env: map[string]string{"TOKEN": "s3cret"}},
		`id -u; id -g; id -G; echo $HOME $USER $LOGNAME $SHELL; `+
			`touch here $HARE_CHECKPOINT_DIR/there && stat -c %u $HARE_CHECKPOINT_DIR/there; `+
			`for s in STOP KILL TERM; do kill -$s $PPID 2>/dev/null && echo $s; done; `+
			`cat /proc/$PPID/environ 2>/dev/null && echo environ; `+
			`ls ../* ../../ ../../../ ../../../checkpoints 2>/dev/null; `+
			`cat ../spec.json ../command.json ../lease ../../../incarnation 2>/dev/null; `+
			`echo 9 2>/dev/null >../lease; rm -f ../spec.json 2>/dev/null; mv ../work ../x 2>/dev/null; echo done`)
	await(t, s, id, clusterdoc.JobSucceeded, clusterdoc.JobFailed)
	want := "65534\n65533\n65533 65532\n/nowhere nobody nobody /bin/false\n65534\ndone\n"
	if got := output(t, s, id, 1, "stdout"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// What the job names is made and entered with the user's rights.
	for path, says := range map[string]string{
		filepath.Join(shared, "made"): "permission denied", "/root": "may not enter the directory /root"} {
		job, err := s.Submit(t.Context(), &clusterdoc.NewJob{Command: []string{"true"}, Directory: path}, "")
		if filepath.Base(path) == "made" {
			job, err = s.Submit(t.Context(), &clusterdoc.NewJob{Command: []string{"true"}, CheckpointDirectory: path}, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		if job := await(t, s, job.ID, clusterdoc.JobFailed, clusterdoc.JobSucceeded); !strings.Contains(job.Reason, says) {
			t.Errorf("%s: %s", path, job.Reason)
		}
	}
}

func TestUserMustReachTheDirectory(t *testing.T) {
	user := other(t)
	cfg := executor.Config{Server: newServer(t, time.Minute), Cluster: "lab", Name: "a", Devices: cores(t),
		Directory: filepath.Join(t.TempDir(), "agent"), Runner: []string{os.Args[0], "run-task"}, RunAs: user}
	if err := executor.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "give --directory") {
		t.Error(err)
	}
}

// Round jobs with GPUs of their own run as the user too; those that share GPUs are refused.
func TestRoundJobsRunAsAnotherUser(t *testing.T) {
	user := other(t)
	modules, env := moduleFolder(t)
	folder := openDir(t)
	self, err := os.ReadFile(os.Args[0]) // the user may not enter the directory of the test's binary
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "self"), self, 0o755)
	}
	if err == nil {
		err = os.CopyFS(filepath.Join(folder, "modules"), os.DirFS(modules))
	}
	if err == nil {
		err = os.CopyFS(filepath.Join(folder, "worker"), os.DirFS(env["PYTHONPATH"]))
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			err = os.Chmod(path, info.Mode().Perm()|0o444)
		}
		return err
	})
	s := newServer(t, time.Minute)
	agentOf(t, s, "a", filepath.Join(folder, "agent"), "cpu=2", 0, func(c *executor.Config) {
		c.RunAs, c.RoundRunner = user, []string{filepath.Join(folder, "self"), "run-rounds"}
	})
	n := &clusterdoc.NewJob{Module: "line", Directory: filepath.Join(folder, "modules"), Rounds: 3, Tasks: 2, GPUs: 2,
		Env: map[string]string{"PYTHONPATH": filepath.Join(folder, "worker")}}
	job := await(t, s, submitRounds(t, s, n), clusterdoc.JobSucceeded, clusterdoc.JobFailed)
	if job.State != clusterdoc.JobSucceeded || job.Round != 3 {
		t.Errorf("%s: %s", job.State, job.Reason)
	}
	files, _ := filepath.Glob(filepath.Join(folder, "agent", "checkpoints", job.ID, "*"))
	for _, f := range files {
		if at := fmt.Sprint(owner(t, f)); at != "65534" {
			t.Errorf("%s belongs to %s", f, at)
		}
	}
	n.GPUs = 0
	job = await(t, s, submitRounds(t, s, n), clusterdoc.JobSucceeded, clusterdoc.JobFailed)
	if job.State != clusterdoc.JobFailed || !strings.Contains(job.Reason, "give the job GPUs of its own (--gpus)") {
		t.Errorf("%s: %s", job.State, job.Reason)
	}
}
