package clusters_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// BenchmarkRelaxedTasks computes tasks of 64 relaxed round jobs with 1 to 16 tasks a round on 500 agents with eight
// GPUs each, over stores on disk. A task is over as soon as its agent has it. Two durable events belong to a task: its
// agent reports that it has ended, and the session learns so.
func BenchmarkRelaxedTasks(b *testing.B) {
	for _, policy := range []string{"fifo", "hgittins", "rolling"} {
		b.Run(policy, func(b *testing.B) { benchmarkRelaxed(b, policy) })
	}
}

func benchmarkRelaxed(b *testing.B, policy string) {
	s, cs := openBench(b, b.TempDir())
	defer s.Close()
	defer cs.Close()
	c, err := cs.Create(b.Context(), "", &clusterdoc.NewCluster{Name: "lab", Policy: policy})
	if err != nil {
		b.Fatal(err)
	}
	var ended, since atomic.Int64
	over := make(chan struct{})
	var group, nodes sync.WaitGroup
	for i := range 500 {
		n := &node{r: registration(fmt.Sprintf("n%03d", i), "V100", "V100", "V100", "V100", "T4", "T4", "T4", "T4"),
			running: map[clusterdoc.TaskID]bool{}}
		n.obey = func(o *clusterdoc.Order) {
			if o.Type == clusterdoc.OrderHome {
				n.running[o.TaskID] = true
				n.report(clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskRunning, Port: 1})
				return
			}
			n.end(o.TaskID, 0)
			if k := ended.Add(1) - since.Load(); k == int64(b.N) && since.Load() > 0 {
				close(over)
			}
		}
		nodes.Go(func() {
			answer, err := c.Register(context.Background(), n.r)
			if err != nil {
				b.Error(err)
				return
			}
			n.epoch, n.secret = answer.Epoch, answer.Secret
		})
		group.Go(func() {
			nodes.Wait()
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := n.sync(c, 2*time.Second); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	nodes.Wait()
	for i := range 64 {
		n := &clusterdoc.NewJob{Module: "line", Directory: "/jobs", Rounds: 1 << 40, Tasks: 1 << (i % 5)}
		if _, err := c.Submit(context.Background(), n, ""); err != nil {
			b.Fatal(err)
		}
	}
	for ended.Load() < 1000 {
		time.Sleep(time.Millisecond)
	}
	b.ResetTimer()
	since.Store(ended.Load())
	<-over
	b.StopTimer()
	b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	group.Wait()
}
