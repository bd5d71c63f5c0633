package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// Annealing of gang and rigid jobs, after Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing"
// (Science 220, 1983). A state is an order of all jobs and a plan for each job; its schedule is decoded job by job,
// each as early as its plan allows (the serial schedule generation scheme of project scheduling, Kolisch 1996). The
// first states are list schedules that charge each place the prices of the bound, in the order of α-points of the
// relaxation (after Möhring, Schulz, Stork and Uetz, "Solving project scheduling problems by minimum cut
// computations", Management Science 49, 2003). A move changes one or two jobs, and only the part of the schedule
// after the change is decoded again (anneal_decoder.go). The files anneal_problem (the instance), anneal_list (first
// states), anneal_decoder, anneal_moves (one chain), anneal_plan (blocks of a state) and this one (chains and
// temperatures) know only those before them.

// AnnealingChains is the number of Markov chains that start from the same state, if the
// configuration names none.
const AnnealingChains = 2

// annealingSearch is for gang and rigid jobs, each of which fits on one type of GPUs.
var annealingSearch = search{
	name: "annealing",
	supports: func(rq *request) bool {
		if !rq.inClasses() {
			return false
		}
		filler, _ := rq.jobs()
		return len(filler) == 0
	},
	continual: always, // by stages: see runStages
	run: func(ctx context.Context, rq *request) (*place.Plan, Stats, error) {
		cfg := rq.cfg
		cfg.staged = cfg.Heat == 0 && cfg.shaped == nil
		return anneal(ctx, rq.m, rq.rel, rq.start, cfg)
	},
}

// anneal improves a schedule of gang and rigid jobs. First, list scheduling by the
// prices of rel makes states in several orders; then simulated annealing searches from
// the best of these states and start. A state is one order of all jobs and a plan for
// each job (one type, two types in turn, or a set of types). A state is decoded as a
// list schedule: each job is placed as early as its plan allows.
//
// rel and start may be nil. Relaxed jobs and gangs that need several types at once stay
// where start has them. cfg.Moves counts placed jobs. The end of ctx is not an error:
// anneal then returns the best plan so far, which is never worse than start and is start
// itself if the search found nothing better. The result does not depend on cfg.Workers;
// it depends on the clock only through ctx and cfg.Elapsed.
func anneal(ctx context.Context, m *model.Model, rel *hare.Relaxation, start *place.Plan,
	cfg ImproveConfig) (*place.Plan, Stats, error) {
	if start != nil && ctx.Err() != nil {
		return start, Stats{}, nil
	}
	ap, ok := newShapedProblem(m, cfg.shaped, rel, start, nil)
	if !ok || len(ap.jobs) == 0 {
		return start, Stats{}, nil
	}
	an := newAnnealing(ap, &cfg)
	if start != nil {
		an.setIncumbent(start)
	}
	an.findInitialState(ctx, rel)
	if an.key != nil && ctx.Err() == nil {
		an.runChains(ctx)
	}
	if !an.improved {
		return start, an.stats(), nil
	}
	return an.bestPlan(), an.stats(), nil
}

// setIncumbent makes a plan the one to be improved.
func (an *annealing) setIncumbent(p *place.Plan) {
	an.value, an.tie, an.hasValue = p.Value(an.p.m), room.SumOfEnds(an.p.m, p.EndUs), true
}

func newAnnealing(ap *annealProblem, cfg *ImproveConfig) *annealing {
	if cfg.Heat == 0 {
		cfg.Heat = ap.heat(cfg)
	}
	if ap.tempers(cfg) && len(ap.jobs) > StagedJobs {
		cfg.Chains = 1 // also where prices of jobs leave the search more cores, so that the steps are the same
	}
	if cfg.Chains == 0 {
		cfg.Chains = AnnealingChains
	}
	return &annealing{p: ap, cfg: cfg, budget: cfg.Moves, decoder: newDecoder(ap)}
}

func (an *annealing) stats() Stats {
	s := an.before
	for _, w := range an.walkers {
		s.Moves += w.decoder.work
		s.Evaluations += w.stats.Evaluations
		s.Accepted += w.stats.Accepted
	}
	return s
}

// bestPlan decodes the best state found; there must be one.
func (an *annealing) bestPlan() *place.Plan {
	if an.stale {
		an.decoder.decode(an.key, an.plan) // this state was decoded before, so it fits
	}
	return an.decoder.toPlan()
}

