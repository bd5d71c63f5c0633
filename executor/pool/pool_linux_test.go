package pool_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor/link"
	"github.com/hare-sched/hare/executor/pool"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// TestMain lets the test binary be the process.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "run-pool" {
		if err := pool.Main(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is a pool in a process of its own.
type process struct {
	t       testing.TB
	dir     string
	client  *pool.Client
	reports map[clusterdoc.TaskID]*clusterdoc.TaskReport
	held    int64
}

// start starts a process with CPU devices.
func start(t testing.TB, devices int) *process {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import sys; assert sys.version_info >= (3, 11)").CombinedOutput()
	if err != nil {
		t.Skipf("no Python 3.11: %v: %s", err, out)
	}
	source, err := filepath.Abs("../../executor/python/src")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, dir: t.TempDir(), reports: map[clusterdoc.TaskID]*clusterdoc.TaskReport{}}
	spec := &pool.Spec{LogLimit: 1 << 20}
	for range devices {
		spec.Devices = append(spec.Devices, pool.Device{Type: "cpu"})
	}
	if err := os.Chmod(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := pool.WriteSpec(p.dir, spec); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "run-pool", p.dir)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+source)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		if p.client == nil { // nobody can tell it to end
			_ = cmd.Process.Kill()
			<-ended
			return
		}
		p.client.Send(&pool.Request{Type: pool.End})
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the process does not end")
			_ = cmd.Process.Kill()
			<-ended
		}
		p.client.Close()
	})
	p.connect()
	return p
}

// connect connects as an agent that was started.
func (p *process) connect() {
	p.t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		c, err := pool.Dial(p.dir)
		if err == nil {
			p.client = c
			break
		}
		if time.Since(begun) > 20*time.Second {
			p.t.Fatal(err)
		}
	}
	for p.event().Type != pool.Ready {
	}
}

func (p *process) event() *pool.Event {
	p.t.Helper()
	e, err := p.client.Receive()
	if err != nil {
		p.t.Fatal(err)
	}
	if e.Report != nil {
		p.reports[e.Report.TaskID] = e.Report
	}
	p.held = max(p.held, e.Number)
	return e
}

// until takes events until a home or task stands in a state.
func (p *process) until(id clusterdoc.TaskID, states ...clusterdoc.TaskState) *clusterdoc.TaskReport {
	p.t.Helper()
	for {
		if r := p.reports[id]; r != nil && slices.Contains(states, r.State) {
			return r
		}
		p.event()
	}
}

