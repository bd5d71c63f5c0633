package clusters_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// server is a Clusters over stores that outlive it.
type server struct {
	t             *testing.T
	journals      *keptStore
	logs          *keptStore
	lease         time.Duration
	maxLogs       int64
	copyDir       string
	maxCopies     int64
	snapshotBytes int
	now           func() time.Time
	sessions      *sessions.Sessions
	quotas        *admission.Quotas // of this opening
	quota         admission.Quota
	logDir        string // "" means a new one for each opening
	lastLogDir    string
	*clusters.Clusters
}

// keptStore ignores Close, as a disk does.
type keptStore struct{ store.SessionStore }

func (keptStore) Close() error { return nil }

func newServer(t *testing.T, lease time.Duration) *server {
	s := &server{t: t, journals: &keptStore{store.NewMemory()}, logs: &keptStore{store.NewMemory()}, lease: lease}
	s.open()
	t.Cleanup(s.close)
	return s
}

func (s *server) open() {
	var err error
	s.quotas = admission.NewQuotas(s.quota, nil)
	s.sessions, err = sessions.Open(context.Background(), sessions.Config{Store: s.logs, Quotas: s.quotas, Now: s.now})
	if err != nil {
		s.t.Fatal(err)
	}
	logDir := cmp.Or(s.logDir, s.t.TempDir())
	s.lastLogDir = logDir
	s.Clusters, err = clusters.Open(context.Background(), clusters.Config{Store: s.journals, Sessions: s.sessions,
		Quotas: s.quotas,
		Logger: slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
		LogDir: logDir, MaxLogs: s.maxLogs, CheckpointDir: s.copyDir, MaxCheckpoints: s.maxCopies,
		SnapshotBytes: s.snapshotBytes, Now: s.now, Lease: s.lease, Kill: s.lease / 4, Tick: s.lease / 20})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) close() {
	if err := errors.Join(s.Clusters.Close(), s.sessions.Close()); err != nil {
		s.t.Error(err)
	}
}

func (s *server) create(policy string) *clusters.Cluster {
	c, err := s.Create(context.Background(), "", &clusterdoc.NewCluster{Name: "lab", Policy: policy})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *server) cluster() *clusters.Cluster {
	c, err := s.Cluster("", "lab")
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func registration(name string, types ...string) *clusterdoc.Registration {
	r := &clusterdoc.Registration{Protocol: clusterdoc.ProtocolVersion, Name: name, Address: "127.0.0.1",
		Incarnation: "incarnation of " + name}
	for _, t := range types {
		r.Devices = append(r.Devices, clusterdoc.AgentDevice{Type: t})
	}
	return r
}

// node is an agent that does what it is told at once. Safe for one goroutine.
type node struct {
	r       *clusterdoc.Registration
	epoch   int64
	secret  string
	orders  int64
	reports []clusterdoc.TaskReport
	seen    int64
	running map[clusterdoc.TaskID]bool
	obey    func(o *clusterdoc.Order) // takes orders about relaxed round jobs but for stops; nil: there are none
}

func (n *node) register(t *testing.T, c *clusters.Cluster) {
	t.Helper()
	n.r.Holds = nil
	for id := range n.running {
		n.r.Holds = append(n.r.Holds, clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskRunning})
	}
	answer, err := c.Register(t.Context(), n.r)
	if err != nil {
		t.Fatal(err)
	}
	n.secret = answer.Secret
	n.epoch, n.orders, n.seen, n.reports = answer.Epoch, 0, 0, nil
	n.running = map[clusterdoc.TaskID]bool{}
	for _, id := range answer.Confirmed {
		n.running[id] = true
	}
}

func (n *node) report(r clusterdoc.TaskReport) { n.reports = append(n.reports, r) }

func (n *node) end(id clusterdoc.TaskID, exit int) {
	delete(n.running, id)
	n.report(clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskEnded, ExitCode: &exit, RanS: 0.5})
}

// sync tells what is to be told, and obeys.
func (n *node) sync(c *clusters.Cluster, wait time.Duration) error {
	answer, err := c.Sync(context.Background(), n.r.Name, &clusterdoc.Sync{Epoch: n.epoch, Secret: n.secret,
		WaitS: wait.Seconds(), ReportsAfter: n.seen, Reports: n.reports, OrdersSeen: n.orders})
	if err != nil {
		return err
	}
	n.reports = n.reports[answer.ReportsSeen-n.seen:]
	n.seen = answer.ReportsSeen
	for _, o := range answer.Orders {
		n.orders = o.Number
		switch {
		case o.Type == clusterdoc.OrderStart:
			if n.running == nil {
				n.running = map[clusterdoc.TaskID]bool{}
			}
			n.running[o.TaskID] = true
			n.report(clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskRunning})
		case o.Type == clusterdoc.OrderHome || o.Type == clusterdoc.OrderCompute:
			n.obey(&o)
		case n.running[o.TaskID]:
			delete(n.running, o.TaskID)
			n.report(clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskEnded, Signal: "SIGTERM"})
		default:
			n.report(clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskLost})
		}
	}
	return nil
}

func submit(t *testing.T, c *clusters.Cluster, n *clusterdoc.NewJob) string {
	t.Helper()
	if n.Command == nil && n.Module == "" {
		n.Command = []string{"true"}
	}
	job, err := c.Submit(t.Context(), n, "")
	if err != nil {
		t.Fatal(err)
	}
	return job.ID
}

// await syncs the nodes until the job is in a state.
func await(t *testing.T, c *clusters.Cluster, id string, state clusterdoc.JobState, nodes ...*node) *clusterdoc.Job {
	t.Helper()
	for range 2000 {
		job, err := c.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if job.State == state {
			return job
		}
		for _, n := range nodes {
			if err := n.sync(c, time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Millisecond)
	}
	job, _ := c.Job(t.Context(), id)
	t.Fatalf("job %s is %s (%s) and never became %s", id, job.State, job.Reason, state)
	return nil
}
