package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/executor"
	"github.com/hare-sched/hare/executor/device"
	"github.com/hare-sched/hare/executor/pool"
	"github.com/hare-sched/hare/executor/rounds"
	"github.com/hare-sched/hare/executor/runner"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// TestMain lets the test binary be the runner, the program of round jobs, and the pool.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "run-rounds" {
		if err := rounds.Main(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == "run-pool" {
		if err := pool.Main(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == "run-task" {
		if err := runner.Main(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// server is a cluster that agents reach without a network; cut makes it unreachable.
type server struct {
	*clusters.Cluster
	copyDir string
	cut     atomic.Bool
}

var errCut = errors.New("the network is cut")

// answered turns the errors of the cluster into what a client returns.
func answered[T any](s *server, v T, err error) (T, error) {
	var conflict *ledger.Conflict
	if errors.As(err, &conflict) {
		err = &client.Problem{Status: 409, Code: conflict.Code, Detail: conflict.Detail}
	}
	if s.cut.Load() {
		err = errCut
	}
	return v, err
}

func (s *server) RegisterAgent(ctx context.Context, _ string, r *clusterdoc.Registration) (*clusterdoc.Registered,
	error) {
	if s.cut.Load() {
		return nil, errCut
	}
	v, err := s.Register(ctx, r)
	return answered(s, v, err)
}

func (s *server) SyncAgent(ctx context.Context, _, agent string, q *clusterdoc.Sync) (*clusterdoc.Synced, error) {
	if s.cut.Load() {
		return nil, errCut
	}
	v, err := s.Sync(ctx, agent, q)
	return answered(s, v, err)
}

func (s *server) PutLog(ctx context.Context, _, agent string, at *clusterdoc.LogChunk, piece []byte) (
	*clusterdoc.LogStored, error) {
	v, err := s.Cluster.PutLog(ctx, agent, at, bytes.NewReader(piece))
	return answered(s, v, err)
}

func (s *server) PutCheckpoint(ctx context.Context, _, agent string, at *clusterdoc.CheckpointChunk, piece []byte) (
	*clusterdoc.CheckpointStored, error) {
	v, err := s.Cluster.PutCheckpoint(ctx, agent, at, bytes.NewReader(piece))
	return answered(s, v, err)
}

func (s *server) GetCheckpoint(ctx context.Context, _, agent string, at *clusterdoc.CheckpointChunk) ([]byte, error) {
	f, err := s.OpenCheckpoint(ctx, agent, at)
	if errors.Is(err, clusters.ErrNoCheckpoint) {
		err = &client.Problem{Status: 404, Code: "no_checkpoint", Detail: err.Error()}
	}
	if err != nil {
		return answered[[]byte](s, nil, err)
	}
	defer f.Close()
	piece, err := io.ReadAll(io.LimitReader(f, 4<<20))
	return answered(s, piece, err)
}

func newServer(t *testing.T, lease time.Duration) *server {
	kept, err := sessions.Open(t.Context(), sessions.Config{Store: store.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	copies := t.TempDir()
	all, err := clusters.Open(t.Context(), clusters.Config{Store: store.NewMemory(), Sessions: kept, LogDir: t.TempDir(),
		CheckpointDir: copies,
		Lease:         lease, Kill: time.Second, Tick: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(all.Close(), kept.Close()); err != nil {
			t.Error(err)
		}
	})
	c, err := all.Create(t.Context(), "", &clusterdoc.NewCluster{Name: "lab", Policy: "hgittins"})
	if err != nil {
		t.Fatal(err)
	}
	return &server{Cluster: c, copyDir: copies}
}

// agent runs an agent until stop is called, which leaves its tasks alone.
func agent(t *testing.T, s *server, name, dir, devices string) (stop func()) {
	return agentOf(t, s, name, dir, devices, 0)
}

// agentOf runs an agent whose devices have a memory for the models of relaxed jobs.
func agentOf(t *testing.T, s executor.Server, name, dir, devices string, modelBytes int64,
	with ...func(*executor.Config)) (stop func()) {
	t.Helper()
	source, err := device.Parse(devices)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		cfg := executor.Config{Server: s, Cluster: "lab", Name: name, Address: "127.0.0.1",
			Directory: dir, Devices: source, ModelBytes: modelBytes, Runner: []string{os.Args[0], "run-task"},
			RoundRunner: []string{os.Args[0], "run-rounds"}, PoolRunner: []string{os.Args[0], "run-pool"}, Speed: 100,
			CopyEvery: 100 * time.Millisecond, KeepCheckpoints: time.Hour,
			PassEnv: []string{"PYTHONPATH"},
			Logger:  slog.New(slog.NewTextHandler(io.Discard, nil))}
		for _, f := range with {
			f(&cfg)
		}
		if err := executor.Run(ctx, cfg); err != nil {
			t.Errorf("agent %s: %v", name, err)
		}
		close(ended)
	}()
	var once atomic.Bool
	stop = func() {
		if once.Swap(true) {
			return
		}
		cancel()
		<-ended
	}
	t.Cleanup(func() {
		stop()
		endTasks(t, dir)
	})
	return stop
}

// endTasks ends what an agent that has ended has left running.
func endTasks(t *testing.T, home string) {
	t.Helper()
	for _, dir := range append(tasksOf(t, home), filepath.Join(home, "pool")) {
		if p, ok := runner.Find(dir); ok {
			_ = p.Signal(unix.SIGKILL)
			for begun := time.Now(); p.Alive(); time.Sleep(time.Millisecond) {
				if time.Since(begun) > time.Minute {
					t.Fatalf("process %d of %s lives on", p.PID, dir)
				}
			}
		}
		if err := runner.Clear(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

// tasksOf are the directories of an agent's tasks.
func tasksOf(t *testing.T, home string) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(home, "tasks", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

func submit(t *testing.T, s *server, n clusterdoc.NewJob, script string) string {
	t.Helper()
	n.Command = []string{"sh", "-c", script}
	job, err := s.Submit(t.Context(), &n, "")
	if err != nil {
		t.Fatal(err)
	}
	return job.ID
}

func await(t *testing.T, s *server, id string, states ...clusterdoc.JobState) *clusterdoc.Job {
	t.Helper()
	var job *clusterdoc.Job
	var err error
	for range 6000 {
		if job, err = s.Job(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		for _, state := range states {
			if job.State == state {
				return job
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("job %s is %s (%s) and never became %v", id, job.State, job.Reason, states)
	return nil
}

// output reads an output of the first task of an attempt.
func output(t *testing.T, s *server, id string, attempt int64, stream string) string {
	t.Helper()
	var text strings.Builder
	_, _, err := s.CopyLog(t.Context(), clusterdoc.TaskID{Job: id, Attempt: attempt}, stream, 0,
		func(b []byte) error { text.Write(b); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestJobsRun(t *testing.T) {
	s := newServer(t, time.Minute)
	agent(t, s, "a", t.TempDir(), "cpu=2")
	good := submit(t, s, clusterdoc.NewJob{GPUs: 2, Env: map[string]string{"GREETING": "hello"}},
		`echo "$GREETING $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE on $HARE_GPU_TYPE, $MASTER_ADDR"; `+
			`echo err >&2; echo saved > $HARE_CHECKPOINT_DIR/state`)
	await(t, s, good, clusterdoc.JobSucceeded)
	if out := output(t, s, good, 1, "stdout"); out != "hello 0 of 2, 0 of 2 on cpu, 127.0.0.1\n" {
		t.Errorf("%q", out)
	}
	if out := output(t, s, good, 1, "stderr"); out != "err\n" {
		t.Errorf("%q", out)
	}
	// A variable of the job takes the place of the agent's, and stands there once.
	t.Setenv("LANG", "C")
	own := submit(t, s, clusterdoc.NewJob{Env: map[string]string{"LANG": "C.UTF-8"}},
		`tr '\0' '\n' </proc/$$/environ | grep ^LANG=`)
	await(t, s, own, clusterdoc.JobSucceeded)
	if out := output(t, s, own, 1, "stdout"); out != "LANG=C.UTF-8\n" {
		t.Errorf("%q", out)
	}
	// The second attempt finds what the first one saved.
	again := submit(t, s, clusterdoc.NewJob{Retries: 1},
		`if [ -e $HARE_CHECKPOINT_DIR/state ]; then exit 0; fi; echo 1 > $HARE_CHECKPOINT_DIR/state; exit 9`)
	if job := await(t, s, again, clusterdoc.JobSucceeded); len(job.Attempts) != 2 || job.Failures != 1 {
		t.Errorf("%+v", job)
	}
	bad := submit(t, s, clusterdoc.NewJob{}, `exit 4`)
	if job := await(t, s, bad, clusterdoc.JobFailed); job.Reason != "exit code 4" {
		t.Error(job.Reason)
	}
	job, err := s.Submit(t.Context(), &clusterdoc.NewJob{Command: []string{"no-such-program"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	if job := await(t, s, job.ID, clusterdoc.JobFailed); !strings.Contains(job.Reason, "no such program") {
		t.Error(job.Reason)
	}
	long := submit(t, s, clusterdoc.NewJob{}, `trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	await(t, s, long, clusterdoc.JobRunning)
	for output(t, s, long, 1, "stdout") == "" {
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := s.Cancel(t.Context(), long, "ann"); err != nil {
		t.Fatal(err)
	}
	await(t, s, long, clusterdoc.JobCancelled)
	if out := output(t, s, long, 1, "stdout"); out != "ready\nbye\n" {
		t.Errorf("%q", out)
	}
}

// An agent that is started again goes on with its tasks, also with those that ended while there was no agent.
func TestAgentIsStartedAgain(t *testing.T) {
	s := newServer(t, time.Minute)
	dir, files := t.TempDir(), t.TempDir()
	stop := agent(t, s, "a", dir, "cpu=2")
	count := `echo x >> ` + filepath.Join(files, "starts") + `; `
	slow := submit(t, s, clusterdoc.NewJob{}, count+`while [ ! -e `+filepath.Join(files, "go")+` ]; do sleep 0.01; done`)
	quick := submit(t, s, clusterdoc.NewJob{}, count+`while [ ! -e `+filepath.Join(files, "quick")+` ]; do sleep 0.01; `+
		`done; echo done`)
	await(t, s, slow, clusterdoc.JobRunning)
	await(t, s, quick, clusterdoc.JobRunning)
	stop()
	if err := os.WriteFile(filepath.Join(files, "quick"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := runner.ReadExit(filepath.Join(dir, "tasks", quick+".1.0")); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	agent(t, s, "a", dir, "cpu=2")
	await(t, s, quick, clusterdoc.JobSucceeded)
	if err := os.WriteFile(filepath.Join(files, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if job := await(t, s, slow, clusterdoc.JobSucceeded); len(job.Attempts) != 1 {
		t.Errorf("%+v", job)
	}
	if text, err := os.ReadFile(filepath.Join(files, "starts")); err != nil || string(text) != "x\nx\n" {
		t.Errorf("%q %v", text, err)
	}
}

// An agent that is cut off has ended its tasks before another one starts them.
func TestAgentIsCutOff(t *testing.T) {
	s := newServer(t, time.Second)
	near := &server{Cluster: s.Cluster}
	files := t.TempDir()
	agent(t, s, "a", t.TempDir(), "V100=1")
	// The first attempt does not end by itself; the second one checks that no process of it is left.
	id := submit(t, s, clusterdoc.NewJob{}, fmt.Sprintf(`cd %s; trap "" TERM; echo $$ > pid.$HARE_ATTEMPT; `+
		`while [ $HARE_ATTEMPT = 1 ]; do sleep 0.02; done; if kill -0 $(cat pid.1); then exit 1; fi`, files))
	await(t, s, id, clusterdoc.JobRunning)
	for {
		if text, err := os.ReadFile(filepath.Join(files, "pid.1")); err == nil && len(text) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	s.cut.Store(true)
	agent(t, near, "b", t.TempDir(), "V100=1")
	job := await(t, near, id, clusterdoc.JobSucceeded, clusterdoc.JobFailed)
	if job.State != clusterdoc.JobSucceeded || job.Lost != 1 || job.Attempts[1].Tasks[0].Agent != "b" {
		t.Errorf("%+v", job)
	}
	s.cut.Store(false)
	// The agent that comes back takes part again.
	for {
		agents, err := s.Agents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if agents[0].State == "ready" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A task that ends with the lease of its agent is lost and has not failed, also where the agent comes back before the
// server has given the task away, and tells of its end.
func TestLeaseIsOverForAMoment(t *testing.T) {
	s := newServer(t, time.Second)
	agent(t, s, "a", t.TempDir(), "cpu=1")
	files := t.TempDir()
	id := submit(t, s, clusterdoc.NewJob{}, fmt.Sprintf(`cd %s; echo $$ > pid.$HARE_ATTEMPT; `+
		`while [ $HARE_ATTEMPT = 1 ]; do sleep 0.02; done`, files))
	await(t, s, id, clusterdoc.JobRunning)
	pid := ""
	for pid == "" {
		text, _ := os.ReadFile(filepath.Join(files, "pid.1"))
		pid = strings.TrimSpace(string(text))
		time.Sleep(time.Millisecond)
	}
	s.cut.Store(true)
	for {
		if _, err := os.Stat("/proc/" + pid); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	s.cut.Store(false)
	job := await(t, s, id, clusterdoc.JobSucceeded, clusterdoc.JobFailed)
	if job.State != clusterdoc.JobSucceeded || job.Lost != 1 || job.Failures != 0 {
		t.Errorf("%s: %s; lost %d times, failed %d times", job.State, job.Reason, job.Lost, job.Failures)
	}
}

func TestPretendedDevices(t *testing.T) {
	s := newServer(t, time.Minute)
	agent(t, s, "a", t.TempDir(), "V100=2,T4=2")
	begun := time.Now()
	id := submit(t, s, clusterdoc.NewJob{GPUs: 2, On: map[string]float64{"V100": 20, "T4": 60}}, "exit 1")
	await(t, s, id, clusterdoc.JobSucceeded)
	if took := time.Since(begun); took < 200*time.Millisecond {
		t.Errorf("20 s took %v at 100 times the speed", took)
	}
}

func TestRefusedAgents(t *testing.T) {
	s := newServer(t, time.Minute)
	dir := t.TempDir()
	agent(t, s, "a", dir, "V100=1")
	for {
		if agents, err := s.Agents(t.Context()); err == nil && len(agents) == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	source, _ := device.Parse("V100=1")
	cfg := executor.Config{Server: s, Cluster: "lab", Name: "a", Directory: dir, Devices: source,
		Runner: []string{os.Args[0], "run-task"}}
	if err := executor.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Error(err)
	}
	cfg.Directory = t.TempDir()
	if err := executor.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "another agent is called") {
		t.Error(err)
	}
}
