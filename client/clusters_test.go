package client_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// managed returns a client of a server with managed clusters, behind a keeper that injects faults.
func managed(t *testing.T, change func(*client.Config)) (*client.Client, *keeper) {
	t.Helper()
	svc := service.New(service.Config{Solver: solver.Config{Version: "test"}})
	kept, err := sessions.Open(t.Context(), sessions.Config{Store: store.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	managed, err := clusters.Open(t.Context(), clusters.Config{Store: store.NewMemory(), Sessions: kept})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(managed.Close(), kept.Close()); err != nil {
			t.Error(err)
		}
	})
	k := newKeeper(t)
	k.api = servetest.New(t, svc, api.Config{Sessions: kept, Clusters: managed})
	return k.serve(t, change), k
}

// node is an agent that a test plays.
type node struct {
	t      *testing.T
	c      *client.Client
	epoch  int64
	secret string
	seen   int64
	sent   int64
}

func join(t *testing.T, c *client.Client, gpus ...string) *node {
	t.Helper()
	r := &clusterdoc.Registration{Protocol: clusterdoc.ProtocolVersion, Version: "test", Name: "n1",
		Incarnation: "0123456789abcdef"}
	for _, g := range gpus {
		r.Devices = append(r.Devices, clusterdoc.AgentDevice{Type: g})
	}
	answer, err := c.RegisterAgent(t.Context(), "lab", r)
	if err != nil {
		t.Fatal(err)
	}
	return &node{t: t, c: c, epoch: answer.Epoch, secret: answer.Secret}
}

// sync reports and returns the new orders.
func (n *node) sync(reports ...clusterdoc.TaskReport) []clusterdoc.Order {
	n.t.Helper()
	answer, err := n.c.SyncAgent(n.t.Context(), "lab", "n1", &clusterdoc.Sync{Epoch: n.epoch, Secret: n.secret,
		WaitS: 0.2, ReportsAfter: n.sent, Reports: reports, OrdersSeen: n.seen})
	if err != nil {
		n.t.Fatal(err)
	}
	n.sent = answer.ReportsSeen
	for _, o := range answer.Orders {
		n.seen = o.Number
	}
	return answer.Orders
}

// order waits for the next order.
func (n *node) order() clusterdoc.Order {
	n.t.Helper()
	for range 100 {
		if orders := n.sync(); len(orders) > 0 {
			return orders[0]
		}
	}
	n.t.Fatal("no order came")
	return clusterdoc.Order{}
}

func (n *node) print(id clusterdoc.TaskID, stream string, offset int64, text string) {
	n.t.Helper()
	stored, err := n.c.PutLog(n.t.Context(), "lab", "n1", &clusterdoc.LogChunk{Epoch: n.epoch, Secret: n.secret,
		TaskID: id, Stream: stream, Offset: offset}, []byte(text))
	if err != nil || stored.Next != offset+int64(len(text)) {
		n.t.Fatalf("%+v, %v", stored, err)
	}
}

func ended(id clusterdoc.TaskID, code int) clusterdoc.TaskReport {
	return clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskEnded, ExitCode: &code}
}

