package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/executor/runner"
)

// TestMain lets the test binary be the runner.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "run-task" {
		if err := runner.Main(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func program() []string { return []string{os.Args[0], "run-task"} }

var tokens int

// start starts a task of a shell script.
func start(t *testing.T, script string, change func(*runner.Spec)) string {
	t.Helper()
	dir := t.TempDir()
	tokens++
	spec := &runner.Spec{Command: []string{"sh", "-c", script}, Directory: dir, GraceS: 5, LogLimit: 1 << 20,
		Token: fmt.Sprintf("%d-%d", os.Getpid(), tokens)}
	spec.Env = []string{"PATH=" + os.Getenv("PATH"), "HARE_TASK_TOKEN=" + spec.Token}
	if change != nil {
		change(spec)
	}
	if err := runner.WriteSpec(dir, spec); err != nil {
		t.Fatal(err)
	}
	if err := runner.SetLease(dir, runner.Now()+time.Minute); err != nil {
		t.Fatal(err)
	}
	p, started, err := runner.Start(program(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := started.Read(make([]byte, 1)); (n == 1) != (len(spec.Command) != 1) {
		t.Errorf("%v: %d bytes say that it was started", spec.Command, n)
	}
	_ = started.Close()
	go func() { _, _ = p.Wait() }()
	return dir
}

// exit waits for the end of a task.
func exit(t *testing.T, dir string) runner.Exit {
	t.Helper()
	for range 3000 {
		if e, err := runner.ReadExit(dir); err == nil {
			return e
		}
		time.Sleep(5 * time.Millisecond)
	}
	log, _ := os.ReadFile(filepath.Join(dir, "runner.log"))
	t.Fatalf("the task does not end: %s", log)
	return runner.Exit{}
}

// await waits until a file of the directory exists.
func await(t *testing.T, dir, name string) string {
	t.Helper()
	for range 3000 {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil && len(text) > 0 {
			return string(text)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s never came", name)
	return ""
}

func find(t *testing.T, dir string) runner.Process {
	t.Helper()
	await(t, dir, "runner.json")
	p, ok := runner.Find(dir)
	if !ok {
		t.Fatal("the runner does not run")
	}
	return p
}

// gone checks that the process whose number a file has ends.
func gone(t *testing.T, dir, name string) {
	t.Helper()
	var pid int
	if _, err := fmt.Sscan(await(t, dir, name), &pid); err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(text), ") Z ") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("process %d of %s lives on", pid, name)
}

func TestHowTasksEnd(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0":                          "0",
		"exit 7":                          "7",
		"kill -9 $$":                      "SIGKILL",
		"echo out; echo err >&2; sleep 0": "0",
	} {
		dir := start(t, script, nil)
		e := exit(t, dir)
		got := e.Signal
		if e.ExitCode != nil {
			got = fmt.Sprint(*e.ExitCode)
		}
		if got != want || e.Error != "" {
			t.Errorf("%s: %s %q, want %s", script, got, e.Error, want)
		}
		if strings.HasPrefix(script, "echo") {
			if out, err := await(t, dir, "stdout"), await(t, dir, "stderr"); out != "out\n" || err != "err\n" {
				t.Errorf("%q %q", out, err)
			}
		}
	}
	for _, command := range []string{"no-such-program", "/no/such/program", "/etc/passwd"} {
		e := exit(t, start(t, "", func(s *runner.Spec) { s.Command = []string{command} }))
		if e.ExitCode != nil || !strings.Contains(e.Error, command) {
			t.Errorf("%s: %+v", command, e)
		}
	}
}

// What a task leaves behind in other sessions ends with it, and so does what ignores SIGTERM.
func TestAllProcessesEnd(t *testing.T) {
	stubborn := `trap "" TERM; setsid sh -c 'trap "" TERM; echo $$ > child; while :; do sleep 1; done' & ` +
		`(sh -c 'echo $$ > orphan; while :; do sleep 1; done' &) ; echo $$ > main; while :; do sleep 1; done`
	dir := start(t, stubborn, func(s *runner.Spec) { s.GraceS = 0.2 })
	for _, name := range []string{"main", "child", "orphan"} {
		await(t, dir, name)
	}
	if err := find(t, dir).Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if e := exit(t, dir); e.Signal != "SIGKILL" || e.RanS < 0.2 {
		t.Errorf("%+v", e)
	}
	for _, name := range []string{"main", "child", "orphan"} {
		gone(t, dir, name)
	}
	// A program that ends leaves no process behind.
	dir = start(t, `setsid sh -c 'echo $$ > child; sleep 1000' & while [ ! -s child ]; do sleep 0.01; done; exit 3`, nil)
	if e := exit(t, dir); e.ExitCode == nil || *e.ExitCode != 3 {
		t.Errorf("%+v", e)
	}
	gone(t, dir, "child")
}

func TestLeaseEndsTheTask(t *testing.T) {
	dir := start(t, `trap "" TERM; echo $$ > main; while :; do sleep 1; done`, nil)
	await(t, dir, "main")
	if err := runner.SetLease(dir, runner.Now()+300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if e := exit(t, dir); e.Signal != "SIGKILL" || !strings.Contains(e.Error, "lease") {
		t.Errorf("%+v", e)
	}
	gone(t, dir, "main")
}

// A runner that is killed takes its program with it, and Clear ends the rest.
func TestKilledRunner(t *testing.T) {
	dir := start(t, `setsid sh -c 'echo $$ > child; sleep 1000' & echo $$ > main; sleep 1000`, nil)
	await(t, dir, "child")
	await(t, dir, "main")
	if err := find(t, dir).Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, dir, "main")
	if err := runner.Clear(dir); err != nil {
		t.Fatal(err)
	}
	gone(t, dir, "child")
	if _, ok := runner.Find(dir); ok {
		t.Error("a killed runner is found")
	}
}

// An endless output takes neither memory nor disk, and its end is kept.
func TestLongOutput(t *testing.T) {
	dir := start(t, `head -c 300000000 /dev/zero; echo; echo the end`, func(s *runner.Spec) { s.LogLimit = 1 << 20 })
	if e := exit(t, dir); e.ExitCode == nil || *e.ExitCode != 0 {
		t.Errorf("%+v", e)
	}
	out := await(t, dir, "stdout")
	if len(out) > 1<<20 || !strings.HasSuffix(out, "\nthe end\n") || !strings.Contains(out, "bytes are missing here") {
		t.Errorf("%d bytes, the last %q", len(out), out[max(0, len(out)-50):])
	}
}

// A runner has nothing of the agent's environment but what is known to be harmless, and nothing that it starts has
// more; what it was to start with stands in no file any more.
func TestRunnerIsBare(t *testing.T) {
	t.Setenv("HARE_API_KEY", "s3cret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
	t.Setenv("LC_TIME", "C")
	dir := start(t, `tr '\0' '\n' < /proc/$PPID/environ > out; cat *.json >> out; echo end >> out; mv out env; `+
		`sleep 1000`,
		func(s *runner.Spec) { s.Env = append(s.Env, "TOKEN=s3cret") })
	env := await(t, dir, "env")
	if strings.Contains(env, "s3cret") || !strings.Contains(env, "LC_TIME=C\n") || !strings.HasSuffix(env, "end\n") {
		t.Errorf("a task reads %s", env)
	}
	if err := find(t, dir).Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	exit(t, dir)
}

func TestPretendedTask(t *testing.T) {
	pretend := func(s *runner.Spec) { s.PretendS, s.PretendOf = 0.05, 50 }
	if e := exit(t, start(t, "exit 1", pretend)); e.ExitCode == nil || *e.ExitCode != 0 || e.RanS != 50 {
		t.Errorf("%+v", e)
	}
	dir := start(t, "", func(s *runner.Spec) { s.PretendS = 1000 })
	if err := find(t, dir).Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if e := exit(t, dir); e.Signal != "SIGTERM" {
		t.Errorf("%+v", e)
	}
}

// What leaves its session, clears its environment and loses its runner ends with its cgroup.
func TestCgroupEndsAll(t *testing.T) {
	parent := runner.CgroupParent()
	if parent == "" {
		t.Skip("this machine lets this user make no cgroups")
	}
	script := `setsid env -i /bin/sh -c 'echo $$ > child; while :; do /bin/sleep 1; done' & echo $$ > main; ` +
		`while :; do sleep 1; done`
	own := func(s *runner.Spec) { s.Cgroup, s.GraceS = parent, 0.2 }
	dir := start(t, script, own)
	await(t, dir, "child")
	await(t, dir, "main")
	groups := func() []string {
		all, err := filepath.Glob(filepath.Join(parent, fmt.Sprintf("hare-%d-*", os.Getpid())))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if len(groups()) != 1 {
		t.Errorf("a task has the cgroups %v", groups())
	}
	if err := find(t, dir).Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, dir, "main")
	if err := runner.Clear(dir); err != nil {
		t.Fatal(err)
	}
	gone(t, dir, "child")
	// A task that is told to end, and one that ends by itself, leave nothing either.
	dir = start(t, script, own)
	await(t, dir, "child")
	if err := find(t, dir).Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	exit(t, dir)
	gone(t, dir, "child")
	dir = start(t, `mkdir `+filepath.Join(parent, "hare-*", "own")+`; echo done`, own)
	if e := exit(t, dir); e.ExitCode == nil {
		t.Errorf("%+v", e)
	}
	if left := groups(); len(left) > 0 {
		t.Errorf("cgroups are left: %v", left)
	}
}
