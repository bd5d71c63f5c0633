package clusters_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/clusters"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// roundJob is a relaxed round job.
func roundJob(rounds int64, tasks int) *clusterdoc.NewJob {
	return &clusterdoc.NewJob{Module: "line", Directory: "/jobs", Rounds: rounds, Tasks: tasks}
}

// trainer is a set of nodes that hold homes and compute tasks, each as soon as the node has it.
type trainer struct {
	t     *testing.T
	c     *clusters.Cluster
	nodes []*node
	homes map[string]*trainedHome // by job
	seen  []string                // the GPUs that have computed, with round and task
}

// trainedHome is a home that counts the gradients of its rounds.
type trainedHome struct {
	id        clusterdoc.TaskID
	node      *node
	start     *clusterdoc.HomeStart
	round     int64
	gradients map[int]bool
}

func newTrainer(t *testing.T, c *clusters.Cluster, nodes ...*node) *trainer {
	x := &trainer{t: t, c: c, nodes: nodes, homes: map[string]*trainedHome{}}
	for _, n := range nodes {
		n.register(t, c)
		n.obey = func(o *clusterdoc.Order) { x.obey(n, o) }
	}
	return x
}

func (x *trainer) obey(n *node, o *clusterdoc.Order) {
	switch o.Type {
	case clusterdoc.OrderHome:
		x.homes[o.Job] = &trainedHome{id: o.TaskID, node: n, start: o.Home, gradients: map[int]bool{}}
		n.running[o.TaskID] = true
		n.report(clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskRunning, Port: 4711})
	case clusterdoc.OrderCompute:
		h := x.homes[o.Job]
		c := o.Compute
		if h == nil || h.id.Attempt != o.Attempt || c.Address != "127.0.0.1:4711" || c.Secret != h.start.Secret ||
			c.Round != h.round || h.gradients[c.Task] {
			x.t.Errorf("%s has %+v of attempt %d, and its home is %+v", n.r.Name, c, o.Attempt, h)
			return
		}
		x.seen = append(x.seen, fmt.Sprintf("%s %s/%d round %d task %d", o.Job, n.r.Name, c.Device, c.Round, c.Task))
		if c.GPUType != n.r.Devices[c.Device].Type {
			x.t.Errorf("%s has a %s for %s", n.r.Name, n.r.Devices[c.Device].Type, c.GPUType)
		}
		h.gradients[c.Task] = true
		exit := 0
		n.report(clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskRunning})
		n.report(clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskEnded, ExitCode: &exit, RanS: 0.1,
			SyncS: 0.01})
		if len(h.gradients) < c.Tasks {
			return
		}
		h.round++
		h.gradients = map[int]bool{}
		r := clusterdoc.TaskReport{TaskID: h.id, State: clusterdoc.TaskRunning, Round: h.round, Loss: "0.5"}
		if h.round == c.Rounds {
			r.State, r.ExitCode = clusterdoc.TaskEnded, &exit
			delete(h.node.running, h.id)
		}
		h.node.report(r)
	}
}

// TestRelaxedJobsShareGPUs trains more jobs than there are GPUs, over two nodes and two GPU types.
func TestRelaxedJobsShareGPUs(t *testing.T) {
	for _, policy := range []string{"fifo", "hlas", "hgittins", "rolling", "tiresias"} {
		s := newServer(t, time.Minute)
		c := s.create(policy)
		a, b := &node{r: registration("a", "V100", "T4")}, &node{r: registration("b", "T4")}
		x := newTrainer(t, c, a, b)
		var ids []string
		for range 4 {
			ids = append(ids, submit(t, c, roundJob(5, 3)))
		}
		for _, id := range ids {
			job := await(t, c, id, clusterdoc.JobSucceeded, a, b)
			total := int64(0)
			for _, n := range job.TasksOn {
				total += n
			}
			if total != 15 || job.Round != 5 || job.Loss != "0.5" || job.Sync != "relaxed" || job.TasksOut != 0 ||
				len(job.Attempts) != 1 || len(job.Attempts[0].Tasks) != 1 {
				t.Errorf("%s: %+v", policy, job)
			}
		}
		if len(x.seen) != 60 {
			t.Errorf("%s: %d tasks were computed: %v", policy, len(x.seen), x.seen)
		}
		s.close()
		s.open()
		for _, id := range ids {
			if job, err := s.cluster().Job(t.Context(), id); err != nil || job.State != clusterdoc.JobSucceeded {
				t.Error(policy, job, err)
			}
		}
	}
}

func TestSyncOfRoundJobs(t *testing.T) {
	s := newServer(t, time.Minute)
	c := s.create("")
	for want, n := range map[string]*clusterdoc.NewJob{
		"relaxed": {},
		"rigid":   {GPUs: 2, Tasks: 2},
		"gang":    {GPUs: 2, Sync: "gang"},
	} {
		n.Module, n.Directory, n.Rounds = "line", "/jobs", 1
		job, err := c.Submit(t.Context(), n, "key "+want)
		if err != nil || job.Sync != want {
			t.Errorf("%s: %+v %v", want, job, err)
		}
		if again, err := c.Submit(t.Context(), n, "key "+want); err != nil || again.ID != job.ID {
			t.Errorf("%s: %+v %v", want, again, err)
		}
	}
	for want, n := range map[string]*clusterdoc.NewJob{
		"/gpus":          {GPUs: 2, Tasks: 2},
		"/nodes":         {Nodes: 1},
		"/gpus_per_task": {GPUsPerTask: 1},
	} {
		n.Module, n.Directory, n.Rounds, n.Sync = "line", "/jobs", 1, "relaxed"
		var es hare.InvalidErrors
		if _, err := c.Submit(t.Context(), n, ""); !errors.As(err, &es) || es[0].Pointer != want {
			t.Errorf("%s: %v", want, err)
		}
	}
}
