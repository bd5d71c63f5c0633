package policies

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
)

// SessionOf makes policies for sessions of a list scheduler: rule gives its rule for the
// parameters of a session.
func SessionOf(rule func(parameters []byte) (list.Rule, error)) Session {
	return Session{
		Open: func(cluster *hare.Cluster, parameters []byte) (online.Durable, error) {
			return durable(list.Open(cluster, parameters, rule))
		},
		Restore: func(snapshot []byte) (online.Durable, error) {
			return durable(list.Restore(snapshot, rule))
		},
		Check: func(parameters []byte) error {
			_, err := rule(parameters)
			return err
		},
	}
}

// withoutParameters is a rule for sessions that has no parameters.
func withoutParameters(rule func() list.Rule) func(parameters []byte) (list.Rule, error) {
	return func(parameters []byte) (list.Rule, error) { return rule(), checkNoParameters(parameters) }
}

func checkNoParameters(parameters []byte) error {
	return online.DecodeParameters(parameters, &struct{}{})
}
