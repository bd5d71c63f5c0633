package relax

import (
	"slices"
)

// pricedJob is a job by its row, or a bundle of smaller jobs (row −1), with what it pays a second for all of its GPUs.
type pricedJob struct {
	price float64
	row   int32
	gpus  int32
}

// jobSets is scratch memory for the dearest sets of jobs.
type jobSets struct {
	cells  [cellBlock][]pricedJob // by cell of a block, by rising number of GPUs
	in     []pricedJob            // of a cut
	most   []pricedJob            // those of in that a set may hold
	chosen []int32                // rows
	sizes  []sizeLevel
	best   []float64
	take   []bool
}

// sizeLevel holds the jobs of one size in a dearest set, with bundles of smaller ones.
type sizeLevel struct {
	items   []pricedJob // the dearest first
	bundles []pricedJob // of the jobs from alone on, for the next size
	alone   int         // how many of the dearest are chosen whatever larger jobs pay
	each    int         // how many make a bundle
}

// choose sets chosen to the dearest set of jobs that fits into free GPUs, and returns what the set pays. The jobs come
// by rising size, and change their order. Where each size divides the next, divisible says so.
func (js *jobSets) choose(in []pricedJob, free int64, divisible bool) float64 {
	js.chosen = js.chosen[:0]
	held, sum := int64(0), 0.0
	for i := range in {
		if int64(in[i].gpus) > free {
			in = in[:i]
			break
		}
		held += int64(in[i].gpus)
		sum += in[i].price
	}
	if held <= free {
		for i := range in {
			js.chosen = append(js.chosen, in[i].row)
		}
		return sum
	}
	if divisible {
		return js.chooseDivisible(in, int(free))
	}
	return js.chooseAny(in, int(free))
}

// chooseDivisible is choose for sizes each of which divides the next. From the smallest size on, the dearest jobs fill
// what no larger jobs can, and the others make bundles of the next size. It takes O(jobs · log jobs).
func (js *jobSets) chooseDivisible(in []pricedJob, free int) (sum float64) {
	n := 0 // levels
	var bundles []pricedJob
	for len(in) > 0 {
		size, count := int(in[0].gpus), 1
		for count < len(in) && int(in[count].gpus) == size {
			count++
		}
		if n == len(js.sizes) {
			js.sizes = append(js.sizes, sizeLevel{})
		}
		l := &js.sizes[n]
		n++
		jobs := in[:count]
		in = in[count:]
		most := free / size
		dearestFirst(jobs, most)
		l.items = mergeDearest(l.items[:0], jobs, bundles, most)
		l.alone = most
		if len(in) > 0 {
			l.alone = free % int(in[0].gpus) / size
			l.each = int(in[0].gpus) / size
			free -= free % int(in[0].gpus)
		}
		l.alone = min(l.alone, len(l.items))
		for _, x := range l.items[:l.alone] {
			sum += x.price
		}
		if len(in) == 0 {
			break
		}
		l.bundles = l.bundles[:0]
		for rest := l.items[l.alone:]; len(rest) > 0; {
			part := rest[:min(l.each, len(rest))]
			rest = rest[len(part):]
			bundle := pricedJob{row: -1, gpus: in[0].gpus}
			for _, x := range part {
				bundle.price += x.price
			}
			l.bundles = append(l.bundles, bundle)
		}
		bundles = l.bundles
	}
	chosen := 0 // bundles of the size
	for n--; n >= 0; n-- {
		l := &js.sizes[n]
		most := min(len(l.items), l.alone+chosen*l.each)
		chosen = 0
		for _, x := range l.items[:most] {
			if x.row < 0 {
				chosen++
			} else {
				js.chosen = append(js.chosen, x.row)
			}
		}
	}
	return sum
}

// mergeDearest appends the dearest of two lists, each with the dearest first, up to so many.
func mergeDearest(to, x, y []pricedJob, most int) []pricedJob {
	for len(to) < most && (len(x) > 0 || len(y) > 0) {
		if len(y) == 0 || len(x) > 0 && x[0].price >= y[0].price {
			to, x = append(to, x[0]), x[1:]
		} else {
			to, y = append(to, y[0]), y[1:]
		}
	}
	return to
}

// chooseAny is choose by a knapsack, in O(jobs · free).
func (js *jobSets) chooseAny(all []pricedJob, free int) float64 {
	in := js.most[:0]
	for len(all) > 0 {
		count := 1
		for count < len(all) && all[count].gpus == all[0].gpus {
			count++
		}
		// Of jobs of one size only the dearest can be in the set.
		most := min(count, free/int(all[0].gpus))
		dearestFirst(all[:count], most)
		in = append(in, all[:most]...)
		all = all[count:]
	}
	js.most = in
	n := free + 1
	js.best = slices.Grow(js.best[:0], n)[:n]
	best := js.best
	clear(best)
	if len(js.take) < len(in)*n {
		js.take = make([]bool, len(in)*n)
	}
	for y := range in {
		z, p := int(in[y].gpus), in[y].price
		take := js.take[y*n : (y+1)*n]
		for x := n - 1; x >= z; x-- {
			if v := best[x-z] + p; v > best[x] {
				best[x], take[x] = v, true
			} else {
				take[x] = false
			}
		}
	}
	x := n - 1
	for y := len(in) - 1; y >= 0; y-- {
		if z := int(in[y].gpus); x >= z && js.take[y*n+x] {
			js.chosen = append(js.chosen, in[y].row)
			x -= z
		}
	}
	return best[n-1]
}

// fewJobs is how many jobs are sorted by insertion.
const fewJobs = 12

// dearestFirst sorts the dearest n to the front, the dearest first, in expected time O(jobs + n log n).
func dearestFirst(in []pricedJob, n int) {
	for len(in) > fewJobs && n > 0 {
		pivot := in[len(in)/2].price
		x, y := 0, len(in)-1
		for x <= y {
			for in[x].price > pivot {
				x++
			}
			for in[y].price < pivot {
				y--
			}
			if x <= y {
				in[x], in[y] = in[y], in[x]
				x, y = x+1, y-1
			}
		}
		if x < n {
			dearestFirst(in[x:], n-x)
		}
		in = in[:y+1]
	}
	for i := 1; i < len(in); i++ {
		x := in[i]
		at := i
		for at > 0 && in[at-1].price < x.price {
			in[at] = in[at-1]
			at--
		}
		in[at] = x
	}
}
