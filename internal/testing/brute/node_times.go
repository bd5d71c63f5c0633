package brute

import (
	"github.com/hare-sched/hare"
)

// earliest returns the first t ≥ from at which the nodes of a unit of job j are open to the job
// for hold, and for the setups before t, and have enough CPUs and memory, and the quotas of the
// job suffice.
func (s *places) earliest(j int, shape *hare.Shape, counts, setups []int64, from, hold int64) (int64, bool) {
	t, job := from, &s.inst.Jobs[j]
	for moved := true; moved; {
		moved = false
		for q := range s.inst.Quota {
			for {
				next, ok := s.quotaFits(&s.inst.Quota[q], job, shape, counts, t)
				if ok {
					break
				}
				if next == hare.Forever {
					return 0, false
				}
				t, moved = next, true
			}
		}
		for g, n := range counts {
			if n == 0 {
				continue
			}
			ok := false
			for _, w := range s.open[j][g] {
				if start := max(t, w.StartUs+setups[g]); w.EndUs == hare.Forever || start+hold <= w.EndUs {
					moved = moved || start > t
					t, ok = start, true
					break
				}
			}
			if !ok {
				return 0, false
			}
			node := &s.inst.Cluster.Nodes[s.groups[g].node]
			for {
				var cpus, memory int64
				next := hare.Forever
				for h, m := range counts {
					if s.groups[h].node == s.groups[g].node {
						cpus += m * job.CPUMilliPerTask
						memory += m * job.MemoryMiBPerTask
					}
				}
				for _, h := range s.held {
					if h.node == s.groups[g].node && h.until > t {
						cpus += h.cpus
						memory += h.memory
						next = min(next, h.until)
					}
				}
				if (node.CPUMilli == 0 || cpus <= node.CPUMilli) && (node.MemoryMiB == 0 || memory <= node.MemoryMiB) {
					break
				}
				if next == hare.Forever {
					return 0, false
				}
				t, moved = next, true
			}
		}
	}
	return t, true
}

// quotaFits reports whether a quota suffices for a unit at t, and otherwise when the next holding
// ends.
func (s *places) quotaFits(q *hare.Quota, job *hare.Job, shape *hare.Shape, counts []int64, t int64) (next int64,
	ok bool) {
	held, mine := int64(0), int64(0)
	for g, n := range counts {
		if q.Limits(job, s.groups[g].kind) {
			mine += n * shape.TaskGPUs()
		}
	}
	next = hare.Forever
	for _, h := range s.held {
		if h.until > t && h.gpus > 0 && q.Limits(&s.inst.Jobs[h.job], h.kind) {
			held += h.gpus
			next = min(next, h.until)
		}
	}
	return next, mine == 0 || held+mine <= q.GPUs
}
