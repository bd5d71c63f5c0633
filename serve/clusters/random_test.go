package clusters_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Random jobs, ends, failures, cancels, changes, restarts of agents and of the server: every job ends, none runs twice
// at once or while it is held, and GPUs hold one task each.
func TestRandomClusters(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { t.Parallel(); randomCluster(t, seed) })
	}
}

func randomCluster(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 17))
	s := newServer(t, time.Hour)
	s.create([]string{"hgittins", "rolling", "fifo"}[seed%3])
	nodes := []*node{{r: registration("a", "V100", "V100")}, {r: registration("b", "V100", "T4", "T4")},
		{r: registration("c", "T4")}}
	for _, n := range nodes {
		n.register(t, s.cluster())
	}
	var ids []string
	follower := newFollower(t)
	for range 300 {
		c := s.cluster()
		switch rng.IntN(13) {
		case 0, 1, 2:
			if len(ids) < 40 {
				n := &clusterdoc.NewJob{GPUs: 1 + rng.IntN(3), Retries: rng.IntN(3)}
				if rng.IntN(4) == 0 {
					n.GPUs, n.GPUsPerTask = 2, 2
				}
				ids = append(ids, submit(t, c, n))
			}
		case 3:
			if len(ids) > 0 && rng.IntN(4) == 0 {
				if _, err := c.Cancel(t.Context(), ids[rng.IntN(len(ids))], ""); err != nil {
					t.Fatal(err)
				}
			}
		case 4:
			if rng.IntN(6) == 0 {
				s.close()
				s.open()
			}
		case 5:
			if n := nodes[rng.IntN(3)]; rng.IntN(3) == 0 {
				if rng.IntN(2) == 0 {
					n.running = nil // the node restarted
				}
				n.register(t, c)
			}
		case 6:
			if err := c.Drain(t.Context(), nodes[rng.IntN(3)].r.Name, rng.IntN(2) == 0, ""); err != nil {
				t.Fatal(err)
			}
		case 9:
			if len(ids) > 0 {
				x := &clusterdoc.JobPatch{Hold: new(rng.IntN(3) == 0), Weight: new(float64(rng.IntN(3)))}
				_, err := c.Change(t.Context(), ids[rng.IntN(len(ids))], x, "")
				if refused := (*ledger.Conflict)(nil); err != nil && !errors.As(err, &refused) {
					t.Fatal(err)
				}
			}
		case 7, 8:
			n := nodes[rng.IntN(3)]
			for id := range n.running {
				n.end(id, max(0, rng.IntN(6)-4))
				break
			}
		}
		n := nodes[rng.IntN(3)]
		if err := n.sync(s.cluster(), 0); err != nil {
			t.Fatal(err)
		}
		checkHolders(t, s.cluster())
		if rng.IntN(5) == 0 {
			follower.read(s.cluster())
		}
	}
	c := s.cluster()
	for _, n := range nodes {
		if err := c.Drain(t.Context(), n.r.Name, false, ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		if _, err := c.Change(t.Context(), id, &clusterdoc.JobPatch{Hold: new(false)}, ""); err != nil &&
			!strings.Contains(err.Error(), "has ended") {
			t.Fatal(err)
		}
	}
	for range 3000 {
		open := 0
		for _, id := range ids {
			if job, err := c.Job(t.Context(), id); err != nil {
				t.Fatal(err)
			} else if !job.State.Final() {
				open++
			}
		}
		if open == 0 {
			follower.read(c)
			if follower.resets > 10 {
				t.Errorf("the follower began %d times", follower.resets)
			}
			return
		}
		for _, n := range nodes {
			for id := range n.running {
				n.end(id, 0)
			}
			if err := n.sync(c, time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		checkHolders(t, c)
	}
	jobs, _ := c.Jobs(t.Context(), &clusters.Query{Limit: 100})
	for _, j := range jobs.Jobs {
		if !j.State.Final() {
			t.Errorf("job %s is %s for ever: %s %+v", j.ID, j.State, j.Reason, j.NewJob)
		}
	}
}

// checkHolders checks that a GPU is held by one task that has not ended, and that live attempts are whole.
func checkHolders(t *testing.T, c *clusters.Cluster) {
	t.Helper()
	list, err := c.Jobs(t.Context(), &clusters.Query{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	holder := map[string]string{}
	for _, j := range list.Jobs {
		for _, at := range j.Attempts {
			if at.Result != "" {
				continue
			}
			if j.Hold {
				t.Fatalf("job %s is held, and runs: %+v", j.ID, at)
			}
			for _, task := range at.Tasks {
				for _, gpu := range task.GPUs {
					if other := holder[gpu]; other != "" {
						t.Fatalf("GPU %s is held by %s and %s", gpu, other, j.ID)
					}
					holder[gpu] = j.ID
				}
			}
		}
	}
}

// Several callers at once: the race detector watches.
func TestConcurrentCallers(t *testing.T) {
	s := newServer(t, time.Minute)
	c := s.create("hgittins")
	var wait sync.WaitGroup
	for i := range 4 {
		n := &node{r: registration(fmt.Sprint("n", i), "V100", "V100")}
		n.register(t, c)
		wait.Go(func() {
			for range 30 {
				for id := range n.running {
					n.end(id, 0)
				}
				if err := n.sync(c, 2*time.Millisecond); err != nil {
					t.Error(err)
				}
			}
		})
		wait.Go(func() {
			for range 10 {
				if _, err := c.Submit(context.Background(), &clusterdoc.NewJob{Command: []string{"true"}}, ""); err != nil {
					t.Error(err)
				}
				if _, err := c.Agents(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}
