package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
)

// One Markov chain. A move puts a job at another position of the order (insertion), exchanges two jobs, or gives a
// job another plan. Positions near the old one are drawn more often, and a job with a type the more often the less
// they cost at the prices of the relaxation (pairSampler), which leads to plans that the bound would choose. The
// threshold of acceptance is drawn before a move is decoded: a move is given up as soon as it is sure to be above.
// Where the whole schedule behind the change has not been decoded yet, abortMargin is how much later jobs may make up
// for.

// pairSampler draws a job and a type; the probability falls with the reduced cost of the
// pair. A pairSampler is read-only, and all chains share it.
type pairSampler struct {
	pairs      []pair
	cumulative []float64 // the sum of the weights up to each pair
}

// minPairWeight is the least weight of a pair of a job and a type, where the best type of the job weighs 1: the best
// plan may need a pair that the prices make look poor.
const minPairWeight = 0.003

// abortMargin is the rise, in mean w (C − a), at which a trial is aborted.
const abortMargin = 0.15

type pair struct {
	job   int32
	typ   int16
	shape uint8
}

// newPairSampler weighs each pair by exp(−reduced cost / scale), with scale in
// weight-seconds. It takes O(jobs · types · grid).
func newPairSampler(ap *annealProblem, scale float64) *pairSampler {
	ps := &pairSampler{}
	total := 0.0
	for i := range ap.jobs {
		least := math.Inf(1)
		var cost []float64
		var pairs []pair
		ap.jobs[i].EachForm(func(j *room.Job) {
			types := j.ContiguousTypes
			if len(j.RoundTypes) > len(types) {
				types = j.RoundTypes
			}
			for _, k := range types {
				cost = append(cost, ap.reducedCost(j, k))
				least = min(least, cost[len(cost)-1])
				pairs = append(pairs, pair{int32(i), k, j.Shape})
			}
		})
		for n := range pairs {
			if math.IsInf(cost[n], 1) {
				continue
			}
			total += max(minPairWeight, math.Exp((least-cost[n])/scale))
			ps.pairs = append(ps.pairs, pairs[n])
			ps.cumulative = append(ps.cumulative, total)
		}
	}
	return ps
}

func (ps *pairSampler) sample(r *rand.Rand) pair {
	x := r.Float64() * ps.cumulative[len(ps.cumulative)-1]
	return ps.pairs[min(sort.SearchFloat64s(ps.cumulative, x), len(ps.pairs)-1)]
}

// walker is one Markov chain of the annealing.
type walker struct {
	decoder  *decoder
	r        *rand.Rand
	sampler  *pairSampler
	value    float64 // the value of the decoder's state
	best     float64
	bestKey  []int64
	bestPlan []room.JobPlan
	bestEnd  []int64
	improved bool // whether best is better than at the last collectBest
	stats    Stats
	// exchanges is whether the moves include those of exchangeTypes. They pay for tempering, whose hot
	// replicas accept many of them.
	exchanges bool
	changes   [2 * mostExchanged]change // of exchangeTypes
}

func newWalker(ap *annealProblem, sampler *pairSampler, key []int64, plan []room.JobPlan, r *rand.Rand) *walker {
	w := &walker{decoder: newDecoder(ap), r: r, sampler: sampler, bestKey: slices.Clone(key),
		bestPlan: slices.Clone(plan), bestEnd: make([]int64, len(plan))}
	w.decoder.load(key, plan) // this state was decoded before, so it fits
	w.value = w.decoder.value()
	w.best = w.value
	return w
}

// run makes moves at temperature t, in weight-seconds, until the decoder has placed
// another work jobs or ctx ends.
func (w *walker) run(ctx context.Context, t float64, work int64) {
	for limit, n := w.decoder.work+work, 0; w.decoder.work < limit; n++ {
		if n%place.CheckEvery == 0 && ctx.Err() != nil {
			return
		}
		w.decoder.work++ // a move counts even if it changes nothing
		w.stats.Moves++
		// A rise is accepted with probability exp(−rise / t).
		most := t * w.r.ExpFloat64()
		w.decoder.abortAbove = most + abortMargin*w.value/float64(len(w.decoder.key))
		var delta float64
		var ok bool
		switch x := w.r.IntN(16); {
		case x < 3:
			delta, ok = w.shift()
		case x < 6:
			delta, ok = w.swap()
		case x < 9 && w.exchanges:
			delta, ok = w.exchangeTypes()
		default:
			delta, ok = w.reassign()
		}
		if len(w.decoder.undoLog) == 0 {
			continue
		}
		w.stats.Evaluations++
		if !ok || delta > most {
			w.decoder.rollback()
			continue
		}
		w.decoder.commit()
		w.value += delta
		w.stats.Accepted++
		if w.value < w.best*(1-1e-12) {
			w.best = w.value
			copy(w.bestKey, w.decoder.key)
			copy(w.bestPlan, w.decoder.plan)
			copy(w.bestEnd, w.decoder.end)
			w.improved = true
		}
	}
}

