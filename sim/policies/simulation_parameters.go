package policies

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim/elastic"
	"github.com/hare-sched/hare/sim/leases"
	"github.com/hare-sched/hare/sim/settings"
	"github.com/hare-sched/hare/sim/sharing"
)

// SimulationParameters checks parameters of the named policy for simulations, and returns those
// with which the policy is made (policies.Config.Parameters, Info.Configure). Simulations take the parameters that
// sessions take, but for aside, which the simulator decides: aside says whether it makes plans
// late. estimates says whether policies of tasks are given no sizes. What a cluster must have for the parameters, such
// as bandwidths, is refused when the policy is made. Errors are *hare.InvalidError with pointers into the parameters.
func SimulationParameters(name string, parameters []byte, estimates, aside bool) (json.RawMessage, error) {
	refuse := func(pointer, format string, a ...any) (json.RawMessage, error) {
		return nil, &hare.InvalidError{Pointer: pointer, Code: "not_allowed", Detail: fmt.Sprintf(format, a...)}
	}
	info, err := Find(name)
	if err != nil {
		return refuse("", "%v", err)
	}
	switch info.Engine {
	case Lease:
		_, err := info.Configure(leases.Config{}, parameters)
		return parameters, err
	case Elastic:
		_, err := info.ConfigureElastic(elastic.Config{}, parameters)
		return parameters, err
	}
	if info.Engine == Shared {
		_, err := info.ConfigureShared(sharing.Default(0), parameters)
		return parameters, err
	}
	session, ok := info.task.Session()
	if _, learned := info.task.Maker.(policies.Learned); !ok || learned && !estimates {
		return refuse("", "policy %s takes parameters only where it goes by estimates, as in sessions (sizes)", name)
	}
	given := map[string]json.RawMessage{}
	if json.Unmarshal(parameters, &given) == nil {
		if _, ok := given["aside"]; ok {
			return refuse("/aside", "a simulation makes plans aside where they take time (plan_latency_s)")
		}
	}
	if err := session.Check(parameters); err != nil {
		return nil, err
	}
	if aside {
		parameters = PlansAside(name, parameters)
	}
	return parameters, nil
}

// SimulationParameterList lists the parameters that the policy takes in simulations. Policies of tasks that are given
// sizes take theirs only where they go by estimates.
func (info Info) SimulationParameterList() []policies.Parameter {
	switch info.Engine {
	case Lease:
		return listed(info.lease.Parameters())
	case Elastic:
		return listed(info.elastic.Parameters())
	case Shared:
		return listed(info.sharing.Parameters())
	}
	if _, ok := info.task.Session(); !ok {
		return nil
	}
	return slices.DeleteFunc(info.task.Parameters(), func(p policies.Parameter) bool { return p.Name == "aside" })
}

func listed[C any](all []settings.Setting[C]) []policies.Parameter {
	out := make([]policies.Parameter, len(all))
	for i, s := range all {
		out[i] = policies.Parameter{Name: s.Name, Type: s.Type, Unit: s.Unit, Default: s.Default, Text: s.Text}
		if s.Type != "boolean" {
			out[i].Text += "; " + s.Range()
		}
	}
	return out
}