func TestClusterFromSubmissionToEnd(t *testing.T) {
	c, k := managed(t, nil)
	ctx := t.Context()
	k.lose["POST /v1/clusters/lab/jobs"] = 1 // the answer to the submission is lost, and it is sent again
	job, err := c.SubmitJob(ctx, "lab", &clusterdoc.NewJob{Command: []string{"train", "--epochs", "3"}, GPUs: 2,
		On: map[string]float64{"V100": 0}}, "")
	if err != nil || job.State != clusterdoc.JobWaiting {
		t.Fatalf("%+v, %v", job, err)
	}
	n := join(t, c, "V100", "V100", "T4")
	start := n.order()
	if start.Job != job.ID || start.Start.WorldSize != 2 {
		t.Fatalf("%+v", start)
	}
	other := start.TaskID
	other.Task = 1
	n.sync(clusterdoc.TaskReport{TaskID: start.TaskID, State: clusterdoc.TaskRunning},
		clusterdoc.TaskReport{TaskID: other, State: clusterdoc.TaskRunning})
	if job, err = c.ClusterJob(ctx, "lab", job.ID); err != nil || job.State != clusterdoc.JobRunning {
		t.Fatalf("%+v, %v", job, err)
	}
	n.print(start.TaskID, clusterdoc.StreamStdout, 0, "epoch 1\n")

	// The log is followed from before the end of the job to its end.
	var log bytes.Buffer
	followed := make(chan error, 1)
	at := client.LogPosition{}
	first := make(chan struct{}, 100)
	go func() { followed <- c.FollowLog(ctx, "lab", job.ID, &at, notifying{&log, first}) }()
	<-first
	n.print(start.TaskID, clusterdoc.StreamStdout, 8, "epoch 2\n")
	n.sync(ended(start.TaskID, 0), ended(other, 0))
	if err := <-followed; err != nil || log.String() != "epoch 1\nepoch 2\n" || at.Offset != 16 || at.Attempt != 1 {
		t.Errorf("%q, %+v, %v", log.String(), at, err)
	}
	for job, err := range c.ClusterJobs(ctx, "lab", clusterdoc.JobQuery{}) {
		if err != nil || job.State != clusterdoc.JobSucceeded || job.Name != "train" {
			t.Errorf("%+v, %v", job, err)
		}
	}
	x, err := c.Cluster(ctx, "lab")
	if err != nil || x.Jobs[clusterdoc.JobSucceeded] != 1 || x.FreeGPUs != 3 {
		t.Errorf("%+v, %v: the submission counted twice?", x, err)
	}
}

// notifying tells of each write.
type notifying struct {
	to *bytes.Buffer
	ch chan<- struct{}
}

func (n notifying) Write(b []byte) (int, error) {
	defer func() { n.ch <- struct{}{} }()
	return n.to.Write(b)
}

