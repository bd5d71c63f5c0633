package capacity

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// plan is a request that has been read.
type plan struct {
	*capacitydoc.Request
	weekCount, days int
	seed            uint64
	options         []option // the first is the cluster as it is
	policies        []policy
	goal            goal
	buy             []bought
	draw            *sampler
	types           *typeNames
	found           hare.InvalidErrors
}

// policy is one that the weeks are played under.
type policy struct {
	name string // as the request has it
	info registry.Info
}

func (p policy) String() string {
	if p.name == capacitydoc.Now {
		return "now (" + p.info.Name + ")"
	}
	return p.name
}

// The limits of a request.
const (
	maxGrowth = 100
	maxPrice  = 1e9
	maxMixes  = 10_000
)

// read checks a request and reads its texts. Errors are hare.InvalidErrors, with pointers into the request's document.
func read(req *capacitydoc.Request) (*plan, error) {
	r := *req
	p := &plan{Request: &r, weekCount: int(r.Weeks), days: int(r.Days), seed: 1}
	if r.Seed != nil {
		p.seed = uint64(*r.Seed)
	}
	if r.Weeks == 0 {
		p.weekCount = 20
	}
	if r.Days == 0 {
		p.days = 7
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
		r.Policies = []string{capacitydoc.Now}
	}
	if r.Instance == nil {
		p.bad("/instance", "missing_field", "give the history")
		return nil, p.found
	}
	p.checkNumbers()
	likes := p.readGrow()
	sound := p.found == nil
	refused := ofInstance(r.Instance.RefuseRules("hare capacity", sim.Rules|hare.RuleTardiness|hare.RuleAfter))
	p.note(refused)
	var err error
	p.goal, err = readGoal(p.Goal)
	p.note(err)
	if sound {
		p.draw, err = newSampler(r.Instance, r.Begins, p.days, r.Growth, likes)
		p.note(err)
	}
	if p.draw != nil {
		p.readTexts(refused == nil)
	}
	if p.found != nil {
		return nil, p.found
	}
	return p, nil
}

func (p *plan) checkNumbers() {
	if p.weekCount < 1 || p.weekCount > capacitydoc.MaxWeeks {
		p.bad("/weeks", "out_of_range", "%d: give 1 to %d", p.Weeks, capacitydoc.MaxWeeks)
	}
	if p.days < 1 || p.days > capacitydoc.MaxDays {
		p.bad("/days", "out_of_range", "%d: give 1 to %d", p.Days, capacitydoc.MaxDays)
	}
	if !(p.Growth > 0 && p.Growth <= maxGrowth) {
		p.bad("/growth", "out_of_range", "%v: give a factor above 0 and at most %d, such as 1.3", p.Growth, maxGrowth)
	}
	if !(p.Share > 0 && p.Share <= 1) {
		p.bad("/share", "out_of_range", "%v: give the share of weeks that must reach the goal, above 0 and at most 1",
			p.Share)
	}
	if len(p.Options) > capacitydoc.MaxOptions {
		p.bad("/options", "too_many", "%d options: at most %d are compared at once", len(p.Options), capacitydoc.MaxOptions)
	}
}

// readGrow reads growth by example. A job grows by the first example that names it, in the order of their names.
func (p *plan) readGrow() (likes []capacitydoc.Like) {
	for _, name := range sortedKeys(p.Grow) {
		x := p.Grow[name]
		if !(x >= 0 && x <= maxGrowth) {
			p.bad("/grow/"+hare.EscapePointer(name), "out_of_range", "%v: give a factor from 0 to %d", x, maxGrowth)
		}
		likes = append(likes, capacitydoc.Like{Name: name, Factor: x})
	}
	if len(likes) > capacitydoc.MaxOptions {
		p.bad("/grow", "too_many", "%d examples: at most %d are taken", len(likes), capacitydoc.MaxOptions)
		return nil
	}
	for i := range p.Instance.Jobs {
		if at := exampleOf(likes, &p.Instance.Jobs[i]); at >= 0 {
			likes[at].Jobs++
		}
	}
	for _, l := range likes {
		if l.Jobs == 0 {
			p.bad("/grow/"+hare.EscapePointer(l.Name), "unknown_name", "no job of the history has the user, account, name "+
				"or ID %.80q%s", l.Name, hare.Guess(l.Name, examples(p.Instance)))
		}
	}
	return likes
}

// bad adds a fault, and note the one that err is, if any.
func (p *plan) bad(pointer, code, format string, args ...any) {
	p.note(fault(pointer, code, format, args...))
}

func (p *plan) note(err error) {
	var one *hare.InvalidError
	switch {
	case err == nil || len(p.found) >= hare.MaxFaults:
	case errors.As(err, &one):
		p.found = append(p.found, one)
	default:
		p.found.Add("", "invalid", "%v", err)
	}
}

