package market_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/assignment"
	"github.com/hare-sched/hare/online/market"
)

func ExampleSample() {
	p := &market.Problem{
		Classes: []market.Class{{Workers: 2}, {Workers: 4}}, // two fast workers and four slow ones
		Jobs: []market.Job{
			{Weight: 1, Iterations: 100, Samples: 60, Rate: []float64{30, 10}},
			{Weight: 1, Iterations: 100, Samples: 60, Rate: []float64{12, 10}},
		},
	}
	got, err := market.Sample(context.Background(), p, market.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, held := range got.Counts {
		fmt.Printf("job %d: %d fast, %d slow, %.0f s\n", i, held[0], held[1], p.JCT(i, held))
	}
	// Output:
	// job 0: 2 fast, 0 slow, 100 s
	// job 1: 0 fast, 4 slow, 150 s
}

// The time of an iteration is worked by hand: two workers of 30 and one of 20 samples a second do 160
// samples in 2 s, with shares 3/8, 3/8 and 2/8. A ring of three moves 2·2/3 of 3e9 bytes over links
// of which the slowest carries 1e9 a second: 4 s.
func TestTimeOfIteration(t *testing.T) {
	p := &market.Problem{
		Classes: []market.Class{{Workers: 8, PerNode: 2, InsideBps: 4e9, BetweenBps: 2e9}, {Workers: 4, BetweenBps: 1e9}},
		Jobs:    []market.Job{{Weight: 1, Iterations: 10, Samples: 160, Bytes: 3e9, Rate: []float64{30, 20}}},
	}
	for _, c := range []struct {
		counts []int
		want   float64
	}{
		{[]int{2, 1}, 10 * (2 + 4)},
		{[]int{0, 1}, 10 * 8},                        // alone: no exchange
		{[]int{2, 0}, 10 * (160./60 + 3e9/4e9)},      // in one node
		{[]int{4, 0}, 10 * (160./120 + 4.5/2)},       // between nodes
		{[]int{0, 2}, 10 * (4 + 3)},                  // two nodes of one worker
		{[]int{0, 0}, math.Inf(1)},                   // nowhere
		{[]int{8, 4}, 10 * (0.5 + 2*11./12*3e9/1e9)}, // everywhere
	} {
		if got := p.JCT(0, c.counts); math.Abs(got-c.want) > 1e-9*c.want && got != c.want {
			t.Errorf("%v: %v s, want %v", c.counts, got, c.want)
		}
	}
	if got, want := p.Shares(0, []int{2, 1}), []float64{3. / 8, 2. / 8}; !reflect.DeepEqual(got, want) {
		t.Errorf("shares %v, want %v", got, want)
	}
}

// draw makes a small problem; values of markets are whole numbers, so that ties are frequent.
func draw(rng *rand.Rand, jobs, classes, workers int) *market.Problem {
	p := &market.Problem{}
	for range classes {
		p.Classes = append(p.Classes, market.Class{Workers: 1 + rng.IntN(workers), PerNode: 1 + rng.IntN(4),
			InsideBps: 1e10, BetweenBps: 1e9 * float64(1+rng.IntN(3))})
	}
	for range jobs {
		j := market.Job{Weight: float64(1 + rng.IntN(3)), Iterations: float64(100 + rng.IntN(900)),
			Samples: float64(10 + rng.IntN(90)), Bytes: 1e8 * rng.Float64()}
		for range classes {
			j.Rate = append(j.Rate, float64(1+rng.IntN(9)))
		}
		p.Jobs = append(p.Jobs, j)
	}
	return p
}

func workers(p *market.Problem) (n int) {
	for _, c := range p.Classes {
		n += c.Workers
	}
	return n
}

// categories calls f with every category of at most n workers, or of n exactly.
func categories(jobs, n int, exactly bool, f func([]int)) {
	category := make([]int, jobs)
	var rec func(i, left int)
	rec = func(i, left int) {
		if i == jobs {
			if left == 0 || !exactly {
				f(category)
			}
			return
		}
		for k := 1; k <= left-(jobs-1-i); k++ {
			category[i] = k
			rec(i+1, left-k)
		}
	}
	rec(0, n)
}

// divisions calls f with all ways to give n workers of the classes.
func divisions(p *market.Problem, n int, f func([]int)) {
	held := make([]int, len(p.Classes))
	var rec func(c, left int)
	rec = func(c, left int) {
		if c == len(held) {
			if left == 0 {
				f(held)
			}
			return
		}
		for k := 0; k <= min(left, p.Classes[c].Workers); k++ {
			held[c] = k
			rec(c+1, left-k)
		}
		held[c] = 0
	}
	rec(0, n)
}

// exactValue is the greatest value of a category by the assignment of single workers to places.
func exactValue(p *market.Problem, category []int, value func(i, c int) float64) float64 {
	var s assignment.Solver
	var of, class []int
	for i, k := range category {
		for range k {
			of = append(of, i)
		}
	}
	for c := range p.Classes {
		for range p.Classes[c].Workers {
			class = append(class, c)
		}
	}
	s.Begin(len(of), len(class))
	sum := 0.0
	for row, column := range s.Solve(func(row int, cost []float64) {
		for at, c := range class {
			cost[at] = -value(of[row], c)
		}
	}) {
		sum += value(of[row], class[column])
	}
	return sum
}

// supported reports whether every job has a bundle that it wants most at the prices, with classes
// that are not sold out at no cost.
func supported(p *market.Problem, category []int, counts [][]int, prices []float64,
	value func(i, c int) float64) error {
	for c := range p.Classes {
		used := 0
		for i := range counts {
			used += counts[i][c]
		}
		switch {
		case used > p.Classes[c].Workers:
			return fmt.Errorf("class %d gives out %d of %d workers", c, used, p.Classes[c].Workers)
		case used < p.Classes[c].Workers && prices[c] != 0 || prices[c] < 0:
			return fmt.Errorf("class %d costs %v, with %d of %d given out", c, prices[c], used, p.Classes[c].Workers)
		}
	}
	utility := func(i int, held []int) (sum float64) {
		for c, n := range held {
			sum += float64(n) * (value(i, c) - prices[c])
		}
		return sum
	}
	for i, k := range category {
		have, most, n := utility(i, counts[i]), math.Inf(-1), 0
		for _, m := range counts[i] {
			n += m
		}
		divisions(p, k, func(held []int) { most = max(most, utility(i, held)) })
		if n != k || have < most-1e-9*(1+math.Abs(most)) {
			return fmt.Errorf("job %d has %d of %d workers worth %v, and would have %v", i, n, k, have, most)
		}
	}
	return nil
}

// Every matching of a market has the greatest value, and its prices support it: there is no
// constricted set.
func TestMarketAgainstAssignment(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	matched := 0
	for range 300 {
		p := draw(rng, 1+rng.IntN(4), 1+rng.IntN(4), 4)
		if workers(p) < len(p.Jobs) {
			continue
		}
		values := make([]float64, len(p.Jobs)*len(p.Classes))
		for i := range values {
			if values[i] = float64(rng.IntN(6)); rng.IntN(2) == 0 {
				values[i] = rng.Float64() * 5
			}
		}
		value := func(i, c int) float64 { return values[i*len(p.Classes)+c] }
		m := market.NewMarket(p)
		categories(len(p.Jobs), workers(p), false, func(category []int) {
			if rng.IntN(4) > 0 {
				return
			}
			matched++
			got, ok := m.Match(category, value)
			if !ok {
				t.Fatalf("%+v %v: no matching", p.Classes, category)
			}
			if err := supported(p, category, got.Counts, got.Prices, value); err != nil {
				t.Fatalf("%+v %v, values %v: %v\n%+v", p.Classes, category, values, err, got)
			}
			sum := 0.0
			for i, held := range got.Counts {
				for c, n := range held {
					sum += float64(n) * value(i, c)
				}
			}
			if want := exactValue(p, category, value); math.Abs(sum-want) > 1e-9 {
				t.Fatalf("%+v %v, values %v: value %v, and the assignment has %v", p.Classes, category, values, sum, want)
			}
		})
	}
	if matched < 3000 {
		t.Errorf("%d categories were matched", matched)
	}
}

// The prices are the least that support any matching, as those of the ascending auction are. All
// vectors of whole prices are tried.
func TestLeastPrices(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 150 {
		p := draw(rng, 1+rng.IntN(3), 2, 3)
		if workers(p) < len(p.Jobs) {
			continue
		}
		values := make([]float64, 2*len(p.Jobs))
		for i := range values {
			values[i] = float64(rng.IntN(5))
		}
		value := func(i, c int) float64 { return values[2*i+c] }
		m := market.NewMarket(p)
		categories(len(p.Jobs), workers(p), false, func(category []int) {
			got, ok := m.Match(category, value)
			if !ok {
				t.Fatal("no matching")
			}
			// By the second theorem of welfare prices that support one matching support all of the greatest value.
			least := []float64{math.Inf(1), math.Inf(1)}
			for a := range 7 {
				for b := range 7 {
					prices := []float64{float64(a), float64(b)}
					if supported(p, category, got.Counts, prices, value) == nil {
						least = []float64{min(least[0], prices[0]), min(least[1], prices[1])}
					}
				}
			}
			if !reflect.DeepEqual(got.Prices, least) {
				t.Fatalf("%+v %v, values %v: prices %v, want %v (%v)", p.Classes, category, values, got.Prices, least, got.Counts)
			}
		})
	}
}

// Exact is the least over all categories and all divisions of each.
func TestExactAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		p := draw(rng, 1+rng.IntN(3), 1+rng.IntN(3), 3)
		if workers(p) < len(p.Jobs) {
			continue
		}
		best := math.Inf(1)
		counts := make([][]int, len(p.Jobs))
		var rec func(i int, score float64)
		free := append([]market.Class(nil), p.Classes...)
		rec = func(i int, score float64) {
			if i == len(p.Jobs) {
				best = min(best, score)
				return
			}
			for k := 1; k <= workers(p); k++ {
				divisions(p, k, func(held []int) {
					for c, n := range held {
						if n > free[c].Workers {
							return
						}
					}
					counts[i] = append([]int(nil), held...)
					for c, n := range counts[i] {
						free[c].Workers -= n
					}
					mine := counts[i]
					rec(i+1, score+p.Jobs[i].Weight*p.JCT(i, mine))
					for c, n := range mine {
						free[c].Workers += n
					}
				})
			}
		}
		rec(0, 0)
		placed, score, err := market.Exact(p)
		if err != nil || math.Abs(score-best) > 1e-9*best || math.Abs(p.Score(placed)-best) > 1e-9*best {
			t.Fatalf("%+v: %v (%v, %v), brute force has %v", p, score, placed, err, best)
		}
	}
}

