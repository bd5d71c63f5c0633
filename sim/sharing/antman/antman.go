// Package antman simulates AntMan: jobs whose GPUs are guaranteed, and opportunistic jobs that
// use the memory and the compute which the guaranteed jobs leave on the same GPUs.
//
// Source: AntMan (Xiao et al., OSDI 2020), of which we know the mechanism and not the code. The
// model of sharing is ours and is stated at Config: what a GPU does when two jobs run on it is
// described by the share of time that each job keeps the GPU busy, and by how much memory it
// holds.
package antman

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Job is a gang. All its GPUs are of one type.
type Job struct {
	ID       string
	ArrivalS float64
	GPUs     int     // ≥ 1
	WorkS    float64 // time that the job takes alone, > 0
	// WorkByType, where not nil, is the time by GPU type in place of WorkS; 0 means that the job never runs on GPUs
	// of the type.
	WorkByType []float64
	// Busy is the share of time, above 0 and at most 1, that the job alone keeps a GPU busy.
	Busy      float64
	MemoryGiB float64 // of each of its GPUs, ≥ 0
	// Opportunistic jobs have no GPUs of their own. Others are guaranteed: each of their GPUs holds no
	// other guaranteed job.
	Opportunistic bool
}

// Cluster is a number of equal GPUs on equal nodes, or of the nodes of Unlike.
type Cluster struct {
	Nodes, NodeGPUs int
	MemoryGiB       float64 // of a GPU
	// Unlike, where not nil, lists the nodes in place of the fields above.
	Unlike []Node
}

// Node is a node with GPUs of one type. Types are numbered from 0.
type Node struct {
	Type, GPUs int
	MemoryGiB  float64 // of a GPU
}

// nodes lists the nodes.
func (c *Cluster) nodes() []Node {
	if c.Unlike != nil {
		return c.Unlike
	}
	return slices.Repeat([]Node{{0, c.NodeGPUs, c.MemoryGiB}}, c.Nodes)
}

// workS is the time that the job takes alone on GPUs of a type, 0 where it never runs there.
func (j *Job) workS(gpuType int) float64 {
	switch {
	case j.WorkByType == nil:
		return j.WorkS
	case gpuType < len(j.WorkByType):
		return j.WorkByType[gpuType]
	}
	return 0
}

// Sharing says how GPUs are shared.
type Sharing string

const (
	// Managed is AntMan: the local coordinator of a GPU gives an opportunistic job what the
	// guaranteed job leaves. The opportunistic job keeps in the memory of the host what does not fit.
	Managed Sharing = "managed"
	// Throttled is AntMan with its feedback: nothing is kept for the guaranteed job of a GPU. A
	// coordinator measures its slowdown every ControlS seconds, and halves the compute that the
	// opportunistic jobs of its GPUs may take where the slowdown is above Tolerance. Otherwise they may
	// take ControlStep more of a GPU, up to what they use. They begin with none when the guaranteed job
	// starts. Memory is that of Managed.
	Throttled Sharing = "throttled"
	// Unmanaged lets the jobs of a GPU compete for it. Each is as slow as its busy time and that of
	// the others make it, and a job starts only where its memory fits.
	Unmanaged Sharing = "unmanaged"
	// Exclusive gives a GPU to one job. Opportunistic jobs wait in the same queue as the others.
	Exclusive Sharing = "exclusive"
)

