package leases

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// hadarRound is a random round.
func hadarRound(r *rand.Rand, most, nodes int) *State {
	s := &State{NowS: 100, Types: []string{"K80", "P100", "V100"}}
	for range s.Types {
		size := 1 + r.IntN(3)
		s.NodeSize = append(s.NodeSize, size)
		s.GPUs = append(s.GPUs, 1+r.IntN(size*nodes))
	}
	for i := range 1 + r.IntN(most) {
		j := &Job{ID: fmt.Sprint(i), ArrivalS: 100 * r.Float64(), Weight: 1 + r.Float64(), GPUs: 1 + r.IntN(4),
			Steps: 1000}
		for k := range s.Types {
			rate := float64(1+k) * (0.5 + r.Float64())
			if r.IntN(5) == 0 {
				rate = 0
			}
			j.Rate = append(j.Rate, rate)
			j.SpreadRate = append(j.SpreadRate, rate*(0.4+0.6*r.Float64()))
		}
		if slices.Max(j.Rate) == 0 {
			j.Rate[0], j.SpreadRate[0] = 1, 0.5
		}
		s.Jobs = append(s.Jobs, View{Job: j, Number: i, StepsLeft: 1 + r.Int64N(1000)})
	}
	return s
}

// allocations calls visit with every way to give a job GPUs of the nodes that have free ones;
// use is the number of GPUs by node.
func allocations(s *State, j *Job, kinds, free []int, visit func(use []int, rate float64)) {
	use := make([]int, len(free))
	var try func(n, left int)
	try = func(n, left int) {
		if n == len(free) {
			rate, spread, used := math.Inf(1), math.Inf(1), 0
			for m, u := range use {
				if u > 0 {
					used++
					rate, spread = min(rate, j.Rate[kinds[m]]), min(spread, j.SpreadRate[kinds[m]])
				}
			}
			if used > 1 {
				rate = spread
			}
			if left == 0 && rate > 0 {
				visit(use, rate)
			}
			return
		}
		for u := range 1 + min(left, free[n]) {
			use[n] = u
			try(n+1, left-u)
		}
		use[n] = 0
	}
	try(0, j.GPUs)
}

// utilityOf is the default utility, written again.
func utilityOf(s *State, j *View, rate float64) float64 {
	return j.Weight / (s.NowS + float64(j.StepsLeft)/rate - j.ArrivalS)
}

func (ha *hadar) kindsAndSizes() (kinds, sizes []int) {
	for _, n := range ha.nodes {
		kinds = append(kinds, ha.classes[n.class].kind)
		sizes = append(sizes, len(n.gpus))
	}
	return kinds, sizes
}

// The allocation that findAllocation offers has the payoff of the best one of all, on nodes that
// are partly given.
func TestHadarFindsTheBestAllocation(t *testing.T) {
	seen := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := hadarRound(r, 5, 3)
		ha := newHadar(HadarConfig{})
		ha.readNodes(s)
		ha.readJobs(s)
		kinds, sizes := ha.kindsAndSizes()
		free, price := slices.Clone(sizes), make([]float64, len(sizes))
		st := hadarState{levels: make([][]hadarLevel, len(ha.classes))}
		for n := range free {
			given := r.IntN(sizes[n] + 1)
			free[n] -= given
			st.free += free[n]
			c := ha.nodes[n].class
			price[n] = ha.classes[c].price[given]
			at := slices.IndexFunc(st.levels[c], func(l hadarLevel) bool { return l.given == given })
			if at < 0 {
				at = len(st.levels[c])
				st.levels[c] = append(st.levels[c], hadarLevel{given: given})
			}
			st.levels[c][at].nodes++
		}
		for _, l := range st.levels {
			slices.SortFunc(l, func(a, b hadarLevel) int { return a.given - b.given })
		}
		for i := range ha.queue {
			j := &ha.queue[i]
			best, found := 0.0, false
			allocations(s, j.view.Job, kinds, free, func(use []int, rate float64) {
				p := utilityOf(s, j.view, rate)
				for n, u := range use {
					p -= float64(u) * price[n]
				}
				if !found || p > best {
					best, found = p, true
				}
			})
			o := ha.findAllocation(j, &st, 1)
			takes, payoff := o.takes, o.payoff
			if found != (takes != nil) || found && math.Abs(payoff-best) > 1e-12*(1+math.Abs(best)) {
				t.Fatalf("seed %d, job %s: payoff %v of %v, best %v", seed, j.view.ID, payoff, takes, best)
			}
			if found {
				seen++
			}
		}
	}
	if seen < 500 {
		t.Errorf("%d allocations", seen)
	}
}

