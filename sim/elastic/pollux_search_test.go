package elastic

import (
	"context"
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/hare-sched/hare/sim/elastic/goodput"
)

// decision is the instance of testdata/pollux_decision.csv: 200 jobs with models on 64 nodes of 4
// GPUs, all of them free.
func decision(t testing.TB, cfg PolluxConfig, seed uint64) (*Pollux, *State) {
	t.Helper()
	f, err := os.Open("testdata/pollux_decision.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPollux(cfg, seed)
	if err != nil {
		t.Fatal(err)
	}
	const nowS = 20000
	s := &State{NowS: nowS, Nodes: slices.Repeat([]int{4}, 64)}
	for number, r := range rows[1:] {
		v := make([]float64, len(r))
		for i := range r {
			if v[i], err = strconv.ParseFloat(r[i], 64); err != nil {
				t.Fatal(err)
			}
		}
		limits := goodput.Limits{Init: int(v[9]), Max: int(v[10]), MinLocal: int(v[11]), MaxLocal: int(v[12])}
		job := &Job{ID: strconv.Itoa(number), ArrivalS: nowS - v[14], GPUs: 1, MaxGPUs: 64,
			Batch: limits.Init, Epochs: 1, Weight: 1,
			Limits: BatchLimits{Init: limits.Init, Max: limits.Max, MinLocal: limits.MinLocal, MaxLocal: limits.MaxLocal}}
		s.Jobs = append(s.Jobs, View{Job: job, Number: number, Restarts: int64(v[15]), AttainedS: v[16]})
		p.jobs[number] = &polluxJob{steps: make([]goodput.Step, 1), maxGPUs: (int(v[13]) + 1) / 2, model: goodput.Model{
			Params: goodput.Params{ComputeS: v[0], SampleS: v[1], NodesS: v[2], NodesGPUS: v[3], LocalS: v[4],
				LocalGPUS: v[5], Overlap: v[6]},
			Noise: goodput.Noise{Sqr: v[7], Variance: v[8]}, Limits: limits}}
	}
	return p, s
}

// chosen is the state of the search that Allocate has chosen.
func chosen(p *Pollux) *state {
	return slices.MaxFunc(pointers(p.search.population), func(a, b *state) int {
		if a.fitness < b.fitness {
			return -1
		}
		return 1
	})
}

func pointers(states []state) []*state {
	out := make([]*state, len(states))
	for i := range states {
		out[i] = &states[i]
	}
	return out
}

// decisionFitness is the least fitness of the first decision of Pollux's simulator on
// testdata/pollux_decision.csv (docs/use/policies.md#policies-that-change-widths has its runs).
const decisionFitness = 0.001915

func TestPolluxDecision(t *testing.T) {
	p, s := decision(t, PolluxConfig{}, 1)
	if _, err := p.Allocate(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	if got := chosen(p).fitness; got < .99*decisionFitness {
		t.Errorf("fitness %.6f, Pollux's simulator has %.6f", got, decisionFitness)
	}
}

// BenchmarkPolluxDecision measures a decision for 200 jobs on 64 nodes, from an empty cluster.
func BenchmarkPolluxDecision(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		p, s := decision(b, PolluxConfig{}, 1)
		b.StartTimer()
		if _, err := p.Allocate(context.Background(), s); err != nil {
			b.Fatal(err)
		}
	}
}

// small is a search for jobs whose goodput on g GPUs of n nodes is speed[g], less a tenth for
// each further node. Every second job holds a GPU.
func small(cfg PolluxConfig, nodes []int, speeds ...[]float64) *search {
	if err := cfg.validate(); err != nil {
		panic(err)
	}
	se := &search{cfg: cfg, nodes: nodes, scale: .5}
	for k, speed := range speeds {
		j := searchJob{maxGPUs: len(speed) - 1, maxNodes: len(nodes), factor: .7, unit: 1,
			speed: func(nodes, gpus int) float64 { return speed[gpus] * (1 - .1*float64(nodes-1)) }}
		if k%2 == 1 {
			j.base = []cell{{uint16(k), uint16(k / 2 % len(nodes)), 1}}
		}
		j.speeds = slices.Repeat([]float64{-1}, (j.maxNodes+1)*(j.maxGPUs+1))
		se.jobs = append(se.jobs, j)
	}
	return se
}

// possible reports whether a state breaks no rule.
func possible(se *search, cells []cell) bool {
	used, spanning := make([]int, len(se.nodes)), make([]int, len(se.nodes))
	gpus, count := make([]int, len(se.jobs)), make([]int, len(se.jobs))
	for i, c := range cells {
		if c.gpus == 0 || i > 0 && !cellLess(cells[i-1], c) {
			return false
		}
		used[c.node] += int(c.gpus)
		gpus[c.job] += int(c.gpus)
		count[c.job]++
	}
	for _, c := range cells {
		if count[c.job] > 1 {
			spanning[c.node]++
		}
	}
	for k := range gpus {
		if gpus[k] > se.jobs[k].maxGPUs || count[k] > se.jobs[k].maxNodes {
			return false
		}
	}
	for n := range used {
		if used[n] > se.nodes[n] || !se.cfg.Crowded && spanning[n] > 1 {
			return false
		}
	}
	return true
}

// The greatest fitness of three jobs on nodes of 2, 2 and 1 GPUs is found by trying every
// allocation, under several powers, with and without jobs that share nodes.
func TestPolluxSearchOptimum(t *testing.T) {
	for _, cfg := range []PolluxConfig{{}, {Power: 1}, {Power: FairGeometric}, {Power: -3}, {Crowded: true}} {
		se := small(cfg, []int{2, 2, 1}, []float64{0, 1, 1.9, 2.2, 2.3}, []float64{0, 1, 1.7, 2.6}, []float64{0, 2, 3})
		best := 0.
		genes := make([]int, 9)
		for {
			var cells []cell
			for g, v := range genes {
				if v > 0 {
					cells = append(cells, cell{uint16(g / 3), uint16(g % 3), uint16(v)})
				}
			}
			if se.begin(); possible(se, cells) {
				st := state{cells: cells}
				se.evaluate(&st)
				best = max(best, st.fitness)
			}
			g := 0
			for g < len(genes) && genes[g] == se.nodes[g%3] {
				genes[g] = 0
				g++
			}
			if g == len(genes) {
				break
			}
			genes[g]++
		}
		got, err := se.run(context.Background(), rand.New(rand.NewPCG(1, 2)), [][]cell{nil})
		if err != nil {
			t.Fatal(err)
		}
		if got.fitness != best || !possible(se, got.cells) {
			t.Errorf("%+v: fitness %v of %v, by trying all %v", cfg, got.fitness, got.cells, best)
		}
	}
}

// Whatever mutation and repair make of random states is possible.
func TestPolluxOperators(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	speed := make([]float64, 7)
	se := small(PolluxConfig{MaxNodes: 3}, []int{4, 4, 3, 1, 4}, speed, speed, speed, speed, speed, speed)
	for k := range se.jobs {
		se.jobs[k].maxNodes = 3
	}
	se.begin()
	states := [][]cell{nil}
	grown := 0
	for range 5000 {
		a, b := states[rng.IntN(len(states))], states[rng.IntN(len(states))]
		cut := uint16(rng.IntN(len(se.jobs)))
		first := slices.DeleteFunc(slices.Clone(a), func(c cell) bool { return c.job >= cut })
		second := slices.DeleteFunc(slices.Clone(b), func(c cell) bool { return c.job < cut })
		child := slices.Clone(se.repaired(rng, se.mutate(rng, first, second)))
		if !possible(se, child) {
			t.Fatalf("%v", child)
		}
		grown = max(grown, len(child))
		states = append(states, child)
	}
	if grown < 6 {
		t.Errorf("states have at most %d cells", grown)
	}
}

// Jobs 0 and 1 span nodes 0 and 1. On both nodes, the second of them and whatever comes after it
// loses its GPUs, so that job 2 has none. Job 3 wants 4 GPUs and may have 2. On node 2, the
// first jobs get what there is.
func TestPolluxRepairByHand(t *testing.T) {
	speed := make([]float64, 3)
	se := small(PolluxConfig{}, []int{4, 4, 4}, speed, speed, speed, speed, speed, speed)
	se.begin()
	got := se.repaired(rand.New(rand.NewPCG(1, 1)), []cell{{0, 0, 1}, {0, 1, 1}, {1, 0, 1}, {1, 1, 1}, {2, 1, 1},
		{3, 2, 4}, {4, 2, 1}, {5, 2, 2}})
	want := []cell{{0, 0, 1}, {0, 1, 1}, {3, 2, 2}, {4, 2, 1}, {5, 2, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, by hand %v", got, want)
	}
}

// Two jobs on nodes of 2 and 1 GPUs. With scale 0.5, job 0 on two GPUs of two nodes counts
// 0.5 · 1.9 · 0.9 · 0.7 + 0.001 = 0.59950, and job 1, which stays, 0.501. Their harmonic mean is
// 0.54584. The speedups of 1.71 and 1 on three GPUs are 0.90333 a GPU.
func TestPolluxFitnessByHand(t *testing.T) {
	se := small(PolluxConfig{}, []int{2, 1}, []float64{0, 1, 1.9}, []float64{0, 1})
	se.begin()
	for _, c := range []struct {
		cells          []cell
		fitness, yield float64
	}{
		{[]cell{{0, 0, 1}, {0, 1, 1}, {1, 0, 1}}, 2 / (1/.5995 + 1/.501), 2.71 / 3},
		{[]cell{{1, 1, 1}}, 2 / (1/.001 + 1/.351), 1},
		{nil, .001, 0},
	} {
		st := state{cells: c.cells}
		se.evaluate(&st)
		if math.Abs(st.fitness/c.fitness-1) > 1e-12 || math.Abs(st.yield-c.yield) > 1e-12 {
			t.Errorf("%v: %v and %v, by hand %v and %v", c.cells, st.fitness, st.yield, c.fitness, c.yield)
		}
	}
}

// Ranks are compared with their definition: a state's rank is above the greatest rank of the
// states that dominate it.
func TestPolluxRanks(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		se := small(PolluxConfig{}, []int{1}, []float64{0, 1})
		se.begin()
		count := 1 + rng.IntN(40)
		for i := range count {
			se.population = append(se.population, state{hash: uint64(i), fitness: float64(rng.IntN(8)),
				yield: float64(rng.IntN(8))})
		}
		all := slices.Clone(se.population)
		slices.SortFunc(all, func(a, b state) int {
			if a.fitness+a.yield > b.fitness+b.yield {
				return -1
			}
			return 1
		})
		want := map[uint64]int{}
		for i := range all {
			for k := range i {
				if dominates(&all[k], &all[i]) {
					want[all[i].hash] = max(want[all[i].hash], want[all[k].hash]+1)
				}
			}
		}
		keep := 1 + rng.IntN(count)
		se.survive(rng, keep)
		if len(se.population) != keep {
			t.Fatalf("%d of %d states survive", len(se.population), keep)
		}
		worst := 0
		for _, st := range se.population {
			worst = max(worst, want[st.hash])
		}
		kept := map[uint64]bool{}
		for _, st := range se.population {
			kept[st.hash] = true
		}
		for i := range all {
			if !kept[all[i].hash] && want[all[i].hash] < worst {
				t.Errorf("a state of rank %d is dropped, one of rank %d survives", want[all[i].hash], worst)
			}
		}
	}
}
