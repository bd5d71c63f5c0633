package branch

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// gridCells is the number of cells of the grid of a tree, that of the usual bound by prices. kept is how many of the
// prices that closed nodes lately are tried at a node first, which costs one evaluation each.
const (
	gridCells = 96
	kept      = 8
)

// maxNumbers limits the prices that are found, of which a certificate has a part, and maxNodes the nodes of its tree.
const (
	maxNumbers = 1 << 20
	maxNodes   = 60_000
)

// Place is where a rigid job runs: on which type, an index in Model.Types, and from when.
type Place struct {
	Type    int
	StartUs int64
}

// Config tunes Run.
type Config struct {
	// Places are those of the jobs in a feasible schedule, which bounds the search from above.
	Places []Place
	// Prices is a certificate of the instance by prices, from which the search starts.
	Prices *hare.Certificate
	// Evaluations limits the number of times that all jobs are priced; zero means no limit.
	Evaluations int64
	// Report is called after each node with the number of nodes and the least bound, in 1e-12
	// weight-seconds. It may be nil.
	Report func(nodes int, bound float64)
}

// Outcome is what Run found.
type Outcome struct {
	// Certificate proves Bound; nil if the values or prices of the instance are too large for a tree.
	Certificate *hare.Certificate
	Bound       hare.Amount
	// Places are those of a better schedule than Config.Places, or nil.
	Places  []Place
	Nodes   int
	Optimal bool // the places, or those of the configuration, are optimal
}

// node is a part of the schedules.
type node struct {
	d      domain
	bound  float64 // what prices prove
	prices *Prices // nil for prices of zero
	empty  bool    // no schedule is in the node
	split  split
	below  [2]*node // nil for a leaf
}

// queue has the nodes that are not closed, the least bound first.
type queue []*node

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].bound < q[j].bound }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*node)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// split divides a node: by whether the job is on a type, or else by whether it starts by a time.
type split struct {
	job, kind int // kind is −1 for a split by start
	start     int64
}

// sides returns the two parts of a domain.
func (pr *Problem) sides(d *domain, s split) [2]domain {
	a, b := d.clone(), d.clone()
	for k := range pr.types {
		x := s.job*len(pr.types) + k
		switch {
		case s.kind < 0:
			a.hi[x] = min(a.hi[x], s.start)
			b.lo[x] = max(b.lo[x], s.start+1)
		case k == s.kind:
			b.hi[x] = none
		default:
			a.hi[x] = none
		}
	}
	return [2]domain{a, b}
}

// earliest splits at the block that may end first: by its type if the job has others, else by its
// start. It returns false if every job has one start.
func (pr *Problem) earliest(d *domain) (split, bool) {
	var best split
	end := int64(math.MaxInt64)
	for i := range pr.jobs {
		only := pr.only(d, i)
		for k := range pr.types {
			x := i*len(pr.types) + k
			if d.lo[x] > d.hi[x] || only >= 0 && d.lo[x] == d.hi[x] || d.lo[x]+pr.jobs[i].length[k] >= end {
				continue
			}
			end = d.lo[x] + pr.jobs[i].length[k]
			best = split{i, k, 0}
			if only >= 0 {
				best = split{i, -1, d.lo[x]}
			}
		}
	}
	return best, end < math.MaxInt64
}

// search is one call of Run.
type search struct {
	pr     *Problem
	dual   *dual
	cfg    *Config
	target int64 // the value of the best schedule
	places []Place
	open   queue
	lately []*Prices // that closed nodes lately
	nodes  int
	climbs int // each of which finds new prices
}

