package capacity

import (
	"cmp"
	"context"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/whatif"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

const (
	// certainJobs is up to how many jobs of the history what is certain is about: its last ones.
	certainJobs = 2000
	// certainWork is the work limit of each plan for what is certain.
	certainWork = 300_000
)

// Certain is what no scheduler can go beyond, for the jobs of the history, or its last ones, on the cluster of an
// option. It goes by plans that know all jobs beforehand and by proved bounds.
type Certain struct {
	Option string `json:"option"`
	// LeastS and MostS are by how much the best plan's mean completion, weighted, gets shorter at least and at most, in
	// seconds; nil is not known.
	LeastS *float64 `json:"least_s"`
	MostS  *float64 `json:"most_s"`
	// Endless says that this is about any number of GPUs of the one type.
	Endless bool `json:"endless,omitempty"`
}

// certain compares the best plans of the history's jobs on all options by what-ifs, and on the cluster with as many
// GPUs of each added type as the jobs could use at once. first is called with the first that is known.
func (p *plan) certain(ctx context.Context, slots int, first func(Certain)) (out []Certain, jobs int, err error) {
	base, weight := p.lastJobs()
	jobs = len(base.Jobs)
	req := &whatifdoc.Request{Base: whatifdoc.Base{Instance: base},
		Options: wire.Options{WorkLimit: certainWork}}
	add := func(c Certain, o *option) {
		s := whatifdoc.Scenario{ID: c.Option}
		if c.Endless {
			s.ID = "any " + c.Option
		}
		nodes := o.cluster(&base.Cluster).Nodes
		s.AddNodes = nodes[len(base.Cluster.Nodes):]
		out, req.Scenarios = append(out, c), append(req.Scenarios, s)
	}
	types := map[string]bool{}
	for i := range p.options {
		o := &p.options[i]
		for _, g := range o.add {
			types[g.Type] = true
		}
		if len(o.add) > 0 && len(o.drops) == 0 {
			add(Certain{Option: o.text}, o)
		}
	}
	for _, b := range p.buy {
		types[b.gpuType] = true
	}
	for _, name := range sortedKeys(types) {
		if n := widest(base, name); n > 0 {
			add(Certain{Option: name, Endless: true}, &option{add: []hare.TypeCount{{Type: name, Count: n}}})
		}
	}
	if len(req.Scenarios) == 0 || weight == 0 {
		return nil, jobs, nil
	}
	if err := whatif.Check(req, nil); err != nil {
		return nil, jobs, err
	}
	told := false
	err = whatif.Run(ctx, req, whatif.Local{Parallel: slots}, func(l *whatif.Line) error {
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

// lastJobs is the history with its last jobs alone, and the sum of their weights.
func (p *plan) lastJobs() (*hare.Instance, float64) {
	out := *p.History
	out.Objective = hare.ObjectiveWeightedJCT
	out.Cluster = p.draw.cluster
	out.Jobs = nil
	for i := range p.History.Jobs {
		if j := p.History.Jobs[i]; !j.Running() && j.FirstRound() == 0 {
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
