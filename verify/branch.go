package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// A certificate of the method branch is a tree whose leaves cover all schedules that matter
// (docs/inside/bounds.md#branch-prices-of-jobs-and-trees).
// divisible and newBranchTree refuse instances for which the method proves nothing.

// branchBound returns the least bound of the leaves of a tree (docs/inside/bounds.md#branch-prices-of-jobs-and-trees).
// The work of its nodes and that of its leaves are each at most maxPriceWork.
func branchBound(ctx context.Context, inst *hare.Instance, s *supply, c *hare.Certificate) (*proved, error) {
	if c.StepUs != 0 || len(c.Pools)+len(c.After) > 0 {
		return nil, errors.New("a branch certificate has no step or pools, and moves no weight")
	}
	if inst.Objective != hare.ObjectiveWeightedJCT || s.placed {
		return nil, errors.New("a branch certificate is neither for other objectives nor for nodes that matter")
	}
	if err := divisible(inst, s); err != nil {
		if len(c.Tree) == 1 && c.Tree[0].Job == "" && len(c.PriceSets) <= 1 {
			return leafBound(ctx, inst, s, c)
		}
		return nil, err
	}
	t, err := newBranchTree(inst, s, c)
	if err != nil {
		return nil, err
	}
	var least *big.Int
	open := []*starts{t.all()}
	for n := range c.Tree {
		if len(open) == 0 {
			return nil, fmt.Errorf("entry %d of tree belongs to no node", n)
		}
		node := &c.Tree[n]
		now := open[len(open)-1]
		open = open[:len(open)-1]
		possible := t.narrow(ctx, now)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if node.Job == "" {
			if node.Prices < 0 || node.Prices >= len(t.prices) {
				return nil, fmt.Errorf("entry %d of tree has prices %d of %d", n, node.Prices, len(t.prices))
			}
			if !possible {
				continue
			}
			if t.spent.Add(t.spent, t.prices[node.Prices].work).Cmp(big.NewInt(maxPriceWork)) > 0 {
				return nil, fmt.Errorf("the leaves of the tree take too long to check, up to entry %d", n)
			}
			if v := t.leaf(ctx, now, node.Prices); least == nil || v.Cmp(least) < 0 {
				least = v
			}
			continue
		}
		first, second, err := t.divide(now, node)
		if err != nil {
			return nil, fmt.Errorf("entry %d of tree: %w", n, err)
		}
		open = append(open, second, first)
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("tree ends before its last %d nodes", len(open))
	}
	if least == nil {
		return nil, errors.New("no leaf of the tree has a schedule, which cannot be")
	}
	return &proved{low: new(big.Rat).SetFrac(least, big.NewInt(unit))}, nil
}

