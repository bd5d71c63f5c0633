package trace

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	hare "github.com/hare-sched/hare"
)

// PhillyNodesConfig describes an instance on nodes of several GPUs, with jobs that resemble
// those of Microsoft's Philly. The zero value means 300 rigid jobs, which all arrive at time 0,
// on 16 nodes of 8 V100 and 16 nodes of 8 T4.
type PhillyNodesConfig struct {
	// Jobs is the number of jobs; zero means 300, and the maximum is 2^20.
	Jobs int
	// GPUs is the cluster; nil means V100=128,T4=128. Each count is a multiple of PerNode.
	// If all types are among GeneratedTypes, types differ in speed as in PhillyConfig.
	GPUs []hare.TypeCount
	// PerNode is the number of GPUs of a node; zero means 8. A node has one type.
	PerNode int
	// PerRack is the number of nodes of a rack, whose name is the label rack of its nodes. Tasks of a
	// job must then be in one rack, where the job fits into one on an empty cluster. Zero means no
	// racks.
	PerRack int
	// Widths are numbers of GPUs per job, each as likely as the others; nil draws widths
	// from Philly's week.
	Widths []int64
	// Arrivals is as in GenerateConfig. Load, where it is not zero, has arrivals drawn from
	// Philly's week and scaled instead, as in PhillyConfig.
	Arrivals string
	Load     float64
	// Sync and Quantum are as in PhillyConfig.
	Sync    string
	Quantum time.Duration
	// Running is the share of the GPUs of each type on which work runs at time 0, from 0 to 1: the
	// first jobs that fit run, each for a share of its time that is drawn uniformly, and one in ten
	// of the waiting gangs has a share of its rounds done. Jobs that run have no release.
	Running float64
	// Seed selects the instance: the same seed and settings give the same instance.
	Seed uint64
	// Name is the name of the instance; empty means "philly-nodes-<jobs>-seed-<seed>".
	Name string
}

