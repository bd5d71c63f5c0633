package relax

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
)

// maxGroups limits the columns of the paper's relaxation: consecutive rounds of a job
// are aggregated until no more than maxGroups groups remain.
const maxGroups = 800

// maxCutRounds limits the solves of the cutting-plane loop.
const maxCutRounds = 60

// maxInitialCuts limits the inequalities that the first LP starts with.
const maxInitialCuts = 64

// maxPerturbation is the largest share by which a weight is lowered.
const maxPerturbation = 1e-4

// costScale is the heaviest job's cost per second in the LP. It is so large that the
// engine's absolute tolerance (1e-7) does not blur the weights.
const costScale = 1e6

// cutSlack is the relative violation below which an inequality counts as satisfied.
const cutSlack = 1e-7

// group is a run of rounds of one job. Its variable X is the mean, over the
// tasks of the run, of the end of compute (of the hold for gang and rigid).
type group struct {
	job    int
	first  float64
	rounds float64
	p      float64 // least compute (hold) of one task, in seconds
	lag    float64 // least time from round to round: p + least s
	tasks  float64 // of the whole run
}

// boundByGroups solves the paper's relaxation with the parallel inequalities over
// subsets of tasks (Queyranne 1993; Möhring, Schulz, Uetz 1999) as cuts, the
// most violated prefixes first; the method paper keeps the one inequality over
// all tasks, as the paper prints it, which proves nothing about its rule.
// Each solve costs one LP of at most maxGroups columns.
func boundByGroups(ctx context.Context, pr *problem, cfg *Config) (*hare.Relaxation, error) {
	if err := NeedsEngine(cfg.Method, cfg.LP); err != nil {
		return nil, err
	}
	groups := groupsOf(pr)
	n, jobs := len(groups), len(pr.jobs)
	speed := float64(peakGPUs(pr))
	// The columns are X of each group, then C of each job, in seconds; costs are weights.
	p := &lp.Problem{Start: []int32{0}}
	for range groups {
		p.Cost = append(p.Cost, 0)
		p.ColLower, p.ColUpper = append(p.ColLower, 0), append(p.ColUpper, math.Inf(1))
	}
	order := smithOrder(pr, groups)
	weights := perturbWeights(pr, groups, order)
	heaviest := 1e-300
	for _, w := range weights {
		heaviest = max(heaviest, w)
	}
	for _, w := range weights {
		p.Cost = append(p.Cost, w/heaviest*costScale)
		p.ColLower, p.ColUpper = append(p.ColLower, 0), append(p.ColUpper, math.Inf(1))
	}
	row := func(lower float64, index []int32, value []float64) {
		p.RowLower, p.RowUpper = append(p.RowLower, lower), append(p.RowUpper, math.Inf(1))
		p.Index, p.Value = append(p.Index, index...), append(p.Value, value...)
		p.Start = append(p.Start, int32(len(p.Index)))
	}
	for i := range groups {
		g := &groups[i]
		half := (g.rounds - 1) / 2 * g.lag
		if g.first == 0 {
			p.ColLower[i] = pr.jobs[g.job].a/1e6 + g.p + half
		} else {
			row((g.rounds+groups[i-1].rounds)/2*g.lag, []int32{int32(i), int32(i - 1)}, []float64{1, -1})
		}
		if i+1 == n || groups[i+1].job != g.job {
			row(half+g.lag-g.p, []int32{int32(n + g.job), int32(i)}, []float64{1, -1})
		}
	}
	cut := func(set []int) {
		load, squares := 0.0, 0.0
		index, value := make([]int32, 0, len(set)), make([]float64, 0, len(set))
		for _, i := range set {
			g := &groups[i]
			load += g.tasks * g.p
			squares += g.tasks * g.p * g.p
			index, value = append(index, int32(i)), append(value, g.tasks*g.p)
		}
		rhs := load*load/(2*speed) + squares/2
		scale := 1 / load
		for i := range value {
			value[i] *= scale
		}
		row(rhs*scale, index, value)
	}
	// The first inequality is over all tasks. The repaired relaxation also starts with those
	// over the prefixes of Smith's order, which suffice without releases and rounds.
	for i := 1; i <= n; i++ {
		if i == n || cfg.Method == MethodQueyranne && i%(n/maxInitialCuts+1) == 0 {
			cut(order[:i])
		}
	}
	chain := lp.NewChain(cfg.LP)
	defer chain.Close()
	var sol *lp.Solution
	for range maxCutRounds {
		var err error
		if sol, err = chain.Solve(ctx, p); errors.Is(err, lp.ErrUnavailable) {
			return nil, fmt.Errorf("%s %w", cfg.Method, ErrNoEngine)
		} else if err != nil {
			return nil, fmt.Errorf("relax: %s: %w", cfg.Method, err)
		}
		if cfg.Method == MethodPaper {
			break
		}
		sets := separate(groups, sol.X, speed)
		if len(sets) == 0 {
			break
		}
		for _, s := range sets {
			cut(s)
		}
	}
	rel := &hare.Relaxation{Method: cfg.Method, Progress: make([][]hare.Point, jobs)}
	value := 0.0
	for i := range pr.jobs {
		value += weights[i] * 1e-9 * sol.X[n+i]
	}
	value -= pr.wa * unit
	rel.Bound = hare.Product(int64(math.Max(0, math.Floor(value*1e6))), 1e6)
	for i := range groups {
		g := &groups[i]
		mid, half := sol.X[i]-g.p/2, (g.rounds-1)/2*g.lag
		pts := rel.Progress[g.job]
		if g.first == 0 {
			pts = append(pts, hare.Point{TimeUs: pr.jobs[g.job].a})
		}
		pts = append(pts, hare.Point{TimeUs: (mid - half) * 1e6, Rounds: g.first + 0.5})
		if g.rounds > 1 {
			pts = append(pts, hare.Point{TimeUs: (mid + half) * 1e6, Rounds: g.first + g.rounds - 0.5})
		}
		if i+1 == n || groups[i+1].job != g.job {
			pts = append(pts, hare.Point{TimeUs: max(sol.X[n+g.job]*1e6, (mid+half)*1e6),
				Rounds: pr.jobs[g.job].rounds})
		}
		rel.Progress[g.job] = pts
	}
	return rel, nil
}