// keyBetween returns a key that puts job j between positions i−1 and i of the sequence
// of type k, where j itself is not counted.
func (w *walker) keyBetween(k int16, i int, j int32) int64 {
	for {
		seq := w.decoder.seq[k]
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
			if key := w.decoder.key[seq[hi].job]; key > -keyLimit {
				return key - 1<<keyBits
			}
		case hi >= len(seq):
			if key := w.decoder.key[seq[lo].job]; key < keyLimit {
				return key + 1<<keyBits
			}
		default:
			a, b := w.decoder.key[seq[lo].job], w.decoder.key[seq[hi].job]
			if b-a > 1 {
				return a + (b-a)/2
			}
		}
		w.decoder.renumber()
	}
}

// Keys start 2^keyBits apart.
const (
	keyBits  = 32
	keyLimit = 1 << 60
)

// renumber spaces the keys evenly again without a change of the order.
func (dec *decoder) renumber() {
	for n, j := range dec.order() {
		dec.key[j] = int64(n) << keyBits
	}
}

// shift moves a job to another position of the order (an insertion move).
func (w *walker) shift() (delta float64, ok bool) {
	d := w.decoder
	j := int32(w.r.IntN(len(d.key)))
	k := d.p.column[d.plan[j].Types[w.r.IntN(int(d.plan[j].N))]]
	n := len(d.seq[k])
	if n < 2 {
		return 0, false
	}
	at := d.find(k, j)
	to := w.nearbyPosition(at, n)
	if to == at {
		return 0, false
	}
	if to > at {
		to++
	}
	return d.move(change{j, w.keyBetween(k, to, j), d.plan[j]})
}

// nearbyPosition draws another of n positions, mostly one close to at.
func (w *walker) nearbyPosition(at, n int) int {
	if w.r.IntN(10) == 0 {
		return w.r.IntN(n)
	}
	far := 1 + int(w.r.ExpFloat64()*(1+float64(n)/40))
	if w.r.IntN(2) == 0 {
		far = -far
	}
	return min(n-1, max(0, at+far))
}

// swap exchanges the positions of two jobs in the order; for jobs on different types it
// sometimes exchanges their plans too.
func (w *walker) swap() (delta float64, ok bool) {
	d := w.decoder
	a := int32(w.r.IntN(len(d.key)))
	k := d.p.column[d.plan[a].Types[0]]
	if w.r.IntN(3) > 0 {
		n := len(d.seq[k])
		at := d.find(k, a)
		b := d.seq[k][w.nearbyPosition(at, n)].job
		if a == b {
			return 0, false
		}
		return d.move(change{a, d.key[b], d.plan[a]}, change{b, d.key[a], d.plan[b]})
	}
	b := int32(w.r.IntN(len(d.key)))
	pa, pb := d.plan[a], d.plan[b]
	if a == b || pa.Kind != room.Contiguous || pb.Kind != room.Contiguous || pa.Types[0] == pb.Types[0] ||
		!slices.Contains(d.form(a).ContiguousTypes, pb.Types[0]) || !slices.Contains(d.form(b).ContiguousTypes,
		pa.Types[0]) {
		return 0, false
	}
	return d.move(change{a, d.key[b], pb.In(pa.Shape)}, change{b, d.key[a], pa.In(pb.Shape)})
}

// mostExchanged is the greatest number of jobs that go each way in an exchange of types.
const mostExchanged = 2

// exchangeTypes exchanges the types of one or two consecutive jobs of a type and one or two of another type that
// are near in the order: a wide job often takes the place of two narrow ones.
func (w *walker) exchangeTypes() (delta float64, ok bool) {
	d := w.decoder
	a := int32(w.r.IntN(len(d.key)))
	types := d.typesFor(a)
	if len(types) < 2 {
		return 0, false
	}
	from, to := d.plan[a].Types[0], types[w.r.IntN(len(types))]
	n := len(d.seq[d.p.column[to]])
	if from == to || n == 0 {
		return 0, false
	}
	at := d.find(d.p.column[from], a)
	back := w.nearbyPosition(min(d.find(d.p.column[to], a), n-1), n)
	m := 0
	add := func(from, to int16, at int) bool {
		seq := d.seq[d.p.column[from]]
		for count := 1 + w.r.IntN(mostExchanged); count > 0 && at < len(seq); at, count = at+1, count-1 {
			j := seq[at].job
			p := d.plan[j]
			if p.Types[0] != from || !slices.Contains(d.typesFor(j), to) {
				return false
			}
			p.Types[0] = to
			w.changes[m] = change{j, d.key[j], p}
			m++
		}
		return true
	}
	if !add(from, to, at) || !add(to, from, back) {
		return 0, false
	}
	return d.move(w.changes[:m]...)
}

