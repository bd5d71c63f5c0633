// Package policies is the registry of Hare's schedulers and of the schedulers that Hare is
// compared with, by name. online/policies, sim/leases, sim/elastic and sim/sharing contain the
// schedulers, one package for each engine of the simulator.
package policies

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim/elastic"
	"github.com/hare-sched/hare/sim/leases"
	"github.com/hare-sched/hare/sim/sharing"
)

// Engine is the kind of simulation that a policy decides for.
type Engine string

// Lease policies lend GPUs for a fixed time; see leases.SharePolicy and
// leases.HoldPolicy. Task policies place tasks; see online.Policy. Elastic
// policies change widths; see elastic.Policy. Policies of the engine Shared let jobs
// share GPUs; the engine is antman.Run.
const (
	Lease   Engine = "lease"
	Task    Engine = "task"
	Elastic Engine = "elastic"
	Shared  Engine = "shared"
)

// Info describes a policy of any engine.
type Info struct {
	Name   string
	Engine Engine
	// Needs is what a lease policy needs; Needs.Sizes is set for policies of all engines.
	Needs leases.Needs
	// Knows is what the policy knows beyond the events or its earlier allocations.
	Knows policies.Knowledge
	// Text says in a line what the policy does.
	Text string

	task    policies.Info
	lease   leases.Info
	elastic elastic.Info
	sharing sharing.Info
}

// All lists the policies of all engines, by name.
func All() []Info { return slices.Clone(registry()) }

// registry collects the policies once: sessions look one up at each restore.
var registry = sync.OnceValue(func() []Info {
	var out []Info
	knows := func(sizes bool) policies.Knowledge {
		if sizes {
			return policies.Sizes
		}
		return policies.Nothing
	}
	for _, p := range leases.All() {
		out = append(out, Info{Name: p.Name, Engine: Lease, Needs: p.Needs, Knows: knows(p.Needs.Sizes), Text: p.Text,
			lease: p})
	}
	for _, p := range elastic.All() {
		out = append(out, Info{Name: p.Name, Engine: Elastic, Needs: leases.Needs{Sizes: p.Sizes},
			Knows: knows(p.Sizes), Text: p.Text, elastic: p})
	}
	for _, p := range sharing.All() {
		out = append(out, Info{Name: p.Name, Engine: Shared, Knows: policies.Nothing, Text: p.Text, sharing: p})
	}
	for _, p := range policies.All() {
		sizes := p.Knows() == policies.Sizes || p.Knows() == policies.Future
		out = append(out, Info{Name: p.Name, Engine: Task, Needs: leases.Needs{Sizes: sizes}, Knows: p.Knows(),
			Text: p.Text, task: p})
	}
	slices.SortFunc(out, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return out
})

// Names lists the names of All, sorted.
func Names() []string {
	all := All()
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.Name
	}
	return out
}

// UnknownError says that no policy has a name.
type UnknownError struct {
	Name    string
	Nearest string // "" where none is near
	Names   []string
}

func (e *UnknownError) Error() string {
	hint := "."
	if e.Nearest != "" {
		hint = fmt.Sprintf(": did you mean %q?", e.Nearest)
	}
	return fmt.Sprintf("unknown policy %.60q%s The policies are %s", e.Name, hint, strings.Join(e.Names, ", "))
}

// Find describes the named policy of any engine. The error is *UnknownError.
func Find(name string) (Info, error) {
	for _, p := range registry() {
		if p.Name == name {
			return p, nil
		}
	}
	names := Names()
	return Info{}, &UnknownError{name, nearest(name, names), names}
}

// FindTask describes the named policy of the task engine. The error says which
// name is nearest, or that the policy is of another engine.
func FindTask(name string) (policies.Info, error) {
	var names []string
	for _, p := range policies.All() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	if p, err := Find(name); err == nil {
		return policies.Info{}, fmt.Errorf("policy %s lends whole gangs, and this takes policies of tasks: %s", p.Name,
			strings.Join(names, ", "))
	}
	return policies.Info{}, &UnknownError{name, nearest(name, names), names}
}

// nearest is the name that the user may have meant. The prefix "gavel:" may be missing.
func nearest(name string, names []string) string {
	if best := hare.Nearest(name, names); best != "" {
		return best
	}
	short := make([]string, len(names))
	for i, n := range names {
		_, short[i], _ = strings.Cut(n, ":")
	}
	if i := slices.Index(short, hare.Nearest(name, short)); i >= 0 && short[i] != "" {
		return names[i]
	}
	return ""
}

// New makes a fresh policy that lends GPUs, a leases.SharePolicy or a
// leases.HoldPolicy, or a elastic.Policy; nil where the engine is Task or Shared.
func (info Info) New(cfg leases.Config) any {
	switch info.Engine {
	case Lease:
		return info.lease.New(cfg)
	case Elastic:
		p, err := info.elastic.New(elastic.Config{Seed: cfg.Seed})
		if err != nil {
			panic(err) // the zero settings are valid
		}
		return p
	}
	return nil
}

// NewElastic makes a fresh policy that changes widths, and errs where the policy does not, or where the settings
// are not valid.
func (info Info) NewElastic(cfg elastic.Config) (elastic.Policy, error) {
	if info.Engine != Elastic {
		return nil, fmt.Errorf("policy %s changes no widths", info.Name)
	}
	return info.elastic.New(cfg)
}

// Configure adds parameters, a JSON object, to the settings with which New makes a policy of leases. Errors are
// *hare.InvalidError with pointers into the object.
func (info Info) Configure(cfg leases.Config, parameters []byte) (leases.Config, error) {
	return info.lease.Configure(cfg, parameters)
}

// ConfigureElastic adds parameters, a JSON object, to the settings with which NewElastic makes a policy. Errors are
// *hare.InvalidError with pointers into the object.
func (info Info) ConfigureElastic(cfg elastic.Config, parameters []byte) (elastic.Config, error) {
	return info.elastic.Configure(cfg, parameters)
}

// ConfigureShared adds parameters, a JSON object, to the settings of a policy that lets jobs share GPUs. Errors are
// *hare.InvalidError with pointers into the object.
func (info Info) ConfigureShared(cfg sharing.Config, parameters []byte) (sharing.Config, error) {
	return info.sharing.Configure(cfg, parameters)
}

// CheckRules refuses an instance with rules by which simulations under the policy do not go, with a
// remedy. estimates says whether the policy goes by estimates where it may.
func (info Info) CheckRules(inst *hare.Instance, estimates bool) error {
	if info.Engine == Task {
		return info.task.CheckRules(inst, policies.Config{Estimates: estimates})
	}
	return policies.RefuseRules(inst, info.Name)
}

// KnowsOf is what the policy knows beyond the events where sizes are estimated
// (policies.Config.Estimates), and Knows where they are not.
func (info Info) KnowsOf(estimates bool) policies.Knowledge {
	if estimates && info.Engine == Task {
		return info.task.KnowsInSession()
	}
	return info.Knows
}

// NewTask makes a fresh policy of tasks for a simulation of inst, which must be
// valid.
func (info Info) NewTask(ctx context.Context, inst *hare.Instance, cfg policies.Config) (online.Policy, error) {
	if info.Engine != Task {
		return nil, fmt.Errorf("policy %s places no tasks", info.Name)
	}
	return info.task.New(ctx, inst, cfg)
}

// Programs is a Solver for leases.Config and policies.Config that solves in this process where
// the engine fails, and counts these cases.
type Programs = lp.Fallback
