// Package elastic holds the policies that change the widths of gangs, a small
// file each, for the engine sim.RunElastic. docs/elastic.md says what each does
// and how far it agrees with its own simulator.
package elastic

import "github.com/hare-sched/hare/sim"

// Info describes a policy.
type Info struct {
	Name string
	// Sizes says that the policy knows how long jobs will take.
	Sizes bool
	// Text says in a line what the policy does.
	Text string
	// New makes a fresh policy. The seed is of policies that search by chance.
	New func(seed uint64) sim.ElasticPolicy
}

// All lists the elastic policies by name.
func All() []Info { return append([]Info(nil), policies...) }

var policies = []Info{
	{"optimus", true, "each GPU to the job whose remaining time it shortens most, in even parts of few nodes",
		func(uint64) sim.ElasticPolicy { return &optimus{paper: true} }},
	{"pollux", false, "GPUs and batches by goodput, a model of which is fitted while jobs run; a genetic search",
		func(seed uint64) sim.ElasticPolicy {
			p, err := NewPollux(PolluxConfig{}, seed)
			if err != nil {
				panic(err) // the zero configuration is valid
			}
			return p
		}},
	{"pollux:optimus", true, "the same in Pollux's form, on the nodes with most free GPUs",
		func(uint64) sim.ElasticPolicy { return &optimus{} }},
	{"pollux:tiresias", false, "two queues by GPUs × time, at the widths asked for",
		func(uint64) sim.ElasticPolicy { return &polluxTiresias{} }},
}
