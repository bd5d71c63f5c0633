package search

import (
	"cmp"
	"context"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/model"
)

// gangsSearch is keysSearch from a plan in which gangs stand for the relaxed jobs, where the clock limits the search
// and such a plan may pay.
var gangsSearch = search{
	name: "gangs",
	supports: func(rq *request) bool {
		return keysSearch.supports(rq) && rq.cfg.Elapsed != nil && !rq.cfg.Continual && rq.start != nil &&
			gangsPay(rq.m)
	},
	continual: never,
	run: func(ctx context.Context, rq *request) (*place.Plan, Stats, error) {
		by := *rq
		by.start = improveAsGangs(ctx, rq.m, rq.rel, rq.start, &rq.cfg)
		return keysSearch.run(ctx, &by)
	},
}

// Relaxed jobs without others are annealed as gangs first where their synchronisation takes a small share of their
// GPU-time: at most mostSync, and mostSyncTogether where they all arrive together. Wide jobs are not: as gangs they
// would leave GPUs idle. If the plan after probeShare of the time is better than the start, the annealing is made
// again until asGangsShare.
const (
	mostSync         = 0.08
	mostSyncTogether = 0.04
	mostWidth        = 0.25 // of the GPUs of the job's largest type, on average
	probeShare       = 0.15
	asGangsShare     = 0.75
)

// gangsPay reports whether annealing gangs in the place of relaxed jobs may pay.
func gangsPay(m *model.Model) bool {
	most := mostSync
	if arriveTogether(m) {
		most = mostSyncTogether
	}
	sync, width := syncAndWidth(m)
	return len(m.Jobs) <= mostForPlaces && sync <= most && width <= mostWidth
}

// syncAndWidth returns the share of synchronisation in the GPU-time of all jobs, each on its fastest type, and the
// share of the GPUs of its largest type that a round takes, on average over this GPU-time.
func syncAndWidth(m *model.Model) (sync, width float64) {
	size := gpusByType(m)
	all := 0.0
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if len(j.Modes) == 0 {
			continue
		}
		largest := int64(1)
		for _, md := range j.Modes {
			largest = max(largest, size[md.Type])
		}
		fast := slices.MinFunc(j.Modes,
			func(a, b model.Mode) int { return cmp.Compare(a.DurationUs(), b.DurationUs()) })
		work := float64(place.TasksOf(j)) * float64(fast.DurationUs())
		sync += float64(place.TasksOf(j)) * float64(fast.SyncUs)
		width += work * float64(j.Tasks) / float64(largest)
		all += work
	}
	all = max(1, all)
	return sync / all, width / all
}

// improveAsGangs anneals gangs in the place of the jobs of m, of which the annealing can place none itself, and lets
// these take the places of their gangs. The plan that it returns is never worse than start.
func improveAsGangs(ctx context.Context, m *model.Model, rel *hare.Relaxation, start *place.Plan,
	cfg *ImproveConfig) *place.Plan {
	ms := &mixedSearch{ctx: ctx, m: m, rel: rel, cfg: cfg, left: cfg.Moves, big: place.BigJobs(m,
		place.MaxTasksByRound),
		best: start, value: start.Value(m)}
	for i := range m.Jobs {
		ms.filler = append(ms.filler, i)
	}
	if slices.Contains(ms.big, true) {
		return start
	}
	gangs := gangSurrogates(m, ms.filler)
	for _, share := range [...]float64{probeShare, asGangsShare} {
		before := ms.best
		part := ms.part(share)
		part.Moves *= annealRate
		plan, _, err := anneal(ctx, gangs, rel, nil, part)
		if err != nil || plan == nil || !ms.takePlaces(gangs, plan) || ms.best == before || ms.over() {
			break
		}
	}
	return ms.best
}
