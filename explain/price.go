package explain

import (
	"cmp"
	"errors"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// maxPlaces is how many nodes, or domains of a level, a job is tried on alone, at most.
const maxPlaces = 12

// jobPrices are what one job of a schedule pays at the prices of a certificate.
type jobPrices struct {
	inst    *hare.Instance // with running work as its jobs say
	view    *laneView
	job     int
	charges *verify.Charges // nil where the job pays nothing
	cert    *hare.Certificate
	none    []string // why the job pays nothing
	curves  map[secondAt]*solver.PriceCurve
}

// secondAt is what the price of a second depends on.
type secondAt struct{ shape, kind, spread, node int }

// newJobPrices reads the prices for a job. The error says that the certificate is none of the instance.
func newJobPrices(inst *hare.Instance, v *laneView, job int, c *hare.Certificate) (*jobPrices, error) {
	p := &jobPrices{inst: inst, view: v, job: job, cert: c, curves: map[secondAt]*solver.PriceCurve{}}
	ch, err := verify.NewCharges(inst, c)
	switch {
	case errors.Is(err, verify.ErrNoCharges):
		p.none = []string{"the certificate of this result has no prices, and so this explanation has none"}
		if inst.Objective == hare.ObjectiveMakespan {
			p.none = []string{"a makespan is not a sum over jobs, and so this explanation has no prices"}
		}
		return p, nil
	case err != nil:
		return nil, &hare.InvalidError{Pointer: "/certificate", Code: "invalid_certificate", Detail: err.Error()}
	case ch.Fixed(job):
		p.none = []string{"the job ends with the work that runs at time 0, for which no plan pays"}
		return p, nil
	}
	p.charges = ch
	return p, nil
}

// paid returns what an entry of the job pays in a run of rounds, in weight-seconds. Work that runs at time 0 pays
// nothing.
func (jp *jobPrices) paid(r *roundRun, e *jobEntry) float64 {
	if r.round < jp.charges.FirstRound(jp.job) {
		return 0
	}
	at := secondAt{e.shape, e.kind, r.spread, jp.view.model.GPUs[e.gpu].Node}
	curve := jp.curves[at]
	if curve == nil {
		nanos, _ := jp.charges.Second(jp.job, e.shape, jp.view.model.Types[e.kind], r.spread, at.node)
		in := jp.view.jobIn(jp.job, e.shape)
		curve = solver.NewPriceCurve(jp.cert.GridUs, nanos, in.Tasks*in.GPUs)
		jp.curves[at] = curve
	}
	return curve.Paid(e.start+(r.round-e.round)/e.units*e.period, e.period, r.rounds, e.hold)
}

// explain fills in Price and Elsewhere. gap is value − bound.
func (jp *jobPrices) explain(a *explaindoc.Answer, runs []roundRun, gap float64) {
	if jp.charges == nil {
		return
	}
	v, job := jp.view, &jp.inst.Jobs[jp.job]
	p := &explaindoc.Price{Cost: a.Cost}
	if w := jp.charges.WeightMicro(jp.job); w != job.WeightMicro {
		moved := hare.Seconds(w)
		p.Weight = &moved
		p.Cost = a.Cost.Add(hare.Product(w-job.WeightMicro, int64(a.JCTS)))
	}
	held, paid := make([]int64, len(v.model.Types)), make([]float64, len(v.model.Types))
	for i := range runs {
		r := &runs[i]
		if r.round < jp.charges.FirstRound(jp.job) {
			continue
		}
		for k := range r.entries {
			q := &r.entries[k]
			held[q.kind] += r.rounds * q.hold
			paid[q.kind] += jp.paid(r, q)
		}
	}
	for k, name := range v.model.Types {
		if held[k] > 0 {
			p.ByType = append(p.ByType, explaindoc.TypeCharge{Type: name, GPUs: hare.Seconds(held[k]),
				Paid: sixDecimals(paid[k])})
			p.Paid += paid[k]
		}
	}
	least, err := jp.charges.Least(jp.job)
	if err != nil {
		return // impossible for a job of a schedule of the instance
	}
	phi, _ := least.Float64()
	reduced := max(0, p.Cost.Float()+p.Paid-phi)
	if gap > 0 {
		p.ReducedShare = sixDecimals(reduced / gap)
	}
	p.Paid, p.Least, p.Reduced = sixDecimals(p.Paid), sixDecimals(phi), sixDecimals(reduced)
	a.Price = p
	jp.elsewhere(a, phi)
}

// elsewhere fills in Elsewhere: what the job would cost on each type alone and, where nodes matter, on each type in
// each of some places alone. phi is what it costs at least anywhere.
func (jp *jobPrices) elsewhere(a *explaindoc.Answer, phi float64) {
	v, job := jp.view, &jp.inst.Jobs[jp.job]
	prices := solver.NewPrices(v.model, jp.cert)
	// Ends are those of the cheapest fluid or block, by the prices of types.
	simple := !v.model.Placed && job.Shapes == nil && len(job.After) == 0 && a.LateS == nil && len(jp.cert.Pools) == 0 &&
		jp.inst.FirstRule(^(hare.RuleSwitch|hare.RuleProgress)) == ""
	places := jp.places()
	for _, kind := range kindsOf(job) {
		k, known := slices.BinarySearch(v.model.Types, kind)
		if !known {
			a.Elsewhere = append(a.Elsewhere, explaindoc.TypeCost{Type: kind, Detail: "the cluster has none"})
			continue
		}
		on := onType(job, kind)
		x := explaindoc.TypeCost{Type: kind}
		if !jp.costs(&x, on, phi) {
			x.Detail = "never enough of them together for a round"
		} else if simple {
			if end, ok := prices.End(jp.job, k, peakOf(v.model, k)); ok {
				e := hare.Seconds(end)
				x.EndS = &e
			}
		}
		a.Elsewhere = append(a.Elsewhere, x)
		if x.Least == nil {
			continue
		}
		for _, place := range places {
			there, ok := inPlace(on, place)
			if !ok || !jp.has(kind, &there) {
				continue
			}
			x := explaindoc.TypeCost{Type: kind, Label: place.Name, Place: place.Value}
			if !jp.costs(&x, there, phi) {
				x.Detail = "never room for a round"
			}
			a.Elsewhere = append(a.Elsewhere, x)
		}
	}
	slices.SortStableFunc(a.Elsewhere, func(a, b explaindoc.TypeCost) int {
		switch {
		case a.Least == nil || b.Least == nil:
			return cmp.Compare(boolToInt(a.Least == nil), boolToInt(b.Least == nil))
		}
		return cmp.Compare(*a.Least, *b.Least)
	})
}

// costs fills in what the job costs at least as it is in as, or returns false where it could not run.
func (jp *jobPrices) costs(x *explaindoc.TypeCost, as hare.Job, phi float64) bool {
	ch, err := jp.charges.As(jp.job, as)
	if err != nil {
		return false
	}
	least, err := ch.Least(jp.job)
	if err != nil {
		return false
	}
	f, _ := least.Float64()
	cost, more := sixDecimals(f), sixDecimals(max(0, f-phi))
	x.Least, x.More = &cost, &more
	return true
}

// places returns the domains of the coarsest label of the topology that has several, or the nodes, or nothing where
// nodes do not matter or these are too many.
func (jp *jobPrices) places() (all []hare.Label) {
	if !jp.view.model.Placed {
		return nil
	}
	label := ""
	if t := jp.inst.Cluster.Topology; len(t) > 0 {
		label = t[0]
	}
	add := func(name, value string) {
		if x := (hare.Label{Name: name, Value: value}); !slices.Contains(all, x) && len(all) <= maxPlaces {
			all = append(all, x)
		}
	}
	for i := range jp.inst.Cluster.Nodes {
		n := &jp.inst.Cluster.Nodes[i]
		for _, l := range n.Labels {
			if l.Name == label {
				add(label, l.Value)
			}
		}
	}
	if len(all) < 2 {
		all = nil
		for i := range jp.inst.Cluster.Nodes {
			add(hare.LabelNode, jp.inst.Cluster.Nodes[i].Name)
		}
	}
	if len(all) > maxPlaces || len(all) < 2 {
		return nil
	}
	return all
}

// has reports whether some node that a job may use has GPUs of a type.
func (jp *jobPrices) has(kind string, job *hare.Job) bool {
	return slices.ContainsFunc(jp.inst.Cluster.Nodes, func(n hare.Node) bool {
		return countOf(&n, kind) > 0 && job.AllowsNode(&n)
	})
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