// PhillyNodes draws jobs as PhillyLike does, and cuts a job of several GPUs into tasks that a
// node holds: a job of w GPUs has tasks of g GPUs, where g is the greatest divisor of w that
// is at most PerNode. A width of 8 is then one task of 8 GPUs on nodes of 8, 16 are two tasks
// of 8, and 12 are two tasks of 6. Durations are drawn from the quantiles of Philly's jobs of
// about as many GPUs. PhillyNodes takes O(jobs · types + nodes).
func PhillyNodes(cfg PhillyNodesConfig) (*hare.Instance, error) {
	drawn, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	src, err := readPhillySource()
	if err != nil {
		return nil, err
	}
	widths := cfg.Widths
	if widths == nil {
		widths = slices.DeleteFunc(src.widths, func(w int64) bool { return !cfg.fits(w) })
	}
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x4e6f6465)) // "Node" in ASCII
	inst := &hare.Instance{Name: cfg.Name, Objective: hare.ObjectiveWeightedJCT, Jobs: make([]hare.Job, cfg.Jobs)}
	for _, g := range cfg.GPUs {
		for n := range g.Count / cfg.PerNode {
			node := hare.Node{Name: strings.ToLower(g.Type) + "-" + strconv.Itoa(n),
				GPUs: []hare.TypeCount{{Type: g.Type, Count: cfg.PerNode}}}
			if cfg.PerRack > 0 {
				rack := strings.ToLower(g.Type) + "-rack-" + strconv.Itoa(n/cfg.PerRack)
				node.Labels = []hare.Label{{Name: "rack", Value: rack}}
			}
			inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
		}
	}
	if cfg.PerRack > 0 {
		inst.Cluster.Topology = []string{"rack"}
	}
	speeds := relativeTimes(cfg.GPUs)
	gpus := 0
	for _, g := range cfg.GPUs {
		gpus += g.Count
	}
	gaps := make([]float64, cfg.Jobs)
	var seconds, work float64 // work is summed over the GPUs
	for i := range inst.Jobs {
		width := widths[rng.IntN(len(widths))]
		perTask := cfg.taskGPUs(width)
		j := hare.Job{ID: "philly-" + strconv.Itoa(i), WeightMicro: 1e6, Rounds: 1, Tasks: width / perTask,
			Sync: hare.Rigid, On: make([]hare.Profile, len(cfg.GPUs))}
		if perTask > 1 {
			j.GPUsPerTask = perTask
		}
		if j.Tasks > 1 && j.Tasks <= int64(cfg.PerRack)*(int64(cfg.PerNode)/perTask) {
			j.Within = "rack"
		}
		gaps[i] = src.gaps[rng.IntN(len(src.gaps))]
		us := src.duration(width, rng.Float64()) * 1e6
		if cfg.Sync == "gang" {
			j.Sync = hare.Gang
			j.Rounds = max(1, int64(math.Ceil(us/float64(cfg.Quantum.Microseconds()))))
		}
		relative := speeds[rng.IntN(len(speeds))]
		mean := 0.0 // of 1 / relative, over the GPUs
		for k, g := range cfg.GPUs {
			j.On[k] = hare.Profile{Type: g.Type, ComputeUs: max(1, int64(us*relative[k]/float64(j.Rounds)+0.5))}
			mean += float64(g.Count) / relative[k] / float64(gpus)
		}
		sortProfiles(j.On)
		inst.Jobs[i] = j
		seconds += gaps[i]
		work += float64(width) * us / 1e6 / mean
	}
	at := 0.0
	for i := range inst.Jobs {
		inst.Jobs[i].ReleaseUs = drawn[i]
		if cfg.Load == 0 {
			continue
		}
		if at += gaps[i] * work / (cfg.Load * float64(gpus) * seconds); at > maxArrival {
			return nil, fmt.Errorf("trace: a job arrives after %.0f seconds; take fewer jobs, more GPUs or a higher load", at)
		}
		inst.Jobs[i].ReleaseUs = roundSeconds(at, 1000)
	}
	if cfg.Running > 0 {
		cfg.addRunning(inst)
	}
	return inst, nil
}

// addRunning lets the first jobs run at time 0 until Running of the GPUs of each type are taken.
// A job runs on its fastest type that has room for it, on the first nodes that do.
func (cfg *PhillyNodesConfig) addRunning(inst *hare.Instance) {
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x52756e6e)) // "Runn" in ASCII
	type state struct {
		nodes []int // indices in the cluster
		used  []int64
		left  int64 // GPUs that may still be taken
		first int   // nodes before it have no free GPU
	}
	types := map[string]*state{}
	for n := range inst.Cluster.Nodes {
		k := inst.Cluster.Nodes[n].GPUs[0].Type
		if types[k] == nil {
			types[k] = &state{}
		}
		types[k].nodes, types[k].used = append(types[k].nodes, n), append(types[k].used, 0)
	}
	for _, st := range types {
		st.left = int64(cfg.Running * float64(len(st.nodes)*cfg.PerNode))
	}
	place := func(j *hare.Job, st *state) (gpus []string) {
		g := j.TaskGPUs()
		if j.Tasks*g > st.left {
			return nil
		}
		for st.first < len(st.nodes) && st.used[st.first] == int64(cfg.PerNode) {
			st.first++
		}
		taken := slices.Clone(st.used[st.first:])
		tasks := int64(0)
		for x := 0; x < len(taken) && tasks < j.Tasks; x++ {
			for ; taken[x]+g <= int64(cfg.PerNode) && tasks < j.Tasks; tasks++ {
				for range g {
					gpus = append(gpus, inst.Cluster.Nodes[st.nodes[st.first+x]].Name+"/"+strconv.FormatInt(taken[x], 10))
					taken[x]++
				}
			}
		}
		if tasks < j.Tasks {
			return nil
		}
		copy(st.used[st.first:], taken)
		st.left -= j.Tasks * g
		return gpus
	}
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		on := slices.Clone(j.On)
		slices.SortStableFunc(on, func(a, b hare.Profile) int { return cmp.Compare(a.ComputeUs, b.ComputeUs) })
		share, done := rng.Float64(), rng.IntN(10) == 0
		rounds := int64(share * float64(j.Rounds))
		for _, p := range on {
			gpus := place(j, types[p.Type])
			if gpus == nil {
				continue
			}
			j.ReleaseUs = 0
			j.Progress = &hare.Progress{GPUs: gpus, ElapsedUs: int64(share * float64(p.DurationUs()))}
			if j.Sync == hare.Gang {
				j.Progress.RoundsDone = rounds
				j.Progress.ElapsedUs = int64(rng.Float64() * float64(p.DurationUs()))
			}
			break
		}
		if j.Progress == nil && j.Sync == hare.Gang && done && rounds > 0 {
			j.Progress = &hare.Progress{RoundsDone: rounds}
		}
	}
}

