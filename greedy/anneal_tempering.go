package greedy

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// A search by stages does the same steps under each limit and only ends sooner or later: one annealing, which
// soon finds a good state, and then tempering until the end. A search with a higher limit therefore goes on where
// one with a lower limit ended, and its value is not higher.
const (
	// stagedJobs is the greatest number of jobs that are searched by stages. With more jobs, all of the work is
	// better spent on one cooling: on arrivals-200 with gang jobs, tempering gave 0.5 % more for equal work.
	stagedJobs = 100
	// coolingWork is the work of the last annealing before tempering, for each job.
	coolingWork = 1000
	// coolings is the number of annealings under a work limit, each with twice the work of the one before. The
	// first ones give a good state where the limit is low. A time limit ends the last one in time instead.
	coolings = 5
	// listWork is the work of list scheduling under a work limit, for each job.
	listWork = 100
	// replicas is the number of replicas of tempering, and replicaWork the work of each between two exchanges,
	// for each job.
	replicas    = 8
	replicaWork = 50
	// coldReplica is the temperature of the coldest replica in units of the one at which annealing ends. The
	// hottest has the one at which annealing begins.
	coldReplica = 0.5
)

// staged reports whether the search goes by stages.
func (an *annealing) staged() bool { return an.cfg.staged && len(an.p.jobs) <= stagedJobs }

// runStages anneals and then tempers.
func (an *annealing) runStages(ctx context.Context) {
	first := coolings - 1
	if an.cfg.Elapsed != nil {
		first = 0
	}
	work := coolingWork * int64(len(an.p.jobs)) >> first
	key, plan := slices.Clone(an.key), slices.Clone(an.plan)
	for n := range first + 1 {
		an.cool(ctx, int64(n), an.budget-work, work, 1)
		if work *= 2; an.over(ctx) {
			return
		}
	}
	an.temper(ctx, key, plan)
}

// over reports whether the search is to end.
func (an *annealing) over(ctx context.Context) bool {
	return an.budget <= 0 || ctx.Err() != nil || an.done() || an.cfg.Elapsed != nil && an.cfg.Elapsed() >= 1
}

// temper searches by parallel tempering (replica exchange; Geyer 1991, Hukushima and Nemoto 1996): replicas of
// a state walk at fixed temperatures, and neighbours exchange their temperatures with the probability that
// keeps the product of their distributions. Hot replicas find other arrangements of the jobs that decide most,
// as the wide and long ones do, and cold replicas find the best order of the other jobs there. Replicas of an
// annealed state would find less: they stay near it for long.
func (an *annealing) temper(ctx context.Context, key []int64, plan []jobPlan) {
	hottest, coldest := an.temperatures()
	coldest *= coldReplica
	an.start(replicas, coolings, key, plan)
	var temperature [replicas]float64
	for i := range temperature {
		temperature[i] = coldest * math.Pow(hottest/coldest, float64(i)/(replicas-1))
	}
	r := rand.New(rand.NewPCG(uint64(an.cfg.Seed), coolings<<32))
	work := replicaWork * int64(len(an.p.jobs))
	for epoch := 0; !an.over(ctx); epoch++ {
		an.runEpoch(ctx, func(x int) float64 { return temperature[x] }, min(work, (an.budget+replicas-1)/replicas))
		an.collectBest()
		for i := epoch % 2; i+1 < replicas; i += 2 {
			a, b := an.walkers[i], an.walkers[i+1]
			x := (1/temperature[i] - 1/temperature[i+1]) * (a.value - b.value)
			if x >= 0 || r.Float64() < math.Exp(x) {
				an.walkers[i], an.walkers[i+1] = b, a
			}
		}
		an.offerCheckpoint()
	}
}
