package greedy

import (
	"context"
	"math"
	"math/rand/v2"
)

// A search by stages does the same steps under each limit and only ends sooner or later: annealings, each with
// twice the work of the one before, and between them as much work of tempering. A search with a higher limit
// therefore goes on where one with a lower limit ended, and its value is not higher. On some instances annealing
// finds better arrangements of the wide jobs, on others tempering.
const (
	// StagedJobs is the greatest number of jobs that are searched by stages. With more jobs, all of the work is
	// better spent on one cooling: on arrivals-200 with gang jobs, tempering gave 0.5 % more for equal work.
	StagedJobs = 100
	// stagedRigid is the same where all jobs are rigid and the search does not follow another one: their plans
	// are as good by stages as by one cooling, and get no worse with the limit.
	stagedRigid = 300
	// coolingWork is the work of the first annealing, for each job.
	coolingWork = 60
	// coolingWorkOfMany is the same with more jobs than StagedJobs, where annealing follows annealing.
	coolingWorkOfMany = 15
	// listWork is the work of list scheduling under a work limit, for each job, and listWorkOfMany that with more
	// jobs than StagedJobs.
	listWork       = 100
	listWorkOfMany = 10
	// replicas is the number of replicas of tempering, and replicaWork the work of each between two exchanges,
	// for each job.
	replicas    = 8
	replicaWork = 50
	// coldReplica is the temperature of the coldest replica in units of the one at which annealing ends. The
	// hottest has the one at which annealing begins.
	coldReplica = 0.5
)

// staged reports whether the search goes by stages.
func (an *annealing) staged() bool { return an.cfg.staged && (an.cfg.Continual || an.tempers()) }

// tempers reports whether there is tempering between the annealings of a search by stages.
func (an *annealing) tempers() bool { return an.p.tempers(an.cfg) }

func (ap *annealProblem) tempers(cfg *ImproveConfig) bool {
	n := len(ap.jobs)
	return cfg.staged && (n <= StagedJobs || n <= stagedRigid && !ap.gangs && !cfg.Continual)
}

// runStages anneals, and tempers in turns where that pays.
func (an *annealing) runStages(ctx context.Context) {
	var t *tempering
	work := coolingWorkOfMany * int64(len(an.p.jobs))
	if an.tempers() {
		t = an.newTempering(an.key, an.plan)
		work = coolingWork * int64(len(an.p.jobs))
	}
	for stage := int64(1); !an.over(ctx); stage++ {
		before := an.budget
		an.cool(ctx, stage, an.budget-work, work, 1)
		if t != nil {
			t.takeOver(an)
			an.temper(ctx, t, an.budget-work)
		}
		if an.cfg.Between != nil && !an.over(ctx) {
			taken, stopAt, ok := an.cfg.Between(an.checkpoint, before-an.budget, an.budget)
			if !ok {
				return
			}
			an.budget -= taken
			an.cfg.StopAt = stopAt
		}
		work *= 2
	}
}

// over reports whether the search is to end.
func (an *annealing) over(ctx context.Context) bool {
	return an.budget <= 0 || ctx.Err() != nil || an.done() || an.cfg.Elapsed != nil && an.cfg.Elapsed() >= 1
}

// tempering is the state of parallel tempering between two annealings.
type tempering struct {
	walkers     []*walker // the coldest first
	temperature [replicas]float64
	epoch       int
	r           *rand.Rand
}

// newTempering gives all replicas a state.
func (an *annealing) newTempering(key []int64, plan []jobPlan) *tempering {
	an.start(replicas, 0, key, plan)
	t := &tempering{walkers: an.walkers, r: rand.New(rand.NewPCG(uint64(an.cfg.Seed), 1<<63))}
	hottest, coldest := an.temperatures()
	coldest *= coldReplica
	for i := range t.temperature {
		t.temperature[i] = coldest * math.Pow(hottest/coldest, float64(i)/(replicas-1))
	}
	t.pause(an)
	return t
}

// takeOver lets the coldest replica go on from the best state of an annealing if that is better.
func (t *tempering) takeOver(an *annealing) {
	best := an.walkers[0]
	for _, w := range an.walkers {
		if w.best < best.best {
			best = w
		}
	}
	if cold := t.walkers[0]; best.best < cold.value {
		cold.decoder.load(best.bestKey, best.bestPlan) // this state was decoded before, so it fits
		cold.value = cold.decoder.value()
		an.budget -= int64(len(an.p.jobs))
	}
}

// pause counts what the replicas did.
func (t *tempering) pause(an *annealing) {
	an.before, an.walkers = an.stats(), nil
	for _, w := range t.walkers {
		w.decoder.work, w.stats = 0, Stats{}
	}
}

// temper searches by parallel tempering (replica exchange; Geyer 1991, Hukushima and Nemoto 1996) until the budget
// is end: replicas walk at fixed temperatures, and neighbours exchange their temperatures with the probability
// that keeps the product of their distributions. Hot replicas find other arrangements of the jobs that decide
// most, as the wide and long ones do, and cold replicas find the best order of the other jobs there.
func (an *annealing) temper(ctx context.Context, t *tempering, end int64) {
	an.before, an.walkers = an.stats(), t.walkers
	work := replicaWork * int64(len(an.p.jobs))
	for ; an.budget > end && !an.over(ctx); t.epoch++ {
		most := an.budget
		if an.cfg.Continual {
			most = min(most, an.budget-end) // the stage does not overrun
		}
		an.runEpoch(ctx, func(x int) float64 { return t.temperature[x] }, min(work, (most+replicas-1)/replicas))
		an.collectBest()
		for i := t.epoch % 2; i+1 < replicas; i += 2 {
			a, b := t.walkers[i], t.walkers[i+1]
			x := (1/t.temperature[i] - 1/t.temperature[i+1]) * (a.value - b.value)
			if x >= 0 || t.r.Float64() < math.Exp(x) {
				t.walkers[i], t.walkers[i+1] = b, a
			}
		}
		an.offerCheckpoint()
	}
	t.pause(an)
}