// typesFor returns the types on which job j may be with the kind of plan that it has; nil for a plan over
// several types.
func (dec *decoder) typesFor(j int32) []int16 {
	switch p := &dec.plan[j]; {
	case p.N > 1 || p.Kind == room.Split:
		return nil
	case p.Kind == room.RoundByRound:
		return dec.form(j).RoundTypes
	}
	return dec.form(j).ContiguousTypes
}

// reassign gives a job another plan: contiguous on a type that the sampler draws, or,
// for gang jobs, a plan over several types with this type among them.
func (w *walker) reassign() (delta float64, ok bool) {
	d := w.decoder
	pr := w.sampler.sample(w.r)
	j := d.p.jobs[pr.job].Form(pr.shape)
	plan := room.ContiguousOn(pr.typ)
	if !j.Rigid {
		plan = w.gangPlan(j, pr.typ)
	}
	plan = plan.In(pr.shape)
	if j.Reshape {
		plan = w.reshaped(j, plan)
	}
	if plan == d.plan[pr.job] || plan.Kind == room.Contiguous && !slices.Contains(j.ContiguousTypes, pr.typ) {
		return 0, false
	}
	key := d.key[pr.job]
	k := d.p.column[pr.typ]
	if n := len(d.seq[k]); n > 1 && w.r.IntN(2) == 0 {
		at := min(d.find(k, pr.job), n-1)
		key = w.keyBetween(k, w.nearbyPosition(at, n), pr.job)
	}
	return d.move(change{pr.job, key, plan})
}

// gangPlan draws a plan for a gang job in which type k takes part. Round-by-round plans
// use the gaps that other jobs leave. They are worth most, above all over several types,
// although those cost the most to decode.
func (w *walker) gangPlan(j *room.Job, k int16) room.JobPlan {
	x := w.r.IntN(20)
	if x < 2 {
		return room.ContiguousOn(k)
	}
	if x < 11 || len(j.RoundTypes) < 2 || w.decoder.p.nodes != nil && w.decoder.p.nodes.Coupled {
		return room.RoundByRoundOver(k)
	}
	if x < 13 && len(j.RoundTypes) > 2 {
		return room.RoundByRoundOver(j.RoundTypes[:min(len(j.RoundTypes), room.MaxTypes)]...)
	}
	other := j.RoundTypes[w.r.IntN(len(j.RoundTypes))]
	if other == k {
		return room.RoundByRoundOver(k)
	}
	if x == 13 && j.Rounds > 1 {
		p := room.JobPlan{Kind: room.Split, N: 2, Types: [room.MaxTypes]int16{k, other},
			Rounds: 1 + w.r.Int64N(j.Rounds-1)}
		if w.r.IntN(2) == 0 {
			p.Types[0], p.Types[1] = other, k
		}
		return p
	}
	return room.RoundByRoundOver(min(k, other), max(k, other))
}

// keysOf numbers the jobs in their order.
func keysOf(order []int32) []int64 {
	key := make([]int64, len(order))
	for n, j := range order {
		key[j] = int64(n) << keyBits
	}
	return key
}

// reshaped sometimes returns a plan in which job j changes its shape, in place of plan.
func (w *walker) reshaped(j *room.Job, plan room.JobPlan) room.JobPlan {
	if w.r.IntN(3) > 0 {
		return plan
	}
	then := j.Form(uint8(w.r.IntN(len(j.Forms))))
	k := plan.Types[0]
	if then.Shape == j.Shape || len(then.ContiguousTypes) == 0 || !slices.Contains(j.ContiguousTypes, k) ||
		j.Rounds < 2 {
		return plan
	}
	l := then.ContiguousTypes[w.r.IntN(len(then.ContiguousTypes))]
	if l != k && w.decoder.p.nodes != nil && w.decoder.p.nodes.Coupled {
		return plan
	}
	return room.ReshapedOn(k, l, j.Shape, then.Shape, 1+w.r.Int64N(j.Rounds-1))
}
