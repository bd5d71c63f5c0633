// Package sharing holds the policies that let jobs share GPUs by time and memory, with what simulations assume of
// jobs that the traces do not tell. docs/use/policies.md#antman-jobs-that-share-gpus has the model.
package sharing

import (
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare/sim/settings"
	"github.com/hare-sched/hare/sim/sharing/antman"
)

// Config holds the settings of antman.
type Config struct {
	AntMan antman.Config
	// Seed is of the draws below.
	Seed uint64
	// Opportunistic is the share of opportunistic jobs among those that do not say what they are.
	Opportunistic float64
	// Traces say neither how busy a job keeps a GPU nor how much memory it holds: both are drawn uniformly, from least
	// to most. Busy times are shares, and memory is GiB of each GPU.
	BusyLeast, BusyMost     float64
	MemoryLeast, MemoryMost float64
	// GPUMemory is the GiB of a GPU where the cluster does not say.
	GPUMemory float64
}

// Default is the setting without parameters.
func Default(seed uint64) Config {
	return Config{Seed: seed, Opportunistic: .5, BusyLeast: .2, BusyMost: .9, MemoryLeast: 2, MemoryMost: 12,
		GPUMemory: 16}
}

// Kind is what a job says about itself.
type Kind string

// A job of no kind is drawn.
const (
	Unsaid        Kind = ""
	Guaranteed    Kind = "guaranteed"
	Opportunistic Kind = "opportunistic"
)

// Draw sets Opportunistic, Busy and MemoryGiB of the jobs, and returns how many jobs are opportunistic. What is drawn
// for a job depends on the seed and its index alone. No job gets more memory than most.
func (c *Config) Draw(jobs []antman.Job, kinds []Kind, most float64) int {
	rng := rand.New(rand.NewPCG(c.Seed, 0x73686172696e67))
	count := 0
	for i := range jobs {
		kind, busy, memory := rng.Float64(), rng.Float64(), rng.Float64()
		j := &jobs[i]
		j.Opportunistic = kinds[i] == Opportunistic || kinds[i] == Unsaid && kind < c.Opportunistic
		j.Busy = c.BusyLeast + (c.BusyMost-c.BusyLeast)*busy
		j.MemoryGiB = min(most, c.MemoryLeast+(c.MemoryMost-c.MemoryLeast)*memory)
		if j.Opportunistic {
			count++
		}
	}
	return count
}

// Info describes a policy.
type Info struct {
	Name string
	// Text says in a line what the policy does.
	Text string
}

// All lists the policies by name.
func All() []Info {
	return []Info{{"antman", "guaranteed jobs hold GPUs, opportunistic ones use what time and memory these leave"}}
}

var parametersOf = map[string][]settings.Setting[Config]{"antman": {
	settings.Choice("sharing", []antman.Sharing{antman.Managed, antman.Throttled, antman.Unmanaged, antman.Exclusive},
		"how jobs share a GPU", func(c *Config) *antman.Sharing { return &c.AntMan.Sharing }),
	settings.Number("opportunistic", "", .5, 0, 1, "the share of jobs that are opportunistic, drawn by seed among "+
		"those whose class does not say so by antman=guaranteed or antman=opportunistic",
		func(c *Config, v float64) { c.Opportunistic = v }),
	settings.Number("busy_least", "", .2, .001, 1, "with busy_most: the share of time that a job alone keeps a GPU "+
		"busy is drawn between the two", func(c *Config, v float64) { c.BusyLeast = v }),
	settings.Number("busy_most", "", .9, .001, 1, "see busy_least", func(c *Config, v float64) { c.BusyMost = v }),
	settings.Number("memory_least_gib", "", 2, 0, 1e6, "with memory_most_gib: the memory of a GPU that a job holds "+
		"is drawn between the two, and is no more than a GPU has", func(c *Config, v float64) { c.MemoryLeast = v }),
	settings.Number("memory_most_gib", "", 12, 0, 1e6, "see memory_least_gib",
		func(c *Config, v float64) { c.MemoryMost = v }),
	settings.Number("gpu_memory_gib", "", 16, .001, 1e6, "the memory of a GPU of a type for which the cluster has no "+
		"memory_gib", func(c *Config, v float64) { c.GPUMemory = v }),
	settings.Number("max_busy", "", .8, .001, 1, "the busy time of a GPU up to which an opportunistic job may join",
		func(c *Config, v float64) { c.AntMan.MaxBusy = v }),
	settings.Integer("opportunists", 1, 1, 1000, "how many opportunistic jobs may share a GPU",
		func(c *Config, v int) { c.AntMan.Opportunists = v }),
	settings.Number("interference", "", 0, 0, 100, "by what fraction a job is slowed by the presence of another one "+
		"on its GPU, beyond the busy time", func(c *Config, v float64) { c.AntMan.Interference = v }),
	settings.Number("host_slowdown", "", 1, 0, 1000, "by how much an opportunistic job is slowed if all its memory "+
		"is on the host; in proportion for a part", func(c *Config, v float64) {
		if c.AntMan.HostSlowdown = v; v == 0 {
			c.AntMan.HostSlowdown = -1
		}
	}),
	settings.Number("control_s", "s", 10, .001, 1e6, "throttled: the time between two measurements",
		func(c *Config, v float64) { c.AntMan.ControlS = v }),
	settings.Number("control_step", "", .05, .001, 1, "throttled: the share of a GPU by which opportunistic jobs may "+
		"take more", func(c *Config, v float64) { c.AntMan.ControlStep = v }),
	settings.Number("tolerance", "", .01, 1e-6, 100, "throttled: the slowdown, less 1, up to which a guaranteed job "+
		"is not slow", func(c *Config, v float64) { c.AntMan.Tolerance = v }),
}}

// Parameters are those of the policy in simulations.
func (info Info) Parameters() []settings.Setting[Config] {
	return slices.Clone(parametersOf[info.Name])
}

// Configure adds parameters, a JSON object, to cfg. The error is *hare.InvalidError.
func (info Info) Configure(cfg Config, parameters []byte) (Config, error) {
	if err := settings.Read(info.Name, parametersOf[info.Name], &cfg, parameters); err != nil {
		return cfg, err
	}
	for _, x := range []struct {
		least, most float64
		name        string
	}{{cfg.BusyLeast, cfg.BusyMost, "busy_least"}, {cfg.MemoryLeast, cfg.MemoryMost, "memory_least_gib"}} {
		if x.least > x.most {
			return cfg, settings.Refuse("/"+x.name, "%s of %s is %v, above the greatest value of %v", x.name, info.Name,
				x.least, x.most)
		}
	}
	return cfg, nil
}
