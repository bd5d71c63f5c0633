package place

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// Whole is the Round of an Item that stands for all rounds of a job: a gang or rigid
// job, or a relaxed job that is placed as runs.
const Whole = -1

// Item is one round of a relaxed job, or a whole job.
type Item struct {
	Job   int32
	Round int64 // a round or Whole
	Key   float64
}

// Order sorts the items of all jobs: "relaxation" by the time at which rel has done r − ½ rounds (half of all rounds
// for whole jobs), "wspt" by least work over weight, "arrival" by earliest start; under makespan, the jobs with the
// longest way to the last end come first in place of the first two. Predecessors come first, and ties go by job, then
// round. The rounds of a relaxed job are in order, since progress never falls. If relaxed jobs have more tasks than
// may be placed one by one, the largest jobs are whole items. It takes O(n log n) in items.
func Order(m *model.Model, rel *hare.Relaxation, kind string) []Item {
	if m.Placed || room.HasAfter(m) || room.HasSetups(m) {
		return OrderWithRuns(m, rel, kind, nodeRunJobs(m))
	}
	return OrderWithRuns(m, rel, kind, BigJobs(m, MaxTasksByRound))
}

// OrderWithRuns is Order where big marks the relaxed jobs that are whole items.
func OrderWithRuns(m *model.Model, rel *hare.Relaxation, kind string, big []bool) []Item {
	var items []Item
	var after *room.Dependencies
	if room.HasAfter(m) || room.IsMakespan(m) {
		after = room.DependenciesOf(m)
	}
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if room.IsFixed(j) {
			continue
		}
		whole := big[i] || j.Sync != hare.Relaxed
		key := 0.0
		switch {
		case kind == "arrival":
			key = float64(room.EarliestStart(j))
		case room.IsMakespan(m):
			key = -float64(after.Tail[i])
		case kind == "wspt" || rel == nil:
			key = SmithRatio(j)
		case whole:
			key = TimeOf(rel.Progress[i], float64(j.Rounds)/2)
		}
		if whole {
			items = append(items, Item{int32(i), Whole, key})
			continue
		}
		if kind != "relaxation" || rel == nil || room.IsMakespan(m) {
			for r := range j.Rounds {
				items = append(items, Item{int32(i), r, key})
			}
			continue
		}
		pts, at := rel.Progress[i], 0
		for r := range j.Rounds {
			items = append(items, Item{int32(i), r, AdvanceTo(pts, &at, float64(r)+0.5)})
		}
	}
	if after != nil {
		SortAfter(after, items)
		return items
	}
	SortItems(items)
	return items
}

// SortItems sorts items by CompareItems.
func SortItems(items []Item) { slices.SortFunc(items, CompareItems) }

// CompareItems orders items by key; ties go by job, then by round.
func CompareItems(a, b Item) int {
	if c := cmp.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Job, b.Job); c != 0 {
		return c
	}
	return cmp.Compare(a.Round, b.Round)
}

// SortAfter sorts items by key and puts all items of a job before those of the jobs that wait
// for it. It takes O(n log n).
func SortAfter(d *room.Dependencies, items []Item) {
	first := slices.Repeat([]float64{math.Inf(1)}, len(d.Position))
	for x := range items {
		first[items[x].Job] = min(first[items[x].Job], items[x].Key)
	}
	d.Inherit(first)
	for x := range items {
		it := &items[x]
		for _, s := range d.Successors[it.Job] {
			it.Key = min(it.Key, first[s.Job])
		}
	}
	slices.SortFunc(items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(d.Position[a.Job], d.Position[b.Job]),
			cmp.Compare(a.Round, b.Round))
	})
}

// SmithRatio returns Smith's ratio: the least GPU-time of a job over its weight.
func SmithRatio(j *model.Job) float64 {
	least := math.Inf(1)
	for _, md := range j.Modes {
		least = min(least, float64(md.DurationUs()))
	}
	if j.WeightMicro == 0 {
		return math.Inf(1)
	}
	return least * float64(j.Rounds) * float64(j.Tasks*j.GPUs) / float64(j.WeightMicro)
}

// TimeOf returns the first time at which progress reaches so many rounds.
func TimeOf(pts []hare.Point, rounds float64) float64 {
	at := 0
	return AdvanceTo(pts, &at, rounds)
}

// AdvanceTo returns the first time at which the polyline reaches rounds; *at is where
// the last search ended.
func AdvanceTo(pts []hare.Point, at *int, rounds float64) float64 {
	for *at+1 < len(pts) && pts[*at+1].Rounds < rounds {
		*at++
	}
	if *at+1 >= len(pts) {
		if len(pts) == 0 {
			return 0
		}
		return pts[len(pts)-1].TimeUs
	}
	a, b := pts[*at], pts[*at+1]
	if b.Rounds <= a.Rounds {
		return b.TimeUs
	}
	return a.TimeUs + (b.TimeUs-a.TimeUs)*max(0, rounds-a.Rounds)/(b.Rounds-a.Rounds)
}

// CheckEvery is the number of items between two checks of the context.
const CheckEvery = 256