// Run bounds the instance by branch and bound until the best schedule is proved optimal, or a limit
// is reached. The same configuration gives the same outcome unless ctx ends.
func Run(ctx context.Context, pr *Problem, cfg Config) *Outcome {
	s := &search{pr: pr, cfg: &cfg}
	var ok bool
	if s.target, ok = pr.value(cfg.Places); !ok {
		return &Outcome{}
	}
	last := int64(1)
	for i, p := range cfg.Places {
		last = max(last, p.StartUs+pr.jobs[i].length[p.Type])
	}
	grid := pr.grid(cfg.Prices.GridUs, last)
	if len(grid) < 2 {
		return &Outcome{}
	}
	s.dual = newDual(pr, grid)
	most := min(maxNodes, hare.MaxBranchDomains/max(1, len(pr.jobs)*len(pr.types)))
	root := s.node(ctx, s.dual.transfer(cfg.Prices), pr.root(), rootSteps)
	for len(s.open) > 0 && s.nodes < most && ctx.Err() == nil && !s.spent() {
		n := heap.Pop(&s.open).(*node)
		if s.closed(n.bound) {
			continue // a better schedule was found
		}
		if cfg.Report != nil {
			cfg.Report(s.nodes, n.bound)
		}
		by, ok := pr.earliest(&n.d)
		if !ok {
			break // never: single schedules are not queued
		}
		n.split = by
		for x, d := range pr.sides(&n.d, by) {
			n.below[x] = s.node(ctx, n.prices, d, nodeSteps)
		}
	}
	return s.outcome(root)
}

// grid returns some of the points of a grid of prices, which is denser where prices change.
func (pr *Problem) grid(points []int64, last int64) []int64 {
	cells := len(points) - 1
	if cells < gridCells/2 {
		grid := []int64{0}
		for g := range gridCells {
			x := float64(g+1) / float64(gridCells)
			if t := int64(float64(last) * x * (0.4 + 0.6*x)); t > grid[len(grid)-1] {
				grid = append(grid, t)
			}
		}
		return grid
	}
	n := min(cells, gridCells)
	grid := make([]int64, n+1)
	for g := range grid {
		grid[g] = points[g*cells/n]
	}
	return grid
}

// goal is the bound, in floats, at which a node is closed.
func (s *search) goal() float64 { return float64(s.target) }

// closed reports whether a bound, which is lowered by its margin, closes a node.
func (s *search) closed(bound float64) bool { return bound >= s.goal() }

func (s *search) spent() bool {
	return s.cfg.Evaluations > 0 && s.dual.evaluations >= s.cfg.Evaluations ||
		s.climbs*len(s.dual.rows)*len(s.dual.grid) > maxNumbers
}

// node bounds a part of the schedules, starting from prices, and queues it unless it is closed.
func (s *search) node(ctx context.Context, from *Prices, d domain, steps int) *node {
	pr := s.pr
	s.nodes++
	n := &node{d: d}
	if n.empty = !pr.narrow(&n.d); n.empty {
		n.bound = math.Inf(1)
		return n
	}
	// Without prices, the bound is exact.
	least, places := pr.leastEnds(&n.d)
	if least >= s.target {
		n.bound = float64(least)
		return n
	}
	if places != nil { // a single schedule
		n.bound = float64(least)
		s.target, s.places = least, places
		return n
	}
	for i, p := range s.lately {
		if v := s.dual.least(&n.d, p); s.closed(v) {
			n.bound, n.prices = v, p
			copy(s.lately[1:i+1], s.lately[:i])
			s.lately[0] = p
			return n
		}
	}
	if left := s.cfg.Evaluations - s.dual.evaluations; s.cfg.Evaluations > 0 && int64(steps) > left {
		steps = int(max(1, left))
	}
	s.climbs++
	n.bound, n.prices = s.dual.climb(ctx, &n.d, from, s.goal(), steps)
	if s.closed(n.bound) {
		s.lately = append([]*Prices{n.prices}, s.lately[:min(len(s.lately), kept-1)]...)
		return n
	}
	heap.Push(&s.open, n)
	return n
}

// value returns Σ w (C − a) of places, in 1e-12 weight-seconds, or false if it is too large.
func (pr *Problem) value(places []Place) (sum int64, ok bool) {
	for i, p := range places {
		j := &pr.jobs[i]
		if sum, ok = addCost(sum, j.weight, p.StartUs+j.length[p.Type]-j.release); !ok {
			return 0, false
		}
	}
	return sum, true
}

// addCost returns sum + weight · time, or false if that is above 2^62.
func addCost(sum, weight, time int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(weight), uint64(time))
	if hi > 0 || lo > 1<<62-uint64(sum) {
		return 0, false
	}
	return sum + int64(lo), true
}

