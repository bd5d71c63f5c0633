package elastic

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// search is Pollux's search for an allocation: the genetic algorithm NSGA-II with two
// objectives, the power mean of the jobs' speedups and the speedup a GPU of the nodes in use. A
// state is the list of its cells, which are as many as GPUs at most, and the operators of
// Pollux's simulator are applied to cells instead of the matrix of jobs and nodes, with the same
// probabilities. Its results are therefore distributed as those of the simulator.
type search struct {
	cfg   PolluxConfig
	nodes []int   // GPUs of each
	scale float64 // of speedups, so that a share of one node's worth of GPUs counts 1
	jobs  []searchJob

	population []state
	offspring  []state
	dropped    [][]cell // memory of states that were dropped
	hashes     map[uint64]bool
	order      []int

	used, spanning []int // by node: GPUs, and jobs that span nodes
	present        []int // by node: jobs
	mutated        []cell
	open           []uint16 // nodes with a free GPU
	dealt          []int    // a permutation of the population
}

// searchJob is what the search knows of a job.
type searchJob struct {
	maxGPUs, maxNodes int
	factor            float64 // what is left of the speedup if the GPUs change
	unit              float64 // one over the goodput of an equal share
	// speed is the goodput on nodes and GPUs; nil means that it is the number of GPUs.
	speed  func(nodes, gpus int) float64
	speeds []float64 // speedups by nodes and GPUs; below 0 means not computed
	base   []cell    // the GPUs that the job holds
}

// cell is the number of GPUs of a node that a job holds, above 0. Jobs are numbered in the
// order of the search.
type cell struct{ job, node, gpus uint16 }

// state is an allocation. Its cells are sorted by job and node.
type state struct {
	cells          []cell
	hash           uint64
	fitness, yield float64 // the two objectives, of which more is better
	rank           int
	crowding       float64
}

func (se *search) speedup(job, nodes, gpus int) float64 {
	j := &se.jobs[job]
	at := &j.speeds[nodes*(j.maxGPUs+1)+gpus]
	if *at < 0 {
		if j.speed == nil {
			*at = float64(gpus) * j.unit
		} else {
			*at = j.speed(nodes, gpus) * j.unit
		}
	}
	return *at
}

// Probabilities of the operators, from Pollux's simulator.
const (
	crossoverChance = 0.9
	resetOdds       = 10 // one in so many: a job's row goes back to what the job holds
	clearOdds       = 10 // one in so many: cells of a job's row are cleared, of which one in so many
)

// matingTries is how often the search mates while its offspring are too few that are new.
const matingTries = 101

// run searches from the given states, and returns the state with the greatest fitness. The last
// population stays in se.population.
func (se *search) run(ctx context.Context, rng *rand.Rand, from [][]cell) (*state, error) {
	se.begin()
	for _, cells := range from {
		se.add(&se.population, se.repaired(rng, cells))
	}
	se.survive(rng, len(se.population))
	for range se.cfg.Generations - 1 {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("elastic: %w", err)
		}
		for range matingTries {
			if len(se.offspring) >= se.cfg.Population {
				break
			}
			se.mate(rng, se.cfg.Population-len(se.offspring))
		}
		if len(se.offspring) == 0 {
			break
		}
		se.population = append(se.population, se.offspring...)
		se.offspring = se.offspring[:0]
		se.survive(rng, se.cfg.Population)
	}
	best := 0
	for i := range se.population {
		if se.population[i].fitness > se.population[best].fitness {
			best = i
		}
	}
	return &se.population[best], nil
}

func (se *search) begin() {
	for _, st := range se.population {
		se.dropped = append(se.dropped, st.cells)
	}
	se.population, se.offspring = se.population[:0], se.offspring[:0]
	if n := len(se.nodes); len(se.used) != n {
		se.used, se.spanning, se.present = make([]int, n), make([]int, n), make([]int, n)
	}
	if se.hashes == nil {
		se.hashes = map[uint64]bool{}
	}
	clear(se.hashes)
}

