package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
)

// plainPlaces implements the three rules of docs/reference/model.md task by task. spanOf returns from
// when to when the entry of a task holds its GPU. plainPlaces returns the first condition that
// fails, or "".
func plainPlaces(inst *hare.Instance, s *hare.Schedule, tasks []plainTask,
	spanOf func(plainTask) (from, to int64), run *naiveWork) string {
	nodeOf := func(gpu string) *hare.Node {
		name := gpu[:strings.LastIndexByte(gpu, '/')]
		at := slices.IndexFunc(inst.Cluster.Nodes, func(n hare.Node) bool { return n.Name == name })
		return &inst.Cluster.Nodes[at]
	}
	matches := func(selector []hare.LabelValues, n *hare.Node) (count int) {
		for _, lv := range selector {
			values := map[string]string{"node": n.Name}
			for _, l := range n.Labels {
				values[l.Name] = l.Value
			}
			if v, ok := values[lv.Label]; ok && slices.Contains(lv.Values, v) {
				count++
			}
		}
		return count
	}
	lane := map[string]*hare.Lane{}
	for i := range s.Lanes {
		lane[s.Lanes[i].GPU] = &s.Lanes[i]
	}
	equal, crowd := map[string]int64{}, map[string]map[string]bool{}
	cpus, memory := map[string]int64{}, map[string]int64{} // by node and time, in parts of g
	var times []int64
	for _, t := range tasks {
		from, _ := spanOf(t)
		times = append(times, from)
	}
	slices.Sort(times)
	times = slices.Compact(times)
	counted := map[string]bool{}
	for _, t := range tasks {
		j, n := &inst.Jobs[t.job], nodeOf(t.gpu)
		if matches(j.Only, n) != len(j.Only) || matches(j.Exclude, n) > 0 {
			return "node"
		}
		if j.DistinctNodes {
			key := fmt.Sprint(t.job, " ", t.round, " ", n.Name)
			if crowd[key] == nil {
				crowd[key] = map[string]bool{}
			}
			crowd[key][t.gpu] = true
			if int64(len(crowd[key])) > t.shape.TaskGPUs() {
				return "distinct"
			}
		}
		id := fmt.Sprint(t.gpu, " ", t.entry)
		if counted[id] {
			continue
		}
		counted[id] = true
		equal[fmt.Sprint(n.Name, " ", t.kind, " ", lane[t.gpu].Entry(t.entry))]++
		from, to := spanOf(t)
		for _, at := range times {
			if from <= at && at < to {
				// A task holds CPUs once. 6 is a multiple of every g of the tests.
				cpus[fmt.Sprint(n.Name, " ", at)] += j.CPUMilliPerTask * 6 / t.shape.TaskGPUs()
				memory[fmt.Sprint(n.Name, " ", at)] += j.MemoryMiBPerTask * 6 / t.shape.TaskGPUs()
			}
		}
	}
	for i := range inst.Cluster.Nodes {
		for _, at := range times {
			key := fmt.Sprint(inst.Cluster.Nodes[i].Name, " ", at)
			cpus[key] += 6 * run.tasks(inst, i, at, func(j *hare.Job) int64 { return j.CPUMilliPerTask })
			memory[key] += 6 * run.tasks(inst, i, at, func(j *hare.Job) int64 { return j.MemoryMiBPerTask })
		}
	}
	for _, t := range tasks {
		n := nodeOf(t.gpu)
		if equal[fmt.Sprint(n.Name, " ", t.kind, " ", lane[t.gpu].Entry(t.entry))]%t.shape.TaskGPUs() > 0 {
			return "task"
		}
		for _, at := range times {
			if n.CPUMilli > 0 && cpus[fmt.Sprint(n.Name, " ", at)] > 6*n.CPUMilli {
				return "cpus"
			}
			if n.MemoryMiB > 0 && memory[fmt.Sprint(n.Name, " ", at)] > 6*n.MemoryMiB {
				return "memory"
			}
		}
	}
	return ""
}