// Config is the model of sharing. All of its figures are assumptions, which Run's callers sweep.
type Config struct {
	Sharing Sharing // empty means Managed
	// MaxBusy is the busy time of a GPU up to which an opportunistic job may join; zero means 0.8.
	// An opportunistic job takes the GPUs with the least busy time.
	MaxBusy float64
	// Interference is by what fraction a job is slowed by the mere presence of another one on its GPU,
	// beyond the GPU's busy time; zero means none.
	Interference float64
	// HostSlowdown is by how much an opportunistic job is slowed if all of its memory is on the host;
	// for a part it counts in proportion. A job at HostSlowdown 1 takes twice as long. Zero means 1,
	// negative none.
	HostSlowdown float64
	// ControlS is the time between two measurements under Throttled in seconds, at least 0.001; zero
	// means 10.
	ControlS float64
	// ControlStep is a share of a GPU; zero means 0.05.
	ControlStep float64
	// Tolerance is the slowdown, less 1, up to which a guaranteed job is not slow; zero means 0.01.
	Tolerance float64
	// Opportunists is how many opportunistic jobs may share a GPU; zero means 1.
	Opportunists int
}

// WithDefaults puts the defaults in the place of zeros.
func (c Config) WithDefaults() Config {
	if c.Sharing == "" {
		c.Sharing = Managed
	}
	if c.MaxBusy == 0 {
		c.MaxBusy = 0.8
	}
	if c.HostSlowdown == 0 {
		c.HostSlowdown = 1
	}
	c.HostSlowdown = math.Max(0, c.HostSlowdown)
	if c.Opportunists == 0 {
		c.Opportunists = 1
	}
	if c.ControlS == 0 {
		c.ControlS = 10
	}
	if c.ControlStep == 0 {
		c.ControlStep = 0.05
	}
	if c.Tolerance == 0 {
		c.Tolerance = 0.01
	}
	return c
}

func (c *Config) validate() error {
	*c = c.WithDefaults()
	switch {
	case c.Sharing != Managed && c.Sharing != Throttled && c.Sharing != Unmanaged && c.Sharing != Exclusive:
		return fmt.Errorf("antman: sharing %.60q is not %s, %s, %s or %s", c.Sharing, Managed, Throttled, Unmanaged,
			Exclusive)
	case !(c.ControlS >= 0.001 && c.ControlS <= 1e6), !(c.ControlStep > 0 && c.ControlStep <= 1), !(c.Tolerance > 0 &&
		c.Tolerance <= 100):
		return errors.New("antman: measurements are 0.001 to 1000000 s apart, a step is a fraction above 0, and the " +
			"tolerated slowdown above 0 and at most 100")
	case !(c.MaxBusy > 0 && c.MaxBusy <= 1):
		return errors.New("antman: the greatest busy time that lets a job join is a fraction above 0")
	case !(c.Interference >= 0 && c.Interference <= 100), !(c.HostSlowdown <= 1000):
		return errors.New("antman: interference is from 0 to 100, the slowdown of host memory at most 1000")
	case c.Opportunists < 0:
		return errors.New("antman: the number of opportunistic jobs of a GPU must not be negative")
	}
	return nil
}

