package online

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hare-sched/hare"
)

// BenchmarkClasses makes steps of one event with 10,000 jobs that differ as much as jobs can:
// relaxed jobs and gangs of 1 to 64 GPUs on any set of 12 types, of which some may mix types.
func BenchmarkClasses(b *testing.B) {
	for _, c := range []struct {
		name            string
		distinct, mixed int // the number of classes, and the percentage of gangs that may mix types
	}{{"500", 500, 0}, {"500-mixing", 500, 10}, {"10000", 10_000, 0}, {"10000-mixing", 10_000, 10}} {
		b.Run(c.name, func(b *testing.B) {
			h, events := unlike(b, c.distinct, c.mixed, 3000)
			var took []int64
			for at := range b.N {
				e := events(nil)
				start := time.Now()
				ds, err := h.Step(e.AtUs, []hare.Event{e})
				took = append(took, int64(time.Since(start)))
				if err != nil {
					b.Fatal(at, err)
				}
				events(ds)
			}
			var sum int64
			for _, t := range took {
				sum += t
			}
			slices.Sort(took)
			b.ReportMetric(float64(len(h.c.classOf)), "classes")
			b.ReportMetric(float64(took[len(took)*99/100])/1e3, "p99-µs")
			b.ReportMetric(float64(took[len(took)-1])/1e3, "max-µs")
			b.ReportMetric(float64(len(took))/float64(sum)*1e9, "events/s")
		})
	}
}

// unlike makes a session of such jobs and runs it for warm events. A call of events with nil
// returns the next event; a call with the decisions on that event follows them.
func unlike(b testing.TB, distinct, mixing, warm int) (h *HLAS, events func([]hare.Decision) hare.Event) {
	const jobs, gpus, types = 10_000, 10_000, 12
	cl := &hare.Cluster{}
	kindOf := map[string]int{}
	for n := range gpus / 8 {
		cl.Nodes = append(cl.Nodes, hare.Node{Name: "n" + strconv.Itoa(n),
			GPUs: []hare.TypeCount{{Type: fmt.Sprintf("T%02d", n%types), Count: 8}}})
		for g := range 8 {
			kindOf[fmt.Sprintf("n%d/%d", n, g)] = n % types
		}
	}
	h, err := NewHLAS(cl, HLASConfig{ThresholdsUs: []int64{60e6}})
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 8))
	var queue timed
	seq := int64(0)
	push := func(e hare.Event) {
		seq++
		e.Seq = seq
		heap.Push(&queue, e)
	}
	models := make([]hare.Job, distinct)
	for i := range models {
		j := hare.Job{Sync: hare.Gang, Tasks: 1 + r.Int64N(64)}
		if r.IntN(4) == 0 {
			j.Sync, j.Tasks = hare.Relaxed, 1+r.Int64N(8)
		}
		j.Mix = j.Sync == hare.Gang && r.IntN(100) < mixing
		mask := 1 + r.IntN(1<<types-1)
		for k := range types {
			if mask>>k&1 == 1 {
				j.On = append(j.On, hare.Profile{Type: fmt.Sprintf("T%02d", k),
					ComputeUs: (1 + r.Int64N(9)) * 300_000})
			}
		}
		models[i] = j
	}
	for i := range jobs {
		j := models[i%distinct]
		j.ID = "job-" + strconv.Itoa(i)
		push(hare.Event{Type: hare.EventJobArrived, Job: j.ID, Arrived: &j, AtUs: int64(i) * 10})
	}
	var e hare.Event
	events = func(ds []hare.Decision) hare.Event {
		if ds == nil {
			e = heap.Pop(&queue).(hare.Event)
			return e
		}
		us := 300_000 + r.Int64N(2_000_000)
		for _, d := range ds {
			us += r.Int64N(1000)
			push(hare.Event{Type: hare.EventTaskEnded, Job: d.Job, Round: d.Round, Task: d.Task, GPU: d.GPU,
				ComputeUs: us, AtUs: e.AtUs + us})
		}
		return e
	}
	for range jobs + warm {
		e := events(nil)
		ds, err := h.Step(e.AtUs, []hare.Event{e})
		if err != nil {
			b.Fatal(err)
		}
		events(ds)
	}
	return h, events
}