// annealing is the state of one call of anneal.
type annealing struct {
	p        *annealProblem
	cfg      *ImproveConfig
	budget   int64 // the number of jobs that may still be placed
	walkers  []*walker
	before   Stats        // of the chains before walkers
	sampler  *pairSampler // nil before the first chains
	mean     float64      // the mean cost of the jobs in the state from which the first chains start
	value    hare.Amount  // the value of the incumbent: the best of start and the states found
	tie      float64      // under makespan: the sum of the ends of the incumbent
	hasValue bool         // whether there is an incumbent
	// key and plan are the best state found. Both are nil until there is one.
	key  []int64
	plan []room.JobPlan
	// firstOrder and firstPlan are a state to begin with; nil without one.
	firstOrder []int32
	firstPlan  []room.JobPlan
	improved   bool     // whether the best state found is better than start
	decoder    *decoder // has decoded the best state last, unless stale
	stale      bool
}

// exactValue returns the value of a state whose jobs end at end.
func (an *annealing) exactValue(end []int64) hare.Amount {
	p := an.p
	if p.makespan {
		return room.MakespanOf(p.endsWith(end))
	}
	var v hare.Amount
	for i := range p.jobs {
		v = v.Add(room.CostAt(&p.m.Jobs[p.jobs[i].Index], end[i]))
	}
	for _, i := range p.fixed {
		v = v.Add(room.CostAt(&p.m.Jobs[i], p.start.EndUs[i]))
	}
	return v
}

// endsWith returns the ends of all jobs of the model when those that the search moves end at
// end.
func (ap *annealProblem) endsWith(end []int64) []int64 {
	ends := make([]int64, len(ap.m.Jobs))
	for i := range ap.jobs {
		ends[ap.jobs[i].Index] = end[i]
	}
	for _, i := range ap.fixed {
		ends[i] = ap.start.EndUs[i]
	}
	for _, i := range ap.done {
		ends[i] = ap.m.Jobs[i].RunsUntilUs
	}
	return ends
}

// improveIncumbent stores and reports the value v of a state whose jobs end at end if v is
// better than all values before. Under makespan the sum of the ends breaks ties.
func (an *annealing) improveIncumbent(v hare.Amount, end []int64) bool {
	tie := 0.0
	if an.p.makespan {
		tie = room.SumOfEnds(an.p.m, an.p.endsWith(end))
	}
	if order := v.Cmp(an.value); an.hasValue && (order > 0 || order == 0 && tie >= an.tie) {
		return false
	}
	an.value, an.tie, an.hasValue, an.improved = v, tie, true, true
	if an.cfg.Report != nil {
		an.cfg.Report(v)
	}
	return true
}

// done reports whether the target value is reached.
func (an *annealing) done() bool {
	return an.cfg.StopAt != 0 && an.hasValue && an.value.Float() <= an.cfg.StopAt
}

// findInitialState finds the best state to start from. List scheduling may take a tenth
// of the work or a third of the time, but always makes at least one schedule.
func (an *annealing) findInitialState(ctx context.Context, rel *hare.Relaxation) {
	p := an.p
	an.decoder.stopped = func() bool { return ctx.Err() != nil }
	defer func() { an.decoder.stopped = nil }()
	best := math.Inf(1)
	var bestExact hare.Amount
	keep := func(order []int32, plans []room.JobPlan) {
		an.stale = true
		key := keysOf(order)
		if !an.decoder.decode(key, plans) {
			return
		}
		if v := an.exactValue(an.decoder.end); an.key == nil || v.Cmp(bestExact) < 0 {
			an.stale = false
			best, bestExact = an.decoder.value(), v
			an.key, an.plan = key, slices.Clone(plans)
			an.improveIncumbent(v, an.decoder.end)
		}
	}
	if p.start != nil {
		if order, plans, ok := p.encodeStart(); ok {
			keep(order, plans)
		}
	}
	share := 1.0 / 3
	if an.firstOrder != nil {
		if keep(an.firstOrder, an.firstPlan); an.key != nil {
			share = 1.0 / 10
		}
	}
	l := newListScheduler(p)
	most := an.cfg.Moves / 10
	if an.staged() {
		each := int64(listWorkOfMany)
		if an.tempers() {
			each = listWork
		}
		most = min(each*int64(len(p.jobs)), an.cfg.Moves) // the same for each limit
	}
	plans := make([]room.JobPlan, len(p.jobs))
	lambdas := []float64{0.9, 1, 0.8}
	if p.price == nil {
		lambdas = []float64{0}
	}
	ranks := p.priorities(rel)
	for n := range len(ranks) * len(lambdas) * 2 {
		if (n > 0 || share < 1.0/3) && (l.work >= most || ctx.Err() != nil ||
			an.cfg.Elapsed != nil && an.cfg.Elapsed() > share) {
			break
		}
		if n%2 == 1 && !p.gangs {
			continue
		}
		order, tried := p.orderBy(ranks[n/2%len(ranks)]), l.inOnePiece
		if n%2 == 1 {
			tried = l.everyPlan
		}
		if v, fits := l.schedule(ctx, order, lambdas[n/2/len(ranks)], tried, plans); fits && v < best {
			keep(order, plans)
		}
	}
	an.budget -= l.work
}

