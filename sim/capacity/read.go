package capacity

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
)

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
	if p.goal, err = readGoal(p.Goal); err != nil {
		return err
	}
	likes, err := readGrow(p.Grow, p.History)
	if err != nil {
		return err
	}
	if p.draw, err = newSampler(p.History, p.Origin, p.Days, p.Growth, likes); err != nil {
		return err
	}
	if slices.ContainsFunc(p.goal, func(b bar) bool { return b.what == "deadlines" }) &&
		!slices.ContainsFunc(p.History.Jobs, func(j hare.Job) bool { return j.DeadlineUs > 0 }) {
		return fault("goal", "no job of the history has a deadline")
	}
	p.options = []option{{text: AsItIs}}
	if err := p.readPolicies(); err != nil {
		return err
	}
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
	plain := p.draw.instance(&drawn{jobs: slices.Clone(p.History.Jobs)}, &p.options[0])
	for i := range plain.Jobs {
		plain.Jobs[i].After = nil // as in drawn weeks
	}
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
		if err := full.CheckRules(plain, true); err != nil {
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
		case !(x >= 0 && x <= maxPrice):
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

// readBuy reads what a mix may have, such as H100=64.
func (p *plan) readBuy(text string) error {
	m := addText.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return fault("buy", "%q: give the most GPUs of a type, such as H100=64", text)
	}
	most, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil || most < 1 || most > maxAdded {
		return fault("buy", "%q: give 1 to %d GPUs", text, maxAdded)
	}
	if other := spelled(p.History, m[1]); other != "" {
		return fault("buy", "there is no %s: write %s=%d", m[1], other, most)
	}
	if slices.ContainsFunc(p.buy, func(b bought) bool { return b.gpuType == m[1] }) {
		return fault("buy", "%s is given twice", m[1])
	}
	mixes := 1
	for _, b := range p.buy { // all but the last are tried one by one
		mixes = min(mixes*((b.most+b.step-1)/b.step+1), maxMixes+1)
	}
	if mixes > maxMixes {
		return fault("buy", "there are over %d mixes of all types but the last: give fewer GPUs or types", maxMixes)
	}
	step := like(&p.draw.cluster, m[1]).GPUs[0].Count
	p.buy = append(p.buy, bought{m[1], int(most), min(step, int(most))})
	return nil
}