// groupsOf splits the rounds of all jobs into at most about maxGroups runs.
func groupsOf(pr *problem) []group {
	each := max(1, maxGroups/max(1, len(pr.jobs)))
	var out []group
	for i := range pr.jobs {
		j := &pr.jobs[i]
		p, s := math.Inf(1), math.Inf(1)
		for _, md := range j.modes {
			t := md.d
			if j.sync == hare.Relaxed {
				t = md.p
				s = min(s, md.s)
			} else {
				s = 0
			}
			p = min(p, t)
		}
		p, s = p/1e6, s/1e6
		runs := min(float64(each), j.rounds)
		first := 0.0
		for r := range int(runs) {
			end := math.Floor(j.rounds * float64(r+1) / runs)
			out = append(out, group{job: i, first: first, rounds: end - first, p: p, lag: p + s,
				tasks: (end - first) * j.tasks})
			first = end
		}
	}
	return out
}

// smithOrder sorts the groups by work over weight of their jobs, then round.
func smithOrder(pr *problem, groups []group) []int {
	work := make([]float64, len(pr.jobs))
	for i := range groups {
		work[groups[i].job] += groups[i].tasks * groups[i].p
	}
	order := make([]int, len(groups))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := groups[a].job, groups[b].job
		return cmp.Compare(work[x]*pr.jobs[y].w, work[y]*pr.jobs[x].w)
	})
	return order
}

// perturbWeights lowers each weight by a share of up to maxPerturbation, more for jobs
// later in Smith's order. Equal jobs then have one best order instead of many that the
// cuts would have to exclude one by one. Lower weights only lower the value.
func perturbWeights(pr *problem, groups []group, order []int) []float64 {
	out := make([]float64, len(pr.jobs))
	for rank, i := range order {
		j := groups[i].job
		out[j] = pr.jobs[j].w * (1 - maxPerturbation*float64(rank)/float64(len(order)))
	}
	return out
}

// separate returns violated sets among the prefixes of the groups sorted by middle of
// compute: the most violated prefix of each part of the order. It returns nil if all
// inequalities hold. It takes O(n log n).
func separate(groups []group, x []float64, speed float64) [][]int {
	order := make([]int, len(groups))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		ka, kb := x[a]-groups[a].p/2, x[b]-groups[b].p/2
		switch {
		case ka < kb:
			return -1
		case ka > kb:
			return 1
		}
		return a - b
	})
	const parts = 8
	var at [parts]int
	var worst [parts]float64
	load, squares, left := 0.0, 0.0, 0.0
	for n, i := range order {
		g := &groups[i]
		load += g.tasks * g.p
		squares += g.tasks * g.p * g.p
		left += g.tasks * g.p * x[i]
		rhs := load*load/(2*speed) + squares/2
		part := n * parts / len(order)
		if v := (rhs - left) / rhs; v > worst[part]+cutSlack {
			worst[part], at[part] = v, n+1
		}
	}
	var sets [][]int
	for part, n := range at {
		if worst[part] > cutSlack {
			sets = append(sets, order[:n])
		}
	}
	return sets
}
