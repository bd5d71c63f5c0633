package online

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hare-sched/hare"
)

// timed is a heap of events by time.
type timed []hare.Event

func (th timed) Len() int { return len(th) }
func (th timed) Less(a, b int) bool {
	return th[a].AtUs < th[b].AtUs || th[a].AtUs == th[b].AtUs && th[a].Seq < th[b].Seq
}
func (th timed) Swap(a, b int) { th[a], th[b] = th[b], th[a] }
func (th *timed) Push(x any)   { *th = append(*th, x.(hare.Event)) }
func (th *timed) Pop() any {
	s := *th
	x := s[len(s)-1]
	*th = s[:len(s)-1]
	return x
}

// load is a session of 10,000 jobs on 10,000 GPUs of 4 types: the state after all jobs have
// settled in a queue, and the events that follow that state.
type load struct {
	snapshot []byte
	events   []hare.Event
}

var (
	loads  = map[string]*load{}
	loadMu sync.Mutex
)

// newLoad runs a session of jobs that never end until every job has settled in a queue, and
// then records events. Measured times differ a little from those of the profile.
func newLoad(b testing.TB, name string, events int) *load {
	loadMu.Lock()
	defer loadMu.Unlock()
	if l := loads[name]; l != nil {
		return l
	}
	const jobs, gpus = 10_000, 10_000
	kinds := []string{"A100", "K80", "T4", "V100"}
	slowdown := []int64{1, 9, 4, 2}
	cl := &hare.Cluster{}
	kindOf := map[string]int{}
	for n := range gpus / 8 {
		k := n % len(kinds)
		cl.Nodes = append(cl.Nodes, hare.Node{Name: "n" + strconv.Itoa(n),
			GPUs: []hare.TypeCount{{Type: kinds[k], Count: 8}}})
		for g := range 8 {
			kindOf[fmt.Sprintf("n%d/%d", n, g)] = k
		}
	}
	h, err := NewHLAS(cl, HLASConfig{ThresholdsUs: []int64{60e6}})
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var queue timed
	seq := int64(0)
	push := func(e hare.Event) {
		seq++
		e.Seq = seq
		heap.Push(&queue, e)
	}
	base := map[string]int64{}
	for i := range jobs {
		j := &hare.Job{ID: "job-" + strconv.Itoa(i), Tasks: []int64{1, 2, 4, 8}[r.IntN(4)]}
		switch {
		case name == "gang", name == "mixed" && i%2 == 1:
			j.Sync = hare.Gang
		case name == "mixed" && i%20 == 0:
			j.Sync, j.Tasks = hare.Rigid, 1
		}
		base[j.ID] = 200_000 + r.Int64N(2_000_000)
		for k := range kinds {
			if r.IntN(8) > 0 || k == 0 {
				j.On = append(j.On, hare.Profile{Type: kinds[k], ComputeUs: base[j.ID] * slowdown[k]})
			}
		}
		push(hare.Event{Type: hare.EventJobArrived, Job: j.ID, Arrived: j, AtUs: int64(i) * 10})
	}
	l := &load{}
	for n := 0; n < 200_000+events; n++ {
		e := heap.Pop(&queue).(hare.Event)
		if n == 200_000 {
			l.snapshot = h.AppendSnapshot(nil)
		}
		if n >= 200_000 {
			l.events = append(l.events, e)
		}
		ds, err := h.Step(e.AtUs, []hare.Event{e})
		if err != nil {
			b.Fatal(err)
		}
		for _, d := range ds {
			us := base[d.Job]*slowdown[kindOf[d.GPU]] + r.Int64N(1000)
			push(hare.Event{Type: hare.EventTaskEnded, Job: d.Job, Round: d.Round, Task: d.Task, GPU: d.GPU,
				ComputeUs: us, AtUs: e.AtUs + us})
		}
	}
	loads[name] = l
	return l
}

// BenchmarkStep makes steps of one event with 10,000 jobs and 10,000 GPUs. It reports events
// per second and the 99th percentile of the time of a step, including the 50 ns that the
// clock takes.
func BenchmarkStep(b *testing.B) {
	for _, name := range []string{"relaxed", "gang", "mixed"} {
		b.Run(name, func(b *testing.B) {
			l := newLoad(b, name, 300_000)
			took := make([]int64, 0, len(l.events))
			b.ReportAllocs()
			var h *HLAS
			at := len(l.events)
			b.ResetTimer()
			for range b.N {
				if at == len(l.events) {
					b.StopTimer()
					h, _ = RestoreHLAS(l.snapshot)
					at, took = 0, took[:0]
					b.StartTimer()
				}
				start := time.Now()
				if _, err := h.Step(l.events[at].AtUs, l.events[at:at+1]); err != nil {
					b.Fatal(err)
				}
				took = append(took, int64(time.Since(start)))
				at++
			}
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100])/1e3, "p99-µs")
			b.ReportMetric(float64(took[len(took)-1])/1e3, "max-µs")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkBurst makes steps of 1,000 tasks that end at once.
func BenchmarkBurst(b *testing.B) {
	for _, name := range []string{"relaxed", "gang", "mixed"} {
		b.Run(name, func(b *testing.B) {
			l := newLoad(b, name, 300_000)
			var took []time.Duration
			for range b.N {
				b.StopTimer()
				h, err := RestoreHLAS(l.snapshot)
				if err != nil {
					b.Fatal(err)
				}
				events := h.c.someRunning(1000)
				b.StartTimer()
				start := time.Now()
				if _, err := h.Step(h.c.nowUs, events); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "p50-ms")
			b.ReportMetric(float64(took[(len(took)-1)*99/100].Microseconds())/1e3, "p99-ms")
		})
	}
}

// someRunning returns the ends of n running tasks, with those of a job together.
func (c *core) someRunning(n int) []hare.Event {
	var events []hare.Event
	for i := range c.jobs {
		j := &c.jobs[i]
		for g := j.head; g != none && len(events) < n; g = c.gpus[g].next {
			if x := &c.gpus[g]; !x.ended {
				events = append(events, hare.Event{Type: hare.EventTaskEnded, Job: j.id, Round: j.round, Task: x.task,
					GPU: x.name, ComputeUs: 1e6})
			}
		}
	}
	return events
}

// BenchmarkSnapshot writes and restores the state of 10,000 jobs and 10,000 GPUs.
func BenchmarkSnapshot(b *testing.B) {
	l := newLoad(b, "mixed", 300_000)
	b.SetBytes(int64(len(l.snapshot)))
	for b.Loop() {
		h, err := RestoreHLAS(l.snapshot)
		if err != nil {
			b.Fatal(err)
		}
		h.AppendSnapshot(nil)
	}
}