// The prices at the end of a round are a dual solution of the round: the prices of all GPUs and the
// best payoffs of all jobs add up to no less than the utility of any allocation, which an exact
// search finds. What the policy chooses is feasible, and worth at least a part of the optimum.
func TestHadarWeakDuality(t *testing.T) {
	var sum, worst float64 = 0, 1
	rounds := 150
	for seed := range uint64(rounds) {
		s := hadarRound(rand.New(rand.NewPCG(seed, 2)), 4, 2)
		ha := newHadar(HadarConfig{})
		holds, err := ha.Hold(t.Context(), s, nil)
		if err != nil {
			t.Fatal(err)
		}
		kinds, sizes := ha.kindsAndSizes()
		nodeOf := map[int32]int{}
		for n, node := range ha.nodes {
			for _, g := range node.gpus {
				nodeOf[g] = n
			}
		}
		got, given := 0.0, make([]int, len(sizes))
		for _, h := range holds {
			j := &s.Jobs[h.Job]
			rate, spread, first := math.Inf(1), false, nodeOf[h.GPUs[0]]
			for _, g := range h.GPUs {
				spread = spread || nodeOf[g] != first
			}
			for _, g := range h.GPUs {
				k := kinds[nodeOf[g]]
				rate = min(rate, j.Rate[k])
				if spread {
					rate = min(rate, j.SpreadRate[k])
				}
				given[nodeOf[g]]++
			}
			if len(h.GPUs) != j.GPUs || rate <= 0 {
				t.Fatalf("seed %d: job %s holds %v at rate %v", seed, j.ID, h.GPUs, rate)
			}
			got += utilityOf(s, j, rate)
		}
		var exact func(i int, free []int) float64
		exact = func(i int, free []int) float64 {
			if i == len(s.Jobs) {
				return 0
			}
			best := exact(i+1, free)
			allocations(s, s.Jobs[i].Job, kinds, free, func(use []int, rate float64) {
				left := slices.Clone(free)
				for n, u := range use {
					left[n] -= u
				}
				best = max(best, utilityOf(s, &s.Jobs[i], rate)+exact(i+1, left))
			})
			return best
		}
		optimum := exact(0, sizes)
		ha.readNodes(s)
		ha.readJobs(s) // prices without the discount of the last jobs
		dual := 0.0
		price := make([]float64, len(sizes))
		for n, size := range sizes {
			if given[n] > size {
				t.Fatalf("seed %d: node %d of %d GPUs has %d given", seed, n, size, given[n])
			}
			price[n] = ha.classes[ha.nodes[n].class].price[given[n]]
			dual += float64(size) * price[n]
		}
		for i := range s.Jobs {
			most := 0.0
			allocations(s, s.Jobs[i].Job, kinds, sizes, func(use []int, rate float64) {
				p := utilityOf(s, &s.Jobs[i], rate)
				for n, u := range use {
					p -= float64(u) * price[n]
				}
				most = max(most, p)
			})
			dual += most
		}
		if dual < optimum*(1-1e-12) || got > optimum*(1+1e-12) {
			t.Errorf("seed %d: dual %v, optimum %v, got %v", seed, dual, optimum, got)
		}
		if optimum > 0 {
			sum += got / optimum
			worst = min(worst, got/optimum)
		} else {
			sum++
		}
	}
	t.Logf("of the optimum: mean %.4f, worst %.4f", sum/float64(rounds), worst)
	if sum/float64(rounds) < 0.99 || worst < 0.75 {
		t.Errorf("mean %v of the optimum, worst %v", sum/float64(rounds), worst)
	}
}

