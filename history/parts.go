package history

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// partNote says what is made of a job that holds less than a GPU.
const partNote = "a part of a GPU counts as a whole one"

// part returns how many millionths of a GPU a job holds; 0 where it holds whole ones.
func (j *Job) part() int64 {
	if j.GPUs != 1 || len(j.On) != 1 {
		return 0
	}
	return j.PartMicro
}

// sharing returns the log with those jobs joined that held parts of the same GPU at the same time, and says so in rep.
// The log itself keeps each job, as a recorder and later texts need it. A schedule of Hare gives a GPU to one job at
// a time, so that jobs with parts have a GPU each where their node has enough. Where it has not, jobs whose parts fit
// on one GPU together become one job, from the begin of the first to the end of the last, with the name of the first.
// It takes O(n log n), and O(n × GPUs of a node) for jobs with parts.
func (l *Log) sharing(rep *Report) *Log {
	byNode := map[string][]int{} // the jobs of nodes on which jobs have parts
	for i := range l.Jobs {
		if j := &l.Jobs[i]; j.part() > 0 {
			byNode[j.On[0].Node] = nil
		}
	}
	if len(byNode) == 0 {
		return l
	}
	out := *l
	out.Report, out.Jobs = rep, slices.Clone(l.Jobs)
	for i := range l.Jobs {
		for _, h := range l.Jobs[i].On {
			if of, shared := byNode[h.Node]; shared {
				byNode[h.Node] = append(of, i)
			}
		}
	}
	gone := map[int]bool{}
	for i := range l.Nodes {
		if n := &l.Nodes[i]; len(n.GPUs) > 0 && len(byNode[n.Name]) > 0 {
			out.shareNode(n, byNode[n.Name], gone)
		}
	}
	kept := out.Jobs[:0]
	for i := range out.Jobs {
		if !gone[i] {
			kept = append(kept, out.Jobs[i])
		}
	}
	out.Jobs = kept
	return &out
}

// sharedGPU is a GPU that jobs have parts of.
type sharedGPU struct {
	first               int // the job that stands for all
	running             []int
	until               int64
	cpuMilli, memoryMiB int64 // the most that jobs held at once
}

// shareNode joins jobs of one node; gone are those that count with others.
func (l *Log) shareNode(n *Node, jobs []int, gone map[int]bool) {
	gpus := int64(0)
	for _, g := range n.GPUs {
		if !isSliceType(g.Type) {
			gpus += int64(g.Count)
		}
	}
	until := func(j *Job) int64 { return cmp.Or(j.EndUs, hare.Forever) }
	var edges []edge
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(i int) bool { return l.Jobs[i].StartUs == 0 })
	for _, i := range jobs {
		for _, h := range l.Jobs[i].On {
			if h.Node == n.Name && !isSliceType(h.Type) {
				edges = append(edges, edge{l.Jobs[i].StartUs, h.GPUs}, edge{until(&l.Jobs[i]), -h.GPUs})
			}
		}
	}
	if mostHeld(edges, 0) <= gpus {
		return
	}
	slices.SortStableFunc(jobs, func(a, b int) int {
		return cmp.Or(cmp.Compare(l.Jobs[a].StartUs, l.Jobs[b].StartUs), strings.Compare(l.Jobs[a].ID, l.Jobs[b].ID))
	})
	var shared []*sharedGPU
	for _, i := range jobs {
		j := &l.Jobs[i]
		if j.part() == 0 {
			continue
		}
		at := slices.IndexFunc(shared, func(s *sharedGPU) bool { return s.until > j.StartUs && s.add(l, i) })
		if at < 0 {
			shared = append(shared, &sharedGPU{i, []int{i}, until(j), j.CPUMilli, j.MemoryMiB})
			continue
		}
		gone[i] = true
		l.Report.assume("held a part of a GPU whose other parts others held: counts with them as one job, from the begin "+
			"of the first to the end of the last", j.Place)
	}
	for _, s := range shared {
		j := &l.Jobs[s.first]
		j.CPUMilli, j.MemoryMiB = s.cpuMilli, s.memoryMiB
		if j.EndUs = s.until; s.until == hare.Forever {
			j.EndUs, j.State = 0, Running
		}
	}
}

// add takes a job whose part fits beside those that others hold when the job begins.
func (s *sharedGPU) add(l *Log, i int) bool {
	j := &l.Jobs[i]
	part, cpu, memory := j.part(), j.CPUMilli, j.MemoryMiB
	s.running = slices.DeleteFunc(s.running, func(o int) bool {
		return cmp.Or(l.Jobs[o].EndUs, hare.Forever) <= j.StartUs
	})
	for _, o := range s.running {
		other := &l.Jobs[o]
		part, cpu, memory = part+other.part(), cpu+other.CPUMilli, memory+other.MemoryMiB
	}
	if part > 1e6 {
		return false
	}
	s.running, s.until = append(s.running, i), max(s.until, cmp.Or(j.EndUs, hare.Forever))
	s.cpuMilli, s.memoryMiB = max(s.cpuMilli, cpu), max(s.memoryMiB, memory)
	return true
}
