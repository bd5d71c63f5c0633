package relax

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
)

// naivePhi computes V_R(a) of docs/inside/bounds.md ("Steps") exactly as it is written there, for prices
// by type and step. Times are in steps, and the weight is in units of 1e-9.
type naivePhi struct {
	w, tasks     int64
	path, tau, H int
	p, s         []int
	peak         []int64
	price        [][]int64 // by mode and step
	levels       []int
	every        bool // rounds have every length, and not those of levels alone
	known        map[[2]int]int64
}

func (n *naivePhi) slot(k, from, window int) int64 {
	best := int64(math.MaxInt64)
	for v := from; v <= min(from+window, n.H); v++ {
		sum := int64(0)
		for t := v; t < min(v+n.p[k], n.H); t++ {
			sum += n.price[k][t]
		}
		best = min(best, sum)
	}
	return best
}

func (n *naivePhi) fits(k, length int) int64 {
	if length < n.s[k]+n.p[k] {
		return 0
	}
	return min(n.tasks, n.peak[k]*int64((length-n.s[k])/n.p[k]))
}

// until returns when slots end in a round of length l: with it where rounds have every length.
func (n *naivePhi) until(l int) int {
	if n.every {
		return n.levels[l]
	}
	return n.levels[l+1] - 1
}

// mixed returns c_l(x): each task in turn takes the cheapest type that has room.
func (n *naivePhi) mixed(l, x int) int64 {
	sum := int64(0)
	used := make([]int64, len(n.p))
	for range n.tasks {
		best, at := int64(math.MaxInt64), -1
		for k := range n.p {
			if used[k] == n.fits(k, n.levels[l]) {
				continue
			}
			if q := n.slot(k, x, n.until(l)-n.s[k]-n.p[k]); q < best {
				best, at = q, k
			}
		}
		used[at]++
		sum += best
	}
	return sum
}

func (n *naivePhi) value(r, x int) int64 {
	if r == 0 {
		return n.w * int64(max(x, n.path))
	}
	if x >= n.H {
		return n.w * int64(max(n.path, x+r*n.tau))
	}
	if v, ok := n.known[[2]int{r, x}]; ok {
		return v
	}
	best := n.value(r, x+1)
	for k := range n.p {
		f := n.s[k] + n.p[k]*int((n.tasks+n.peak[k]-1)/n.peak[k])
		best = min(best, n.tasks*n.slot(k, x, f-n.s[k]-n.p[k])+n.value(r-1, x+f))
	}
	for l := range len(n.levels) - 1 {
		partly := false
		for k := range n.p {
			fits := n.fits(k, n.levels[l])
			partly = partly || 0 < fits && fits < n.tasks
		}
		if partly {
			best = min(best, n.mixed(l, x)+n.value(r-1, x+n.levels[l]))
		}
	}
	n.known[[2]int{r, x}] = best
	return best
}

