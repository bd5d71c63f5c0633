package place

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare/greedy/room"
)

// freeInterval is a time for which width GPUs of a class are free together.
type freeInterval struct {
	at         int32 // the index in the merged profile's classes
	width      int32
	start, end int64
}

// scatter places one round on all GPUs that are free from t on, where v stands; the GPUs
// may come and go before the round ends. It returns false and places nothing if they never
// suffice. It takes O(changes passed). Only a round that fits into no gap is placed so: to
// fill all gaps with such rounds made the values of big jobs on pausing nodes 0.15 % higher.
func (rp *runPlacer) scatter(v *cursor, t, round int64, out *[]room.Block) (end int64, ok bool) {
	for ahead := 1; ; ahead *= 2 {
		rp.budget -= int64(ahead)
		spans, until := rp.freeIntervals(v, t, ahead)
		high := rp.latestEnd(spans, until)
		if !rp.suffices(spans, high) {
			if until == room.Never {
				return 0, false
			}
			continue
		}
		low := t
		for low+1 < high {
			if mid := low + (high-low)/2; rp.suffices(spans, mid) {
				high = mid
			} else {
				low = mid
			}
		}
		return rp.placeInIntervals(spans, high, round, out), true
	}
}

// freeIntervals returns the free times from t on, where v stands, up to the change
// number ahead, or forever; until is the time at which they are cut off. The GPUs that
// leave a class are those that came last, so that the others stay long.
func (rp *runPlacer) freeIntervals(v *cursor, t int64, ahead int) (spans []freeInterval, until int64) {
	open := make([][]freeInterval, len(v.free))
	for at, n := range v.free {
		if n > 0 {
			open[at] = append(open[at], freeInterval{at: int32(at), width: n, start: t})
		}
	}
	free := slices.Clone(v.free)
	next := v.next
	for range ahead {
		time := rp.free.time(next)
		if time == room.Never {
			break
		}
		at, now := rp.free.changes(next)
		next++
		for i, c := range at {
			more := now[i] - free[c]
			free[c] = now[i]
			if more > 0 {
				open[c] = append(open[c], freeInterval{at: c, width: more, start: time})
			}
			for more < 0 {
				last := &open[c][len(open[c])-1]
				x := *last
				x.width, x.end = min(x.width, -more), time
				spans = append(spans, x)
				more += x.width
				if last.width -= x.width; last.width == 0 {
					open[c] = open[c][:len(open[c])-1]
				}
			}
		}
	}
	until = rp.free.time(next)
	for _, xs := range open {
		for _, x := range xs {
			x.end = until
			spans = append(spans, x)
		}
	}
	return spans, until
}

// latestEnd returns a time by which the intervals, cut off at until, have done a round
// if they ever do.
func (rp *runPlacer) latestEnd(spans []freeInterval, until int64) int64 {
	high, last := room.Never, int64(0)
	for _, x := range spans {
		md := &rp.job.Modes[rp.free.mode[x.at]]
		if x.end == room.Never {
			// The GPUs of one interval can do the whole round.
			high = min(high, x.start+(rp.job.Tasks+int64(x.width)-1)/int64(x.width)*md.ComputeUs+md.SyncUs)
		} else {
			last = max(last, x.end+md.SyncUs)
		}
	}
	if high == room.Never {
		return last
	}
	return high
}

// tasksBy returns how many tasks a GPU of the interval has done and synchronised by the
// time by.
func (rp *runPlacer) tasksBy(x *freeInterval, by int64) int64 {
	md := &rp.job.Modes[rp.free.mode[x.at]]
	return min(rp.job.Tasks, max(0, (min(x.end, by-md.SyncUs)-x.start)/md.ComputeUs))
}

// suffices reports whether the intervals do a round by the time by.
func (rp *runPlacer) suffices(spans []freeInterval, by int64) bool {
	left := rp.job.Tasks
	for i := range spans {
		n := rp.tasksBy(&spans[i], by)
		if n >= left || n*int64(spans[i].width) >= left {
			return true
		}
		left -= n * int64(spans[i].width)
	}
	return false
}

// placeInIntervals places a round that ends by the time by, on fast types first, and
// returns its end.
func (rp *runPlacer) placeInIntervals(spans []freeInterval, by, round int64, out *[]room.Block) (end int64) {
	slices.SortStableFunc(spans, func(a, b freeInterval) int {
		x, y := &rp.job.Modes[rp.free.mode[a.at]], &rp.job.Modes[rp.free.mode[b.at]]
		return cmp.Or(cmp.Compare(x.DurationUs(), y.DurationUs()), cmp.Compare(a.start, b.start),
			cmp.Compare(a.at, b.at))
	})
	left := rp.job.Tasks
	add := func(x *freeInterval, width int32, tasks int64) {
		if width == 0 || tasks == 0 {
			return
		}
		k := rp.free.mode[x.at]
		hold := tasks * rp.job.Modes[k].ComputeUs
		*out = append(*out, room.Block{Class: rp.free.classes[x.at], Width: width, Tasks: int32(tasks), Round: round,
			Rounds:  1,
			StartUs: x.start, HoldUs: hold})
		left -= int64(width) * tasks
		end = max(end, x.start+hold+rp.job.Modes[k].SyncUs)
	}
	for i := range spans {
		x := &spans[i]
		each := rp.tasksBy(x, by)
		if each == 0 || left == 0 {
			continue
		}
		width := int32(min(int64(x.width), left/each))
		add(x, width, each)
		if width < x.width {
			add(x, 1, min(left, each))
		}
	}
	return end
}