// readTexts reads what depends on the history. simulated says whether simulations go by its rules at all.
func (p *plan) readTexts(simulated bool) {
	if slices.ContainsFunc(p.goal, func(b bar) bool { return b.what == "deadlines" }) &&
		!slices.ContainsFunc(p.Instance.Jobs, func(j hare.Job) bool { return j.DeadlineUs > 0 }) {
		p.bad("/goal", "no_deadlines", "no job of the history has a deadline")
	}
	p.options = []option{{text: AsItIs}}
	p.readPolicies(simulated)
	p.types = typesOf(p.Instance)
	for i, text := range p.Options {
		at := "/options/" + strconv.Itoa(i)
		o, err := readOption(at, text, p.types, p.draw)
		switch {
		case err != nil:
			p.note(err)
		case slices.ContainsFunc(p.options, func(x option) bool { return x.text == o.text }):
			p.bad(at, "duplicate", "%q is given twice", o.text)
		default:
			p.options = append(p.options, o)
		}
	}
	for _, b := range p.Buy {
		p.readBuy(b)
	}
	p.checkPrices()
}

// readPolicies finds the policies.
func (p *plan) readPolicies(simulated bool) {
	plain := p.draw.instance(&drawn{jobs: slices.Clone(p.Instance.Jobs)}, &p.options[0])
	for i := range plain.Jobs {
		plain.Jobs[i].After = nil // as in drawn weeks
	}
	for i, name := range p.Policies {
		at, known := "/policies/"+strconv.Itoa(i), strings.TrimSpace(name)
		name = known
		if name == capacitydoc.Now {
			known = p.Now
		}
		task, err := registry.FindTask(known)
		var info registry.Info
		if err == nil {
			info, err = registry.Find(task.Name)
		}
		switch {
		case err != nil && name == capacitydoc.Now:
			p.bad("/now", "unknown_policy", "%v", err)
		case err != nil:
			p.bad(at, "unknown_policy", "%v", err)
		case slices.ContainsFunc(p.policies, func(x policy) bool { return x.name == name }):
			p.bad(at, "duplicate", "%s is given twice", name)
		default:
			if simulated {
				p.note(ofInstance(info.CheckRules(plain, true)))
			}
			p.policies = append(p.policies, policy{name, info})
		}
	}
}

// Types are all GPU types of the cluster and of what a request adds, sorted.
func Types(r *capacitydoc.Request) []string {
	types := map[string]bool{}
	for i := range r.Instance.Cluster.Nodes {
		for _, g := range r.Instance.Cluster.Nodes[i].GPUs {
			types[g.Type] = true
		}
	}
	for _, text := range r.Options {
		for part := range strings.SplitSeq(text, ",") {
			if m := addText.FindStringSubmatch(strings.TrimSpace(part)); m != nil {
				types[m[1]] = true
			}
		}
	}
	for _, b := range r.Buy {
		types[b.Type] = true
	}
	return sortedKeys(types)
}

// checkPrices refuses prices of types that are nowhere, and asks for those that money needs.
func (p *plan) checkPrices() {
	known := Types(p.Request)
	for _, name := range sortedKeys(p.Prices) {
		at := string(jsontext.Pointer("/prices").AppendToken(name))
		switch x := p.Prices[name]; {
		case !slices.Contains(known, name):
			p.bad(at, "unknown_type", "%s is neither in the cluster nor in an option: there are %s", hare.Clip(name),
				hare.Cut(strings.Join(known, ", "), maxText))
		case !(x >= 0 && x <= maxPrice):
			p.bad(at, "out_of_range", "%s costs %v: give an amount for a GPU and hour, such as %s=2.9", name, x, name)
		}
	}
	for _, b := range p.buy {
		if _, ok := p.Prices[b.gpuType]; !ok {
			p.bad("/prices", "missing_field", "the cheapest mix needs a price of %s, such as %s=2.9", b.gpuType, b.gpuType)
		}
	}
	if len(p.buy) > 0 && p.Goal == "" {
		p.bad("/goal", "missing_field", "the cheapest mix needs a goal, such as 'p95 wait <= 1h'")
	}
}

// readBuy reads what a mix may have.
func (p *plan) readBuy(b hare.TypeCount) {
	at := string(jsontext.Pointer("/buy").AppendToken(b.Type))
	if b.Count < 1 || b.Count > maxAdded {
		p.bad(at, "out_of_range", "%s=%d: give 1 to %d GPUs", hare.Clip(b.Type), b.Count, maxAdded)
		return
	}
	if other := p.types.other(b.Type); other != "" {
		p.bad(at, "unknown_type", "there is no %s: write %s=%d", b.Type, other, b.Count)
		return
	}
	mixes := 1
	for _, x := range p.buy { // all but the last are tried one by one
		mixes = min(mixes*((x.most+x.step-1)/x.step+1), maxMixes+1)
	}
	if mixes > maxMixes {
		p.bad("/buy", "too_many", "there are over %d mixes of all types but the last: give fewer GPUs or types", maxMixes)
		return
	}
	step := like(&p.draw.cluster, b.Type).GPUs[0].Count
	p.buy = append(p.buy, bought{b.Type, b.Count, min(step, b.Count)})
}
