package trace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	hare "github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
)

// OpenbLikeConfig describes an instance whose nodes and jobs are drawn from Alibaba's openb
// trace, with CPUs and memory. The zero value means 300 rigid jobs, which all arrive at time
// 0, on 64 nodes.
type OpenbLikeConfig struct {
	// Jobs is the number of jobs; zero means 300, and the maximum is 2^20.
	Jobs int
	// Nodes is the number of nodes; zero means 64, and the maximum is the 1,213 of the trace.
	Nodes int
	// Shared says what becomes of pods that ask for a part of a GPU: "skip" (the default)
	// leaves them out, "whole" gives them one GPU.
	Shared string
	// Arrivals is as in GenerateConfig. Load, where it is not zero, has the times between
	// arrivals drawn from the trace and scaled instead, as in PhillyConfig.
	Arrivals string
	Load     float64
	// Sync is "rigid" (the default), where a job is one round, or "gang", where a job has
	// rounds of about a Quantum; zero means 60 s.
	Sync    string
	Quantum time.Duration
	// Seed selects the instance: the same seed and settings give the same instance.
	Seed uint64
	// Name is the name of the instance; empty means "openb-like-<jobs>-seed-<seed>".
	Name string
}

// openbPod is a row of the trace that can become a job.
type openbPod struct {
	gpus, cpuMilli, memoryMiB int64
	runUs                     int64
	types                     []string // nil means every type
}

// OpenbLike draws nodes from the trace without replacement, and jobs from its pods with
// replacement, independently of each other. A pod is one task of num_gpu GPUs with its CPUs
// and memory, which is on one node, and takes its run time on every type that it may use:
// the trace has no speeds. Pods without a run time, and pods that none of the drawn nodes
// could hold, are not drawn. OpenbLike takes O(pods · nodes + jobs · types).
func OpenbLike(cfg OpenbLikeConfig) (*hare.Instance, error) {
	releases, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	nodes, err := openbNodes()
	if err != nil {
		return nil, err
	}
	if cfg.Nodes > len(nodes) {
		return nil, fmt.Errorf("trace: %d nodes; openb has %d", cfg.Nodes, len(nodes))
	}
	pods, gaps, err := openbPods(cfg.Shared == "whole")
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x4f70656e)) // "Open" in ASCII
	inst := &hare.Instance{Name: cfg.Name, Objective: hare.ObjectiveWeightedJCT, Jobs: make([]hare.Job, cfg.Jobs)}
	drawn := rng.Perm(len(nodes))[:cfg.Nodes]
	slices.Sort(drawn)
	gpus := 0
	for _, n := range drawn {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, nodes[n])
		gpus += nodes[n].GPUs[0].Count
	}
	pods = slices.DeleteFunc(pods, func(p openbPod) bool { return !slices.ContainsFunc(inst.Cluster.Nodes, p.fits) })
	if len(pods) == 0 {
		return nil, fmt.Errorf("trace: no pod of openb fits on the %s drawn: take more", words.Count(cfg.Nodes, "node"))
	}
	types := gpuTypes(inst.Cluster)
	between := make([]float64, cfg.Jobs)
	var seconds, work float64 // work is summed over the GPUs
	for i := range inst.Jobs {
		p := pods[rng.IntN(len(pods))]
		j := hare.Job{ID: "openb-" + strconv.Itoa(i), WeightMicro: 1e6, Rounds: 1, Tasks: 1, Sync: hare.Rigid,
			CPUMilliPerTask: p.cpuMilli, MemoryMiBPerTask: p.memoryMiB}
		if p.gpus > 1 {
			j.GPUsPerTask = p.gpus
		}
		if cfg.Sync == "gang" {
			j.Sync = hare.Gang
			j.Rounds = (p.runUs-1)/cfg.Quantum.Microseconds() + 1
		}
		for _, t := range types {
			if p.allows(t) {
				j.On = append(j.On, hare.Profile{Type: t,
					ComputeUs: max(1, int64(float64(p.runUs)/float64(j.Rounds)+0.5))})
			}
		}
		sortProfiles(j.On)
		inst.Jobs[i] = j
		between[i] = gaps[rng.IntN(len(gaps))]
		seconds += between[i]
		work += float64(p.gpus) * float64(p.runUs) / 1e6
	}
	at := 0.0
	for i := range inst.Jobs {
		inst.Jobs[i].ReleaseUs = releases[i]
		if cfg.Load == 0 {
			continue
		}
		at += between[i] * work / (cfg.Load * float64(gpus) * seconds)
		if at > maxArrival || math.IsNaN(at) {
			return nil, fmt.Errorf("trace: a job arrives after %.0f seconds; take fewer jobs, more nodes or a higher load", at)
		}
		inst.Jobs[i].ReleaseUs = roundSeconds(at, 1000)
	}
	return inst, nil
}