// runChains improves the initial state.
func (an *annealing) runChains(ctx context.Context) {
	if an.staged() {
		an.runStages(ctx)
		return
	}
	// A search over few jobs places them cheaply and soon meets a local optimum. It restarts
	// the cooling several times.
	an.cool(ctx, 0, 0, an.cfg.Moves, math.Floor(min(8, max(1, 200/float64(len(an.p.jobs))))))
}

// start gives n chains a state and generators of their own.
func (an *annealing) start(n int, stage int64, key []int64, plan []room.JobPlan) {
	an.before, an.walkers = an.stats(), nil
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(an.cfg.Seed), uint64(stage)<<32|uint64(i)+1))
		w := newWalker(an.p, an.sampler, key, plan, r)
		w.exchanges = an.tempers()
		an.walkers = append(an.walkers, w)
	}
	if an.sampler != nil {
		return
	}
	an.mean = an.walkers[0].value / float64(len(an.p.jobs))
	if an.p.makespan {
		an.mean = makespanScale * an.walkers[0].value
	}
	an.sampler = newPairSampler(an.p, max(samplerScale*an.mean, math.SmallestNonzeroFloat64))
	for _, w := range an.walkers {
		w.sampler = an.sampler
	}
}

// temperatures returns the temperatures at the start and the end of a cooling.
func (an *annealing) temperatures() (hot, cold float64) {
	n := float64(len(an.p.jobs))
	hot, cold = an.cfg.Heat*startTemperature*an.mean/n, an.cfg.Heat*endTemperature*an.mean/n
	if an.p.spread {
		hot, cold = spreadTemperature*hot, spreadTemperature*cold
	}
	return hot, cold
}

// heat returns the heat of a search whose caller names none.
func (ap *annealProblem) heat(cfg *ImproveConfig) float64 {
	n := len(ap.jobs)
	switch {
	case n <= StagedJobs || !ap.spread || ap.makespan || ap.nodes != nil || cfg.shaped != nil:
		return 1
	case ap.wide():
		return wideHeat
	case cfg.JobSeconds < hotSeconds && !ap.tempers(cfg):
		return 1
	}
	return min(mostHeat, max(1, float64(n)/usualJobs))
}

// wide reports whether all jobs are rigid and need the share wideShare of a type on average. Few of them then run at
// a time, and an order that leaves fewer GPUs idle is far from the present one.
func (ap *annealProblem) wide() bool {
	if ap.gangs {
		return false
	}
	size := make([]int64, len(ap.m.Types)) // GPUs
	for k := range size {
		size[k] = model.MostRoom(ap.m.Capacity(k))
	}
	sum := 0.0
	for i := range ap.jobs {
		widest := int64(1)
		for k, dur := range ap.jobs[i].Dur {
			if dur > 0 {
				widest = max(widest, size[k])
			}
		}
		sum += float64(ap.jobs[i].Width) / float64(widest)
	}
	return sum >= wideShare*float64(len(ap.jobs))
}

