package clusters_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// BenchmarkAgents runs jobs of one GPU on 500 agents with eight GPUs each, over stores on disk. A job is over as
// soon as its agent has it: what is measured is the server. Five durable events belong to a job: it is submitted,
// it arrives at the session, its agent reports that it runs and that it has ended, and the session learns its end.
func BenchmarkAgents(b *testing.B) {
	for _, policy := range []string{"fifo", "hgittins", "rolling"} {
		b.Run(policy, func(b *testing.B) { benchmarkAgents(b, policy) })
	}
}

func benchmarkAgents(b *testing.B, policy string) {
	const agents, submitters = 500, 512
	s, cs := openBench(b, b.TempDir())
	defer s.Close()
	defer cs.Close()
	c, err := cs.Create(b.Context(), "", &clusterdoc.NewCluster{Name: "lab", Policy: policy})
	if err != nil {
		b.Fatal(err)
	}
	var ended atomic.Int64
	over := make(chan struct{})
	var group sync.WaitGroup
	var nodes sync.WaitGroup
	for i := range agents {
		n := &node{r: registration(fmt.Sprintf("n%03d", i), "V100", "V100", "V100", "V100", "T4", "T4", "T4", "T4")}
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
				if err := n.sync(c, 2*time.Second); err != nil {
					b.Error(err)
					return
				}
				for id := range n.running {
					n.end(id, 0)
					if ended.Add(1) == int64(b.N) {
						close(over)
					}
				}
				select {
				case <-over:
					if len(n.reports) == 0 {
						return
					}
				default:
				}
			}
		})
	}
	nodes.Wait()
	b.ResetTimer()
	var next atomic.Int64
	for range submitters {
		group.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if _, err := c.Submit(context.Background(), &clusterdoc.NewJob{Command: []string{"true"}}, ""); err != nil {
					b.Error(err)
				}
			}
		})
	}
	<-over
	b.StopTimer()
	b.ReportMetric(5*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	group.Wait()
}

// BenchmarkOpen opens a cluster in which 100,000 jobs have ended.
func BenchmarkOpen(b *testing.B) {
	const jobs = 100_000
	dir := b.TempDir()
	s, cs := openBench(b, dir)
	c, err := cs.Create(b.Context(), "", &clusterdoc.NewCluster{Name: "lab", Policy: "fifo"})
	if err != nil {
		b.Fatal(err)
	}
	runAll(b, c, jobs)
	for b.Loop() {
		b.StopTimer()
		_ = cs.Close()
		_ = s.Close()
		b.StartTimer()
		s, cs = openBench(b, dir)
		c, err := cs.Cluster("", "lab")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Describe(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	_ = cs.Close()
	_ = s.Close()
}

// runAll runs jobs of one GPU to their ends.
func runAll(b *testing.B, c *clusters.Cluster, jobs int) {
	b.Helper()
	n := &node{r: registration("a", "V100", "V100", "V100", "V100", "V100", "V100", "V100", "V100")}
	for range 120 {
		n.r.Devices = append(n.r.Devices, n.r.Devices[0])
	}
	answer, err := c.Register(context.Background(), n.r)
	if err != nil {
		b.Fatal(err)
	}
	n.epoch, n.secret = answer.Epoch, answer.Secret
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for range jobs / 64 {
				job := &clusterdoc.NewJob{Command: []string{"python", "train.py", "--epochs", fmt.Sprint(i)}}
				if _, err := c.Submit(context.Background(), job, ""); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for ended := 0; ended < jobs/64*64; {
		if err := n.sync(c, time.Second); err != nil {
			b.Fatal(err)
		}
		for id := range n.running {
			n.end(id, 0)
			ended++
		}
	}
	if err := n.sync(c, 0); err != nil {
		b.Fatal(err)
	}
	group.Wait()
}

// BenchmarkLists lists 50 of 100,000 jobs that have ended, and of 100,000 that wait beside 10,000 of them.
func BenchmarkLists(b *testing.B) {
	queries := map[string]clusterdoc.JobQuery{"newest": {Sort: "-submitted"}, "text": {Text: "7 "}, "end": {Sort: "-end"},
		"user": {User: "ann", Sort: "name"}, "place": {States: []clusterdoc.JobState{clusterdoc.JobWaiting}, Sort: "place"}}
	for _, k := range []struct {
		name           string
		ended, waiting int
		policy         string
	}{{"ended", 100_000, 0, "fifo"}, {"waiting-fifo", 10_000, 100_000, "fifo"},
		{"waiting-rolling", 10_000, 10_000, "rolling"}, {"small-rolling", 1000, 1000, "rolling"}} {
		s, cs := openBench(b, b.TempDir())
		c, err := cs.Create(b.Context(), "", &clusterdoc.NewCluster{Name: "lab", Policy: k.policy})
		if err != nil {
			b.Fatal(err)
		}
		runAll(b, c, k.ended)
		var group sync.WaitGroup
		for range 64 {
			group.Go(func() {
				for range (k.waiting + 128) / 64 {
					job := &clusterdoc.NewJob{Command: []string{"sleep"}, User: "ann"}
					_, err := c.Submit(context.Background(), job, "")
					if err != nil && k.waiting < 100_000 { // beyond which no job may wait
						b.Error(err)
					}
				}
			})
		}
		group.Wait()
		for name, q := range queries {
			b.Run(k.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					if _, err := c.Jobs(b.Context(), &clusters.Query{JobQuery: q, Limit: 50}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		_ = cs.Close()
		_ = s.Close()
	}
}

// openBench opens sessions and clusters over one store on disk, as hare serve does.
func openBench(b *testing.B, dir string) (*sessions.Sessions, *clusters.Clusters) {
	b.Helper()
	st, err := sqlite.Open(b.Context(), dir)
	if err != nil {
		b.Fatal(err)
	}
	s, err := sessions.Open(b.Context(), sessions.Config{Store: store.WithoutJournals(st), MaxJobs: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	cs, err := clusters.Open(b.Context(), clusters.Config{Store: store.Journals(st), Sessions: s,
		LogDir: filepath.Join(dir, "logs")})
	if err != nil {
		b.Fatal(err)
	}
	return s, cs
}
