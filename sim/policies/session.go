package policies

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/policies"
)

// SessionNames lists the policies that can run in a session, sorted: those that place
// tasks. What they know in simulations and not in sessions, they estimate; see
// policies.Info.KnowsInSession.
func SessionNames() []string {
	var names []string
	for _, p := range policies.All() {
		if _, ok := p.Session(); ok {
			names = append(names, p.Name)
		}
	}
	return names
}

// SessionInfo says what a policy is in sessions.
type SessionInfo struct {
	Name string `json:"name"`
	// Text says in a line what the policy does.
	Text string `json:"text"`
	// Default says that sessions that name no policy have this one.
	Default bool `json:"default,omitempty"`
	// Sizes is what the policy goes by in sessions: estimates, or nothing, which means
	// that it needs to know no sizes. Nobody knows sizes exactly in a session.
	Sizes policies.Knowledge `json:"sizes" swaggertype:"string" enums:"nothing,estimates,distribution,sizes,future"`
	// SimulatedSizes is what the policy knows in simulations that give exact sizes.
	SimulatedSizes policies.Knowledge `json:"simulated_sizes" swaggertype:"string" enums:"nothing,estimates,distribution,sizes,future"`
	// Hints reports whether the policy goes by estimate_s and class of the jobs.
	Hints bool `json:"hints"`
	// Plans reports whether the policy follows plans, which a session shows.
	Plans      bool                 `json:"plans"`
	Parameters []policies.Parameter `json:"parameters"`
} //	@name	Policy

// DefaultSession is the policy of sessions that name none.
const DefaultSession = "rolling"

// SessionInfos lists the policies that can run in a session, by name.
func SessionInfos() []SessionInfo {
	var all []SessionInfo
	for _, p := range policies.All() {
		if _, ok := p.Session(); !ok {
			continue
		}
		info := SessionInfo{Name: p.Name, Text: p.Text, Default: p.Name == DefaultSession, Sizes: p.KnowsInSession(),
			SimulatedSizes: p.Knows(), Hints: p.GoesByHints(), Plans: p.Name == "rolling" || p.Name == "hare_offline",
			Parameters: p.Parameters()}
		if info.Hints {
			info.Sizes = policies.Estimates
		}
		if info.Parameters == nil {
			info.Parameters = []policies.Parameter{}
		}
		all = append(all, info)
	}
	return all
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

// PlansAside returns the parameters with which a host that makes plans aside opens a
// session: those given, and aside where the policy follows such plans and the parameters
// do not say.
func PlansAside(name string, parameters []byte) []byte {
	given := map[string]json.RawMessage{}
	if name != "rolling" || len(parameters) > 0 && json.Unmarshal(parameters, &given) != nil {
		return parameters // OpenSession refuses bad parameters
	}
	if _, says := given["aside"]; says {
		return parameters
	}
	if len(given) == 0 {
		return []byte(`{"aside":true}`)
	}
	rest := bytes.TrimSpace(parameters)[1:]
	return append([]byte(`{"aside":true,`), rest...)
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
func forSession(name string) (policies.Session, error) {
	refuse := func(code, format string, a ...any) (policies.Session, error) {
		detail, use := fmt.Sprintf(format, a...), ": use one of "
		if guess := hare.Guess(name, SessionNames()); guess != "" {
			detail, use = detail+guess, " Use one of "
		}
		return policies.Session{}, &hare.InvalidError{Pointer: "/policy", Code: code,
			Detail: detail + use + strings.Join(SessionNames(), ", ")}
	}
	info, err := Find(name)
	if err != nil {
		return refuse("unknown_policy", "%q is not known", name)
	}
	if info.Engine == Shared {
		return refuse("not_online", "%q runs in simulations alone: jobs share GPUs, and a session gives a GPU to one task "+
			"at a time", name)
	}
	if info.Engine != Task {
		return refuse("not_online", "%q runs in simulations alone: it changes what gangs hold at fixed intervals, "+
			"and a session places tasks", name)
	}
	if p, ok := info.task.Session(); ok {
		return p, nil
	}
	return refuse("not_online", "%q runs in simulations alone", name)
}