// taskGPUs returns the GPUs of a task of a job of width GPUs.
func (cfg *PhillyNodesConfig) taskGPUs(width int64) int64 {
	g := min(width, int64(cfg.PerNode))
	for width%g != 0 {
		g--
	}
	return g
}

// fits reports whether a job of width GPUs finds room on an empty cluster.
func (cfg *PhillyNodesConfig) fits(width int64) bool {
	g := cfg.taskGPUs(width)
	return slices.ContainsFunc(cfg.GPUs, func(c hare.TypeCount) bool {
		return int64(c.Count/cfg.PerNode)*(int64(cfg.PerNode)/g) >= width/g
	})
}

// resolve checks the configuration, fills in defaults and draws the arrivals that do not
// depend on the load.
func (cfg *PhillyNodesConfig) resolve() ([]int64, error) {
	if cfg.Jobs == 0 {
		cfg.Jobs = 300
	}
	if cfg.GPUs == nil {
		cfg.GPUs = []hare.TypeCount{{Type: "V100", Count: 128}, {Type: "T4", Count: 128}}
	}
	if cfg.PerNode == 0 {
		cfg.PerNode = 8
	}
	if cfg.Name == "" {
		cfg.Name = fmt.Sprintf("philly-nodes-%d-seed-%d", cfg.Jobs, cfg.Seed)
	}
	if cfg.Load != 0 && cfg.Arrivals != "" {
		return nil, fmt.Errorf("trace: arrivals %q and a load of %g contradict each other: give one of them", cfg.Arrivals,
			cfg.Load)
	}
	checked := PhillyConfig{Jobs: cfg.Jobs, GPUs: cfg.GPUs, Load: cfg.Load, Sync: cfg.Sync, Quantum: cfg.Quantum,
		Name: cfg.Name}
	if err := checked.resolve(); err != nil {
		return nil, err
	}
	cfg.Sync, cfg.Quantum = checked.Sync, checked.Quantum
	if cfg.PerRack < 0 {
		return nil, fmt.Errorf("trace: a rack has %d nodes; it must be at least 1", cfg.PerRack)
	}
	if !(cfg.Running >= 0 && cfg.Running <= 1) {
		return nil, fmt.Errorf("trace: work runs on %g of the GPUs; it must be from 0 to 1", cfg.Running)
	}
	if cfg.PerNode < 1 {
		return nil, fmt.Errorf("trace: a node has %d GPUs; it must be at least 1", cfg.PerNode)
	}
	for _, g := range cfg.GPUs {
		if g.Count%cfg.PerNode != 0 {
			return nil, fmt.Errorf("trace: %s=%d is not a whole number of nodes of %d GPUs", g.Type, g.Count, cfg.PerNode)
		}
	}
	for _, w := range cfg.Widths {
		if w < 1 || !cfg.fits(w) {
			return nil, fmt.Errorf("trace: no type has room for a job of %d GPUs on nodes of %d", w, cfg.PerNode)
		}
	}
	return arrivals(cfg.Arrivals, cfg.Jobs, rand.New(rand.NewPCG(cfg.Seed, 0x41727269)))
}
