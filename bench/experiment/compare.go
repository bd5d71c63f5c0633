package experiment

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/sim"
)

// publishedShare is the share of jobs that Hare (HPDC 2022) completes within withinS
// seconds, as the paper says.
const (
	publishedShare = 0.905
	withinS        = 25 * 60
)

// compare fills in the figures that compare each run with the first run of the same group,
// X and seed.
func compare(runs []Run) {
	type key struct {
		group string
		x     float64
		seed  uint64
	}
	first := map[key]*Run{}
	for i := range runs {
		r := &runs[i]
		k := key{r.Group, r.X, r.Seed}
		if first[k] == nil {
			first[k] = r
		}
		f := first[k]
		if r.Metrics.WeightedJCTS > 0 {
			r.Lower = 100 * (1 - f.Metrics.WeightedJCTS/r.Metrics.WeightedJCTS)
		}
		if f.Metrics.MeanJCTS > 0 {
			r.MeanOver = r.Metrics.MeanJCTS / f.Metrics.MeanJCTS
		}
		if all := f.Metrics.JCTsS; len(all) > 0 {
			r.ShareThen = r.Metrics.Share(all[int(math.Ceil(publishedShare*float64(len(all))))-1])
		}
	}
}

// longest returns the mean JCT of the tenth of the jobs (at least one job) with the greatest
// work R K min p, and the greatest slowdown (C − a) / (R min (p + s)) of all jobs.
func longest(inst *hare.Instance, out *sim.Outcome) (jctS, worst float64) {
	type size struct {
		job  int
		work float64
	}
	var sizes []size
	jct := func(i int) float64 { return float64(out.Jobs[i].EndUs-inst.Jobs[i].ReleaseUs) / 1e6 }
	for i, j := range model.New(inst).Jobs {
		work, alone := math.Inf(1), math.Inf(1)
		for _, m := range j.Modes {
			work, alone = min(work, float64(m.ComputeUs)), min(alone, float64(m.DurationUs())/1e6)
		}
		sizes = append(sizes, size{i, work * float64(j.Rounds) * float64(j.Tasks)})
		worst = max(worst, jct(i)/(alone*float64(j.Rounds)))
	}
	if len(sizes) == 0 {
		return 0, 0
	}
	slices.SortStableFunc(sizes, func(a, b size) int {
		if a.work > b.work {
			return -1
		} else if a.work < b.work {
			return 1
		}
		return 0
	})
	sizes = sizes[:max(1, len(sizes)/10)]
	for _, s := range sizes {
		jctS += jct(s.job) / float64(len(sizes))
	}
	return jctS, worst
}
