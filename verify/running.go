package verify

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
)

// standing is how far a job is when the plan begins (docs/reference/model.md#running-work-reservations-and-quotas).
type standing struct {
	first int64 // the first round that is neither done nor running
	until int64 // E, when the running work of the job ends; 0 if the job does not run
	fixed bool  // the job ends with its running work
}

// heldGPU is a GPU that running work holds.
type heldGPU struct {
	node, number int
	kind         string
	job          int
	until        int64
}

// running is the work that runs at time 0.
type running struct {
	jobs   []standing
	gpus   []heldGPU // by job
	levels *topology // nil if no running job goes by levels
}

// newRunning finds what runs at time 0. It returns an error if running work is not placed as
// a round of its job is, on GPUs in service until the work ends. It takes O(nodes + jobs + GPUs
// log GPUs) for the GPUs that are held.
func newRunning(inst *hare.Instance) (*running, error) {
	ru := &running{jobs: make([]standing, len(inst.Jobs))}
	var nodes directory
	taken := map[heldGPU]bool{}
	for i := range inst.Jobs {
		job := &inst.Jobs[i]
		p := job.Progress
		if p == nil {
			continue
		}
		if outside(p.RoundsDone, 0, job.Rounds-1) || outside(p.ElapsedUs, 0, hare.MaxExact) {
			return nil, fmt.Errorf("the progress of job %.40q is out of range", job.ID)
		}
		ru.jobs[i].first = p.RoundsDone
		if len(p.GPUs) == 0 {
			continue
		}
		shapes := shapesOf(job)
		if outside(int64(p.Shape), 0, int64(len(shapes)-1)) {
			return nil, fmt.Errorf("the progress of job %.40q has a shape that is not there", job.ID)
		}
		s := &shapes[p.Shape]
		if job.Sync == hare.Relaxed || job.ReleaseUs > 0 || len(job.After) > 0 ||
			int64(len(p.GPUs)) != s.Tasks*max(1, s.GPUsPerTask) {
			return nil, fmt.Errorf("job %.40q cannot run at 0, or not on so many GPUs", job.ID)
		}
		if nodes == nil {
			nodes = newDirectory(&inst.Cluster)
		}
		var held []heldGPU
		for _, name := range p.GPUs {
			node, number, kind, ok := nodes.find(&inst.Cluster, name)
			place := heldGPU{node: node, number: number}
			if !ok || taken[place] {
				return nil, fmt.Errorf("job %.40q runs on GPU %.40q, which is not there or held twice", job.ID, name)
			}
			taken[place] = true
			held = append(held, heldGPU{node: node, number: number, kind: kind, job: i})
		}
		if err := ru.add(inst, i, held); err != nil {
			return nil, err
		}
	}
	cpus, memory := map[int]int64{}, map[int]int64{}
	for _, h := range ru.shares(inst) {
		cpus[h.node] += h.cpus
		memory[h.node] += h.memory
		n := &inst.Cluster.Nodes[h.node]
		if n.CPUMilli > 0 && cpus[h.node] > n.CPUMilli || n.MemoryMiB > 0 && memory[h.node] > n.MemoryMiB {
			return nil, fmt.Errorf("running work holds more CPUs or memory than node %.40q has", n.Name)
		}
	}
	return ru, nil
}

