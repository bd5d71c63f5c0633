package placement_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// cluster is a random cluster beside its Nodes: what is free and held is kept here by itself.
type cluster struct {
	specs    []hare.Node
	node     []int // by GPU
	gpuType  []int // by GPU
	free     []bool
	freeAtUs []int64 // by GPU that is not free
	cpu, mem []int64 // held, by node
	ns       *placement.Nodes
}

func randomCluster(r *rand.Rand) *cluster { return randomClusterOf(r, nil) }

// randomClusterOf is randomCluster with a topology.
func randomClusterOf(r *rand.Rand, topology []string) *cluster {
	c := &cluster{ns: placement.New()}
	c.ns.SetTopology(topology)
	for n := range 1 + r.IntN(4+2*len(topology)) {
		spec := hare.Node{Name: fmt.Sprint("n", n), CPUMilli: 1000 * r.Int64N(5), MemoryMiB: r.Int64N(6)}
		for _, label := range topology {
			spec.Labels = append(spec.Labels, hare.Label{Name: label, Value: fmt.Sprint(r.IntN(2))})
		}
		if r.IntN(2) == 0 {
			spec.Labels = append(spec.Labels, hare.Label{Name: "disk", Value: "ssd"})
		}
		slices.SortFunc(spec.Labels, func(a, b hare.Label) int { return strings.Compare(a.Name, b.Name) })
		c.specs, c.cpu, c.mem = append(c.specs, spec), append(c.cpu, 0), append(c.mem, 0)
		for range 1 + r.IntN(5) {
			c.node, c.gpuType = append(c.node, n), append(c.gpuType, r.IntN(2))
			c.free, c.freeAtUs = append(c.free, true), append(c.freeAtUs, 0)
		}
	}
	for _, g := range r.Perm(len(c.node)) {
		c.ns.Join(g, c.gpuType[g], &c.specs[c.node[g]])
	}
	return c
}

func randomJob(r *rand.Rand) *hare.Job {
	j := &hare.Job{ID: "j", Sync: hare.Gang, GPUsPerTask: []int64{0, 2, 3}[r.IntN(3)],
		CPUMilliPerTask:  500 * r.Int64N(4),
		MemoryMiBPerTask: r.Int64N(3), DistinctNodes: r.IntN(3) == 0}
	switch r.IntN(4) {
	case 0:
		j.Only = []hare.LabelValues{{Label: "disk", Values: []string{"ssd"}}}
	case 1:
		j.Exclude = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{"n0"}}}
	}
	return j
}

// room counts the tasks that fit node by node, task by task, on GPUs that are free.
func (c *cluster) room(j *hare.Job, gpuType int, free func(g int) bool, cpu, mem []int64) int64 {
	return c.roomOn(func(int) bool { return true }, j, gpuType, free, cpu, mem)
}

// roomOn is room on some nodes.
func (c *cluster) roomOn(on func(n int) bool, j *hare.Job, gpuType int, free func(g int) bool,
	cpu, mem []int64) (sum int64) {
	for n := range c.specs {
		if !on(n) {
			continue
		}
		spec, gpus, tasks := &c.specs[n], int64(0), int64(0)
		for g := range c.node {
			if c.node[g] == n && c.gpuType[g] == gpuType && free(g) {
				gpus++
			}
		}
		for j.AllowsNode(spec) && (tasks+1)*j.TaskGPUs() <= gpus && (!j.DistinctNodes || tasks == 0) &&
			(spec.CPUMilli == 0 || j.CPUMilliPerTask == 0 || cpu[n]+(tasks+1)*j.CPUMilliPerTask <= spec.CPUMilli) &&
			(spec.MemoryMiB == 0 || j.MemoryMiBPerTask == 0 || mem[n]+(tasks+1)*j.MemoryMiBPerTask <= spec.MemoryMiB) {
			tasks++
		}
		sum += tasks
	}
	return sum
}

// use fills a cluster with random tasks, and returns when each held GPU is expected to be free.
func (c *cluster) use(r *rand.Rand) map[int]placement.Use {
	uses := map[int]placement.Use{}
	for g := range c.node {
		uses[g] = placement.Use{}
	}
	for range r.IntN(6) {
		j, k := randomJob(r), r.IntN(2)
		s := c.ns.Add(j)
		gpus := c.ns.Pick(nil, s, k, 1, nil)
		atUs := 1 + r.Int64N(5)
		for i, g := range gpus {
			c.ns.Take(g)
			c.free[g], c.freeAtUs[g] = false, atUs
			u := placement.Use{AtUs: atUs}
			if i == 0 {
				c.ns.Hold(g, s, 1)
				c.cpu[c.node[g]] += j.CPUMilliPerTask
				c.mem[c.node[g]] += j.MemoryMiBPerTask
				u.CPUMilli, u.MemoryMiB = j.CPUMilliPerTask, j.MemoryMiBPerTask
			}
			uses[g] = u
		}
	}
	return uses
}

