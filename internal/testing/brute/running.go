package brute

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// running returns when the running work of a job ends, or 0 if the job does not run, and the
// rounds that are done by then.
func running(inst *hare.Instance, job *hare.Job) (end, rounds int64) {
	p := job.Progress
	if p == nil {
		return 0, 0
	}
	if len(p.GPUs) == 0 {
		return 0, p.RoundsDone
	}
	longest, shape := int64(0), job.Shape(p.Shape)
	var nodes []int
	for _, name := range p.GPUs {
		nodes = append(nodes, slices.IndexFunc(inst.Cluster.Nodes,
			func(n hare.Node) bool { return strings.HasPrefix(name, n.Name+"/") }))
	}
	spread := Reading{}.Spread(inst, nodes)
	for _, name := range p.GPUs {
		kind := kindOf(inst, name)
		for _, on := range shape.On {
			if on.Type == kind {
				longest = max(longest, on.ComputeUs+SyncUs(inst, on, spread))
			}
		}
	}
	if job.Sync == hare.Rigid {
		return longest*roundsOf(&shape, job.Rounds-p.RoundsDone) - p.ElapsedUs, job.Rounds
	}
	return longest - p.ElapsedUs, min(job.Rounds, p.RoundsDone+shape.Counts)
}

// roundsOf returns how many rounds in a shape do so many units.
func roundsOf(s *hare.Shape, units int64) (rounds int64) {
	for done := int64(0); done < units; done += s.Counts {
		rounds++
	}
	return rounds
}

// kindOf returns the type of a GPU.
func kindOf(inst *hare.Instance, name string) string {
	for _, n := range inst.Cluster.Nodes {
		number := 0
		for _, g := range n.GPUs {
			for range g.Count {
				if name == n.Name+"/"+strconv.Itoa(number) {
					return g.Type
				}
				number++
			}
		}
	}
	return ""
}

// runsUntil returns until when running work holds a GPU, and of which job the work is, or −1.
func runsUntil(inst *hare.Instance, gpu string) (until int64, job int) {
	job = -1
	for j := range inst.Jobs {
		if p := inst.Jobs[j].Progress; p != nil && slices.Contains(p.GPUs, gpu) {
			until, _ = running(inst, &inst.Jobs[j])
			job = j
		}
	}
	return until, job
}

// holdRunning adds what the running work of a job holds until end.
func (s *places) holdRunning(j int, end int64) {
	job := &s.inst.Jobs[j]
	shape := job.Shape(job.Progress.Shape)
	tasks := shape.TaskGPUs()
	for g := range s.groups {
		group, held := &s.groups[g], int64(0)
		for i := range group.free {
			if slices.Contains(job.Progress.GPUs, group.names[i]) {
				held++
			}
		}
		s.held = append(s.held, holding{group.node, end, held / tasks * job.CPUMilliPerTask,
			held / tasks * job.MemoryMiBPerTask, j, group.kind, held})
	}
}

// unreserved cuts windows of a node at its reservations that do not admit the job.
func unreserved(inst *hare.Instance, job *hare.Job, node *hare.Node, windows []hare.Window) []hare.Window {
	for i := range inst.Cluster.Reservations {
		r := &inst.Cluster.Reservations[i]
		if !r.Holds(node) || r.Admits(job) {
			continue
		}
		var out []hare.Window
		for _, w := range windows {
			for _, part := range []hare.Window{{StartUs: w.StartUs, EndUs: min(w.EndUs, r.FromUs)},
				{StartUs: max(w.StartUs, r.UntilUs), EndUs: w.EndUs}} {
				if part.StartUs < part.EndUs {
					out = append(out, part)
				}
			}
		}
		windows = out
	}
	return windows
}

// Fixed returns what the jobs cost that end with the work that runs at time 0, in 1e-12
// weight-seconds. They are no part of the optimum.
func Fixed(inst *hare.Instance) (constant int64) {
	s := &places{inst: inst}
	for j := range inst.Jobs {
		if end, rounds := running(inst, &inst.Jobs[j]); rounds == inst.Jobs[j].Rounds {
			constant = s.with(constant, j, end)
		}
	}
	return constant
}
