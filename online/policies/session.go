package policies

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
)

// Session makes a policy for sessions. Such a policy can be stored and restored.
type Session struct {
	// Open makes the policy for a session on a cluster, with parameters as JSON or
	// no bytes. Errors are *hare.InvalidError.
	Open func(cluster *hare.Cluster, parameters []byte) (online.Durable, error)
	// Restore makes the policy of which a snapshot was taken.
	Restore func(snapshot []byte) (online.Durable, error)
	// Check says what Open would refuse of parameters on every cluster. Errors are *hare.InvalidError.
	Check func(parameters []byte) error
}

// Learned makes a policy that is told in simulations how long jobs take, or which jobs
// come. In sessions the policy goes by estimates instead: those that come with jobs, and
// what jobs that ended took.
type Learned struct {
	Maker // for simulations
	Session
}

// Session is what makes the policy for sessions; false where it cannot run in one.
func (info Info) Session() (Session, bool) {
	switch m := info.Maker.(type) {
	case FromEvents:
		return m.Session, true
	case Learned:
		return m.Session, true
	}
	return Session{}, false
}

// KnowsInSession is what the policy goes by in a session beyond what has happened;
// meaningless where it cannot run in one. Rolling and hgittins, which learn sizes in
// simulations too, count as knowing nothing.
func (info Info) KnowsInSession() Knowledge {
	if _, ok := info.Maker.(Learned); ok {
		return Estimates
	}
	return Nothing
}

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