// tinyPlaced draws an instance with rules about nodes, and a schedule of it in runs of rounds
// that keeps the rules of time and often also those of nodes.
func tinyPlaced(t *rapid.T) (*hare.Instance, *hare.Schedule) {
	n := func(least, most int, what string) int64 { return int64(rapid.IntRange(least, most).Draw(t, what)) }
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	disks := []string{"hdd", "nvme"}
	type device struct {
		node, kind string
		free       int64
		lane       hare.Lane
	}
	var gpus []*device
	for i := range n(1, 3, "nodes") {
		node := hare.Node{Name: fmt.Sprint("n", i), CPUMilli: 1000 * n(0, 4, "cpus"), MemoryMiB: n(0, 4, "memory"),
			Labels: []hare.Label{{Name: "disk", Value: disks[n(0, 1, "disk")]}},
			GPUs:   []hare.TypeCount{{Type: "A", Count: int(n(1, 4, "gpus"))}}}
		if n(0, 2, "more") == 0 {
			node.GPUs = append(node.GPUs, hare.TypeCount{Type: "B", Count: int(n(1, 2, "gpus"))})
		}
		for _, g := range node.GPUs {
			for range g.Count {
				d := &device{node: node.Name, kind: g.Type}
				d.lane.GPU = fmt.Sprintf("%s/%d", node.Name, len(gpus))
				gpus = append(gpus, d)
			}
		}
		first := len(gpus) - int(node.GPUCount())
		for x, d := range gpus[first:] {
			d.lane.GPU = fmt.Sprintf("%s/%d", node.Name, x)
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
	}
	s := &hare.Schedule{}
	for i := range n(1, 4, "jobs") {
		j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: n(0, 3, "weight"), Rounds: n(1, 5, "rounds"),
			Tasks: n(1, 3, "tasks"), Sync: hare.Sync(n(0, 2, "sync")), GPUsPerTask: n(1, 3, "g"),
			CPUMilliPerTask: 1000 * n(0, 3, "cpus per task"), MemoryMiBPerTask: n(0, 3, "memory per task")}
		j.Mix = j.Sync == hare.Gang && rapid.Bool().Draw(t, "mix")
		j.DistinctNodes = j.Sync != hare.Relaxed && rapid.Bool().Draw(t, "distinct")
		switch n(0, 5, "selector") {
		case 0:
			j.Only = []hare.LabelValues{{Label: "disk", Values: []string{"nvme"}}}
		case 1:
			j.Exclude = []hare.LabelValues{{Label: "node", Values: []string{"n0", "n7"}}}
		}
		for _, kind := range []string{"A", "B"} {
			j.On = append(j.On, hare.Profile{Type: kind, ComputeUs: n(1, 4, "compute"), SyncUs: n(0, 3, "sync_us")})
		}
		inst.Jobs = append(inst.Jobs, j)
		s.Jobs = append(s.Jobs, j.ID)
		ready := int64(0)
		var on [][]*device // by task
		for done := int64(0); done < j.Rounds; {
			rounds := n(1, int(j.Rounds-done), "run")
			if j.Sync == hare.Rigid {
				rounds = j.Rounds
			}
			if on == nil || j.Sync != hare.Rigid {
				on = nil
				left := rapid.Permutation(gpus).Draw(t, "gpus of the run")
				for int64(len(on)) < j.Tasks && len(left) > 0 {
					d := left[0]
					var task, rest []*device
					for _, o := range left {
						if o.node == d.node && o.kind == d.kind && int64(len(task)) < j.GPUsPerTask {
							task = append(task, o)
						} else {
							rest = append(rest, o)
						}
					}
					left = rest
					if int64(len(task)) == j.GPUsPerTask &&
						(j.Sync == hare.Relaxed || j.Mix || len(on) == 0 || d.kind == on[0][0].kind) {
						on = append(on, task)
					}
				}
			}
			counts := make([]int64, len(on))
			for x := range j.Tasks {
				if j.Sync != hare.Relaxed && x < int64(len(on)) {
					counts[x] = 1
				} else if j.Sync == hare.Relaxed && len(on) > 0 {
					counts[n(0, len(on)-1, "group of the task")]++
				}
			}
			start, period := ready, int64(0)
			for x, task := range on {
				p := j.On[slices.IndexFunc(j.On, func(p hare.Profile) bool { return p.Type == task[0].kind })]
				period = max(period, counts[x]*p.ComputeUs+p.SyncUs)
				for _, d := range task {
					start = max(start, d.free)
				}
			}
			if j.Sync != hare.Rigid {
				period += n(0, 1, "slack")
			}
			start += n(0, 2, "later")
			for x, task := range on {
				for _, d := range task {
					if counts[x] == 0 {
						continue
					}
					d.lane.Job = append(d.lane.Job, int32(i))
					d.lane.Round = append(d.lane.Round, done)
					d.lane.Rounds = append(d.lane.Rounds, rounds)
					d.lane.Tasks = append(d.lane.Tasks, counts[x])
					d.lane.PeriodUs = append(d.lane.PeriodUs, period)
					d.lane.StartUs = append(d.lane.StartUs, start)
					d.free = start + rounds*period
				}
			}
			ready = start + rounds*period
			done += rounds
		}
	}
	for _, d := range gpus {
		s.Lanes = append(s.Lanes, d.lane)
	}
	return inst, s
}

// The check on runs agrees with the check task by task where nodes matter.
func TestPlacedScheduleAgreesWithPlainCheck(t *testing.T) {
	ok, refused := 0, map[string]int{}
	judge := func(t *rapid.T) {
		inst, s := tinyPlaced(t)
		for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "mutations") {
			mutate(t, s)
		}
		why, want := plainCheck(inst, s)
		value, _, faults := verify.ScheduleValue(inst, s)
		if (why == "") != (len(faults) == 0) {
			t.Fatalf("task by task: %q, on runs: %v", why, faults)
		}
		if why != "" {
			refused[why]++
			return
		}
		ok++
		if value.Cmp(want) != 0 {
			t.Fatalf("value %v, want %v", value, want)
		}
	}
	for range 5 { // the checks are cheap
		rapid.Check(t, judge)
	}
	t.Logf("%d accepted, refused %v", ok, refused)
	for _, why := range []string{"task", "node", "distinct", "cpus", "memory"} {
		if refused[why] == 0 {
			t.Errorf("no schedule was refused for %q: %v", why, refused)
		}
	}
	if ok < 20 {
		t.Errorf("only %d schedules were accepted", ok)
	}
}
