package capacity

import (
	"cmp"
	"context"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/whatif"
	"github.com/hare-sched/hare/wire"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

const (
	// certainJobs is up to how many jobs of the history what is certain is about: its last ones.
	certainJobs = 2000
	// certainWork is the work limit of each plan for what is certain.
	certainWork = 300_000
)

// proved is what is certain, and of how many jobs.
type proved struct {
	Certain []capacitydoc.Certain
	Jobs    int
}

// certain is what is certain, as the journal has it or computed. first is called with the first that is known.
func (g *grid) certain(ctx context.Context, first func(capacitydoc.Certain)) (proved, error) {
	return kept(g.cfg.Journal, "certain", func() (p proved, err error) {
		p.Certain, p.Jobs, err = g.prove(ctx, max(1, g.cfg.Parallel), first)
		return p, cmp.Or(ofInstance(err), ctx.Err())
	})
}

// prove compares the best plans of the history's jobs on all options by what-ifs, and on the cluster with as many
// GPUs of each added type as the jobs could use at once.
func (p *plan) prove(ctx context.Context, slots int, first func(capacitydoc.Certain)) (out []capacitydoc.Certain,
	jobs int, err error) {
	base, weight := p.lastJobs()
	jobs = len(base.Jobs)
	req := &whatifdoc.Request{Base: whatifdoc.Base{Instance: base}, Options: wire.Options{WorkLimit: certainWork}}
	for _, s := range p.scenarios(base) {
		id := s.Option
		if s.Endless {
			id = "any " + id
		}
		nodes := s.option.cluster(&base.Cluster).Nodes
		out = append(out, s.Certain)
		req.Scenarios = append(req.Scenarios, whatifdoc.Scenario{ID: id, AddNodes: nodes[len(base.Cluster.Nodes):]})
	}
	if len(out) == 0 || weight == 0 {
		return nil, jobs, nil
	}
	if err := whatif.Check(req, nil); err != nil {
		return nil, jobs, err
	}
	told := false
	engine := whatif.Local{Parallel: slots, Solver: solver.Config{Workers: slots}}
	err = whatif.Run(ctx, req, engine, func(l *whatif.Line) error {
		if l.Line != whatifdoc.LineScenario || l.Err != nil || len(l.OptimumChange) != 2 {
			return nil
		}
		c := &out[*l.Index]
		at := func(a *hare.Amount) *float64 {
			if a == nil {
				return nil
			}
			x := max(0, -a.Float()/weight) // more GPUs never lengthen the best plan
			return &x
		}
		c.MostS, c.LeastS = at(l.OptimumChange[0]), at(l.OptimumChange[1])
		if !told && first != nil {
			told = true
			first(*c)
		}
		return nil
	})
	return out, jobs, err
}

// scenario is an option about which something is proved.
type scenario struct {
	capacitydoc.Certain
	option *option
}

// scenarios are the options without outages that add GPUs, and for each added type as many as the jobs of base could
// use at once.
func (p *plan) scenarios(base *hare.Instance) (out []scenario) {
	types := map[string]bool{}
	for i := range p.options {
		o := &p.options[i]
		for _, g := range o.add {
			types[g.Type] = true
		}
		if len(o.add) > 0 && len(o.drops) == 0 {
			out = append(out, scenario{capacitydoc.Certain{Option: o.text}, o})
		}
	}
	for _, b := range p.buy {
		types[b.gpuType] = true
	}
	for _, name := range sortedKeys(types) {
		if n := widest(base, name); n > 0 {
			out = append(out, scenario{capacitydoc.Certain{Option: name, Endless: true},
				&option{add: []hare.TypeCount{{Type: name, Count: n}}}})
		}
	}
	return out
}

// lastJobs is the history with its last jobs alone, and the sum of their weights.
func (p *plan) lastJobs() (*hare.Instance, float64) {
	out := *p.Instance
	out.Objective = hare.ObjectiveWeightedJCT
	out.Cluster = p.draw.cluster
	out.Jobs = nil
	for i := range p.Instance.Jobs {
		if j := p.Instance.Jobs[i]; !j.Running() && j.FirstRound() == 0 {
			j.After, j.Progress = nil, nil
			out.Jobs = append(out.Jobs, j)
		}
	}
	slices.SortStableFunc(out.Jobs, func(a, b hare.Job) int { return cmp.Compare(a.ReleaseUs, b.ReleaseUs) })
	out.Jobs = out.Jobs[max(0, len(out.Jobs)-certainJobs):]
	begin, sum := out.Jobs[0].ReleaseUs, 0.0
	for i := range out.Jobs {
		out.Jobs[i].ReleaseUs -= begin
		sum += float64(out.Jobs[i].WeightMicro) / 1e6
		if d := &out.Jobs[i].DeadlineUs; *d > 0 {
			*d = max(1, *d-begin)
		}
	}
	return &out, sum
}

// widest is how many GPUs of a type the jobs can use at once, as far as options may add them.
func widest(inst *hare.Instance, gpuType string) int {
	n := int64(0)
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if slices.ContainsFunc(j.On, func(p hare.Profile) bool { return p.Type == gpuType }) {
			n = min(maxAdded, n+min(maxAdded, j.Tasks*j.TaskGPUs()))
		}
	}
	return int(n)
}
