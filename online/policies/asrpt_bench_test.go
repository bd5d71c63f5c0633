package policies

import (
	"fmt"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
	"github.com/hare-sched/hare/online/list"
)

// BenchmarkASRPTArrival is the arrival of a job where 10,000 jobs are there, which are told of their sizes or
// believed to have some, on 64 GPUs that are all busy.
func BenchmarkASRPTArrival(b *testing.B) {
	const jobs, gpus = 10_000, 64
	for _, told := range []bool{true, false} {
		b.Run(fmt.Sprintf("told=%t", told), func(b *testing.B) {
			sizes := map[string]int64{}
			for i := range 2 * jobs {
				sizes[fmt.Sprint(i)] = int64(1 + i*7919%1000)
			}
			if !told {
				sizes = nil
			}
			cluster := transcript.Cluster(fmt.Sprintf("a=%dA", gpus))
			l := list.New(cluster, ASRPTConfig{}.rule(sizes))
			at := int64(0)
			step := func(e hare.Event) {
				at += 1000
				if _, err := l.Step(at, []hare.Event{e}); err != nil {
					b.Fatal(err)
				}
			}
			arrive := func(i int) {
				step(hare.Event{Type: hare.EventJobArrived, Job: fmt.Sprint(i), Arrived: &hare.Job{ID: fmt.Sprint(i),
					WeightMicro: 1e6, Tasks: int64(1 + i%8), Sync: hare.Rigid, On: []hare.Profile{{Type: "A", ComputeUs: 60e6}}}})
			}
			for i := range jobs {
				arrive(i)
			}
			n := jobs
			for b.Loop() {
				arrive(n)
				b.StopTimer()
				step(hare.Event{Type: hare.EventJobCancelled, Job: fmt.Sprint(n)})
				b.StartTimer()
				n = jobs + (n+1)%jobs
			}
		})
	}
}

// BenchmarkASRPTStart is the end of a job and the start of the next ones on its GPUs, where 10,000 jobs are completed
// virtually and wait for 64 GPUs.
func BenchmarkASRPTStart(b *testing.B) {
	const jobs, gpus, ids = 10_000, 64, 1 << 18
	for _, c := range []struct {
		name string
		cfg  ASRPTConfig
	}{{"default", ASRPTConfig{}}, {"backfill", ASRPTConfig{Backfill: true}}, {"pass", ASRPTConfig{Pass: true}}} {
		b.Run(c.name, func(b *testing.B) {
			sizes := map[string]int64{}
			for i := range ids {
				sizes[fmt.Sprint(i)] = int64(1 + i*7919%1000)
			}
			cluster := transcript.Cluster(fmt.Sprintf("a=%dA", gpus))
			l := list.New(cluster, c.cfg.rule(sizes))
			at, n := int64(0), 0
			var runs []string
			step := func(us int64, e hare.Event) {
				at += us
				ds, err := l.Step(at, []hare.Event{e})
				if err != nil {
					b.Fatal(err)
				}
				for _, d := range ds {
					if d.Type == hare.DecisionStart && d.Task == 0 {
						runs = append(runs, d.Job)
					}
				}
			}
			arrive := func() {
				id := fmt.Sprint(n)
				step(1e10, hare.Event{Type: hare.EventJobArrived, Job: id, Arrived: &hare.Job{ID: id, WeightMicro: 1e6,
					Tasks: int64(1 + n%8), Sync: hare.Rigid, On: []hare.Profile{{Type: "A", ComputeUs: 60e6}}}})
				n = (n + 1) % ids
			}
			for range jobs {
				arrive()
			}
			for b.Loop() {
				step(1000, hare.Event{Type: hare.EventJobCancelled, Job: runs[0]})
				b.StopTimer()
				runs = runs[1:]
				arrive()
				b.StartTimer()
			}
		})
	}
}
