package leases

import (
	"slices"

	"github.com/hare-sched/hare/sim/settings"
)

func hadarParameters(of func(*Config) *HadarConfig) []settings.Setting[Config] {
	flag := func(name, text string, field func(*HadarConfig) *bool) settings.Setting[Config] {
		return settings.Flag(name, text, func(c *Config) *bool { return field(of(c)) })
	}
	return []settings.Setting[Config]{
		settings.Choice("utility", []HadarUtility{InverseJCT, InverseSlowdown, InverseRemaining, EffectiveSpeed,
			LongestFirst, LeastAttained}, "what a job is worth", func(c *Config) *HadarUtility { return &of(c).Utility }),
		settings.Number("eta", "", 1, .25, 1e9, "divides the least price",
			func(c *Config, v float64) { of(c).Eta = v }),
		settings.Integer("beam", 4, 1, maxHadarBeam, "how many partial allocations the dual subroutine keeps",
			func(c *Config, v int) { of(c).Beam = v }),
		settings.Integer("exchanges", 16, 0, 10_000, "how many times in a round another job chooses first, in search of "+
			"a greater sum of utilities", func(c *Config, v int) {
			if of(c).Exchanges = v; v == 0 {
				of(c).Exchanges = -1
			}
		}),
		flag("by_arrival", "whether jobs choose in the order of arrival and not by falling utility of a GPU",
			func(c *HadarConfig) *bool { return &c.ByArrival }),
		flag("one_type", "whether GPUs of a job are of one type", func(c *HadarConfig) *bool { return &c.OneType }),
		flag("one_node", "whether GPUs of a job are on one node where a node is large enough",
			func(c *HadarConfig) *bool { return &c.OneNode }),
		flag("strict", "whether GPUs that cost more than they are worth to all waiting jobs stay idle",
			func(c *HadarConfig) *bool { return &c.Strict }),
	}
}

// parametersOf are the parameters of policies in simulations; the others have none.
var parametersOf = map[string][]settings.Setting[Config]{
	"hadar": hadarParameters(func(c *Config) *HadarConfig { return &c.Hadar }),
	"hadare": append(hadarParameters(func(c *Config) *HadarConfig { return &c.HadarE.Hadar }),
		settings.Integer("copies", 0, 0, 1<<20, "the most copies of a job; 0 for one on each node",
			func(c *Config, v int) { c.HadarE.MaxCopies = v }),
		settings.Number("merge_share", "", 0, 0, .99, "the part of a lease that merging the parameters of copies takes",
			func(c *Config, v float64) { c.HadarE.MergeShare = v }),
		settings.Number("efficiency", "", 1, .01, 1, "what a step of a copy is worth beside a step of a job without copies",
			func(c *Config, v float64) { c.HadarE.Efficiency = v })),
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
