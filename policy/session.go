package policy

import (
	"fmt"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/policy/task"
)

// SessionNames lists the policies that can run in a session, sorted: the task policies
// that know nothing but the events.
func SessionNames() []string {
	var names []string
	for _, p := range task.All() {
		if _, ok := p.Maker.(task.FromEvents); ok {
			names = append(names, p.Name)
		}
	}
	return names
}

// OpenSession starts a session with the named policy. parameters are the policy's
// parameters as JSON, or empty. Errors are *hare.InvalidError.
func OpenSession(name string, cluster *hare.Cluster, parameters []byte) (online.Durable, error) {
	p, err := forSession(name)
	if err != nil {
		return nil, err
	}
	return p.Open(cluster, parameters)
}

// RestoreSession makes the named policy from a snapshot of it.
func RestoreSession(name string, snapshot []byte) (online.Durable, error) {
	p, err := forSession(name)
	if err != nil {
		return nil, err
	}
	return p.Restore(snapshot)
}

// forSession finds a policy that can run in a session, or says why there is none.
func forSession(name string) (task.FromEvents, error) {
	refuse := func(code, format string, a ...any) (task.FromEvents, error) {
		return task.FromEvents{}, &hare.InvalidError{Pointer: "/policy", Code: code,
			Detail: fmt.Sprintf(format, a...) + ": use one of " + strings.Join(SessionNames(), ", ")}
	}
	info, err := Find(name)
	if err != nil {
		return refuse("unknown_policy", "%q is not known", name)
	}
	if p, ok := info.task.Maker.(task.FromEvents); ok {
		return p, nil
	}
	switch {
	case info.Engine != Task:
		return refuse("not_online", "%q runs in simulations alone: it changes what gangs hold at fixed intervals, "+
			"and a session places tasks", name)
	case info.Knows == task.Distribution:
		return refuse("not_online", "%q needs the distribution of sizes; sessions do not know it", name)
	case info.Knows == task.Sizes:
		return refuse("not_online", "%q needs sizes; sessions do not know them", name)
	}
	return refuse("not_online", "%q needs all jobs beforehand; sessions do not know them", name)
}
