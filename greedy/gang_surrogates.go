package greedy

import (
	"cmp"
	"context"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// gangSurrogates returns m with gangs in the place of some jobs. The gangs hold their GPUs while they synchronise:
// relaxed jobs seldom fill these times of each other, and with a smaller share of them the annealing makes plans that
// cannot be filled. A job with more tasks than its largest type has GPUs becomes a gang of that width, whose GPUs take
// several tasks of a round one after another.
func gangSurrogates(m *model.Model, jobs []int) *model.Model {
	gangs := *m
	gangs.Jobs = slices.Clone(m.Jobs)
	size := gpusByType(m)
	for _, i := range jobs {
		j := &gangs.Jobs[i]
		widest := int64(1)
		for _, md := range j.Modes {
			widest = max(widest, size[md.Type])
		}
		width := min(j.Tasks, widest)
		each := (j.Tasks + width - 1) / width
		j.Tasks, j.Sync, j.Mix = width, hare.Gang, false
		j.Modes = slices.Clone(j.Modes)
		for x := range j.Modes {
			j.Modes[x].ComputeUs *= each
		}
	}
	return &gangs
}

// atPlacesOfGangs returns plan with the relaxed jobs of m at the places of their surrogates, round by round. It takes
// time and memory in proportion to the rounds, so that no job may be one that is placed as runs.
func atPlacesOfGangs(m, gangs *model.Model, plan *Plan) *Plan {
	p := &Plan{Jobs: slices.Clone(plan.Jobs), EndUs: slices.Clone(plan.EndUs)}
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if j.Sync != hare.Relaxed {
			continue
		}
		width := gangs.Jobs[i].Tasks
		each := (j.Tasks + width - 1) / width
		full := j.Tasks - width*(each-1) // the GPUs that take so many tasks; the others take one less
		p.Jobs[i] = nil
		taken := int64(0) // the GPUs of the present run
		for x := range plan.Jobs[i] {
			b := &plan.Jobs[i][x]
			if x > 0 && b.Round != plan.Jobs[i][x-1].Round {
				taken = 0
			}
			compute := int64(0)
			for _, md := range j.Modes {
				if md.Type == m.Classes[b.Class].Type {
					compute = md.ComputeUs
				}
			}
			n := max(0, min(int64(b.Width), full-taken))
			taken += int64(b.Width)
			for r := range b.Rounds {
				one := Block{Class: b.Class, Round: b.Round + r, Rounds: 1, StartUs: b.StartUs + r*b.PeriodUs}
				for _, part := range [...][2]int64{{n, each}, {int64(b.Width) - n, each - 1}} {
					if part[0] > 0 && part[1] > 0 {
						one.Width, one.Tasks, one.HoldUs = int32(part[0]), int32(part[1]), part[1]*compute
						p.Jobs[i] = append(p.Jobs[i], one)
					}
				}
			}
		}
		slices.SortStableFunc(p.Jobs[i], func(a, b Block) int { return cmp.Compare(a.Round, b.Round) })
	}
	return p
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
		work := float64(tasksOf(j)) * float64(fast.DurationUs())
		sync += float64(tasksOf(j)) * float64(fast.SyncUs)
		width += work * float64(j.Tasks) / float64(largest)
		all += work
	}
	all = max(1, all)
	return sync / all, width / all
}

// gpusByType returns the GPUs of each type that are in service at some time.
func gpusByType(m *model.Model) []int64 {
	size := make([]int64, len(m.Types))
	for c := range m.Classes {
		if len(m.Classes[c].Windows) > 0 {
			size[m.Classes[c].Type] += int64(len(m.Classes[c].GPUs))
		}
	}
	return size
}

// improveAsGangs anneals gangs in the place of the jobs of m, of which the annealing can place none itself, and lets
// these take the places of their gangs. The plan that it returns is never worse than start.
func improveAsGangs(ctx context.Context, m *model.Model, rel *hare.Relaxation, start *Plan, cfg *ImproveConfig) *Plan {
	ms := &mixedSearch{ctx: ctx, m: m, rel: rel, cfg: cfg, left: cfg.Moves, big: bigJobs(m, maxTasksByRound),
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