func TestRoomAndPicksAgreeWithCounting(t *testing.T) {
	full := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 3))
		c := randomCluster(r)
		c.use(r)
		j, k := randomJob(r), r.IntN(2)
		s := c.ns.Add(j)
		isFree := func(g int) bool { return c.free[g] }
		want := c.room(j, k, isFree, c.cpu, c.mem)
		if got := c.ns.Room(s, k, math.MaxInt64, nil); got != want {
			t.Fatalf("seed %d: room for %d tasks, want %d: %+v", seed, got, want, j)
		}
		none := make([]int64, len(c.specs))
		all := c.room(j, k, func(int) bool { return true }, none, none)
		if got := c.ns.Most(s, k); got != all {
			t.Fatalf("seed %d: most %d tasks, want %d: %+v", seed, got, all, j)
		}
		tasks := 1 + r.Int64N(4)
		gpus := c.ns.Pick(nil, s, k, tasks, nil)
		if int64(len(gpus)) != min(tasks, want)*j.TaskGPUs() {
			t.Fatalf("seed %d: picked %v for %d tasks with room for %d", seed, gpus, tasks, want)
		}
		if reason := c.ns.Check(s, gpus); reason != "" {
			t.Fatalf("seed %d: picked %v: %s", seed, gpus, reason)
		}
		for i, g := range gpus {
			if !c.free[g] || c.gpuType[g] != k || slices.Contains(gpus[:i], g) {
				t.Fatalf("seed %d: picked %v, and GPU %d is not free, of another type or there twice", seed, gpus, g)
			}
		}
		first := c.ns.First(s, []int{k}, tasks, false, nil)
		if (first == nil) != (want < tasks) || first != nil && int64(len(first)) != tasks*j.TaskGPUs() {
			t.Fatalf("seed %d: the first are %v for %d tasks with room for %d", seed, first, tasks, want)
		}
		if reason := c.ns.Check(s, first); reason != "" || !slices.IsSorted(first) {
			t.Fatalf("seed %d: the first are %v: %s", seed, first, reason)
		}
		if want < tasks {
			full++
		}
	}
	if full < 500 {
		t.Errorf("only %d clusters were full", full)
	}
}

// Earliest is the first time at which counting finds room, on GPUs that are free by then.
func TestEarliestIsTheFirstTimeWithRoom(t *testing.T) {
	waits := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 4))
		c := randomCluster(r)
		uses := c.use(r)
		j, k, tasks := randomJob(r), r.IntN(2), 1+r.Int64N(3)
		s := c.ns.Add(j)
		roomAt := func(atUs int64) int64 {
			cpu, mem := slices.Clone(c.cpu), slices.Clone(c.mem)
			for g, u := range uses {
				if !c.free[g] && u.AtUs <= atUs {
					cpu[c.node[g]] -= u.CPUMilli
					mem[c.node[g]] -= u.MemoryMiB
				}
			}
			return c.room(j, k, func(g int) bool { return c.free[g] || c.freeAtUs[g] <= atUs }, cpu, mem)
		}
		want, ever := int64(0), false
		for ; want <= 6 && !ever; want++ {
			ever = roomAt(want) >= tasks
		}
		want--
		atUs, gpus, ok := c.ns.Earliest(s, []int{k}, tasks, func(g int) placement.Use { return uses[g] })
		if ok != ever || ok && atUs != want {
			t.Fatalf("seed %d: earliest %d, %v, want %d, %v: %+v", seed, atUs, ok, want, ever, j)
		}
		for _, g := range gpus {
			if !c.free[g] && c.freeAtUs[g] > atUs {
				t.Fatalf("seed %d: GPU %d of %v is free at %d, not at %d", seed, g, gpus, c.freeAtUs[g], atUs)
			}
		}
		if ok && int64(len(gpus)) != tasks*j.TaskGPUs() {
			t.Fatalf("seed %d: %v are kept for %d tasks", seed, gpus, tasks)
		}
		if ok && atUs > 0 {
			waits++
		}
	}
	if waits < 200 {
		t.Errorf("only %d waits", waits)
	}
}
