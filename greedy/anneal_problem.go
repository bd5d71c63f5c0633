package greedy

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/hare-sched/hare"
)

// maxSet is the largest number of types in a plan of one job.
const maxSet = 4

// Kinds of a jobPlan.
const (
	// whole runs all rounds back to back on types[0], from the earliest start.
	whole = uint8(iota)
	// split runs rounds of them on types[0] and the others on types[1], each
	// part back to back and as early as it can be.
	split
	// chain takes for each round the type of the set on which it ends first:
	// the earliest completion that these types allow.
	chain
)

// jobPlan says how one job is placed when its turn comes.
type jobPlan struct {
	rounds int64
	types  [maxSet]int16
	n      uint8 // types in use
	kind   uint8
}

func (p *jobPlan) uses() []int16 { return p.types[:p.n] }

func wholeOn(k int16) jobPlan { return jobPlan{kind: whole, n: 1, types: [maxSet]int16{k}} }

func chainOver(types ...int16) jobPlan {
	p := jobPlan{kind: chain}
	p.n = uint8(copy(p.types[:], types))
	return p
}

// seg is a run of rounds of one job on width GPUs of a pool.
type seg struct {
	typ, pool     int16
	width         int32
	round, rounds int64
	start, end    int64 // µs
}

// annealJob is what the search needs of a gang or rigid job.
type annealJob struct {
	index   int     // in Model.Jobs
	weight  float64 // weight-seconds a microsecond
	release int64
	rounds  int64
	width   int64
	rigid   bool
	// dur is the time of a round by type, 0 where the job cannot run.
	dur []int64
	// whole lists the types on which the job fits in one piece, chain those on
	// which a round of a gang job does, fastest first.
	whole, chain []int16
}

// annealProblem is an instance prepared for the search; shared, read-only.
type annealProblem struct {
	m     *hare.Model
	jobs  []annealJob // those that move
	pools [][]pool    // by type
	empty []track     // by type, without the jobs that stay where start has them
	// fixed are the jobs that stay: relaxed ones and gangs that fit on no type alone.
	fixed  []int
	start  *Plan
	gridUs []int64
	price  [][]float64 // weight-seconds a GPU-microsecond, by type and cell; nil without
	sum    [][]float64 // its integral up to each point of the grid
	spread bool        // releases differ
	gangs  bool        // not all jobs are rigid
}

// newAnnealProblem prepares m. It reports false when a job has no place that
// the search knows how to give it and start has none either.
func newAnnealProblem(m *hare.Model, rel *hare.Relaxation, start *Plan) (*annealProblem, bool) {
	p := &annealProblem{m: m, start: start}
	for k := range m.Types {
		pools, tr := poolsOf(m, k)
		p.pools = append(p.pools, pools)
		p.empty = append(p.empty, tr)
	}
	p.setPrices(rel)
	dur := make([]int64, len(m.Jobs)*len(m.Types))
	sc := newScout(p)
	for i := range m.Jobs {
		j := &m.Jobs[i]
		a := annealJob{index: i, weight: float64(j.WeightMicro) * 1e-12, release: j.ReleaseUs, rounds: j.Rounds,
			width: j.Tasks, rigid: j.Sync == hare.Rigid, dur: dur[i*len(m.Types) : (i+1)*len(m.Types)]}
		if j.Sync != hare.Relaxed && !a.find(j, sc, p.empty) || j.Sync == hare.Relaxed {
			if start == nil {
				return nil, false
			}
			p.fixed = append(p.fixed, i)
			continue
		}
		if len(p.jobs) > 0 && a.release != p.jobs[0].release {
			p.spread = true
		}
		p.gangs = p.gangs || !a.rigid
		p.jobs = append(p.jobs, a)
	}
	p.hold()
	return p, true
}