// Exchanges never lower the sum of utilities, and find more in some rounds.
func TestHadarExchanges(t *testing.T) {
	worth := func(ha *hadar, s *State) float64 {
		ha.readNodes(s)
		ha.readJobs(s)
		chosen, err := ha.choose(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, c := range chosen {
			j, rate, nodes := &ha.queue[c.job], math.Inf(1), len(c.takes)
			for _, x := range c.takes {
				k := ha.classes[x.class].kind
				if nodes == 1 {
					rate = j.view.Rate[k]
				} else {
					rate = min(rate, j.spreadRate(k))
				}
			}
			sum += utilityOf(s, j.view, rate)
		}
		return sum
	}
	better := 0
	for seed := range uint64(200) {
		s := hadarRound(rand.New(rand.NewPCG(seed, 6)), 12, 3)
		without, with := worth(newHadar(HadarConfig{Exchanges: -1}), s), worth(newHadar(HadarConfig{}), s)
		if with < without*(1-1e-12) {
			t.Errorf("seed %d: utility %v with exchanges, %v without", seed, with, without)
		}
		if with > without*(1+1e-9) {
			better++
		}
	}
	if better < 50 {
		t.Errorf("better in %d of 200 rounds", better)
	}
}

// Worked by hand: two nodes of two V100, and jobs of utility 1/10 (a), 1/20 (b) and 1/40 (c) on
// one GPU each. U_max is 1/10, and U_min is 1/40 over 4, 1/160. The first GPU of a node costs
// 1/160, the second 1/160 · 16^½ = 1/40, and a full node 1/10. a takes a first GPU, b the first GPU
// of the other node; both second GPUs cost all that c is worth, so c takes one only if GPUs
// are not to idle.
func TestHadarByHand(t *testing.T) {
	s := &State{NowS: 0, Types: []string{"V100"}, GPUs: []int{4}, NodeSize: []int{2}}
	for i, left := range []int64{40, 10, 20} {
		j := &Job{ID: string("cab"[i]), Weight: 1, GPUs: 1, Steps: left, Rate: []float64{1}}
		s.Jobs = append(s.Jobs, View{Job: j, Number: i, StepsLeft: left})
	}
	for _, x := range []struct {
		cfg  HadarConfig
		want string
	}{
		{HadarConfig{Strict: true}, "[{1 [0] 0} {2 [2] 0}]"},
		{HadarConfig{}, "[{0 [1] 0} {1 [0] 0} {2 [2] 0}]"},
		{HadarConfig{Eta: 2, Strict: true}, "[{0 [1] 0} {1 [0] 0} {2 [2] 0}]"}, // 1/320 · 32^½ is below 1/40
		// In the order of arrival, c comes first, then a, then b at 1/40.
		{HadarConfig{Strict: true, ByArrival: true}, "[{0 [0] 0} {1 [2] 0} {2 [1] 0}]"},
	} {
		ha := newHadar(x.cfg)
		holds, err := ha.Hold(t.Context(), s, nil)
		if got := fmt.Sprint(holds); err != nil || got != x.want {
			t.Errorf("%+v: %s, %v; want %s", x.cfg, got, err, x.want)
		}
		ha.readJobs(s)
		if c := ha.classes[0]; x.cfg.Eta == 0 && (math.Abs(c.price[0]-1.0/160) > 1e-15 ||
			math.Abs(c.price[1]-1.0/40) > 1e-15 || math.Abs(c.price[2]-1.0/10) > 1e-15) {
			t.Errorf("prices %v", c.price)
		}
	}
	// Jobs that hold GPUs keep them, wherever they are.
	held := []Hold{{Job: 0, GPUs: []int32{0}}, {Job: 1, GPUs: []int32{1}}, {Job: 2, GPUs: []int32{3}}}
	holds, err := newHadar(HadarConfig{}).Hold(t.Context(), s, held)
	if got, want := fmt.Sprint(holds), fmt.Sprint(held); err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

// A gang of four that no type has room for at once mixes types, unless it must not. At rates 4
// and 1 on one node and 2 and 1 on several, it prefers a node of slow GPUs at rate 1 to several
// at rate 1, and two nodes of fast ones at rate 2 to one of slow ones.
func TestHadarMixesAndSpreads(t *testing.T) {
	job := &Job{ID: "a", Weight: 1, GPUs: 4, Steps: 100, Rate: []float64{1, 4}, SpreadRate: []float64{1, 2}}
	for _, x := range []struct {
		name       string
		gpus, size []int
		cfg        HadarConfig
		want       string
	}{
		{"mixed", []int{2, 2}, []int{2, 2}, HadarConfig{}, "[{0 [0 1 2 3] 0}]"},
		{"one type", []int{2, 2}, []int{2, 2}, HadarConfig{OneType: true}, "[]"},
		{"two fast nodes", []int{4, 4}, []int{4, 2}, HadarConfig{}, "[{0 [4 5 6 7] 0}]"},
		{"one node", []int{4, 4}, []int{4, 2}, HadarConfig{OneNode: true}, "[{0 [0 1 2 3] 0}]"},
		{"one fast node", []int{4, 4}, []int{4, 4}, HadarConfig{}, "[{0 [4 5 6 7] 0}]"},
		{"slow node", []int{4, 2}, []int{4, 2}, HadarConfig{}, "[{0 [0 1 2 3] 0}]"},
	} {
		s := &State{Types: []string{"K80", "V100"}, GPUs: x.gpus, NodeSize: x.size,
			Jobs: []View{{Job: job, StepsLeft: 100}}}
		holds, err := newHadar(x.cfg).Hold(t.Context(), s, nil)
		if got := fmt.Sprint(holds); err != nil || got != x.want {
			t.Errorf("%s: %s, %v; want %s", x.name, got, err, x.want)
		}
	}
}

// Random jobs with rates on several nodes end under all settings, on nodes that fail. The engine
// refuses GPUs that are out of service or given twice. A second run is the same.
func TestHadarEndsAllJobs(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4
	}
	for _, cfg := range []HadarConfig{
		{}, {Utility: InverseRemaining, Beam: 1}, {Utility: EffectiveSpeed, ByArrival: true}, {OneType: true},
		{Utility: LongestFirst, OneNode: true}, {Strict: true, Eta: 0.25}, {Utility: LeastAttained}, {Beam: 100, Eta: 1e6},
	} {
		for seed := range seeds {
			r := rand.New(rand.NewPCG(seed, 3))
			s := hadarRound(r, 12, 4)
			c := Cluster{Types: s.Types, GPUs: s.GPUs, NodeSize: s.NodeSize}
			var jobs []Job
			for i := range s.Jobs {
				j := *s.Jobs[i].Job
				j.ArrivalS = float64(i) * 400
				j.GPUs = min(j.GPUs, slices.Max(s.GPUs))
				j.Rate[slices.Index(s.GPUs, slices.Max(s.GPUs))] = 1.5
				j.SpreadRate[slices.Index(s.GPUs, slices.Max(s.GPUs))] = 1
				jobs = append(jobs, j)
			}
			engine := RunConfig{Seed: seed, RestartS: 5}
			if seed%2 == 1 {
				engine.FaultRate = FaultRate{MeanS: 3000, RepairS: 400}
			}
			var before string
			for range 2 {
				o, err := Run(t.Context(), "hadar", c, jobs, newHadar(cfg), engine)
				if err != nil {
					t.Fatalf("%+v, seed %d: %v", cfg, seed, err)
				}
				for i, j := range o.Jobs {
					if j.StepsRun != jobs[i].Steps && !j.Dropped {
						t.Errorf("%+v, seed %d: %+v", cfg, seed, j)
					}
				}
				text := fmt.Sprintf("%+v", o)
				if before != "" && before != text {
					t.Errorf("%+v, seed %d: two runs differ", cfg, seed)
				}
				before = text
			}
		}
	}
}

func TestHadarRefusesSettings(t *testing.T) {
	s := &State{}
	for _, cfg := range []HadarConfig{
		{Utility: "x"}, {Eta: 0.2}, {Eta: -1}, {Eta: math.NaN()}, {Eta: math.Inf(1)}, {Beam: -1}, {Beam: 10_001},
	} {
		if _, err := newHadar(cfg).Hold(t.Context(), s, nil); err == nil {
			t.Errorf("%+v is not refused", cfg)
		}
	}
}

// BenchmarkHadarRound decides a round with 2,000 jobs in the queue on 256 nodes of 4 GPUs.
func BenchmarkHadarRound(b *testing.B) {
	for _, beam := range []int{1, 4, 16} {
		b.Run(fmt.Sprint("beam-", beam), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 4))
			s := &State{NowS: 100, Types: []string{"K80", "P100", "V100"}, GPUs: []int{340, 340, 344},
				NodeSize: []int{4, 4, 4}}
			for i := range 2000 {
				v := 1 + 3*r.Float64()
				j := &Job{ArrivalS: 100 * r.Float64(), Weight: 1, GPUs: []int{1, 1, 1, 2, 4, 8}[r.IntN(6)],
					Steps: 100_000, Rate: []float64{1, v, v * (1 + r.Float64())}}
				j.SpreadRate = []float64{0.5, v / 2, v / 3}
				s.Jobs = append(s.Jobs, View{Job: j, Number: i, StepsLeft: 1 + r.Int64N(100_000)})
			}
			ha := newHadar(HadarConfig{Beam: beam})
			var holds []Hold
			for b.Loop() {
				var err error
				if holds, err = ha.Hold(b.Context(), s, holds); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
