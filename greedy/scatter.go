package greedy

import (
	"cmp"
	"slices"
)

// span is a time for which width GPUs of a class are free, together.
type span struct {
	at         int32 // place in the supply's classes
	width      int32
	start, end int64
}

// scatter places one round over whatever is free, from t on, where v stands:
// its GPUs may come and go before it ends. It reports false, and places
// nothing, where that costs limit or more. O(changes passed).
func (r *runner) scatter(v *view, t, round int64, limit float64, out *[]Block) (end int64, ok bool) {
	limit -= r.overhead
	for ahead := 1; ; ahead *= 2 {
		r.budget -= int64(ahead)
		spans, until := r.spans(v, t, ahead)
		high := r.latest(spans, until)
		if !r.hold(spans, high) {
			if until == never || float64(until-t) >= limit {
				return 0, false
			}
			continue
		}
		low := t
		for low+1 < high {
			if mid := low + (high-low)/2; r.hold(spans, mid) {
				high = mid
			} else {
				low = mid
			}
		}
		return r.fill(spans, t, high, round, limit, out)
	}
}

// spans are the free times from t on, where v stands, up to its change number
// ahead from now, or for ever; until is when they were cut off. GPUs that leave
// a class are those that came last, so that others stay long.
func (r *runner) spans(v *view, t int64, ahead int) (spans []span, until int64) {
	open := make([][]span, len(v.free))
	for at, n := range v.free {
		if n > 0 {
			open[at] = append(open[at], span{at: int32(at), width: n, start: t})
		}
	}
	free := slices.Clone(v.free)
	next := v.next
	for range ahead {
		time := r.s.time(next)
		if time == never {
			break
		}
		at, now := r.s.changes(next)
		next++
		for i, c := range at {
			more := now[i] - free[c]
			free[c] = now[i]
			if more > 0 {
				open[c] = append(open[c], span{at: c, width: more, start: time})
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
	until = r.s.time(next)
	for _, xs := range open {
		for _, x := range xs {
			x.end = until
			spans = append(spans, x)
		}
	}
	return spans, until
}

// latest is a time by which the spans, cut off at until, have done a round if
// they ever do.
func (r *runner) latest(spans []span, until int64) int64 {
	high, last := never, int64(0)
	for _, x := range spans {
		md := &r.j.Modes[r.s.mode[x.at]]
		if x.end == never {
			// The GPUs of one span can do it all.
			high = min(high, x.start+(r.j.Tasks+int64(x.width)-1)/int64(x.width)*md.ComputeUs+md.SyncUs)
		} else {
			last = max(last, x.end+md.SyncUs)
		}
	}
	if high == never {
		return last
	}
	return high
}

// tasks is how many tasks a GPU of the span does by time by, synchronised.
func (r *runner) tasks(x *span, by int64) int64 {
	md := &r.j.Modes[r.s.mode[x.at]]
	return min(r.j.Tasks, max(0, (min(x.end, by-md.SyncUs)-x.start)/md.ComputeUs))
}

// hold says whether the spans do a round by time by.
func (r *runner) hold(spans []span, by int64) bool {
	left := r.j.Tasks
	for i := range spans {
		n := r.tasks(&spans[i], by)
		if n >= left || n*int64(spans[i].width) >= left {
			return true
		}
		left -= n * int64(spans[i].width)
	}
	return false
}

// fill places a round from t on that ends by time by, fast types first.
func (r *runner) fill(spans []span, t, by, round int64, limit float64, out *[]Block) (end int64, ok bool) {
	slices.SortStableFunc(spans, func(a, b span) int {
		x, y := &r.j.Modes[r.s.mode[a.at]], &r.j.Modes[r.s.mode[b.at]]
		return cmp.Or(cmp.Compare(x.DurationUs(), y.DurationUs()), cmp.Compare(a.start, b.start), cmp.Compare(a.at, b.at))
	})
	first := len(*out)
	left, held := r.j.Tasks, 0.0
	add := func(x *span, width int32, tasks int64) {
		if width == 0 || tasks == 0 {
			return
		}
		k := r.s.mode[x.at]
		hold := tasks * r.j.Modes[k].ComputeUs
		*out = append(*out, Block{Class: r.s.classes[x.at], Width: width, Tasks: int32(tasks), Round: round, Rounds: 1, StartUs: x.start, HoldUs: hold})
		left -= int64(width) * tasks
		held += float64(width) * float64(hold) * r.d.speed[k]
		end = max(end, x.start+hold+r.j.Modes[k].SyncUs)
	}
	for i := range spans {
		x := &spans[i]
		each := r.tasks(x, by)
		if each == 0 || left == 0 {
			continue
		}
		width := int32(min(int64(x.width), left/each))
		add(x, width, each)
		if width < x.width {
			add(x, 1, min(left, each))
		}
	}
	if float64(end-t)+r.d.thrift*held >= limit {
		*out = (*out)[:first]
		return 0, false
	}
	return end, true
}