func jobsFolder(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../worker/testdata/jobs")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// home begins a home and waits until it runs.
func (p *process) home(job, module string, tasks int, rounds int64) (clusterdoc.RoundStart, int) {
	p.t.Helper()
	s := clusterdoc.RoundStart{Module: module, Tasks: tasks, Rounds: rounds, Secret: "secret of " + job}
	id := clusterdoc.TaskID{Job: job, Attempt: 1}
	p.client.Send(&pool.Request{Type: pool.Serve, Checkpoint: filepath.Join(p.dir, job+".hare"), Output: p.t.TempDir(),
		Order: &clusterdoc.Order{Type: clusterdoc.OrderHome, TaskID: id,
			Home: &clusterdoc.HomeStart{Name: job, RoundStart: s, Directory: jobsFolder(p.t)}}})
	r := p.until(id, clusterdoc.TaskRunning, clusterdoc.TaskEnded, clusterdoc.TaskLost)
	if r.State != clusterdoc.TaskRunning || r.Port == 0 {
		p.t.Fatalf("%+v", r)
	}
	return s, r.Port
}

// compute orders a task.
func (p *process) compute(job string, number int, s clusterdoc.RoundStart, round int64, task, device, port int) (
	id clusterdoc.TaskID) {
	id = clusterdoc.TaskID{Job: job, Attempt: 1, Task: number}
	p.client.Send(&pool.Request{Type: pool.Compute, Order: &clusterdoc.Order{Type: clusterdoc.OrderCompute, TaskID: id,
		Compute: &clusterdoc.Compute{Round: round, Task: task, Device: device, RoundStart: s, Directory: jobsFolder(p.t),
			Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}}})
	return id
}

// good waits for the end of a task with exit code 0.
func (p *process) good(id clusterdoc.TaskID) {
	p.t.Helper()
	r := p.until(id, clusterdoc.TaskEnded, clusterdoc.TaskLost)
	if r.State != clusterdoc.TaskEnded || r.ExitCode == nil || *r.ExitCode != 0 {
		p.t.Fatalf("%+v", r)
	}
}

// TestTasksGoHome trains a job whose home is another process: its parameters are fetched once a round, what has been
// computed already and what is late is acknowledged, and another attempt is refused.
func TestTasksGoHome(t *testing.T) {
	a, b := start(t, 1), start(t, 2)
	s, port := a.home("j1", "linear", 3, 2)
	for k := range 3 {
		b.good(b.compute("j1", k+1, s, 0, k, k%2, port))
	}
	b.good(b.compute("j1", 4, s, 1, 0, 0, port))
	b.good(b.compute("j1", 5, s, 1, 0, 1, port)) // again
	b.good(b.compute("j1", 6, s, 0, 2, 1, port)) // of a round that is over
	stranger := s
	stranger.Secret = "another secret"
	for n, x := range []struct {
		job   string
		start clusterdoc.RoundStart
	}{{"j1", stranger}, {"j2", s}} {
		id := clusterdoc.TaskID{Job: x.job, Attempt: 2, Task: n + 1}
		b.client.Send(&pool.Request{Type: pool.Compute, Order: &clusterdoc.Order{Type: clusterdoc.OrderCompute, TaskID: id,
			Compute: &clusterdoc.Compute{RoundStart: x.start, Directory: jobsFolder(t), Address: fmt.Sprintf("127.0.0.1:%d",
				port)}}})
		if r := b.until(id, clusterdoc.TaskEnded, clusterdoc.TaskLost); r.State != clusterdoc.TaskLost ||
			!strings.Contains(r.Error, "is not the parameter server of the attempt") {
			t.Errorf("%+v", r)
		}
	}
	// An agent that connects again is told all.
	b.client.Close()
	b.reports = map[clusterdoc.TaskID]*clusterdoc.TaskReport{}
	b.connect()
	if len(b.reports) != 8 {
		t.Errorf("the next agent was told of %d tasks", len(b.reports))
	}
	for k := 1; k < 3; k++ {
		a.good(a.compute("j1", 10+k, s, 1, k, 0, port)) // by the home's own device
	}
	end := a.until(clusterdoc.TaskID{Job: "j1", Attempt: 1}, clusterdoc.TaskEnded, clusterdoc.TaskLost)
	if end.Round != 2 || end.ExitCode == nil || *end.ExitCode != 0 {
		t.Errorf("%+v", end)
	}
}

// TestStrangersAreRefused sends what no node sends to the port of a home. The home goes on.
func TestStrangersAreRefused(t *testing.T) {
	a := start(t, 1)
	s, port := a.home("j1", "empty", 2, 1)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	good, err := link.Secure(s.Secret, link.SideHelper)
	if err != nil {
		t.Fatal(err)
	}
	bad, err := link.Secure("no secret", link.SideHelper)
	if err != nil {
		t.Fatal(err)
	}
	try := func(cfg *tls.Config, name string, hello link.Header) error {
		cfg = cfg.Clone()
		cfg.ServerName = name
		conn, err := tls.Dial("tcp", address, cfg)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := link.WriteFrame(conn, &link.Frame{Header: hello}); err != nil {
			return err
		}
		f, err := link.ReadFrame(conn, 0)
		if err == nil && f.Reason != "" {
			err = errors.New(f.Reason)
		}
		return err
	}
	right := link.Header{Kind: link.Hello, Version: link.Version, Job: "j1", Attempt: 1}
	old := link.Header{Kind: link.Hello, Job: "j1", Attempt: 1}
	for name, c := range map[string]struct {
		cfg   *tls.Config
		name  string
		hello link.Header
		want  string
	}{
		"the right one":   {good, "j1.1.hare.invalid", right, ""},
		"another secret":  {bad, "j1.1.hare.invalid", right, "does not know the secret"},
		"another job":     {good, "j2.1.hare.invalid", right, "tls"},
		"another hello":   {good, "j1.1.hare.invalid", link.Header{Kind: link.Hello, Job: "j2"}, "is not here"},
		"another version": {good, "j1.1.hare.invalid", old, "another version"},
	} {
		if err := try(c.cfg, c.name, c.hello); c.want == "" != (err == nil) || err != nil &&
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for k := range 2 {
		a.good(a.compute("j1", k+1, s, 0, k, 0, port))
	}
	a.good(clusterdoc.TaskID{Job: "j1", Attempt: 1})
}

// TestTasksEnd stops and kills tasks that wait for their parameters, and one that computes.
func TestTasksEnd(t *testing.T) {
	a := start(t, 1)
	s, port := a.home("j1", "empty", 2, 5)
	waits := a.compute("j1", 1, s, 3, 0, 0, port)
	killed := a.compute("j1", 2, s, 3, 1, 0, port)
	nowhere := a.compute("j9", 1, s, 0, 0, 0, 1) // whose home cannot be reached
	a.client.Send(&pool.Request{Type: pool.Stop, Task: &waits, GraceS: 60})
	a.client.Send(&pool.Request{Type: pool.Kill, Task: &killed})
	a.client.Send(&pool.Request{Type: pool.Kill, Task: &nowhere})
	unknown := clusterdoc.TaskID{Job: "j3", Attempt: 1}
	a.client.Send(&pool.Request{Type: pool.Stop, Task: &unknown})
	for _, id := range []clusterdoc.TaskID{waits, killed, nowhere} {
		if r := a.until(id, clusterdoc.TaskEnded, clusterdoc.TaskLost); r.Signal != "SIGKILL" {
			t.Errorf("%+v", r)
		}
	}
	if r := a.until(unknown, clusterdoc.TaskLost); r.Error == "" {
		t.Errorf("%+v", r)
	}
	// No worker is left on a device that is held, and the home makes its steps elsewhere.
	for k := range 2 {
		a.good(a.compute("j1", 5+k, s, 0, k, 0, port))
	}
	a.good(a.compute("j1", 7, s, 1, 0, 0, port)) // its parameters were there: the step was made
	a.client.Send(&pool.Request{Type: pool.Hold, Number: 3, Devices: []int{0}})
	for a.held < 3 {
		a.event()
	}
	a.client.Send(&pool.Request{Type: pool.Ping})
	for a.event().Type != pool.Pong {
	}
	home := clusterdoc.TaskID{Job: "j1", Attempt: 1}
	a.client.Send(&pool.Request{Type: pool.Stop, Task: &home, GraceS: 60})
	if r := a.until(home, clusterdoc.TaskEnded, clusterdoc.TaskLost); r.Signal != "SIGTERM" || r.Round != 1 {
		t.Errorf("%+v", r)
	}
}

// BenchmarkEmptyTask is the round trip of a task of a relaxed job that computes nothing, from the agent's request
// until the report of its end.
func BenchmarkEmptyTask(b *testing.B) {
	p := start(b, 1)
	s, port := p.home("j1", "empty", 1<<16, 1)
	var times []time.Duration
	i := 0
	for b.Loop() {
		begin := time.Now()
		p.good(p.compute("j1", i+1, s, 0, i, 0, port))
		times = append(times, time.Since(begin))
		i++
		if i >= 1<<16-1 {
			b.Fatal("give -benchtime 50000x")
		}
	}
	slices.Sort(times)
	for _, q := range []struct {
		name string
		of   float64
	}{{"p50-µs", 0.5}, {"p99-µs", 0.99}} {
		b.ReportMetric(float64(times[int(q.of*float64(len(times)-1))].Nanoseconds())/1e3, q.name)
	}
}