// Samples are never better than the optimum, and by the defaults hardly worse.
func TestSampleAgainstExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	worst, sum, n := 0.0, 0.0, 0
	for range 25 {
		p := draw(rng, 4+rng.IntN(3), 3, 9)
		if workers(p) < 2*len(p.Jobs) {
			continue
		}
		_, best, err := market.Exact(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, cfg := range []market.Config{{}, {Drawing: market.Uniform}, {Valuation: market.Throughput},
			{Draws: 1, Skip: -1, Drawing: market.Uniform, Valuation: market.Throughput}} {
			got, err := market.Sample(context.Background(), p, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got.Score < best*(1-1e-12) || math.Abs(got.Score-p.Score(got.Counts)) > 1e-9*best {
				t.Fatalf("%+v: %v, and the optimum is %v", cfg, got.Score, best)
			}
			if f := p.Fairness(got.Counts); !(f > 0 && f <= 1+1e-12) {
				t.Fatalf("fairness %v", f)
			}
			if cfg == (market.Config{}) {
				worst, sum, n = max(worst, got.Score/best), sum+got.Score/best, n+1
			}
		}
	}
	if n < 15 || sum/float64(n) > 1.01 || worst > 1.05 {
		t.Errorf("%d problems: mean ratio %v, worst %v", n, sum/float64(n), worst)
	}
}

func TestBoundsOfWorkersAndClassesThatCannotRun(t *testing.T) {
	p := &market.Problem{
		Classes: []market.Class{{Workers: 4}, {Workers: 6}, {}},
		Jobs: []market.Job{
			{Weight: 9, Iterations: 1e4, Samples: 60, Rate: []float64{30, 10, 5}, Most: 2},
			{Weight: 1, Iterations: 1, Samples: 60, Rate: []float64{0, 10, 5}, Least: 5},
			{Weight: 1, Iterations: 100, Samples: 60, Rate: []float64{10, 0, 0}},
		},
	}
	for _, drawing := range []market.Drawing{market.Near, market.Uniform} {
		got, err := market.Sample(context.Background(), p, market.Config{Drawing: drawing})
		if err != nil {
			t.Fatal(err)
		}
		k := got.Category
		if k[0] > 2 || k[1] < 5 || got.Counts[1][0] != 0 || got.Counts[2][1] != 0 || math.IsInf(got.Score, 0) {
			t.Errorf("%s: %v", drawing, got.Counts)
		}
	}
	if got, err := market.Sample(context.Background(), &market.Problem{}, market.Config{}); err != nil ||
		got.Score != 0 {
		t.Errorf("no jobs: %v, %v", got, err)
	}
}

func TestRefusals(t *testing.T) {
	good := market.Job{Weight: 1, Iterations: 1, Samples: 1, Rate: []float64{1}}
	for _, c := range []struct {
		job     market.Job
		jobs    int
		workers int
		cfg     market.Config
		want    string
	}{
		{good, 3, 2, market.Config{}, "/jobs: need 3 workers together, and there are 2"},
		{market.Job{Weight: 1, Iterations: 1, Samples: 1, Rate: []float64{0}}, 1, 2, market.Config{},
			"/jobs/0: needs 1 workers"},
		{market.Job{Weight: 1, Iterations: 1, Samples: 1}, 1, 2, market.Config{},
			"/jobs/0/rate: has 0 rates for 1 classes"},
		{market.Job{Weight: 1, Iterations: math.NaN(), Samples: 1, Rate: []float64{1}}, 1, 2, market.Config{},
			"/jobs/0: weight"},
		{market.Job{Weight: 1, Iterations: 1, Samples: 1, Rate: []float64{1}, Least: 3, Most: 2}, 1, 9, market.Config{},
			"/jobs/0: the bounds"},
		{good, 1, -1, market.Config{}, "/classes/0: numbers"},
		{good, 1, 1, market.Config{Drawing: "far"}, `/drawing: is "far"`},
		{good, 1, 1, market.Config{Valuation: "x"}, `/valuation: is "x"`},
		{good, 1, 1, market.Config{Skip: 1}, "/skip: must be below 1"},
		{good, 1, 1, market.Config{Draws: -1}, "/draws: must be"},
		{good, 1, 1, market.Config{Passes: -1}, "/passes: must be"},
		{good, 1, 1, market.Config{Spread: math.NaN()}, "/spread: must be"},
	} {
		p := &market.Problem{Classes: []market.Class{{Workers: c.workers}}}
		for range c.jobs {
			p.Jobs = append(p.Jobs, c.job)
		}
		_, err := market.Sample(context.Background(), p, c.cfg)
		var es hare.InvalidErrors
		if !errors.As(err, &es) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
	}
	wide := &market.Problem{Classes: []market.Class{{Workers: 1 << 19}}, Jobs: []market.Job{good}}
	if _, _, err := market.Exact(wide); !errors.Is(err, market.ErrTooLarge) {
		t.Errorf("%v, want %v", err, market.ErrTooLarge)
	}
}

// large has 200 jobs and 2,000 workers in four classes.
func large() *market.Problem {
	rng := rand.New(rand.NewPCG(9, 10))
	p := draw(rng, 200, 4, 1)
	for c := range p.Classes {
		p.Classes[c].Workers = 500
	}
	return p
}

func TestSameSeedSamePlacement(t *testing.T) {
	p := large()
	a, err := market.Sample(context.Background(), p, market.Config{Seed: 5, Draws: 8})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := market.Sample(context.Background(), p, market.Config{Seed: 5, Draws: 8})
	if !reflect.DeepEqual(a, b) {
		t.Error("two runs with one seed differ")
	}
	if a.Skipped != 4 {
		t.Errorf("%d skipped, want 4", a.Skipped)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := market.Sample(ctx, p, market.Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func BenchmarkSample(b *testing.B) {
	p := large()
	for b.Loop() {
		if _, err := market.Sample(context.Background(), p, market.Config{}); err != nil {
			b.Fatal(err)
		}
	}
}
