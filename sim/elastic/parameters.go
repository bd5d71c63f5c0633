package elastic

import (
	"slices"

	"github.com/hare-sched/hare/sim/settings"
)

// Config holds the settings of policies. The zero value is the setting of Pollux's simulator and, for optimus, of
// the paper.
type Config struct {
	// Seed is of policies that search by chance.
	Seed   uint64
	Pollux PolluxConfig
	// ThresholdS is the service in GPU-seconds, of the width that a job asked for, at which pollux:tiresias demotes
	// the job; zero means 57,600, and below zero all jobs stay in the first queue.
	ThresholdS float64
	// Young is by how much optimus multiplies the gains of jobs in their first epoch; zero means 0.95.
	Young float64
	// Interference is sim.RunConfig.Interference, which the engine charges and no policy knows.
	Interference float64
}

// interference is a setting of all policies, since what happens on the cluster does not depend on the policy.
var interference = settings.Number("interference", "", 0, 0, .99, "the fraction by which a job that spans nodes is "+
	"slowed while it shares one of them with another such job", func(c *Config, v float64) { c.Interference = v })

// parametersOf are the parameters of policies in simulations.
var parametersOf = map[string][]settings.Setting[Config]{
	"pollux": {
		settings.Number("power", "", -1, -100, 100, "the exponent of the mean of speedups that the search maximises: the "+
			"more negative, the fairer; 1 is the sum, 0 the geometric mean", func(c *Config, v float64) {
			if c.Pollux.Power = v; v == 0 {
				c.Pollux.Power = FairGeometric
			}
		}),
		settings.Number("restart_penalty_s", "s", 30, 0, 1e9, "what a restart is taken to cost a job in the search; what "+
			"it does cost is the restart of the simulation", func(c *Config, v float64) {
			if c.Pollux.RestartS = v; v == 0 {
				c.Pollux.RestartS = -1
			}
		}),
		settings.Flag("crowded", "whether jobs that span nodes may share a node, where they may disturb each other",
			func(c *Config) *bool { return &c.Pollux.Crowded }),
		settings.Flag("keep_batch", "whether each job keeps the batch with which it was submitted",
			func(c *Config) *bool { return &c.Pollux.KeepBatch }),
		settings.Integer("max_gpus", 64, 1, 1<<12, "the most GPUs of a job", func(c *Config, v int) {
			c.Pollux.MaxGPUs = v
		}),
		settings.Integer("max_nodes", 16, 1, 1<<12, "the most nodes of a job", func(c *Config, v int) {
			c.Pollux.MaxNodes = v
		}),
		settings.Integer("population", 100, 2, 1e4, "states of the genetic search", func(c *Config, v int) {
			c.Pollux.Population = v
		}),
		settings.Integer("generations", 100, 1, 1e6, "generations of the genetic search", func(c *Config, v int) {
			c.Pollux.Generations = v
		}),
		interference,
	},
	"pollux:tiresias": {
		settings.Number("threshold_s", "gpu_s", tiresiasThresholdS, 0, 1e12, "service at the width asked for at which a "+
			"job leaves the first queue; 0: all stay there", func(c *Config, v float64) {
			if c.ThresholdS = v; v == 0 {
				c.ThresholdS = -1
			}
		}),
		interference,
	},
	"pollux:optimus": {interference},
	"optimus": {
		settings.Number("young", "", youngFactor, .01, 1, "what the gain of a job in its first epoch counts",
			func(c *Config, v float64) { c.Young = v }),
		interference,
	},
}

// Parameters are those of the policy in simulations.
func (info Info) Parameters() []settings.Setting[Config] {
	return slices.Clone(parametersOf[info.Name])
}

// Configure adds parameters, a JSON object, to cfg. The error is *hare.InvalidError.
func (info Info) Configure(cfg Config, parameters []byte) (Config, error) {
	err := settings.Read(info.Name, parametersOf[info.Name], &cfg, parameters)
	return cfg, err
}
