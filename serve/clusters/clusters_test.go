package clusters_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

func TestAJobRunsToItsEnd(t *testing.T) {
	for _, policy := range []string{"fifo", "hlas", "hgittins", "rolling"} {
		s := newServer(t, time.Minute)
		c := s.create(policy)
		id := submit(t, c, &clusterdoc.NewJob{GPUs: 2})
		if job := await(t, c, id, clusterdoc.JobWaiting); !strings.Contains(job.Reason, "first agent") {
			t.Error(policy, job.Reason)
		}
		a, b := &node{r: registration("a", "V100")}, &node{r: registration("b", "V100")}
		a.register(t, c)
		if job, err := c.Job(t.Context(), id); err != nil || !strings.Contains(job.Reason, "wants 2 GPUs") {
			t.Error(policy, job.Reason, err)
		}
		b.register(t, c)
		job := await(t, c, id, clusterdoc.JobRunning, a, b)
		tasks := job.Attempts[0].Tasks
		if len(tasks) != 2 || tasks[0].Agent == tasks[1].Agent {
			t.Fatal(policy, tasks)
		}
		for _, n := range []*node{a, b} {
			for id := range n.running {
				n.end(id, 0)
			}
		}
		await(t, c, id, clusterdoc.JobSucceeded, a, b)
		described, err := c.Describe(t.Context())
		if err != nil || described.GPUs != 2 || described.FreeGPUs != 2 || described.Jobs[clusterdoc.JobSucceeded] != 1 {
			t.Errorf("%s: %+v, %v", policy, described, err)
		}
		s.close()
		s.open()
	}
}

