package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/executor/runner"
	clustertext "github.com/hare-sched/hare/serve/clusters/text"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

var (
	executorKills = flag.Int("executor-kills", 30, "how many agents, runners, jobs and servers are killed")
	executorSeed  = flag.Uint64("executor-seed", 1, "seed of the kills")
)

// killed is a cluster of processes that are killed at random: a server and agents with runners and jobs.
type killed struct {
	t       *testing.T
	dir     string
	address string
	rng     *rand.Rand
	client  *client.Client
	server  *exec.Cmd
	agents  []*exec.Cmd // nil: is not running
	nets    []*network  // of the agents
	kills   map[string]int
	// agentArgs are further arguments of the agents.
	agentArgs []string
	// wrap is what a command is run as; nil means as it is.
	wrap func(c *exec.Cmd, args []string) *exec.Cmd
}

const killedAgents = 2

// ownAddresses counts the ports that were tried, so that no test is given that of another one.
var ownAddresses atomic.Int64

// ownAddress is an address of this machine at which nobody listens. Systems give ports from 61000 on neither to
// connections nor to those who listen at port 0, so that a server that is killed finds its port free when it comes
// back.
func ownAddress(t *testing.T) string {
	t.Helper()
	for range 4500 {
		address := fmt.Sprintf("127.0.0.1:%d", 61_000+(os.Getpid()*41+int(ownAddresses.Add(1)))%4500)
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no port from 61000 on is free")
	return ""
}

// newCluster is a cluster without processes.
func newCluster(t *testing.T) *killed {
	t.Helper()
	k := &killed{t: t, dir: t.TempDir(), address: ownAddress(t), rng: rand.New(rand.NewPCG(*executorSeed, 17)),
		agents: make([]*exec.Cmd, killedAgents), kills: map[string]int{}}
	var err error
	if err = os.Mkdir(k.witnesses(), 0o700); err != nil {
		t.Fatal(err)
	}
	// The client tries again for longer than the server is away.
	if k.client, err = client.New(client.Config{URL: "http://" + k.address, Retries: 100}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.end)
	return k
}

func newKilled(t *testing.T, agentArgs ...string) *killed {
	t.Helper()
	k := newCluster(t)
	k.agentArgs = agentArgs
	k.serve()
	for i := range k.agents {
		k.nets = append(k.nets, newNetwork(t, k.address))
		k.agent(i)
	}
	return k
}

func (k *killed) witnesses() string { return filepath.Join(k.dir, "witnesses") }

func (k *killed) start(logName string, args ...string) *exec.Cmd {
	k.t.Helper()
	c := command(args...)
	c.Env = append(c.Env, "GOMAXPROCS=2")
	if k.wrap != nil {
		c = k.wrap(c, args)
	}
	log, err := os.OpenFile(filepath.Join(k.dir, logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		k.t.Fatal(err)
	}
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		k.t.Fatal(err)
	}
	return c
}

func (k *killed) serve() {
	k.server = k.start("server.log", "serve", "--listen", k.address, "--data-dir", filepath.Join(k.dir, "data"),
		"--agent-lease", "3s")
}

func (k *killed) agent(i int) {
	name := fmt.Sprintf("n%d", i)
	args := []string{"agent", "--server", "http://" + k.nets[i].l.Addr().String(), "--cluster", "lab",
		"--name", name, "--directory", filepath.Join(k.dir, name), "--devices", "cpu=2"}
	k.agents[i] = k.start(name+".log", append(args, k.agentArgs...)...)
}

func kill9(c *exec.Cmd) {
	if c == nil {
		return
	}
	_ = c.Process.Kill()
	_ = c.Wait()
}

// end ends all processes of the test.
func (k *killed) end() {
	for _, c := range append(k.agents, k.server) {
		kill9(c)
	}
	for _, pid := range k.runners() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// runners are the runners of tasks and pools of the test's agents.
func (k *killed) runners() (pids []int) { return k.runnersAt("*") }

// runnersOf are those of one agent.
func (k *killed) runnersOf(i int) []int { return k.runnersAt(fmt.Sprintf("n%d", i)) }

func (k *killed) runnersAt(name string) (pids []int) {
	dirs, err := filepath.Glob(filepath.Join(k.dir, name, "tasks", "*"))
	if err != nil {
		k.t.Error(err)
	}
	pools, err := filepath.Glob(filepath.Join(k.dir, name, "pool"))
	if err != nil {
		k.t.Error(err)
	}
	for _, dir := range append(dirs, pools...) {
		if p, ok := runner.Find(dir); ok {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// jobs are the processes of jobs that run.
func (k *killed) jobs() (pids []int) {
	for _, w := range readWitnesses(k.t, k.witnesses()) {
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", w.pid))
		if err == nil && !w.ended && bytes.Contains(environment, []byte(witnessDir+"="+k.witnesses()+"\x00")) {
			pids = append(pids, w.pid)
		}
	}
	return pids
}

// kill kills something. long says that an agent stays away until its jobs are given to others.
func (k *killed) kill(long bool) {
	what := k.rng.IntN(20)
	switch {
	case long || what < 7:
		i := k.rng.IntN(len(k.agents))
		kill9(k.agents[i])
		if long {
			k.kills["agent, for longer than its lease"]++
			time.Sleep(3*time.Second + 5*time.Second + 2*time.Second) // lease, kill time, and some
		} else {
			k.kills["agent"]++
		}
		k.agent(i)
	case what < 13:
		kill9(k.server)
		k.kills["server"]++
		k.serve()
	default:
		name, pids := "runner", k.runners()
		if what > 16 {
			name, pids = "job", k.jobs()
		}
		if len(pids) > 0 && syscall.Kill(pids[k.rng.IntN(len(pids))], syscall.SIGKILL) == nil {
			k.kills[name]++
		}
	}
}

// cut cuts the network of an agent for a while, which ends while other things are killed. long says that the agent's
// jobs are given to others meanwhile.
func (k *killed) cut(long bool) {
	n, how := k.nets[k.rng.IntN(len(k.nets))], flow(1+k.rng.IntN(len(flowNames)-1))
	n.mu.Lock()
	already := n.flow != flows
	n.mu.Unlock()
	if already {
		return
	}
	wait := time.Duration(k.rng.IntN(5000)) * time.Millisecond
	name := "network " + flowNames[how]
	if long {
		how = held + flow(k.rng.IntN(2)) // requests of the old lease come late, or answers
		wait, name = 10*time.Second, "network "+flowNames[how]+" for longer than a lease"
	}
	k.kills[name]++
	n.set(how)
	time.AfterFunc(wait, func() { n.set(flows) })
}

// submit submits a job of some processes.
func (k *killed) submit(i int) (id string, lines int) {
	self, err := os.Executable()
	if err != nil {
		k.t.Fatal(err)
	}
	lines = 5 + k.rng.IntN(20)
	ctx, stop := context.WithTimeout(k.t.Context(), patience)
	defer stop()
	job, err := k.client.SubmitJob(ctx, "lab", &clusterdoc.NewJob{Command: []string{self}, GPUs: 1 + k.rng.IntN(2),
		Retries: []int{0, 1000, 1000}[i%3],
		Env:     map[string]string{witnessDir: k.witnesses(), "WITNESS_LINES": strconv.Itoa(lines)}},
		fmt.Sprint("job-", i))
	if err != nil {
		k.t.Fatal(err)
	}
	return job.ID, lines
}

// TestExecutorKills kills agents, runners, jobs and the server at random while jobs run, and cuts the networks of
// the agents. -executor-kills says how
// often; scripts/executor-kills is the soak.
func TestExecutorKills(t *testing.T) {
	t.Parallel() // waits most of the time
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	k := newKilled(t)
	lines := map[string]int{}
	submit := func() {
		id, n := k.submit(len(lines))
		if lines[id] != 0 {
			t.Fatalf("job %s is acknowledged twice", id)
		}
		lines[id] = n
	}
	for range 4 {
		submit()
	}
	for i := range *executorKills {
		submit()
		time.Sleep(time.Duration(k.rng.IntN(400)) * time.Millisecond)
		k.kill(i%100 == 15)
		if i%3 == 0 {
			k.cut(i%30 == 0)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), patience+time.Duration(*executorKills)*time.Second)
	defer stop()
	seen := seenCluster{lines: lines, logs: map[string]string{}}
	for id := range lines {
		for {
			job, err := k.client.ClusterJob(ctx, "lab", id)
			if err != nil {
				t.Fatalf("%s: %v\n%s", id, err, k.lastLogs())
			}
			if job.State.Final() {
				seen.jobs = append(seen.jobs, job)
				break
			}
			if err := rest(ctx, 100*time.Millisecond); err != nil {
				t.Fatalf("job %s does not end: %s\n%s", id, clustertext.Job(job, time.Now()), k.lastLogs())
			}
		}
	}
	for job, err := range k.client.ClusterJobs(ctx, "lab", clusterdoc.JobQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if lines[job.ID] == 0 {
			t.Errorf("job %s was never submitted", job.ID)
		}
	}
	seen.witnesses = readWitnesses(t, k.witnesses())
	for _, job := range seen.jobs {
		for _, at := range job.Attempts {
			for _, task := range at.Tasks {
				var log bytes.Buffer
				err := k.client.CopyLog(ctx, "lab", job.ID, &client.LogPosition{Attempt: at.Attempt, Task: task.Task}, &log)
				if err != nil {
					t.Fatal(err)
				}
				seen.logs[witnessName(job.ID, at.Attempt, task.Task)] = log.String()
			}
		}
	}
	faults := seen.check()
	for _, fault := range faults {
		t.Error(fault)
	}
	if len(faults) > 0 {
		t.Log(k.lastLogs())
	}
	attempts, failed, lost := 0, 0, 0
	for _, job := range seen.jobs {
		attempts += len(job.Attempts)
		if job.State == clusterdoc.JobFailed {
			failed++
		}
		if job.Retries == 0 && job.Lost > 0 {
			lost++
		}
	}
	if failed > k.kills["job"] {
		t.Errorf("%d jobs have failed, and processes were killed %d times", failed, k.kills["job"])
	}
	t.Logf("%d jobs in %d attempts, %d processes; of those with no retries %d have failed and %d were lost and started "+
		"again; killed: %v", len(seen.jobs), attempts, len(seen.witnesses), failed, lost, k.kills)
}

// lastLogs are the ends of the logs of server and agents.
func (k *killed) lastLogs() string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(k.dir, "*.log"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		fmt.Fprintf(&all, "== %s\n%s\n", filepath.Base(file), text[max(0, len(text)-3000):])
	}
	return all.String()
}
