package verify

import (
	"cmp"
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// maxSteps limits rounds × steps × (levels − 1 + types) of a job that is bounded round
// by round, and maxLengths rounds × steps × (lengths + types) × jobs of one whose rounds have every
// length. The limits are part of the meaning of a certificate.
const (
	maxSteps   = 1 << 22
	maxLengths = 1 << 25
)

// stepped is a relaxed job with all times in steps of δ. Prices and weights count 1e-9,
// so costs count δ·1e-15 weight-seconds.
type stepped struct {
	job     *hare.Job
	weight  int64
	tau     int64      // τ, which is the first level
	release int64      // the last step that is not later
	width   int64      // from the release to the horizon
	kinds   []stepKind // the types
	levels  []length   // of a round, rising; L_n is the last
	waiting sum128     // the cost of waiting from the release to the horizon
}

// length is one of a round, and until when slots end and have synchronised.
type length struct{ length, until int64 }

type stepKind struct {
	p, s   int64
	count  int64    // the maximum of M_k over time
	rounds int64    // ⌈K/count⌉: the most tasks one after another
	slot   []sum128 // the price of one GPU for p, by start from the release on
}

// stepsPhi returns φ of a relaxed job alone by the recursion V of docs/inside/bounds.md, in 1e-15
// weight-seconds, or nil if the job is not bounded round by round. stepsPhi takes O(rounds ·
// steps · lengths + steps · lengths · types · log types).
//
// Proof. Relax the job to rounds one after another, each with counts n_k that its length D allows and each task at a
// slot of its own choice. For fixed counts this is a problem in start times with constraints "difference ≥ multiple
// of δ" and a cost that is a sum of functions of single times, linear between multiples of δ (P is one too); so some
// optimum has all times at multiples of δ. There, let a round start at x and have the length D. If each type has room
// at D for all K tasks or for none, as for every D ≥ L_n, the round costs at least K times the cheapest slot v on some
// type k with room, so that f_k ≤ D. If v + f_k is no later than the round's end, waiting until v and taking the
// second line costs no more; otherwise let the round start f_k before its end, which is no earlier than its start was,
// and the slot lies within. Else D < L_n, and the third line costs no more. Where rounds have the lengths of levels
// alone, let L_l ≤ D < L_{l+1}: the round has the counts of L_l and slots within L_{l+1} − δ, and is followed by
// V_{r−1}(x + D) ≥ V_{r−1}(x + L_l), since V rises with x. From H on every price is 0, so that only w times the end
// remains. ∎
//
// Two things need not be computed. Every round takes at least τ = L_1, so in a recursion from a the terms with P are
// never the greater ones. (For a job with a deadline, P may be later than a + R τ; there the terms with P count.)
// And where f_k is a length of the third line, the second is no less than the third, which may have all K tasks on k
// and searches no shorter for a slot.
//
// cs are the types of the job, and offers what the job pays on them, by type and class; no schedule ends it before
// earliest.
func (pc *priceCertificate) stepsPhi(job *hare.Job, cs, offers []typeChoice, tau, earliest int64) (*big.Rat, error) {
	delta, grid := pc.cert.StepUs, pc.cert.GridUs
	horizon, types := grid[len(grid)-1]/delta, int64(len(cs))
	if job.Rounds > maxSteps || horizon > maxSteps || types > maxSteps || job.Rounds*horizon > maxSteps/types {
		return nil, nil
	}
	j := &stepped{job: job, weight: job.WeightMicro * 1000, tau: tau / delta, release: job.ReleaseUs / delta}
	j.width = horizon - j.release
	for _, c := range cs {
		if c.p%delta != 0 || c.s%delta != 0 {
			return nil, nil
		}
		k := stepKind{p: c.p / delta, s: c.s / delta, count: c.count, rounds: (job.Tasks-1)/c.count + 1}
		if _, ok := mul(c.p, k.rounds); !ok {
			return nil, errLong(job)
		}
		j.kinds = append(j.kinds, k)
	}
	if pc.spent.Load() > maxPriceWork {
		return nil, nil
	}
	longest := int64(0)
	for _, k := range j.kinds {
		longest = max(longest, k.alone())
	}
	terms := longest - j.tau + types
	if terms <= maxLengths/(job.Rounds*horizon)/pc.jobs {
		j.everyLength(longest)
	} else if !j.findLevels(maxSteps/(job.Rounds*horizon) - types + 1) {
		return nil, nil
	} else {
		terms = int64(len(j.levels)) - 1 + types
	}
	if pc.spent.Add((job.Rounds+types)*horizon*terms) > maxPriceWork {
		return nil, errSteps
	}
	if job.LateWeightMicro > 0 {
		return new(big.Rat).SetInt(lateCost(j, delta, earliest/delta, cs, offers)), nil
	}
	cost := times(j.tau, job.Rounds)
	cost.Mul(cost.Add(cost, big.NewInt(j.release)), big.NewInt(j.weight))
	if j.width > 0 {
		j.priceSlots(delta, cs, offers)
		j.waiting = sum128{}.plus(j.weight, j.width)
		if j.waiting.hi == 0 && j.waiting.lo < 1<<62 {
			cost.Add(cost, new(big.Int).SetUint64(uint64(excessCost(j, func(x sum128) short { return short(x.lo) }))))
		} else {
			cost.Add(cost, excessCost(j, func(x sum128) sum128 { return x }).big())
		}
	}
	return new(big.Rat).SetInt(cost.Mul(cost, big.NewInt(delta))), nil
}

// priceSlots computes the prices of slots from what the job pays by type and class.
func (sd *stepped) priceSlots(delta int64, cs, offers []typeChoice) {
	for k := range sd.kinds {
		for i := range offers {
			if offers[i].kind == cs[k].kind {
				sd.kinds[k].price(offers[i].curve, delta, sd.release, sd.width)
			}
		}
	}
}

// lateCost returns V_R(a) of a job with tardiness, in 1e-15 weight-seconds: the recursion of
// docs/inside/bounds.md with f(C) in place of w C, and the deadline rounded up to a step. No schedule ends the job
// before the step earliest.
func lateCost(j *stepped, delta, earliest int64, cs, offers []typeChoice) *big.Int {
	late := j.job.LateWeightMicro * 1000
	deadline := (j.job.DeadlineUs + delta - 1) / delta
	ends := func(x int64) sum128 { // f, for x steps
		x = max(x, earliest)
		return sum128{}.plus(j.weight, x).plus(late, max(0, x-deadline))
	}
	if j.width <= 0 {
		return new(big.Int).Mul(ends(j.release+j.job.Rounds*j.tau).big(), big.NewInt(delta))
	}
	j.priceSlots(delta, cs, offers)
	var prices [][]sum128 // by level
	for l := range j.levels {
		if j.levels[l].length-j.tau >= j.width {
			break // waiting for the horizon costs less
		}
		prices = append(prices, j.costs(l))
	}
	before, now := make([]sum128, j.width), make([]sum128, j.width)
	for x := range before {
		before[x] = ends(j.release + int64(x))
	}
	for left := range j.job.Rounds { // so many rounds come after this one
		next := ends(j.release + j.width + (left+1)*j.tau)
		for x := j.width - 1; x >= 0; x-- {
			for l := range prices {
				v := prices[l][x]
				if end := x + j.levels[l].length; end < j.width {
					v = v.add(before[end])
				} else {
					v = v.add(ends(j.release + end + left*j.tau))
				}
				if v.compare(next) < 0 {
					next = v
				}
			}
			now[x] = next
		}
		before, now = now, before
	}
	return new(big.Int).Mul(before[0].big(), big.NewInt(delta))
}

// alone returns f_k.
func (sk *stepKind) alone() int64 { return sk.s + sk.p*sk.rounds }

// everyLength lists the lengths from τ on that count: those at which some type has room for a part of the tasks
// alone, and those of single types.
func (sd *stepped) everyLength(longest int64) {
	for l := sd.tau; l <= longest; l++ {
		if sd.divides(l) || slices.ContainsFunc(sd.kinds, func(k stepKind) bool { return k.alone() == l }) {
			sd.levels = append(sd.levels, length{l, l})
		}
	}
}

// divides reports whether some type has room for a part of the tasks alone in a round of so many steps.
func (sd *stepped) divides(length int64) bool {
	return slices.ContainsFunc(sd.kinds, func(k stepKind) bool {
		n := k.holds(length, sd.job.Tasks)
		return 0 < n && n < sd.job.Tasks
	})
}

// findLevels lists m·p + s from τ on, without repetition, and reports whether there are
// no more than most.
func (sd *stepped) findLevels(most int64) bool {
	next := make([]int64, len(sd.kinds)) // m
	for k, t := range sd.kinds {
		next[k] = max(1, (sd.tau-t.s+t.p-1)/t.p)
		if t.rounds-next[k] >= most {
			return false
		}
	}
	for {
		level := int64(math.MaxInt64)
		for k, t := range sd.kinds {
			if next[k] <= t.rounds {
				level = min(level, next[k]*t.p+t.s)
			}
		}
		if level == math.MaxInt64 {
			return true
		}
		if int64(len(sd.levels)) == most {
			return false
		}
		if n := len(sd.levels); n > 0 {
			sd.levels[n-1].until = level - 1
		}
		sd.levels = append(sd.levels, length{level, level})
		for k, t := range sd.kinds {
			if next[k] <= t.rounds && next[k]*t.p+t.s == level {
				next[k]++
			}
		}
	}
}

// price computes the prices of slots that start within width steps from the given step, where
// they are less than those of an earlier class; a nil price curve is free. It takes
// O(width).
func (sk *stepKind) price(t *priceCurve, delta, from, width int64) {
	paid := make([]sum128, width+1) // Π
	if t != nil {
		cell := t.cell(from * delta)
		for x := range width {
			if (from+x)*delta == t.grid[cell+1] {
				cell++
			}
			paid[x+1] = paid[x].plus(1, t.prices[cell])
		}
	}
	first := sk.slot == nil
	if first {
		sk.slot = make([]sum128, width)
	}
	for x := range width {
		if slot := paid[min(x+sk.p, width)].sub(paid[x]); first || slot.compare(sk.slot[x]) < 0 {
			sk.slot[x] = slot
		}
	}
}

// cheapest returns, by x, the least price of a slot that starts in [x, x + window].
// Slots are free from the horizon on. It takes O(width).
func (sk *stepKind) cheapest(window int64) []sum128 {
	out := make([]sum128, len(sk.slot))
	var queue []int // starts of rising prices
	for i, price := range sk.slot {
		for len(queue) > 0 && sk.slot[queue[len(queue)-1]].compare(price) >= 0 {
			queue = queue[:len(queue)-1]
		}
		queue = append(queue, i)
		if x := i - int(window); x >= 0 {
			if queue[0] < x {
				queue = queue[1:]
			}
			out[x] = sk.slot[queue[0]]
		}
	}
	return out
}

// holds returns how many tasks a round of so many steps has on the type at most, out of
// all tasks.
func (sk *stepKind) holds(length, all int64) int64 {
	if length < sk.s+sk.p {
		return 0
	}
	if each := (length - sk.s) / sk.p; each < sk.rounds {
		return each * sk.count
	}
	return all
}

// costs returns, for each start, the least cost of the tasks of a round of length l of the list. If
// some type can hold only a part of the tasks, the tasks are divided among the types, the cheapest
// type first; this costs no more than all tasks on one type that can hold them from this
// length on. Otherwise only the types count that can hold all tasks from this length on. There
// is such a type, because the length would not be listed without one. costs takes O(width ·
// types²).
func (sd *stepped) costs(l int) []sum128 {
	tasks, length := sd.job.Tasks, sd.levels[l].length
	if !sd.divides(length) {
		var least []sum128
		for _, k := range sd.kinds {
			if k.alone() != length {
				continue
			}
			row := k.cheapest(length - k.s - k.p)
			if least == nil {
				least = row
			}
			for x, price := range row {
				if price.compare(least[x]) < 0 {
					least[x] = price
				}
			}
		}
		for x := range least {
			least[x] = least[x].times(tasks)
		}
		return least
	}
	type part struct {
		most int64 // tasks
		by   []sum128
	}
	var parts []part
	for _, k := range sd.kinds {
		if most := k.holds(length, tasks); most > 0 {
			parts = append(parts, part{most, k.cheapest(sd.levels[l].until - k.s - k.p)})
		}
	}
	out := make([]sum128, sd.width)
	for x := range out {
		slices.SortFunc(parts, func(a, b part) int { return a.by[x].compare(b.by[x]) })
		left := tasks
		for _, p := range parts {
			n := min(left, p.most)
			out[x] = out[x].add(p.by[x].times(n))
			if left -= n; left == 0 {
				break
			}
		}
	}
	return out
}

// value is a sum of costs.
type value[T any] interface {
	add(T) T
	compare(T) int
}

type short uint64

func (sh short) add(b short) short   { return sh + b }
func (sh short) compare(b short) int { return cmp.Compare(sh, b) }

// excessCost returns the least cost of the job beyond the cost of running from its release
// on without a pause, with each round taking τ. D_r(x) is that cost for the last r rounds if
// they start at x or later, and c_L(x) is the cost of the tasks of a round of length L that
// starts at x:
//
//	D_r(x) = min of D_r(x+1) + w and, by level L, c_L(x) + w (L − τ) + D_{r−1}(x+L)
//
// D is 0 from the horizon on, where GPUs are free, and V = w (x + rτ) + D. The R − r rounds
// before the last r rounds take at least (R − r) τ, so D_r(x) is needed only for x ≥ (R − r) τ.
// Costs above the cost of waiting for the horizon are left out.
func excessCost[T value[T]](j *stepped, as func(sum128) T) T {
	step := as(sum128{}.plus(j.weight, 1))
	last := make([]T, j.width) // when no round ends before the horizon
	for x := range last {
		last[x] = as(sum128{}.plus(j.weight, j.width-int64(x)))
	}
	inside := make([][]T, len(j.levels)) // when the round does
	for l := range j.levels {
		length := j.levels[l].length
		if length-j.tau >= j.width {
			break // waiting costs less
		}
		inside[l] = make([]T, max(0, j.width-length))
		for x, c := range j.costs(l) {
			if c = c.plus(j.weight, length-j.tau); c.compare(j.waiting) > 0 {
				c = j.waiting
			}
			switch v := as(c); {
			case x < len(inside[l]):
				inside[l][x] = v
			case v.compare(last[x]) < 0:
				last[x] = v
			}
		}
	}
	before, now := make([]T, j.width), make([]T, j.width)
	for left := min(j.job.Rounds-1, (j.width-1)/j.tau); left >= 0; left-- {
		from := left * j.tau
		copy(now[from:], last[from:])
		for l := range j.levels {
			if end := j.width - j.levels[l].length; end > from {
				lower(now[from:end], inside[l][from:], before[from+j.levels[l].length:])
			}
		}
		wait(now[from:], step)
		before, now = now, before
	}
	return before[0]
}

// lower lowers each element of to to the sum of a and b there.
func lower[T value[T]](to, a, b []T) {
	if to, ok := any(to).([]short); ok {
		// This is the general case without calls.
		a, b := any(a).([]short)[:len(to)], any(b).([]short)[:len(to)]
		for i := range to {
			to[i] = min(to[i], a[i]+b[i])
		}
		return
	}
	for i := range to {
		if v := a[i].add(b[i]); v.compare(to[i]) < 0 {
			to[i] = v
		}
	}
}

// wait lowers each element of to to the next element plus one step.
func wait[T value[T]](to []T, step T) {
	if to, ok := any(to).([]short); ok {
		step, next := any(step).(short), to[len(to)-1]
		for i := len(to) - 2; i >= 0; i-- {
			next = min(to[i], next+step)
			to[i] = next
		}
		return
	}
	for i := len(to) - 2; i >= 0; i-- {
		if v := to[i+1].add(step); v.compare(to[i]) < 0 {
			to[i] = v
		}
	}
}