// leastEnds returns Σ w (C − a) if each job had its earliest end, in 1e-12 weight-seconds, and the
// places of the jobs if they have no others.
func (pr *Problem) leastEnds(d *domain) (sum int64, places []Place) {
	single := true
	places = make([]Place, len(pr.jobs))
	for i := range pr.jobs {
		j := &pr.jobs[i]
		end := int64(math.MaxInt64)
		starts := 0
		for k := range pr.types {
			x := i*len(pr.types) + k
			if d.lo[x] > d.hi[x] {
				continue
			}
			starts++
			single = single && d.lo[x] == d.hi[x]
			if e := d.lo[x] + j.length[k]; e < end {
				end, places[i] = e, Place{k, d.lo[x]}
			}
		}
		single = single && starts == 1
		var ok bool
		if sum, ok = addCost(sum, j.weight, end-j.release); !ok {
			return math.MaxInt64, nil
		}
	}
	if !single {
		places = nil
	}
	return sum, places
}

// outcome writes the certificate.
func (s *search) outcome(root *node) *Outcome {
	out := &Outcome{Places: s.places, Nodes: s.nodes}
	least := float64(s.target)
	for _, n := range s.open {
		least = min(least, n.bound)
	}
	out.Optimal = least >= float64(s.target)
	w := &writer{s: s, least: least, index: map[*Prices]int{}, cert: &hare.Certificate{
		Method: hare.MethodBranch, Path: true, Objective: hare.ObjectiveWeightedJCT,
		GridUs: s.cfg.Prices.GridUs, Prices: s.cfg.Prices.Prices, Sizes: s.cfg.Prices.Sizes,
	}}
	w.write(root)
	bound := s.target
	if !out.Optimal {
		bound = int64(math.Floor(least))
	}
	out.Bound, _ = hare.AmountFromBig(big.NewInt(bound))
	w.cert.Bound = out.Bound.Bound6()
	out.Certificate = w.cert
	return out
}

// writer turns a tree into a certificate.
type writer struct {
	s     *search
	cert  *hare.Certificate
	least float64
	index map[*Prices]int
}

// write appends a node and what is below it. A node whose own bound is no less than the bound of the
// tree becomes a leaf.
func (w *writer) write(n *node) {
	if n.below[0] == nil || n.bound >= w.least {
		w.cert.Tree = append(w.cert.Tree, hare.BranchNode{Prices: w.prices(n)})
		return
	}
	pr := w.s.pr
	b := hare.BranchNode{Job: pr.model.Instance.Jobs[n.split.job].ID, StartUs: n.split.start}
	if n.split.kind >= 0 {
		b.Type = pr.model.Types[n.split.kind]
	}
	w.cert.Tree = append(w.cert.Tree, b)
	w.write(n.below[0])
	w.write(n.below[1])
}

// prices returns the number of the prices of a leaf.
func (w *writer) prices(n *node) int {
	if n.empty {
		return 0
	}
	if x, ok := w.index[n.prices]; ok {
		return x
	}
	set := hare.PriceSet{GridUs: []int64{0, 1}}
	if n.prices != nil {
		set = w.s.dual.set(n.prices)
	}
	w.cert.PriceSets = append(w.cert.PriceSets, set)
	w.index[n.prices] = len(w.cert.PriceSets)
	return w.index[n.prices]
}

// set returns prices as a certificate has them.
func (e *dual) set(p *Prices) hare.PriceSet {
	set := hare.PriceSet{GridUs: e.grid}
	for r, row := range e.rows {
		nanos := make([]int64, len(p.at[r]))
		for g, x := range p.at[r] {
			nanos[g] = int64(math.Round(x * nano))
		}
		if slices.Max(nanos) > 0 {
			set.Jobs = append(set.Jobs, hare.JobPrices{Job: e.pr.model.Instance.Jobs[row.job].ID,
				Type: e.pr.model.Types[row.kind], Nanos: nanos})
		}
	}
	slices.SortFunc(set.Jobs, func(a, b hare.JobPrices) int {
		return cmp.Or(strings.Compare(a.Job, b.Job), strings.Compare(a.Type, b.Type))
	})
	return set
}
