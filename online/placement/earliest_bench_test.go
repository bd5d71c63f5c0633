package placement_test

import (
	"fmt"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// BenchmarkEarliest looks for room for eight tasks with CPUs on 250 busy nodes of eight GPUs and three
// types.
func BenchmarkEarliest(b *testing.B) {
	ns := placement.New()
	for g := range 2000 {
		n := g / 8
		ns.Join(g, n%3, &hare.Node{Name: fmt.Sprint("n", n), CPUMilli: 64_000, MemoryMiB: 512_000})
		ns.Take(g)
	}
	s := ns.Add(&hare.Job{Tasks: 8, GPUsPerTask: 2, CPUMilliPerTask: 2000, MemoryMiBPerTask: 2000})
	use := func(g int) placement.Use {
		return placement.Use{AtUs: int64(1 + g*7919%1009), CPUMilli: 1000, MemoryMiB: 1000}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := ns.Earliest(s, []int{1}, 8, use); !ok {
			b.Fatal("there is no room")
		}
	}
}
