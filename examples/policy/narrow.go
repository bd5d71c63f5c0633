// Package narrow is a scheduling policy in a module of its own: the jobs that need
// the fewest GPUs run first, from round to round. docs/use/own-policy.md explains it.
package narrow

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/policies"
)

// Policy describes the policy as the registry of Hare describes its own. It knows
// nothing but the events, so that it can run in sessions too.
var Policy = policies.Info{
	Name: "narrow_first", Text: "fewest GPUs first, round by round",
	Maker: policies.FromRule(
		func(policies.Config) (list.Rule, error) { return rule(), nil },
		func(parameters []byte) (list.Rule, error) {
			return rule(), online.DecodeParameters(parameters, &struct{}{}) // takes none
		}),
}

// rule is what makes a list scheduler this policy: a job keeps its GPUs for a round,
// and the narrowest job is next.
func rule() list.Rule {
	return list.Rule{
		Name: "narrow_first",
		Hold: hare.Gang,
		Priority: func(_ *list.Scheduler, j *list.JobState) float64 {
			return float64(j.Spec().Tasks)
		},
	}
}
