package capacity

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
)

// Request asks what a cluster needs. Options, goals and amounts to buy are as people write them.
type Request struct {
	// History has the cluster as it is, and the jobs that it got, each released when it was submitted.
	History *hare.Instance
	// Origin is the date of time 0 of History; the zero time says that the history has no dates.
	Origin time.Time
	// Source says what the history is, for the report.
	Source string
	// Options are changes of the cluster; the cluster as it is stands beside them.
	Options []string
	// Buy are the most GPUs of each type of which a mix may have any number, as H100=64.
	Buy []string
	// Policies are names of policies of tasks, and Now for the one that Now names.
	Policies []string
	Now      string // the policy that is nearest to what the cluster does today; "" is slurm
	// Prices are those of a GPU for an hour, by type, in any currency.
	Prices map[string]float64
	// Goal is what a week must reach; "" is no goal. Share is the share of weeks that must; zero means 0.9.
	Goal  string
	Share float64
	// Weeks is how many weeks are drawn, of Days days each; zero means 20 and 7.
	Weeks, Days int
	// Growth multiplies the jobs; zero means 1.
	Growth float64
	Seed   uint64
}

// Now stands for the policy of Request.Now.
const Now = "now"

// The limits of a request.
const (
	MaxWeeks   = 1000
	MaxOptions = 100
	maxGrowth  = 100
	maxDays    = 400
)

// Error is a fault of a request; Field is the one at fault, as weeks or option.
type Error struct{ Field, Detail string }

func (e *Error) Error() string { return e.Field + ": " + e.Detail }

func fault(field, format string, args ...any) error {
	return &Error{field, fmt.Sprintf(format, args...)}
}

// plan is a request that has been read.
type plan struct {
	*Request
	options  []option // the first is the cluster as it is
	policies []policy
	goal     goal
	buy      []bought
	draw     *sampler
}

// policy is one that the weeks are played under.
type policy struct {
	name string // as the request has it
	info registry.Info
}

func (p policy) String() string {
	if p.name == Now {
		return "now (" + p.info.Name + ")"
	}
	return p.name
}

// read checks a request and reads its texts.
func (r Request) read() (*plan, error) {
	p := &plan{Request: &r}
	if r.Weeks == 0 {
		r.Weeks = 20
	}
	if r.Days == 0 {
		r.Days = 7
	}
	if r.Growth == 0 {
		r.Growth = 1
	}
	if r.Share == 0 {
		r.Share = 0.9
	}
	if r.Now == "" {
		r.Now = "slurm"
	}
	if len(r.Policies) == 0 {
		r.Policies = []string{Now}
	}
	switch {
	case r.Weeks < 1 || r.Weeks > MaxWeeks:
		return nil, fault("weeks", "%d: give 1 to %d", r.Weeks, MaxWeeks)
	case r.Days < 1 || r.Days > maxDays:
		return nil, fault("days", "%d: give 1 to %d", r.Days, maxDays)
	case !(r.Growth > 0 && r.Growth <= maxGrowth):
		return nil, fault("growth", "%v: give a factor above 0 and at most %d, such as 1.3", r.Growth, maxGrowth)
	case !(r.Share > 0 && r.Share <= 1):
		return nil, fault("share", "%v: give the share of weeks that must reach the goal, above 0 and at most 1", r.Share)
	case len(r.Options) > MaxOptions:
		return nil, fault("option", "%d options: at most %d are compared at once", len(r.Options), MaxOptions)
	}
	if err := r.History.RefuseRules("hare capacity", sim.Rules|hare.RuleTardiness|hare.RuleAfter); err != nil {
		return nil, err
	}
	return p, p.readTexts()
}

func (p *plan) readTexts() (err error) {
	if err := p.readPolicies(); err != nil {
		return err
	}
	if p.goal, err = readGoal(p.Goal); err != nil {
		return err
	}
	if p.draw, err = newSampler(p.History, p.Origin, p.Days, p.Growth); err != nil {
		return err
	}
	p.options = []option{{text: AsItIs}}
	for _, text := range p.Options {
		o, err := readOption(text, p.History, p.draw)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(p.options, func(x option) bool { return x.text == o.text }) {
			return fault("option", "%q is given twice", o.text)
		}
		p.options = append(p.options, o)
	}
	for _, text := range p.Buy {
		if err := p.readBuy(text); err != nil {
			return err
		}
	}
	return p.checkPrices()
}

// readPolicies finds the policies.
func (p *plan) readPolicies() error {
	for _, name := range p.Policies {
		name = strings.TrimSpace(name)
		known := name
		if name == Now {
			known = p.Now
		}
		info, err := registry.FindTask(known)
		if err != nil {
			return fault("policy", "%v", err)
		}
		full, err := registry.Find(info.Name)
		if err != nil {
			return fault("policy", "%v", err)
		}
		if full.KnowsOf(true) == policies.Future {
			return fault("policy", "%s knows the jobs that are still to come, which no policy of a cluster does", name)
		}
		if err := full.CheckRules(p.History, true); err != nil {
			return err
		}
		if slices.ContainsFunc(p.policies, func(x policy) bool { return x.name == name }) {
			return fault("policy", "%s is given twice", name)
		}
		p.policies = append(p.policies, policy{name, full})
	}
	return nil
}

// Types are all GPU types of the cluster and of what a request adds, sorted.
func Types(r *Request) []string {
	types := map[string]bool{}
	for i := range r.History.Cluster.Nodes {
		for _, g := range r.History.Cluster.Nodes[i].GPUs {
			types[g.Type] = true
		}
	}
	for _, text := range slices.Concat(r.Options, r.Buy) {
		for part := range strings.SplitSeq(text, ",") {
			if m := addText.FindStringSubmatch(strings.TrimSpace(part)); m != nil {
				types[m[1]] = true
			}
		}
	}
	return sortedKeys(types)
}

// checkPrices refuses prices of types that are nowhere, and asks for those that money needs.
func (p *plan) checkPrices() error {
	known := Types(p.Request)
	for _, name := range sortedKeys(p.Prices) {
		switch x := p.Prices[name]; {
		case !slices.Contains(known, name):
			return fault("price", "%s is neither in the cluster nor in an option: there are %s", name,
				strings.Join(known, ", "))
		case !(x >= 0) || math.IsInf(x, 0):
			return fault("price", "%s costs %v: give an amount for a GPU and hour, such as %s=2.9", name, x, name)
		}
	}
	for _, b := range p.buy {
		if _, ok := p.Prices[b.gpuType]; !ok {
			return fault("price", "the cheapest mix needs a price of %s: --price %s=2.9", b.gpuType, b.gpuType)
		}
	}
	if len(p.buy) > 0 && p.Goal == "" {
		return fault("goal", "the cheapest mix needs a goal, such as 'p95 wait <= 1h'")
	}
	return nil
}