// add evaluates a state and adds it to others, unless it is there already.
func (se *search) add(to *[]state, cells []cell) {
	hash := uint64(14695981039346656037)
	for _, c := range cells {
		hash = (hash ^ (uint64(c.job)<<32 | uint64(c.node)<<16 | uint64(c.gpus))) * 0x9E3779B97F4A7C15
		hash ^= hash >> 29
	}
	if se.hashes[hash] {
		se.dropped = append(se.dropped, cells)
		return
	}
	se.hashes[hash] = true
	st := state{cells: cells, hash: hash}
	se.evaluate(&st)
	*to = append(*to, st)
}

// buffer is memory for the cells of a state.
func (se *search) buffer() []cell {
	if n := len(se.dropped); n > 0 {
		b := se.dropped[n-1]
		se.dropped = se.dropped[:n-1]
		return b[:0]
	}
	return nil
}

// fitnessFloor is added to speedups, so that a job without GPUs does not decide alone.
const fitnessFloor = 1e-3

// evaluate computes the objectives in O(jobs + cells).
func (se *search) evaluate(st *state) {
	sum, speedups, active := 0., 0., 0
	clear(se.used)
	cells := st.cells
	for k := range se.jobs {
		n, gpus := 0, 0
		for n < len(cells) && int(cells[n].job) == k {
			c := cells[n]
			gpus += int(c.gpus)
			if se.used[c.node] == 0 {
				active += se.nodes[c.node]
			}
			se.used[c.node]++
			n++
		}
		v := 0.
		if n > 0 {
			v = se.speedup(k, n, gpus)
			speedups += v
			v *= se.scale
			if !slices.Equal(cells[:n], se.jobs[k].base) {
				v *= se.jobs[k].factor
			}
		}
		switch v += fitnessFloor; se.cfg.Power {
		case -1:
			sum += 1 / v
		case FairGeometric:
			sum += math.Log(v)
		default:
			sum += math.Pow(v, se.cfg.Power)
		}
		cells = cells[n:]
	}
	sum /= float64(len(se.jobs))
	if se.cfg.Power == FairGeometric {
		st.fitness = math.Exp(sum)
	} else {
		st.fitness = math.Pow(sum, 1/se.cfg.Power)
	}
	st.yield = 0
	if active > 0 {
		st.yield = speedups / float64(active)
	}
}

// mate makes offspring of so many parents: tournaments of two, crossover of the rows of jobs
// before a random one, mutation and repair.
func (se *search) mate(rng *rand.Rand, parents int) {
	parents = (parents + 1) / 2 * 2
	room := se.cfg.Population
	se.dealt = se.dealt[:0]
	for range parents / 2 {
		a, b := se.parent(rng), se.parent(rng)
		cut := 0
		if rng.Float64() < crossoverChance {
			cut = rng.IntN(len(se.jobs))
		}
		at := func(cells []cell) int {
			i, _ := slices.BinarySearchFunc(cells, cut, func(c cell, k int) int { return int(c.job) - k })
			return i
		}
		i, k := at(a.cells), at(b.cells)
		for _, parts := range [2][2][]cell{{b.cells[:k], a.cells[i:]}, {a.cells[:i], b.cells[k:]}} {
			child := se.repaired(rng, se.mutate(rng, parts[0], parts[1]))
			if len(se.offspring) < room {
				se.add(&se.offspring, child)
			} else {
				se.dropped = append(se.dropped, child)
			}
		}
	}
}

