// Package elastic changes the widths of gangs: the engine, Run, and its policies, a small
// file each. docs/use/policies.md#policies-that-change-widths says what each does
// and how far it agrees with its own simulator.
package elastic

// Info describes a policy.
type Info struct {
	Name string
	// Sizes says that the policy knows how long jobs will take.
	Sizes bool
	// Text says in a line what the policy does.
	Text string
	// New makes a fresh policy. The error says what is wrong with the settings.
	New func(Config) (Policy, error)
}

// All lists the elastic policies by name.
func All() []Info { return append([]Info(nil), policies...) }

var policies = []Info{
	{"optimus", true, "each GPU to the job whose remaining time it shortens most, in even parts of few nodes",
		func(c Config) (Policy, error) { return newOptimus(true, c.Young), nil }},
	{"pollux", false, "GPUs and batches by goodput, a model of which is fitted while jobs run; a genetic search",
		func(c Config) (Policy, error) {
			p, err := NewPollux(c.Pollux, c.Seed)
			if err != nil {
				return nil, err
			}
			return p, nil
		}},
	{"pollux:optimus", true, "the same in Pollux's form, on the nodes with most free GPUs",
		func(Config) (Policy, error) { return newOptimus(false, 0), nil }},
	{"pollux:tiresias", false, "two queues by GPUs × time, at the widths asked for",
		func(c Config) (Policy, error) { return newPolluxTiresias(c.ThresholdS), nil }},
}