func TestClusterCancelAndDrain(t *testing.T) {
	c, _ := managed(t, nil)
	ctx := t.Context()
	n := join(t, c, "T4")
	job, err := c.SubmitJob(ctx, "lab", &clusterdoc.NewJob{Command: []string{"x"}}, "k")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.SubmitJob(ctx, "lab", &clusterdoc.NewJob{Command: []string{"x"}}, "k"); err != nil ||
		again.ID != job.ID {
		t.Errorf("%+v, %v", again, err)
	}
	start := n.order()
	n.sync(clusterdoc.TaskReport{TaskID: start.TaskID, State: clusterdoc.TaskRunning})
	change := &clusterdoc.JobPatch{Weight: new(2.0), Labels: map[string]*string{"team": new("a"), "night": nil}}
	if p, err := c.PreviewChange(ctx, "lab", job.ID, change); err != nil || p.Delayed != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	job, err = c.ChangeJob(ctx, "lab", job.ID, change)
	if err != nil || *job.Weight != 2 || job.Labels["team"] != "a" || job.Changes[0].Labels["night"] != nil {
		t.Errorf("%+v, %v", job, err)
	}
	if job, err = c.CancelJob(ctx, "lab", job.ID); err != nil || job.State != clusterdoc.JobStopping {
		t.Fatalf("%+v, %v", job, err)
	}
	if stop := n.order(); stop.Type != clusterdoc.OrderStop || stop.TaskID != start.TaskID {
		t.Errorf("%+v", stop)
	}
	all, err := c.Drain(ctx, "lab", "n1", "new fans")
	if err != nil || all[0].State != "draining" || all[0].Reason != "new fans" || all[0].Devices[0].Job != job.ID {
		t.Errorf("%+v, %v", all, err)
	}
	n.sync(clusterdoc.TaskReport{TaskID: start.TaskID, State: clusterdoc.TaskEnded, Signal: "SIGTERM"})
	if all, err = c.Agents(ctx, "lab"); err != nil || all[0].State != "drained" {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err = c.Undrain(ctx, "lab", "n1"); err != nil || all[0].State != "ready" {
		t.Errorf("%+v, %v", all, err)
	}
	if err := c.DeleteCluster(ctx, "lab"); err != nil {
		t.Error(err)
	}
	if list, err := c.Clusters(ctx); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A log of which the connection breaks goes on where it broke.
func TestClusterLogResumes(t *testing.T) {
	c, k := managed(t, func(cfg *client.Config) { cfg.IdleTimeout = 100 * time.Millisecond })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	n := join(t, c, "T4")
	job, err := c.SubmitJob(ctx, "lab", &clusterdoc.NewJob{Command: []string{"x"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	at := client.LogPosition{Stream: clusterdoc.StreamStderr}
	if err := c.CopyLog(ctx, "lab", job.ID, &at, &log); err == nil {
		// The job may have started already, and has printed nothing.
	} else if p := (*client.Problem)(nil); !errors.As(err, &p) || p.Code != "not_started" {
		t.Error(err)
	}
	start := n.order()
	n.sync(clusterdoc.TaskReport{TaskID: start.TaskID, State: clusterdoc.TaskRunning})
	text := strings.Repeat("0123456789\n", 1000)
	n.print(start.TaskID, clusterdoc.StreamStderr, 0, text)
	path := "GET /v1/clusters/lab/jobs/" + job.ID + "/logs"
	k.set(func() { k.lose[path] = 1 })
	if err := c.CopyLog(ctx, "lab", job.ID, &at, &log); err != nil || log.String() != text {
		t.Errorf("%d bytes, %v", log.Len(), err)
	}
	// A job that prints nothing for longer than the idle timeout is followed all the same.
	before := k.count(path)
	followed := make(chan error, 1)
	go func() { followed <- c.FollowLog(ctx, "lab", job.ID, &at, &log) }()
	for k.count(path) < before+3 {
		n.sync()
	}
	n.print(start.TaskID, clusterdoc.StreamStderr, int64(len(text)), "end\n")
	n.sync(ended(start.TaskID, 1))
	if err := <-followed; err != nil || log.String() != text+"end\n" {
		t.Errorf("%d bytes, %v", log.Len(), err)
	}
	if job, err = c.ClusterJob(ctx, "lab", job.ID); err != nil || job.State != clusterdoc.JobFailed || job.Reason == "" {
		t.Errorf("%+v, %v", job, err)
	}
}

func TestClusterRefusals(t *testing.T) {
	c, _ := managed(t, nil)
	_, err := c.CreateCluster(t.Context(), &clusterdoc.NewCluster{Name: "A b"})
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != 422 || len(p.Faults) != 1 || p.Faults[0].Pointer != "/name" {
		t.Errorf("%v", err)
	}
	if _, err = c.CreateCluster(t.Context(), &clusterdoc.NewCluster{Name: "lab", Policy: "fifo"}); err != nil {
		t.Error(err)
	}
	if _, err = c.ClusterJob(t.Context(), "lab", "j1"); !errors.As(err, &p) || p.Code != "no_such_job" {
		t.Errorf("%v", err)
	}
	if _, err = c.SyncAgent(t.Context(), "lab", "n1", &clusterdoc.Sync{Epoch: 1, Secret: "none"}); !errors.As(err, &p) ||
		p.Code != "unknown_agent" {
		t.Errorf("%v", err)
	}
}

// TestClusterChanges follows a cluster, and goes on after the last change after it stopped.
func TestClusterChanges(t *testing.T) {
	c, _ := managed(t, nil)
	if _, err := c.CreateCluster(t.Context(), &clusterdoc.NewCluster{Name: "lab", Policy: "fifo"}); err != nil {
		t.Fatal(err)
	}
	submit := func() string {
		t.Helper()
		job, err := c.SubmitJob(t.Context(), "lab", &clusterdoc.NewJob{Command: []string{"true"}, GPUs: 2}, "")
		if err != nil {
			t.Fatal(err)
		}
		return job.ID
	}
	submit()
	var after int64
	for d, err := range c.ClusterChanges(t.Context(), "lab", after) {
		if err != nil || !d.Reset {
			t.Fatal(d, err)
		}
		after = d.Seq
		break
	}
	second, third := submit(), submit()
	for d, err := range c.ClusterChanges(t.Context(), "lab", after) {
		if err != nil || d.Reset || !slices.Equal(d.Jobs, []string{second, third}) {
			t.Fatal(d, err)
		}
		break
	}
	for d, err := range c.ClusterChanges(t.Context(), "lab", 1000) { // of a cluster that had more changes
		if err != nil || !d.Reset || d.Seq >= 1000 {
			t.Fatal(d, err)
		}
		break
	}
	h, err := c.ClusterHistory(t.Context(), "lab", time.Now().Add(-time.Hour), time.Time{}, time.Hour)
	if err != nil || h.StepS != 3600 || len(h.Rows) == 0 || h.Rows[len(h.Rows)-1].WaitingGPUs <= 0 {
		t.Errorf("%+v %v", h, err)
	}
}
