package explain_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain"
	"github.com/hare-sched/hare/wire"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// nodesInstance adds rules about nodes to a small instance.
func nodesInstance(seed uint64) *hare.Instance {
	inst := smallInstance(seed)
	rng := rand.New(rand.NewPCG(seed, 12))
	for i := range inst.Cluster.Nodes {
		n := &inst.Cluster.Nodes[i]
		for k := range n.GPUs {
			n.GPUs[k].Count = 1 + rng.IntN(4)
		}
		if rng.IntN(2) == 0 {
			n.CPUMilli = int64(2000 + rng.IntN(4)*1000)
		}
		if rng.IntN(2) == 0 {
			n.MemoryMiB = int64(20 + rng.IntN(40))
		}
		n.Labels = []hare.Label{{Name: "disk", Value: []string{"hdd", "nvme"}[rng.IntN(2)]}}
	}
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		j.GPUsPerTask = int64(rng.IntN(3))
		if j.GPUsPerTask == 1 {
			j.GPUsPerTask = 0
		}
		j.CPUMilliPerTask = int64(rng.IntN(3)) * 1000
		j.MemoryMiBPerTask = int64(rng.IntN(3)) * 10
		j.DistinctNodes = j.Sync != hare.Relaxed && rng.IntN(4) == 0
		if rng.IntN(4) == 0 {
			j.Only = []hare.LabelValues{{Label: "disk", Values: []string{"nvme"}}}
		}
		for k := range j.On {
			if seed%2 == 0 {
				j.On[k].SwitchUs = int64(rng.IntN(3)) * second
			}
		}
	}
	return inst
}

// causeOnNodes is cause where nodes matter, read from the schedule again: the tasks that find
// room on each node at t, by what is free there for as long as a task needs it.
func (n *naive) causeOnNodes(j *hare.Job, types []hare.Profile, t int64) string {
	tasks := j.Tasks
	if j.Sync == hare.Relaxed {
		tasks = 1
	}
	g := j.TaskGPUs()
	length := func(p hare.Profile) int64 {
		switch j.Sync {
		case hare.Relaxed:
			return p.ComputeUs
		case hare.Rigid:
			return p.DurationUs() * j.Rounds
		}
		return p.DurationUs()
	}
	var service, usable, free int64
	var room [4]int64 // by GPUs, with CPUs, with memory, after setups
	long := map[int64]int64{}
	at := 0
	for x := range n.inst.Cluster.Nodes {
		node := &n.inst.Cluster.Nodes[x]
		first := at
		at += int(node.GPUCount())
		if !j.AllowsNode(node) {
			continue
		}
		// tasksOf is the room for tasks that hold GPUs of the types that are at most longest for
		// as long as longest; with longest 0, at t alone, by all types.
		tasksOf := func(longest int64, cpus, memory, ready bool) int64 {
			byType := map[string]int64{}
			for k := first; k < at; k++ {
				for _, p := range types {
					if p.Type == n.gpus[k].kind && (longest == 0 || length(p) <= longest) &&
						n.isFree(k, j.ID, t, t+longest) && (!ready || n.isReady(k, j, p.SwitchUs, t, t+longest)) {
						byType[p.Type]++
					}
				}
			}
			sum := int64(0)
			for _, c := range byType {
				sum += c / g
			}
			until := max(t+longest, t+1)
			looks := []int64{until - 1}
			for u := t; u < until; u += second { // all changes are at whole seconds
				looks = append(looks, u)
			}
			for _, u := range looks {
				var usedCPU, usedMemory float64
				for k := first; k < at; k++ {
					for _, h := range n.gpus[k].held {
						if h.job == j.ID || h.from > u || u >= h.to {
							continue
						}
						for y := range n.inst.Jobs {
							if o := &n.inst.Jobs[y]; o.ID == h.job {
								usedCPU += float64(o.CPUMilliPerTask) / float64(o.TaskGPUs())
								usedMemory += float64(o.MemoryMiBPerTask) / float64(o.TaskGPUs())
							}
						}
					}
				}
				if cpus && node.CPUMilli > 0 && j.CPUMilliPerTask > 0 {
					sum = min(sum, int64(float64(node.CPUMilli)-usedCPU+0.001)/j.CPUMilliPerTask)
				}
				if memory && node.MemoryMiB > 0 && j.MemoryMiBPerTask > 0 {
					sum = min(sum, int64(float64(node.MemoryMiB)-usedMemory+0.001)/j.MemoryMiBPerTask)
				}
			}
			if j.DistinctNodes {
				sum = min(sum, 1)
			}
			return sum
		}
		room[0] += tasksOf(0, false, false, false)
		room[1] += tasksOf(0, true, false, false)
		room[2] += tasksOf(0, true, true, false)
		room[3] += tasksOf(0, true, true, true)
		for _, p := range types {
			d := length(p)
			long[d] += tasksOf(d, true, true, true)
		}
		for k := first; k < at; k++ {
			for _, p := range types {
				if p.Type != n.gpus[k].kind {
					continue
				}
				for _, w := range n.gpus[k].service {
					if w.StartUs <= t && t < w.EndUs {
						service++
					}
				}
				for _, w := range n.gpus[k].usable {
					if w.StartUs <= t && t < w.EndUs {
						usable++
					}
				}
				if n.isFree(k, j.ID, t, t) {
					free++
				}
			}
		}
	}
	for _, p := range types {
		if long[length(p)] >= tasks {
			return "choice"
		}
	}
	switch {
	case service < tasks*g:
		return "no_service"
	case usable < tasks*g:
		return "busy"
	case free < tasks*g:
		return "held"
	case room[0] < tasks:
		return "fragmented"
	case room[1] < tasks:
		return "cpus"
	case room[2] < tasks:
		return "memory"
	case room[3] < tasks:
		return "setup"
	}
	return "too_short"
}