// parent is the winner of a tournament between the next two states of a shuffled population.
func (se *search) parent(rng *rand.Rand) *state {
	next := func() *state {
		n := len(se.dealt)
		if n == 0 {
			n = len(se.population)
			for i := range n {
				se.dealt = append(se.dealt, i)
			}
		}
		i := rng.IntN(n)
		at := se.dealt[i]
		se.dealt[i] = se.dealt[n-1]
		se.dealt = se.dealt[:n-1]
		return &se.population[at]
	}
	a, b := next(), next()
	switch {
	case dominates(a, b) || !dominates(b, a) && a.crowding > b.crowding:
		return a
	case dominates(b, a) || b.crowding > a.crowding || rng.Uint64()&1 == 0:
		return b
	}
	return a
}

func dominates(a, b *state) bool {
	return a.fitness >= b.fitness && a.yield >= b.yield && (a.fitness > b.fitness || a.yield > b.yield)
}

// keptRank marks the states that survive, in the population from which they are taken.
const keptRank = -1

// survive keeps so many states of the population, by rank and then by crowding, and sets both.
// It takes O(states · log(states)).
func (se *search) survive(rng *rand.Rand, count int) {
	pop := se.population
	order := se.order[:0]
	for i := range pop {
		order = append(order, i)
	}
	se.order = order
	slices.SortFunc(order, func(a, b int) int {
		if d := cmp.Compare(pop[b].fitness, pop[a].fitness); d != 0 {
			return d
		}
		if d := cmp.Compare(pop[b].yield, pop[a].yield); d != 0 {
			return d
		}
		return a - b
	})
	// In this order a state is dominated by a front if the front's state with the greatest yield
	// up to now dominates it.
	var tops []*state
	for _, i := range order {
		st := &pop[i]
		st.rank, _ = slices.BinarySearchFunc(tops, st, func(top, st *state) int {
			if dominates(top, st) {
				return -1
			}
			return 1
		})
		switch {
		case st.rank == len(tops):
			tops = append(tops, st)
		case st.yield > tops[st.rank].yield:
			tops[st.rank] = st
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return pop[a].rank - pop[b].rank })
	kept := make([]state, 0, count)
	for len(order) > 0 && len(kept) < count {
		n := 1
		for n < len(order) && pop[order[n]].rank == pop[order[0]].rank {
			n++
		}
		front := order[:n]
		order = order[n:]
		crowd(pop, front)
		if room := count - len(kept); n > room {
			rng.Shuffle(n, func(a, b int) { front[a], front[b] = front[b], front[a] })
			slices.SortStableFunc(front, func(a, b int) int { return cmp.Compare(pop[b].crowding, pop[a].crowding) })
			front = front[:room]
		}
		for _, i := range front {
			kept = append(kept, pop[i])
			pop[i].rank = keptRank
		}
	}
	for i := range pop {
		if pop[i].rank != keptRank {
			delete(se.hashes, pop[i].hash)
			se.dropped = append(se.dropped, pop[i].cells)
		}
	}
	se.population = append(pop[:0], kept...)
}

// crowd sets the crowding of a front, which is sorted by falling fitness and thus by rising
// yield: the distance between the neighbours of a state, as a fraction of the front's extent in
// each objective. Of equal states all but the first have none.
func crowd(pop []state, front []int) {
	if len(front) <= 2 {
		for _, i := range front {
			pop[i].crowding = math.Inf(1)
		}
		return
	}
	unique := front[:0:0]
	for n, i := range front {
		pop[i].crowding = 0
		if n == 0 || pop[i].fitness != pop[front[n-1]].fitness || pop[i].yield != pop[front[n-1]].yield {
			unique = append(unique, i)
		}
	}
	last := len(unique) - 1
	first, end := &pop[unique[0]], &pop[unique[last]]
	extent, rise := first.fitness-end.fitness, end.yield-first.yield
	for n, i := range unique {
		if n == 0 || n == last {
			pop[i].crowding = math.Inf(1)
			continue
		}
		before, after := &pop[unique[n-1]], &pop[unique[n+1]]
		pop[i].crowding = ((before.fitness-after.fitness)/extent + (after.yield-before.yield)/rise) / 2
	}
}
