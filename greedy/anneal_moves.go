package greedy

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// menu draws a job and a type with probability falling in the reduced cost of
// the pair; shared, read-only.
type menu struct {
	pairs []pair
	sum   []float64 // of weights up to each pair
}

const leastWeight = 0.003

type pair struct {
	job int32
	typ int16
}

// newMenu weighs each pair by exp(−reduced cost / scale), scale in
// weight-seconds. O(jobs · types · grid).
func newMenu(p *annealProblem, scale float64) *menu {
	mn := &menu{}
	total := 0.0
	for i := range p.jobs {
		j := &p.jobs[i]
		types := j.whole
		if len(j.chain) > len(types) {
			types = j.chain
		}
		least := math.Inf(1)
		cost := make([]float64, len(types))
		for n, k := range types {
			cost[n] = p.reducedCost(j, k)
			least = min(least, cost[n])
		}
		for n, k := range types {
			if math.IsInf(cost[n], 1) {
				continue
			}
			// No pair is ruled out: the best plan may need it.
			total += max(leastWeight, math.Exp((least-cost[n])/scale))
			mn.pairs = append(mn.pairs, pair{int32(i), k})
			mn.sum = append(mn.sum, total)
		}
	}
	return mn
}

func (mn *menu) draw(r *rand.Rand) pair {
	x := r.Float64() * mn.sum[len(mn.sum)-1]
	return mn.pairs[min(sort.SearchFloat64s(mn.sum, x), len(mn.pairs)-1)]
}

// walker is one annealing chain.
type walker struct {
	d        *decoder
	r        *rand.Rand
	menu     *menu
	value    float64 // of the decoder's state
	best     float64
	bestKey  []int64
	bestPlan []jobPlan
	bestEnd  []int64
	better   bool // than at the last look
	stats    Stats
}

func newWalker(p *annealProblem, mn *menu, key []int64, plan []jobPlan, r *rand.Rand) *walker {
	w := &walker{d: newDecoder(p), r: r, menu: mn, bestKey: slices.Clone(key), bestPlan: slices.Clone(plan), bestEnd: make([]int64, len(plan))}
	w.d.load(key, plan) // has been decoded before
	w.value = w.d.value()
	w.best = w.value
	return w
}

// run makes moves at temperature t, in weight-seconds, until the decoder has
// placed another work jobs or ctx ends.
func (w *walker) run(ctx context.Context, t float64, work int64) {
	for limit, n := w.d.work+work, 0; w.d.work < limit; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return
		}
		w.d.work++ // a move counts, even when it changes nothing
		w.stats.Moves++
		// A rise is accepted with probability exp(−rise / t).
		most := t * w.r.ExpFloat64()
		w.d.limit = most + giveUp*w.value/float64(len(w.d.key))
		var delta float64
		var ok bool
		switch x := w.r.IntN(16); {
		case x < 3:
			delta, ok = w.shift()
		case x < 6:
			delta, ok = w.swap()
		default:
			delta, ok = w.replan()
		}
		if len(w.d.undo) == 0 {
			continue
		}
		w.stats.Evaluations++
		if !ok || delta > most {
			w.d.rollback()
			continue
		}
		w.d.commit()
		w.value += delta
		w.stats.Accepted++
		if w.value < w.best*(1-1e-12) {
			w.best = w.value
			copy(w.bestKey, w.d.key)
			copy(w.bestPlan, w.d.plan)
			copy(w.bestEnd, w.d.end)
			w.better = true
		}
	}
}

// between is a key that puts a job between places i−1 and i of the sequence of
// type k, job j itself not counted.
func (w *walker) between(k int16, i int, j int32) int64 {
	for {
		seq := w.d.seq[k]
		lo, hi := i-1, i
		if lo >= 0 && seq[lo].job == j {
			lo--
		}
		if hi < len(seq) && seq[hi].job == j {
			hi++
		}
		switch {
		case lo < 0 && hi >= len(seq):
			return 0
		case lo < 0:
			if key := w.d.key[seq[hi].job]; key > -keyLimit {
				return key - 1<<keyBits
			}
		case hi >= len(seq):
			if key := w.d.key[seq[lo].job]; key < keyLimit {
				return key + 1<<keyBits
			}
		default:
			a, b := w.d.key[seq[lo].job], w.d.key[seq[hi].job]
			if b-a > 1 {
				return a + (b-a)/2
			}
		}
		w.d.renumber()
	}
}

// Keys start 2^keyBits apart.
const (
	keyBits  = 32
	keyLimit = 1 << 60
)