// newBranchTree refuses trees that take too long. Where E counts the pairs of a job and a type on which it may run,
// and C_k the times at which M_k changes, with 0, the limits are (types are those of the cluster):
//
//   - A tree has 1 to 2^17 nodes, and no more price_sets than nodes. Nodes · jobs · types are at most 2^24.
//   - Nodes · (8 E + types) · (E + the greatest C_k) are at most 2^33.
//   - A leaf that is not empty counts (E + types) · entries of grid_us, and for each type k with rows of jobs or sizes
//     (cells + C_k + 6 · jobs) · (1 + max_t M_k(t)) · (1 + these rows). The sum over such leaves is at most 2^33.
//   - In a set with jobs, the dearest price times (rows of jobs + the greatest max_t M_k(t)) is at most 2^62.
func newBranchTree(inst *hare.Instance, s *supply, c *hare.Certificate) (*branchTree, error) {
	nodes, each := len(c.Tree), len(inst.Jobs)*len(s.capacities)
	if nodes == 0 || len(c.PriceSets) > nodes {
		return nil, fmt.Errorf("a tree of %d nodes has %d price_sets, which are too many", nodes, len(c.PriceSets))
	}
	if nodes > hare.MaxBranchNodes || each > hare.MaxBranchDomains || nodes*each > hare.MaxBranchDomains {
		return nil, fmt.Errorf("a tree of %d nodes is too large to check for %d jobs", nodes, len(inst.Jobs))
	}
	t := &branchTree{byID: map[string]int{}, spent: new(big.Int)}
	most := t.addKinds(s)
	for _, tc := range t.supply {
		t.last = max(t.last, tc.at[len(tc.at)-1])
	}
	sum := int64(0)
	for i := range inst.Jobs {
		job := &inst.Jobs[i]
		r := rigidJob{spec: job, length: make([]int64, len(t.kinds)), twin: -1}
		longest := int64(0)
		for _, p := range job.On {
			if k, ok := slices.BinarySearch(t.kinds, p.Type); ok && t.supply[k].most >= job.Tasks {
				length, fits := mul(job.Rounds, p.ComputeUs+p.SyncUs)
				if !fits {
					return nil, errLong(job)
				}
				r.length[k] = length
				r.kinds = append(r.kinds, k)
				longest = max(longest, length)
			}
		}
		if longest == 0 {
			return nil, errNever
		}
		if sum += longest; sum > hare.MaxExact {
			return nil, errLong(job)
		}
		t.last = max(t.last, job.ReleaseUs)
		slices.Sort(r.kinds)
		t.pairs += int64(len(r.kinds))
		t.byID[job.ID] = i
		t.jobs = append(t.jobs, r)
	}
	t.last += sum
	work := times(int64(nodes), sweeps*t.pairs+int64(len(t.kinds)), t.pairs+int64(most))
	if work.Cmp(big.NewInt(maxPriceWork)) > 0 {
		return nil, fmt.Errorf("a tree of %d nodes takes too long to check for %d jobs", nodes, len(t.jobs))
	}
	t.findTwins()
	return t, t.addPrices(s, c)
}

// findTwins finds equal jobs; they may be taken to start in the order of their indices.
func (t *branchTree) findTwins() {
	last := map[string]int{}
	t.later = make([]int, len(t.jobs))
	for i := range t.jobs {
		j := &t.jobs[i]
		t.later[i] = -1
		key := fmt.Sprint(j.spec.WeightMicro, j.spec.ReleaseUs, j.spec.Tasks, j.length)
		if before, ok := last[key]; ok {
			j.twin, t.later[before] = before, i
		}
		last[key] = i
	}
}

// addPrices reads the price sets.
func (t *branchTree) addPrices(s *supply, c *hare.Certificate) error {
	for x, set := range priceSets(c) {
		pc, _, err := readPrices(s, &hare.Certificate{GridUs: set.GridUs, Prices: set.Prices, Sizes: set.Sizes})
		if err != nil {
			return fmt.Errorf("prices %d: %w", x, err)
		}
		own, err := t.ownPrices(&set)
		if err != nil {
			return fmt.Errorf("prices %d: %w", x, err)
		}
		p := treePrices{priceCertificate: pc, own: own, rows: make([]int64, len(t.kinds))}
		for at := range own {
			p.rows[at%len(t.kinds)]++
		}
		p.work = times(t.pairs+int64(len(t.kinds)), int64(len(set.GridUs)))
		for k, kind := range t.kinds {
			if goods := p.rows[k] + int64(len(pc.sizes[kind])); goods > 0 {
				cuts := len(set.GridUs) - 1 + len(t.supply[k].at) + 6*len(t.jobs)
				p.work.Add(p.work, times(int64(cuts), 1+t.supply[k].most, goods+1))
			}
		}
		t.prices = append(t.prices, p)
	}
	return nil
}

// all returns the starts at the root.
func (t *branchTree) all() *starts {
	st := &starts{}
	for i := range t.jobs {
		for _, length := range t.jobs[i].length {
			last := t.last
			if length == 0 {
				last = -1
			}
			st.first, st.last = append(st.first, t.jobs[i].spec.ReleaseUs), append(st.last, last)
		}
	}
	return st
}