// TestCausesOnNodes compares the causes of waits with an independent reading of schedules.
// Gangs that mix types are left out.
func TestCausesOnNodes(t *testing.T) {
	seeds, checked, found := uint64(150), 0, map[string]int{}
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		inst := nodesInstance(seed)
		if _, placed := inst.Placed(); !placed || inst.Validate() != nil {
			continue
		}
		res, err := direct(context.Background(), inst, hare.Options{WorkLimit: 50})
		if err != nil || res.Schedule == nil {
			continue // infeasible
		}
		n := newNaive(inst, res.Schedule)
		for i := range inst.Jobs {
			j := &inst.Jobs[i]
			if j.Mix {
				continue
			}
			a, err := explain.Explain(context.Background(), inst, res, explain.Request{Job: j.ID}, direct)
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, j.ID, err)
			}
			for _, span := range a.Timeline {
				lasts := map[string]hare.Seconds{}
				for _, w := range span.Waits {
					lasts[w.Type+" "+w.Cause] += w.ForS
				}
				for _, p := range j.On {
					want := map[string]hare.Seconds{}
					for at := int64(span.FromS); at < int64(span.ToS) && span.State == "waiting"; at += second {
						// A start at the very beginning of a second may fit where no later one does.
						want[n.causeOnNodes(j, []hare.Profile{p}, at)]++
						want[n.causeOnNodes(j, []hare.Profile{p}, at+1)] += second - 1
					}
					for cause, s := range want {
						got := lasts[p.Type+" "+cause]
						never := lasts[p.Type+" not_allowed"]+lasts[p.Type+" cpus"]+lasts[p.Type+" memory"] == span.ToS-span.FromS
						none := true // the job never runs on this type, even where CPUs and memory abound
						for key := range lasts {
							none = none && !strings.HasPrefix(key, p.Type+" ")
						}
						if got != s && !never && !none {
							t.Errorf("seed %d, %s on %s from %s s to %s s: %s for %s s, want %s s (%v)", seed, j.ID, p.Type,
								span.FromS, span.ToS, cause, got, s, lasts)
						}
						checked++
						if !never && !none {
							found[cause]++
						}
					}
				}
			}
		}
	}
	t.Log(checked, found)
	for _, cause := range []string{"choice", "held", "fragmented", "cpus", "memory", "setup", "too_short"} {
		if found[cause] == 0 && !testing.Short() {
			t.Errorf("no wait has the cause %s", cause)
		}
	}
}

func explainOnNodes(t *testing.T, text, job string) *explaindoc.Answer {
	t.Helper()
	inst, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := direct(context.Background(), inst, hare.Options{WorkLimit: 2000})
	if err != nil {
		t.Fatal(err)
	}
	a, err := explain.Explain(context.Background(), inst, res, explain.Request{Job: job}, direct)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWhereAWaitIsFragmented(t *testing.T) {
	const text = `{"hare":"instance/v1","cluster":{"nodes":[
	  {"name":"a","count":2,"gpus":{"A100":4},"cpus":16},{"name":"t","gpus":{"T4":4},"cpus":16}]},"jobs":[
	  {"id":"x","weight":9,"sync":"rigid","tasks":2,"gpus_per_task":2,"distinct_nodes":true,"cpus_per_task":4,
	    "rounds":10,"on":{"A100":{"compute_s":1}}},
	  {"id":"wide","sync":"rigid","gpus_per_task":4,"cpus_per_task":16,"only":{"node":["a-0","a-1"]},"rounds":10,
	    "on":{"A100":{"compute_s":2},"T4":{"compute_s":1}}},
	  {"id":"cpu","sync":"rigid","tasks":2,"cpus_per_task":14,"rounds":5,"on":{"A100":{"compute_s":2}}}]}`
	a := explainOnNodes(t, text, "wide")
	w := a.Timeline[0].Waits
	if len(w) != 2 || w[0].Cause != "fragmented" || w[0].PerTask != 4 || w[0].Need != 4 ||
		w[0].Nodes[0].Node != "a-0" || w[0].Nodes[0].GPUs != 2 || *w[0].Nodes[0].CPUs != 12*second ||
		w[1].Type != "T4" || w[1].Cause != "not_allowed" {
		t.Errorf("waits %+v", w)
	}
	if a.LeastS != 20*second || a.Stretch != 2 {
		t.Errorf("least %s s, stretch %g", a.LeastS, a.Stretch)
	}
	w = explainOnNodes(t, text, "cpu").Timeline[0].Waits
	if len(w) != 1 || w[0].Cause != "cpus" || len(w[0].Jobs) != 1 || w[0].Jobs[0].Job != "x" || len(w[0].Nodes) != 2 {
		t.Errorf("waits %+v", w)
	}
}