// find fills in durations and the types that the job fits on.
func (a *annealJob) find(j *hare.ModelJob, sc *scout, empty []track) bool {
	for _, md := range j.Modes {
		k, d := int16(md.Type), md.DurationUs()
		if sc.slot(empty[k], a.release, d, a.width) == never {
			continue
		}
		a.dur[k] = d
		if !a.rigid {
			a.chain = append(a.chain, k)
		}
		if sc.slot(empty[k], a.release, d*a.rounds, a.width) != never {
			a.whole = append(a.whole, k)
		}
	}
	byDuration := func(x, y int16) int { return cmp.Compare(a.dur[x], a.dur[y]) }
	slices.SortStableFunc(a.whole, byDuration)
	slices.SortStableFunc(a.chain, byDuration)
	return len(a.whole)+len(a.chain) > 0
}

// hold takes the GPUs of the jobs that stay.
func (p *annealProblem) hold() {
	at := make([][2]int16, len(p.m.Classes)) // type and pool
	for k, pools := range p.pools {
		for i, pl := range pools {
			for _, c := range pl.classes {
				at[c] = [2]int16{int16(k), int16(i)}
			}
		}
	}
	for _, i := range p.fixed {
		for _, b := range p.start.Jobs[i] {
			x := at[b.Class]
			s := &p.empty[x[0]][x[1]]
			s.take(s.index(b.StartUs), b.StartUs, b.endUs(), int64(b.Width))
		}
	}
}

func (p *annealProblem) setPrices(rel *hare.Relaxation) {
	if rel == nil || len(rel.GridUs) < 2 || len(rel.Prices) != len(p.m.Types) {
		return
	}
	p.gridUs = rel.GridUs
	for _, row := range rel.Prices {
		price, sum := make([]float64, len(p.gridUs)-1), make([]float64, len(p.gridUs))
		for g := range price {
			if g < len(row) {
				price[g] = row[g] * 1e-6
			}
			sum[g+1] = sum[g] + price[g]*float64(p.gridUs[g+1]-p.gridUs[g])
		}
		p.price, p.sum = append(p.price, price), append(p.sum, sum)
	}
}

// paid is the price of one GPU of type k within [0, t).
func (p *annealProblem) paid(k int16, t int64) float64 {
	if p.price == nil {
		return 0
	}
	g := sort.Search(len(p.gridUs), func(i int) bool { return p.gridUs[i] > t }) - 1
	if g < 0 {
		return 0
	}
	if g >= len(p.gridUs)-1 {
		return p.sum[k][len(p.gridUs)-1]
	}
	return p.sum[k][g] + p.price[k][g]*float64(t-p.gridUs[g])
}

// reducedCost is the least of w (C − a) and the price of the GPUs over all
// starts of job j in one piece on type k, +Inf where it cannot run. O(grid).
func (p *annealProblem) reducedCost(j *annealJob, k int16) float64 {
	d := j.dur[k]
	if d == 0 {
		return math.Inf(1)
	}
	long := d * j.rounds
	width := float64(j.width)
	best := math.Inf(1)
	try := func(start int64, held float64) {
		best = min(best, j.weight*float64(start+long-j.release)+width*held)
	}
	try(j.release, p.paid(k, j.release+long)-p.paid(k, j.release))
	if p.price == nil {
		return best
	}
	// Both ends of the block sweep over the grid.
	end, begin := 0, 0
	at := func(g *int, t int64) float64 {
		for *g+1 < len(p.gridUs) && p.gridUs[*g+1] <= t {
			*g++
		}
		if *g+1 == len(p.gridUs) {
			return p.sum[k][*g]
		}
		return p.sum[k][*g] + p.price[k][*g]*float64(t-p.gridUs[*g])
	}
	for g, t := range p.gridUs {
		if t >= j.release {
			try(t, at(&end, t+long)-p.sum[k][g])
		}
		if t-long >= j.release {
			try(t-long, p.sum[k][g]-at(&begin, t-long))
		}
	}
	return best
}