// allows reports whether the pod may use a type.
func (op *openbPod) allows(kind string) bool {
	return op.types == nil || slices.Contains(op.types, kind)
}

// fits reports whether an empty node of the trace, which has GPUs of one type, holds the pod.
func (op *openbPod) fits(n hare.Node) bool {
	g := n.GPUs[0]
	return op.allows(g.Type) && op.gpus <= int64(g.Count) && op.cpuMilli <= n.CPUMilli && op.memoryMiB <= n.MemoryMiB
}

// openbNodes reads the shipped nodes with their CPUs and memory.
func openbNodes() ([]hare.Node, error) {
	src, err := Shipped("openb_gpu_nodes.csv")
	if err != nil {
		return nil, err
	}
	cluster, err := readOpenbNodes(src)
	if err != nil {
		return nil, err
	}
	if src, err = Shipped("openb_gpu_nodes.csv"); err != nil {
		return nil, err
	}
	t, err := newTable(src, "node", "cpu_milli", "memory_mib")
	if err != nil {
		return nil, err
	}
	for i := range cluster.Nodes {
		if ok, err := t.next(); err != nil || !ok {
			return nil, err
		}
		n := &cluster.Nodes[i]
		if n.CPUMilli, err = t.count("cpu_milli", 1); err != nil {
			return nil, err
		}
		if n.MemoryMiB, err = t.count("memory_mib", 1); err != nil {
			return nil, err
		}
	}
	return cluster.Nodes, nil
}

// openbPods reads the shipped pods that have a run time, and the seconds between the
// arrivals of all pods.
func openbPods(whole bool) (pods []openbPod, gaps []float64, err error) {
	src, err := Shipped("openb_gpu_pods.csv")
	if err != nil {
		return nil, nil, err
	}
	t, err := newTable(src, "arrival_s", "num_gpu", "gpu_milli", "gpu_spec", "run_s", "cpu_milli", "memory_mib")
	if err != nil {
		return nil, nil, err
	}
	last := int64(-1)
	for {
		ok, err := t.next()
		if err != nil || !ok {
			return pods, gaps, err
		}
		at, err := t.decimal("arrival_s", 6)
		if err != nil {
			return nil, nil, err
		}
		if last >= 0 {
			gaps = append(gaps, math.Abs(float64(at-last))/1e6)
		}
		last = at
		milli, err := t.count("gpu_milli", 0)
		if err != nil {
			return nil, nil, err
		}
		if t.text("run_s") == "" || milli < 1000 && !whole {
			continue
		}
		var p openbPod
		if p.runUs, err = t.decimal("run_s", 6); err != nil {
			return nil, nil, err
		}
		for column, to := range map[string]*int64{"num_gpu": &p.gpus, "cpu_milli": &p.cpuMilli,
			"memory_mib": &p.memoryMiB} {
			if *to, err = t.count(column, 0); err != nil {
				return nil, nil, err
			}
		}
		if spec := t.text("gpu_spec"); spec != "" {
			p.types = strings.Split(strings.Clone(spec), "|")
		}
		if p.runUs > 0 && p.gpus > 0 {
			pods = append(pods, p)
		}
	}
}

// resolve checks the configuration, fills in defaults and draws the arrivals that do not
// depend on the load.
func (cfg *OpenbLikeConfig) resolve() ([]int64, error) {
	if cfg.Jobs == 0 {
		cfg.Jobs = 300
	}
	if cfg.Nodes == 0 {
		cfg.Nodes = 64
	}
	if cfg.Shared == "" {
		cfg.Shared = "skip"
	}
	if cfg.Name == "" {
		cfg.Name = fmt.Sprintf("openb-like-%d-seed-%d", cfg.Jobs, cfg.Seed)
	}
	switch {
	case cfg.Nodes < 1:
		return nil, fmt.Errorf("trace: %d nodes; there must be at least 1", cfg.Nodes)
	case cfg.Shared != "skip" && cfg.Shared != "whole":
		return nil, fmt.Errorf("trace: shared %.40q: only skip and whole are known", cfg.Shared)
	case cfg.Load != 0 && cfg.Arrivals != "":
		return nil, fmt.Errorf("trace: arrivals %q and a load of %g contradict each other: give one of them", cfg.Arrivals,
			cfg.Load)
	}
	checked := PhillyConfig{Jobs: cfg.Jobs, Load: cfg.Load, Sync: cfg.Sync, Quantum: cfg.Quantum, Name: cfg.Name}
	if err := checked.resolve(); err != nil {
		return nil, err
	}
	cfg.Sync, cfg.Quantum = checked.Sync, checked.Quantum
	return arrivals(cfg.Arrivals, cfg.Jobs, rand.New(rand.NewPCG(cfg.Seed, 0x41727269)))
}