// A job that fails is started again as often as it asks for, then fails with its reason.
func TestRetries(t *testing.T) {
	s := newServer(t, time.Minute)
	c := s.create("hgittins")
	a := &node{r: registration("a", "V100", "V100")}
	a.register(t, c)
	id := submit(t, c, &clusterdoc.NewJob{GPUs: 2, Retries: 1})
	for attempt := int64(1); attempt <= 2; attempt++ {
		for len(a.running) < 2 {
			if err := a.sync(c, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		a.end(clusterdoc.TaskID{Job: id, Attempt: attempt, Task: 1}, 3)
		for len(a.running) > 0 { // the other task is told to end
			if err := a.sync(c, time.Second); err != nil {
				t.Fatal(err)
			}
		}
	}
	job := await(t, c, id, clusterdoc.JobFailed, a)
	if job.Reason != "task 1: exit code 3" || job.Failures != 2 || len(job.Attempts) != 2 {
		t.Errorf("%+v", job)
	}
}

// What an agent had whose lease has run out starts again on another one, and not before.
func TestLostAgent(t *testing.T) {
	const lease = time.Second // so long that a busy machine does not lose an agent that lives
	s := newServer(t, lease)
	c := s.create("hgittins")
	a, b := &node{r: registration("a", "V100")}, &node{r: registration("b", "T4")}
	a.register(t, c)
	id := submit(t, c, &clusterdoc.NewJob{})
	await(t, c, id, clusterdoc.JobRunning, a)
	last := time.Now() // of the lease that a has at most
	b.register(t, c)
	job := await(t, c, id, clusterdoc.JobRunning, b)
	for len(job.Attempts) < 2 {
		job = await(t, c, id, clusterdoc.JobRunning, b)
		time.Sleep(time.Millisecond)
		if err := b.sync(c, 0); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(last); took < lease+lease/4 {
		t.Errorf("the job was given away after %v", took)
	}
	if job.Attempts[0].Result != "lost" || job.Attempts[1].Tasks[0].Agent != "b" || job.Lost != 1 || job.Failures != 0 {
		t.Errorf("%+v", job)
	}
	var stale *ledger.Conflict
	if err := a.sync(c, 0); !errors.As(err, &stale) || stale.Code != "stale_epoch" {
		t.Error(err)
	}
	a.register(t, c)
	if len(a.running) != 0 {
		t.Error("a lost task was confirmed")
	}
}

func TestCancelAndDrain(t *testing.T) {
	s := newServer(t, time.Minute)
	c := s.create("hgittins")
	a, b := &node{r: registration("a", "V100")}, &node{r: registration("b", "V100")}
	a.register(t, c)
	first, second := submit(t, c, &clusterdoc.NewJob{}), submit(t, c, &clusterdoc.NewJob{})
	await(t, c, first, clusterdoc.JobRunning, a)
	if err := c.Drain(t.Context(), "a", true, "a fan"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cancel(t.Context(), first, "ann"); err != nil {
		t.Fatal(err)
	}
	job := await(t, c, first, clusterdoc.JobCancelled, a)
	if job.Reason != "cancelled by ann" {
		t.Error(job.Reason)
	}
	agents, err := c.Agents(t.Context())
	if err != nil || agents[0].State != "drained" || agents[0].Reason != "a fan" {
		t.Error(agents[0], err)
	}
	if job, err := c.Job(t.Context(), second); err != nil || job.State != clusterdoc.JobWaiting {
		t.Error(job, err)
	}
	b.register(t, c)
	await(t, c, second, clusterdoc.JobRunning, a, b)
	if err := c.Drain(t.Context(), "a", false, ""); err != nil {
		t.Fatal(err)
	}
	third := submit(t, c, &clusterdoc.NewJob{})
	await(t, c, third, clusterdoc.JobRunning, a, b)
	if job, err := c.Cancel(t.Context(), third, ""); err != nil || job.State != clusterdoc.JobStopping {
		t.Error(job, err)
	}
	await(t, c, third, clusterdoc.JobCancelled, a, b)
}

// TestJobsCountForQuotas checks that jobs count until they end, also after a restart.
func TestJobsCountForQuotas(t *testing.T) {
	s := newServer(t, time.Minute)
	s.create("fifo")
	count := func(want int) {
		t.Helper()
		if got := s.quotas.Usage("").Jobs; got != want {
			t.Errorf("%d jobs count, want %d", got, want)
		}
	}
	first := submit(t, s.cluster(), &clusterdoc.NewJob{Command: []string{"true"}, GPUs: 1})
	second := submit(t, s.cluster(), &clusterdoc.NewJob{Command: []string{"true"}, GPUs: 1})
	count(2)
	for left, id := range []string{second, first} {
		if _, err := s.cluster().Cancel(t.Context(), id, "test"); err != nil {
			t.Fatal(err)
		}
		count(1 - left)
		s.close()
		s.open()
		count(1 - left)
	}
	if err := s.Delete(t.Context(), "", "lab"); err != nil {
		t.Fatal(err)
	}
	count(0)
}

func TestRefusals(t *testing.T) {
	s := newServer(t, time.Minute)
	c := s.create("")
	var es hare.InvalidErrors
	for want, n := range map[string]clusterdoc.NewJob{
		"/command":          {},
		"/gpus":             {Command: []string{"a"}, GPUs: -1},
		"/gpus_per_task":    {Command: []string{"a"}, GPUs: 3, GPUsPerTask: 2},
		"/nodes":            {Command: []string{"a"}, GPUs: 3, Nodes: 2},
		"/env/RANK":         {Command: []string{"a"}, Env: map[string]string{"RANK": "1"}},
		"/directory":        {Command: []string{"a"}, Directory: "here"},
		"/module":           {Module: "../../train", Directory: "/jobs", Rounds: 1},
		"/rounds":           {Module: "train", Directory: "/jobs"},
		"/tasks":            {Module: "train", Directory: "/jobs", Rounds: 1, GPUs: 2, Tasks: 3, Sync: "gang"},
		"/sync":             {Module: "train", Directory: "/jobs", Rounds: 1, Sync: "bsp"},
		"/config":           {Module: "train", Directory: "/jobs", Rounds: 1, Config: []byte("{}")},
		"/on/V100":          {Module: "train", Directory: "/jobs", Rounds: 1e9, GPUs: 1, On: map[string]float64{"V100": 2}},
		"/retries":          {Command: []string{"a"}, Retries: -1},
		"/command/1":        {Command: []string{"a", "b\x00"}},
		"/env/HARE_~1TOKEN": {Command: []string{"a"}, Env: map[string]string{"HARE_/TOKEN": "1"}},
	} {
		_, err := c.Submit(t.Context(), &n, "")
		if es = nil; !errors.As(err, &es) || es[0].Pointer != want {
			t.Errorf("%s: %v", want, err)
		}
	}
	a := &node{r: registration("a", "V100")}
	a.r.Devices[0].UUID = "GPU-1"
	a.register(t, c)
	twin := registration("a", "V100")
	twin.Incarnation = "another incarnation"
	claimer := registration("b", "T4")
	claimer.Devices[0].UUID = "GPU-1"
	for want, r := range map[string]*clusterdoc.Registration{"agent_exists": twin, "gpu_claimed": claimer} {
		var conflict *ledger.Conflict
		if _, err := c.Register(t.Context(), r); !errors.As(err, &conflict) || conflict.Code != want {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, version := range []int{0, clusterdoc.ProtocolVersion - 1, clusterdoc.ProtocolVersion + 1} {
		other := registration("other", "T4")
		other.Protocol = version
		es = nil
		if _, err := c.Register(t.Context(), other); !errors.As(err, &es) || es[0].Code != "other_version" {
			t.Errorf("an agent of protocol %d: %v", version, err)
		}
	}
	if _, err := s.Create(t.Context(), "", &clusterdoc.NewCluster{Name: "lab"}); err == nil {
		t.Error("two clusters have one name")
	}
	job, err := c.Submit(t.Context(), &clusterdoc.NewJob{Command: []string{"a"}}, "key")
	again, errAgain := c.Submit(t.Context(), &clusterdoc.NewJob{Command: []string{"a"}}, "key")
	if err != nil || errAgain != nil || job.ID != again.ID {
		t.Error(err, errAgain)
	}
	if _, err := c.Submit(t.Context(), &clusterdoc.NewJob{Command: []string{"b"}}, "key"); err == nil {
		t.Error("a key was used for two jobs")
	}
}

// Parameters that need bandwidths are refused: a managed cluster has none.
func TestClustersHaveNoBandwidths(t *testing.T) {
	s := newServer(t, time.Minute)
	for _, c := range []struct{ policy, parameters, pointer string }{
		{"sampling", `{"ring": true}`, "/ring"},
		{"asrpt", `{"graphs": {"hare": "job-graphs/v1", "models": [], "configurations": []}}`, "/graphs"},
	} {
		_, err := s.Create(t.Context(), "", &clusterdoc.NewCluster{Name: "lab", Policy: c.policy,
			Parameters: []byte(c.parameters)})
		var fault *hare.InvalidError
		if !errors.As(err, &fault) || !strings.HasSuffix(fault.Pointer, c.pointer) ||
			!strings.Contains(fault.Detail, "bandwidth") {
			t.Errorf("%s: %v", c.policy, err)
		}
	}
}

// Outputs of the jobs that ended first make room for those of later jobs; those of a job that runs stay.
func TestLogRoom(t *testing.T) {
	s := newServer(t, time.Minute)
	s.close()
	s.maxLogs = 1000
	s.open()
	c := s.create("fifo")
	a := &node{r: registration("a", "V100")}
	a.register(t, c)
	put := func(id clusterdoc.TaskID, offset int64, n int) *clusterdoc.LogStored {
		t.Helper()
		stored, err := c.PutLog(t.Context(), "a", &clusterdoc.LogChunk{Epoch: a.epoch, Secret: a.secret, TaskID: id,
			Stream: clusterdoc.StreamStdout, Offset: offset}, strings.NewReader(strings.Repeat("x", n)))
		if err != nil {
			t.Fatal(err)
		}
		return stored
	}
	read := func(id clusterdoc.TaskID) (int64, error) {
		n, _, err := c.CopyLog(t.Context(), id, clusterdoc.StreamStdout, 0, func([]byte) error { return nil })
		return n, err
	}
	var ids []clusterdoc.TaskID
	for range 3 {
		job := submit(t, c, &clusterdoc.NewJob{})
		await(t, c, job, clusterdoc.JobRunning, a)
		id := clusterdoc.TaskID{Job: job, Attempt: 1}
		ids = append(ids, id)
		if stored := put(id, 0, 400); stored.Next != 400 || stored.Full {
			t.Errorf("%+v", stored)
		}
		if job != "j3" {
			a.end(id, 0)
			await(t, c, job, clusterdoc.JobSucceeded, a)
		}
	}
	if _, err := read(ids[0]); !errors.Is(err, clusters.ErrLogRemoved) {
		t.Error(err)
	}
	for _, id := range ids[1:] {
		if n, err := read(id); n != 400 || err != nil {
			t.Error(id, n, err)
		}
	}
	if stored := put(ids[2], 400, 700); stored.Next != 400 || !stored.Full {
		t.Errorf("%+v", stored) // outputs were removed a moment ago, and are not looked for again so soon
	}
	stats := s.Stats(t.Context())
	if stats.LogsRemoved != 1 || stats.LogBytes != 1200 || stats.Jobs[clusterdoc.JobSucceeded] != 2 || stats.GPUs != 1 {
		t.Errorf("%+v", stats)
	}
}

// The GPUs of a node join at once, so that a job that waits takes the type that it asks for first; its processes see
// all of its GPUs on the node.
func TestWholeNodesJoin(t *testing.T) {
	s := newServer(t, time.Minute)
	c := s.create("fifo")
	id := submit(t, c, &clusterdoc.NewJob{GPUs: 2, On: map[string]float64{"V100": 10, "T4": 100}})
	a := &node{r: registration("a", "T4", "T4", "V100", "V100")}
	a.register(t, c)
	for len(a.running) < 2 {
		answer, err := c.Sync(t.Context(), "a", &clusterdoc.Sync{Epoch: a.epoch, Secret: a.secret, WaitS: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range answer.Orders {
			if o.Start.GPUType != "V100" || fmt.Sprint(o.Start.LocalDevices) != "[2 3]" || o.Start.LocalRank != o.Task {
				t.Errorf("%+v", o.Start)
			}
		}
		if err := a.sync(c, 0); err != nil {
			t.Fatal(err)
		}
	}
	job, err := c.Job(t.Context(), id)
	if err != nil || job.Attempts[0].Tasks[0].GPUs[0] != "a/2" {
		t.Error(job, err)
	}
}

// A virtual completion of asrpt is no event of the cluster: the job that may start then does so by a tick.
func TestTicksForThePolicy(t *testing.T) {
	s := newServer(t, time.Second)
	c, err := s.Create(t.Context(), "", &clusterdoc.NewCluster{Name: "lab", Policy: "asrpt",
		Parameters: []byte(`{"trust": true}`)})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{r: registration("a", "V100", "V100")}
	n.register(t, c)
	first := submit(t, c, &clusterdoc.NewJob{EstimateS: new(1000.)})
	await(t, c, first, clusterdoc.JobRunning, n)
	second := submit(t, c, &clusterdoc.NewJob{EstimateS: new(0.4)}) // the virtual machine has two GPUs
	await(t, c, second, clusterdoc.JobRunning, n)
}