// add checks where job i runs, and adds when its work ends.
func (ru *running) add(inst *hare.Instance, i int, held []heldGPU) error {
	job := &inst.Jobs[i]
	shape := shapesOf(job)[job.Progress.Shape]
	longest, spread := int64(0), 0
	if goesByLevels(job) {
		if ru.levels == nil {
			ru.levels = newTopology(&inst.Cluster)
		}
		nodes := make([]int32, len(held))
		for x := range held {
			nodes[x] = int32(held[x].node)
		}
		if spread = ru.levels.spreadOf(nodes); spread > ru.levels.levelOf(job.Within) {
			return fmt.Errorf("job %.40q runs on nodes that are not in one domain of the level %.40q", job.ID, job.Within)
		}
	}
	for _, h := range held {
		at := slices.IndexFunc(shape.On, func(p hare.Profile) bool { return p.Type == h.kind })
		if at < 0 || h.kind != held[0].kind && !job.Mix {
			return fmt.Errorf("job %.40q runs on GPUs of a type that it may not use, or not together", job.ID)
		}
		sync := shape.On[at].SyncUs
		if ru.levels != nil {
			sync = ru.levels.syncAt(&shape.On[at], spread)
		}
		longest = max(longest, shape.On[at].ComputeUs+sync)
	}
	s := &ru.jobs[i]
	rounds := int64(1)
	if job.Sync == hare.Rigid {
		rounds = (job.Rounds-s.first-1)/shape.Counts + 1
	}
	work, ok := mul(rounds, longest)
	if !ok || work <= job.Progress.ElapsedUs {
		return fmt.Errorf("the running work of job %.40q has ended, or takes longer than 2^53 µs", job.ID)
	}
	s.first = min(job.Rounds, s.first+rounds*shape.Counts)
	s.until = work - job.Progress.ElapsedUs
	s.fixed = s.first == job.Rounds
	byPlace := slices.Clone(held)
	slices.SortFunc(byPlace, func(a, b heldGPU) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.kind, b.kind))
	})
	for x, h := range byPlace {
		node := &inst.Cluster.Nodes[h.node]
		open := openTimes(node, h.number)
		if len(open) == 0 || open[0].StartUs > 0 || open[0].EndUs < s.until || !allows(job, node) {
			return fmt.Errorf("job %.40q runs on node %.40q, which it may not use, or not until its work ends", job.ID,
				node.Name)
		}
		g := int(max(1, shape.GPUsPerTask))
		first := byPlace[x/g*g]
		if first.node != h.node || first.kind != h.kind ||
			job.DistinctNodes && x%g == 0 && x > 0 && byPlace[x-1].node == h.node {
			return fmt.Errorf("job %.40q runs on node %.40q with a part of a task, or with two", job.ID, node.Name)
		}
		held[x].until = s.until
	}
	ru.gpus = append(ru.gpus, held...)
	return nil
}

// nodes returns the nodes of the instance, with GPUs busy while running work holds them.
func (ru *running) nodes(inst *hare.Instance) []hare.Node {
	nodes := inst.Cluster.Nodes
	if len(ru.gpus) == 0 {
		return nodes
	}
	nodes = slices.Clone(nodes)
	own := make([]bool, len(nodes)) // the list of busy GPUs is a copy
	for _, h := range ru.gpus {
		n := &nodes[h.node]
		if !own[h.node] {
			own[h.node], n.Busy = true, slices.Clone(n.Busy)
		}
		n.Busy = append(n.Busy, hare.Busy{GPU: h.number, UntilUs: h.until})
	}
	for i := range nodes {
		if own[i] {
			slices.SortFunc(nodes[i].Busy, func(a, b hare.Busy) int { return cmp.Compare(a.GPU, b.GPU) })
		}
	}
	return nodes
}

// heldShare is what the running tasks of one job hold of the CPUs and the memory of a node.
type heldShare struct {
	node         int
	job          int
	until        int64
	cpus, memory int64
}

// shares returns what running work holds of CPUs and memory, by job.
func (ru *running) shares(inst *hare.Instance) []heldShare {
	var out []heldShare
	for from := 0; from < len(ru.gpus); {
		i := ru.gpus[from].job
		job := &inst.Jobs[i]
		counts := map[int]int64{}
		var order []int
		for ; from < len(ru.gpus) && ru.gpus[from].job == i; from++ {
			n := ru.gpus[from].node
			if counts[n] == 0 {
				order = append(order, n)
			}
			counts[n]++
		}
		if job.CPUMilliPerTask == 0 && job.MemoryMiBPerTask == 0 {
			continue
		}
		for _, n := range order {
			tasks := counts[n] / max(1, shapesOf(job)[job.Progress.Shape].GPUsPerTask)
			out = append(out, heldShare{n, i, ru.jobs[i].until, tasks * job.CPUMilliPerTask,
				tasks * job.MemoryMiBPerTask})
		}
	}
	return out
}