// divide returns the two parts of a node.
func (t *branchTree) divide(st *starts, node *hare.BranchNode) (first, second *starts, err error) {
	i, ok := t.byID[node.Job]
	if !ok {
		return nil, nil, fmt.Errorf("there is no job %.40q", node.Job)
	}
	first, second = st.clone(), st.clone()
	base := i * len(t.kinds)
	if node.Type == "" {
		for x := base; x < base+len(t.kinds); x++ {
			first.last[x] = min(first.last[x], node.StartUs)
			second.first[x] = max(second.first[x], node.StartUs+1)
		}
		return first, second, nil
	}
	on, ok := slices.BinarySearch(t.kinds, node.Type)
	if !ok {
		return nil, nil, fmt.Errorf("the cluster has no type %.40q", node.Type)
	}
	for k := range t.kinds {
		if k == on {
			second.last[base+k] = -1
		} else {
			first.last[base+k] = -1
		}
	}
	return first, second, nil
}

// leaf returns what prices prove for schedules with these starts, in 1e-15 weight-seconds; nothing of
// use if ctx ends.
func (t *branchTree) leaf(ctx context.Context, st *starts, number int) *big.Int {
	total := new(big.Int)
	for i := range t.jobs {
		var phi *big.Int
		for _, k := range t.jobs[i].kinds {
			if x := i*len(t.kinds) + k; st.first[x] <= st.last[x] {
				if v := t.block(st, number, i, k); phi == nil || v.Cmp(phi) < 0 {
					phi = v
				}
			}
		}
		total.Add(total, phi)
		spec := t.jobs[i].spec
		total.Sub(total, times(spec.WeightMicro, 1000, spec.ReleaseUs))
	}
	for k, kind := range t.kinds {
		if ctx.Err() != nil {
			break
		}
		free := atLeastNone(t.left(st, k, -1))
		if t.prices[number].rows[k] > 0 {
			total.Sub(total, t.prices[number].dearestSets(ctx, kind, free, t.listed(st, number, k)))
		} else {
			total.Sub(total, t.prices[number].costOf(kind, free))
		}
	}
	return total
}

// listed returns the jobs with prices of their own that may run on type k.
func (t *branchTree) listed(st *starts, number, k int) (out []once) {
	for i := range t.jobs {
		x := i*len(t.kinds) + k
		if own := t.prices[number].own[x]; own != nil && st.first[x] <= st.last[x] {
			from, to := t.core(st, i, k)
			out = append(out, once{t.jobs[i].spec.Tasks, st.first[x], st.last[x] + t.jobs[i].length[k], from, to, own.prices})
		}
	}
	return out
}

// block returns the least w C + price of job i on type k, where its core costs nothing.
func (t *branchTree) block(st *starts, number, i, k int) *big.Int {
	pc, job, x := t.prices[number], &t.jobs[i], i*len(t.kinds)+k
	units, curve := job.spec.Tasks, pc.curves[resource{t.kinds[k], 1}]
	if own := pc.curves[resource{t.kinds[k], job.spec.Tasks}]; own != nil {
		units, curve = 1, own
	}
	if own := pc.own[x]; own != nil {
		units, curve = 1, own
	}
	length := job.length[k]
	// Floats drop the starts whose cost is not near the least cost; each cost is exact within a few
	// units of 2^-53 of size.
	type block struct {
		start int64
		cost  float64
	}
	var all []block
	least, size := math.Inf(1), 0.0
	try := func(start int64) {
		if start < st.first[x] || start > st.last[x] {
			return
		}
		cost, spent := float64(job.spec.WeightMicro)*1000*float64(start+length), curve.upToF(start+length)
		v := cost + float64(units)*(spent-curve.upToF(start))
		size = max(size, cost+float64(units)*spent)
		least = min(least, v)
		all = append(all, block{start, v})
	}
	try(st.first[x])
	try(st.last[x])
	if curve != nil {
		for _, g := range curve.grid {
			try(g)
			try(g - length)
		}
	}
	var best *big.Int
	for _, b := range all {
		if b.cost > least+size*0x1p-48 {
			continue
		}
		v := curve.upTo(b.start + length)
		v.Sub(v, curve.upTo(b.start)).Mul(v, big.NewInt(units))
		if v.Add(v, times(job.spec.WeightMicro, 1000, b.start+length)); best == nil || v.Cmp(best) < 0 {
			best = v
		}
	}
	if from, to := t.core(st, i, k); from < to {
		free := curve.upTo(to)
		best.Sub(best, free.Sub(free, curve.upTo(from)).Mul(free, big.NewInt(units)))
	}
	return best
}