func check(cluster Cluster, jobs []Job) error {
	const needs = "antman: a cluster needs nodes, up to 2^20 GPUs, and memory"
	if cluster.Unlike == nil && (cluster.Nodes < 1 || cluster.NodeGPUs < 1 ||
		cluster.Nodes > maxGPUs/cluster.NodeGPUs) {
		return errors.New(needs)
	}
	nodes := cluster.nodes()
	total, has, memory := 0, map[int]int{}, map[int]float64{} // GPUs and the least memory of one by type
	for _, n := range nodes {
		if n.Type < 0 || n.GPUs < 1 || n.GPUs > maxGPUs-total || !(n.MemoryGiB > 0) || math.IsInf(n.MemoryGiB, 1) {
			return errors.New(needs)
		}
		if least, ok := memory[n.Type]; !ok || n.MemoryGiB < least {
			memory[n.Type] = n.MemoryGiB
		}
		total += n.GPUs
		has[n.Type] += n.GPUs
	}
	if total == 0 {
		return errors.New(needs)
	}
	types := slices.Sorted(maps.Keys(has))
	for i := range jobs {
		j := &jobs[i]
		finite := func(v float64) bool { return v >= 0 && v <= 1e12 }
		switch {
		case !finite(j.ArrivalS) || i > 0 && j.ArrivalS < jobs[i-1].ArrivalS:
			return fmt.Errorf("antman: job %.60q: arrivals must not be negative nor fall", j.ID)
		case j.WorkByType == nil && (!finite(j.WorkS) || j.WorkS == 0) || slices.ContainsFunc(j.WorkByType,
			func(s float64) bool { return !finite(s) }) || !(j.Busy > 0 && j.Busy <= 1) || !finite(j.MemoryGiB):
			return fmt.Errorf("antman: job %.60q: work must be above 0, busy above 0 and at most 1, memory not negative",
				j.ID)
		case j.GPUs < 1:
			return fmt.Errorf("antman: job %.60q needs %d GPUs", j.ID, j.GPUs)
		}
		wide, fits, gpus, most := false, false, 0, 0.
		for _, k := range types {
			if j.workS(k) > 0 {
				gpus, most = max(gpus, has[k]), max(most, memory[k])
				wide = wide || j.GPUs <= has[k]
				fits = fits || j.GPUs <= has[k] && j.MemoryGiB <= memory[k]
			}
		}
		switch {
		case !wide:
			return fmt.Errorf("antman: job %.60q needs %d GPUs of a type on which it runs, the cluster has %d", j.ID, j.GPUs,
				gpus)
		case !fits:
			return fmt.Errorf("antman: job %.60q needs %v GiB of a GPU, which has %v", j.ID, j.MemoryGiB, most)
		}
	}
	return nil
}

const maxGPUs = 1 << 20

// Record is what became of a job.
type Record struct {
	ID            string
	Opportunistic bool
	// StartS is the first start. Slowdown is the time from start to end over the time alone on GPUs of the same type.
	ArrivalS, StartS, EndS, Slowdown float64
}

// Outcome is the result of a run.
type Outcome struct {
	Records []Record // by job
	// Busy and Memory are the shares of the GPUs' time and memory that were in use until MakespanS. A
	// GPU counts at most as wholly busy.
	Busy, Memory float64
	// HeldS are the GPU-seconds, by type, in which some job was on a GPU.
	HeldS []float64
	// Switches counts how often a job began on a GPU on which the last one that began was another.
	Switches  int64
	MakespanS float64
}

// Run simulates jobs, which are in the order of their arrival. Guaranteed jobs start first come,
// first served: while the first has no room, none starts. They take free GPUs on the nodes with the
// fewest free ones that hold the whole job, or else on the nodes with most; and they may take GPUs
// on which opportunistic jobs run. Of several types of GPUs, a job takes the one on which it is fastest of those
// with room. Opportunistic jobs start wherever enough GPUs have room, in
// the order of arrival, those that do not fit being passed over. They stay on their GPUs until they
// end. Under Managed, guaranteed jobs therefore start as if there were no opportunistic jobs, and
// without Interference they end so, too. Under Unmanaged a guaranteed job also waits for memory.
//
// Between two events, which are arrivals, ends and the measurements of Throttled, rates are constant.
// Under Managed, a guaranteed job runs at 1/(1 + Interference) where it shares a GPU, and an
// opportunistic one in the time that is left:
//
//	(1 − busy of the guaranteed job · its rate) / busy of the opportunistic jobs, at most 1
//
// less Interference and the slowdown of host memory. A job of several GPUs runs at the least rate
// of these. Run takes O(events · (jobs in the system + GPUs)) and is deterministic.
func Run(ctx context.Context, cluster Cluster, jobs []Job, cfg Config) (*Outcome, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := check(cluster, jobs); err != nil {
		return nil, err
	}
	r := newRun(cluster, jobs, cfg)
	for r.ended < len(jobs) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("antman: %w", err)
		}
		r.arrive()
		r.start()
		if err := r.advance(); err != nil {
			return nil, err
		}
	}
	return r.outcome(), nil
}