// renumber spreads the keys out again without changing the order.
func (d *decoder) renumber() {
	for n, j := range d.order() {
		d.key[j] = int64(n) << keyBits
	}
}

// shift moves a job to another place of the order.
func (w *walker) shift() (delta float64, ok bool) {
	d := w.d
	j := int32(w.r.IntN(len(d.key)))
	k := d.plan[j].types[w.r.IntN(int(d.plan[j].n))]
	n := len(d.seq[k])
	if n < 2 {
		return 0, false
	}
	at := d.find(k, j)
	to := w.near(at, n)
	if to == at {
		return 0, false
	}
	if to > at {
		to++
	}
	return d.try(change{j, w.between(k, to, j), d.plan[j]})
}

// near draws another place of n, mostly close to at.
func (w *walker) near(at, n int) int {
	if w.r.IntN(10) == 0 {
		return w.r.IntN(n)
	}
	far := 1 + int(w.r.ExpFloat64()*(1+float64(n)/40))
	if w.r.IntN(2) == 0 {
		far = -far
	}
	return min(n-1, max(0, at+far))
}

// swap exchanges the places of two jobs in the order; of jobs on different
// types sometimes their plans too.
func (w *walker) swap() (delta float64, ok bool) {
	d := w.d
	a := int32(w.r.IntN(len(d.key)))
	k := d.plan[a].types[0]
	if w.r.IntN(3) > 0 {
		n := len(d.seq[k])
		at := d.find(k, a)
		b := d.seq[k][w.near(at, n)].job
		if a == b {
			return 0, false
		}
		return d.try(change{a, d.key[b], d.plan[a]}, change{b, d.key[a], d.plan[b]})
	}
	b := int32(w.r.IntN(len(d.key)))
	pa, pb := d.plan[a], d.plan[b]
	if a == b || pa.kind != whole || pb.kind != whole || pa.types[0] == pb.types[0] ||
		!slices.Contains(d.p.jobs[a].whole, pb.types[0]) || !slices.Contains(d.p.jobs[b].whole, pa.types[0]) {
		return 0, false
	}
	return d.try(change{a, d.key[b], pb}, change{b, d.key[a], pa})
}

// replan gives a job another plan, whole on a type that the menu draws or, for
// gang jobs, one over several types with it.
func (w *walker) replan() (delta float64, ok bool) {
	d := w.d
	pr := w.menu.draw(w.r)
	j := &d.p.jobs[pr.job]
	plan := wholeOn(pr.typ)
	if !j.rigid {
		plan = w.gangPlan(j, pr.typ)
	}
	if plan == d.plan[pr.job] || plan.kind == whole && !slices.Contains(j.whole, pr.typ) {
		return 0, false
	}
	key := d.key[pr.job]
	if n := len(d.seq[pr.typ]); n > 1 && w.r.IntN(2) == 0 {
		at := min(d.find(pr.typ, pr.job), n-1)
		key = w.between(pr.typ, w.near(at, n), pr.job)
	}
	return d.try(change{pr.job, key, plan})
}

// gangPlan draws a plan for a gang job in which type k takes part. Chains use
// the gaps that others leave; they are worth most, those over several types
// above all, though these cost the most to decode.
func (w *walker) gangPlan(j *annealJob, k int16) jobPlan {
	x := w.r.IntN(20)
	if x < 2 {
		return wholeOn(k)
	}
	if x < 11 || len(j.chain) < 2 {
		return chainOver(k)
	}
	if x < 13 && len(j.chain) > 2 {
		return chainOver(j.chain[:min(len(j.chain), maxSet)]...)
	}
	other := j.chain[w.r.IntN(len(j.chain))]
	if other == k {
		return chainOver(k)
	}
	if x == 13 && j.rounds > 1 {
		p := jobPlan{kind: split, n: 2, types: [maxSet]int16{k, other}, rounds: 1 + w.r.Int64N(j.rounds-1)}
		if w.r.IntN(2) == 0 {
			p.types[0], p.types[1] = other, k
		}
		return p
	}
	return chainOver(min(k, other), max(k, other))
}

// keysOf numbers the jobs in their order.
func keysOf(order []int32) []int64 {
	key := make([]int64, len(order))
	for n, j := range order {
		key[j] = int64(n) << keyBits
	}
	return key
}

// orderBy sorts the jobs by rank, ties by job.
func orderBy(rank []float64) []int32 {
	order := make([]int32, len(rank))
	for j := range order {
		order[j] = int32(j)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(rank[a], rank[b]) })
	return order
}