func TestStepsAreTheRecursionAsWritten(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 11))
		types := 1 + r.IntN(3)
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
		job := hare.Job{ID: "j", WeightMicro: int64(r.IntN(4)) * 500_000, ReleaseUs: int64(r.IntN(8)) * 500_000,
			Rounds: int64(1 + r.IntN(4)), Tasks: int64(1 + r.IntN(6))}
		for k := range types {
			name := string(rune('A' + k))
			inst.Cluster.Nodes = append(inst.Cluster.Nodes,
				hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: name, Count: 1 + r.IntN(4)}}})
			job.On = append(job.On, hare.Profile{Type: name, ComputeUs: int64(1+r.IntN(5)) * 1_000_000,
				SyncUs: int64(r.IntN(3)) * 1_000_000})
		}
		const step = 1_000_000
		every := r.IntN(2) == 0
		if !every { // a task of a third type is too long for every length
			types++
			inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: "S", GPUs: []hare.TypeCount{{Type: "S", Count: 1}}})
			job.On = append(job.On, hare.Profile{Type: "S", ComputeUs: stepChoices * step})
		}
		inst.Jobs = []hare.Job{job}
		m := model.New(inst)
		pr, ok := newProblem(m, 0)
		if !ok {
			t.Fatal("infeasible")
		}
		grid := []int64{0}
		for range 1 + r.IntN(10) {
			grid = append(grid, grid[len(grid)-1]+int64(1+r.IntN(6))*step)
		}
		nanos := make([][]int64, types)
		for k := range nanos {
			for range len(grid) - 1 {
				nanos[k] = append(nanos[k], int64(r.IntN(6))*100_000_000)
			}
		}
		e := newEvaluator(pr, 1)
		e.loadSteps(step, grid, nanos)
		j := e.stepJobs[0]
		naive := &naivePhi{w: job.WeightMicro * 1000, tasks: job.Tasks, H: int(grid[len(grid)-1] / step),
			known: map[[2]int]int64{}, every: every}
		naive.tau = int((pr.pathUs[0] - job.ReleaseUs) / job.Rounds / step)
		naive.path = int(job.ReleaseUs/step) + int(job.Rounds)*naive.tau
		for k, md := range m.Jobs[0].Modes {
			naive.p, naive.s = append(naive.p, int(md.ComputeUs/step)), append(naive.s, int(md.SyncUs/step))
			naive.peak = append(naive.peak, pr.caps[md.Type][0].Count)
			row := make([]int64, naive.H)
			for g := range len(grid) - 1 {
				for x := grid[g] / step; x < grid[g+1]/step; x++ {
					row[x] = nanos[k][g]
				}
			}
			naive.price = append(naive.price, row)
		}
		for length := 1; length < 200; length++ {
			sum, level := int64(0), every && length <= j.longest
			for k := range naive.p {
				sum += naive.fits(k, length)
				turns := (length - naive.s[k]) / naive.p[k]
				level = level || !every && length > naive.s[k] && (length-naive.s[k])%naive.p[k] == 0 &&
					turns <= int((naive.tasks+naive.peak[k]-1)/naive.peak[k])
			}
			if level && sum >= naive.tasks {
				naive.levels = append(naive.levels, length)
			}
		}
		if !every {
			naive.levels = append(naive.levels, j.longest)
		}
		want := naive.value(int(job.Rounds), int(job.ReleaseUs/step))
		s := stepRecursion{prices: &e.stepPrices, keepChoices: true}
		for _, guess := range []float64{0, float64(want) / 2, float64(want), 1e18} {
			got, ok := s.phi(j, guess)
			if !ok || got != want {
				t.Fatalf("seed %d, guess %g: φ = %d, %v, the recursion gives %d", seed, guess, got, ok, want)
			}
		}
		// The cost of the schedule that is read back is φ.
		var ans answer
		floats := make([]float64, len(grid))
		for g, x := range grid {
			floats[g] = float64(x)
		}
		s.trace(j, &ans, floats)
		cost := float64(naive.w) * max(float64(naive.path), ans.progress[len(ans.progress)-1].to/step)
		for _, u := range ans.uses {
			cost += u.amount / step * float64(nanos[u.row][u.cell])
		}
		if math.Abs(cost-float64(want)) > 1e-6*float64(want)+1 {
			t.Fatalf("seed %d: the schedule costs %g, φ is %d", seed, cost, want)
		}
	}
}

// Bounds with steps at random prices never exceed the optimum of instances whose times
// (but not releases) lie on a lattice, and are never below the bounds of fluids alone.
func TestStepsNeverExceedTheOptimum(t *testing.T) {
	if testing.Short() {
		t.Skip("many instances, and no goroutines for the race detector")
	}
	n, higher := 0, 0
	for seed := range uint64(2500) {
		r := rand.New(rand.NewPCG(seed, 13))
		inst := brute.Random(r)
		for i := range inst.Jobs {
			if r.IntN(4) > 0 {
				inst.Jobs[i].Sync, inst.Jobs[i].Mix = hare.Relaxed, false
				inst.Jobs[i].Tasks = int64(1 + r.IntN(3))
				inst.Jobs[i].ReleaseUs += int64(r.IntN(4)) * 250_000
			}
		}
		opt, found, done := brute.Optimum(inst, 300_000)
		if !found || !done {
			continue
		}
		pr, ok := newProblem(model.New(inst), 0)
		if !ok {
			t.Fatal("infeasible, but it has an optimum")
		}
		grid, nanos := randomPrices(r, pr.rows)
		step := int64(500_000)
		if seed%2 == 1 {
			step = 1_000_000
		}
		for g := range grid {
			grid[g] *= step / 250_000
		}
		e := newEvaluator(pr, 1)
		plain, err := e.exactBound(context.Background(), grid, nanos, pr.step)
		if err != nil {
			t.Fatal(err)
		}
		pr.step = step
		bound, err := e.exactBound(context.Background(), grid, nanos, pr.step)
		if err != nil {
			t.Fatal(err)
		}
		n++
		if bound.Cmp(plain) < 0 {
			t.Errorf("seed %d: steps lower the bound", seed)
		}
		if bound.Cmp(plain) > 0 {
			higher++
		}
		if limit := new(big.Rat).SetInt(new(big.Int).Mul(big.NewInt(opt), big.NewInt(1000))); bound.Cmp(limit) > 0 {
			t.Errorf("seed %d: bound above the optimum", seed)
		}
	}
	if n < 1500 || higher < n/20 {
		t.Errorf("only %d instances, %d with a higher bound", n, higher)
	}
	t.Logf("%d instances, %d with a higher bound", n, higher)
}