// cool anneals from the best state until the budget is end; the temperature follows the used share of work. The
// chains run one after another or in parallel, in epochs of equal work, so that the result does not depend on how
// many of them run at a time. The cooling is repeated cycles times.
func (an *annealing) cool(ctx context.Context, stage, end, work int64, cycles float64) {
	chains := int64(an.cfg.Chains)
	an.start(an.cfg.Chains, stage, an.key, an.plan)
	hot, cold := an.temperatures()
	stretch := min(max(500, 400_000/int64(len(an.p.jobs))), max(1, (an.budget-end)/(40*chains)))
	met := 0
	for an.budget > end && !an.over(ctx) {
		share := min(1, max(0, 1-float64(an.budget-end)/float64(work)))
		if an.cfg.Elapsed != nil && !an.staged() {
			share = max(share, an.cfg.Elapsed())
		}
		phase := share * cycles
		phase -= min(math.Floor(phase), cycles-1)
		t := hot * math.Pow(cold/hot, phase)
		// Chains that meet local optima soon find more when they do not exchange states.
		if next := int(share * exchanges); next > met && cycles == 1 {
			met = next
			an.exchange(t)
		}
		same := func(int) float64 { return t }
		an.runEpoch(ctx, same, min(stretch, (min(an.budget, an.budget-end)+chains-1)/chains))
		an.collectBest()
		an.offerCheckpoint()
	}
}

// offerCheckpoint offers the best state to the caller.
func (an *annealing) offerCheckpoint() {
	if an.cfg.Checkpoint != nil {
		an.cfg.Checkpoint(an.checkpoint)
	}
}

// checkpoint decodes the best state without a change to the search.
func (an *annealing) checkpoint() *place.Plan {
	if !an.improved || an.key == nil {
		return nil
	}
	d := newDecoder(an.p)
	d.decode(slices.Clone(an.key), slices.Clone(an.plan)) // this state was decoded before, so it fits
	return d.toPlan()
}

// exchanges is the number of times that the chains compare their states.
const exchanges = 50

// exchange lets chains continue from the best state of all chains (replica exchange). A
// chain keeps its own state with the probability that annealing at temperature t accepts
// the rise from the best state to its own. Cold chains therefore all continue from the
// best state, hot chains stay apart.
func (an *annealing) exchange(t float64) {
	best := an.walkers[0]
	for _, w := range an.walkers {
		if w.value < best.value {
			best = w
		}
	}
	for _, w := range an.walkers {
		if w == best || w.r.Float64() < math.Exp((best.value-w.value)/t) {
			continue
		}
		w.decoder.load(best.decoder.key, best.decoder.plan) // this state was decoded before, so it fits
		w.value = best.value
		an.budget -= int64(len(an.p.jobs))
	}
}

// Temperatures are in mean w (C − a) over the number of jobs. The scale of the sampler
// is in mean w (C − a).
const (
	startTemperature  = 4.0
	endTemperature    = 0.2
	spreadTemperature = 3.0
	samplerScale      = 0.03
	// wideHeat is the heat for many wide jobs that arrive over time, where the caller names none. With wideHeat the
	// values of 13 instances of 200 such jobs after 2 s were 2 % lower.
	wideHeat  = 8.0
	wideShare = 0.3
	// The temperatures are shares of the mean value of a job divided by the number of jobs. Where jobs arrive over
	// time, a job meets no more others where there are more, so that with more jobs than usualJobs the heat makes up
	// for the division, up to mostHeat, if there are hotSeconds for each job. With this the values of 8 instances of
	// 300 to 700 jobs after 8 s were 0.7 % lower on average.
	usualJobs  = 200
	mostHeat   = 4
	hotSeconds = 0.006
	// makespanScale is what stands for the mean w (C − a) under makespan, in makespans.
	makespanScale = 0.3
)

// runEpoch lets each chain place about work jobs at its temperature.
func (an *annealing) runEpoch(ctx context.Context, temperature func(chain int) float64, work int64) {
	before := int64(0)
	for _, w := range an.walkers {
		before += w.decoder.work
	}
	place.RunParallel(an.cfg.Workers, len(an.walkers), func(x int) { an.walkers[x].run(ctx, temperature(x), work) })
	for _, w := range an.walkers {
		before -= w.decoder.work
	}
	an.budget += before
}

// collectBest takes over the best states of the chains; among equal states the first
// chain wins.
func (an *annealing) collectBest() {
	for _, w := range an.walkers {
		if w.improved {
			w.improved = false
			if an.improveIncumbent(an.exactValue(w.bestEnd), w.bestEnd) {
				an.key, an.plan, an.stale = append(an.key[:0], w.bestKey...), append(an.plan[:0], w.bestPlan...), true
			}
		}
	}
}

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
func (an *annealing) newTempering(key []int64, plan []room.JobPlan) *tempering {
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
