package task

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
)

// holding says what a job keeps its GPUs for, by the rule and by the GPUs in
// service, and whether its rounds may mix kinds.
func (d *desk) holding(s *seat) (hold hare.Sync, mix bool) {
	hold = max(s.spec.Sync, d.rule.hold)
	if hold == hare.Relaxed || s.spec.Sync != hare.Relaxed {
		return hold, s.spec.Mix
	}
	all, widest := 0, 0
	for _, m := range s.modes {
		all += d.total[m.kind]
		widest = max(widest, d.total[m.kind])
	}
	if int64(all) < s.spec.Tasks {
		return hare.Relaxed, true
	}
	return hold, int64(widest) < s.spec.Tasks
}

// fits says whether the job's next start would find room if all GPUs in service
// were free.
func (d *desk) fits(s *seat) bool {
	hold, mix := d.holding(s)
	all, widest := 0, 0
	for _, m := range s.modes {
		all += d.total[m.kind]
		widest = max(widest, d.total[m.kind])
	}
	switch {
	case hold == hare.Relaxed:
		return all > 0
	case mix:
		return int64(all) >= s.spec.Tasks
	}
	return int64(widest) >= s.spec.Tasks
}

// place starts one task of a job that goes task by task, or a whole round, and
// says whether it could.
func (d *desk) place(s *seat) bool {
	if s.next == 0 && len(s.redo) == 0 {
		s.hold, _ = d.holding(s)
	}
	if s.hold == hare.Relaxed {
		for _, m := range s.modes {
			if d.mayUse(s, m, 1) {
				d.give(s, m, 1)
				return true
			}
		}
		return false
	}
	for _, m := range s.modes {
		if d.mayUse(s, m, s.spec.Tasks) {
			d.give(s, m, s.spec.Tasks)
			return true
		}
	}
	_, mix := d.holding(s)
	return mix && d.placeMixed(s)
}

// placeMixed starts a round on GPUs of several kinds, the first of s.modes first.
func (d *desk) placeMixed(s *seat) bool {
	left, spare := s.spec.Tasks, d.keep.spare
	counts := make([]int64, len(s.modes))
	for i, m := range s.modes {
		n := min(left, int64(len(d.free[m.kind])))
		if d.delays(s, m) {
			n = min(n, spare)
			spare -= n
		}
		counts[i] = n
		left -= n
	}
	if left > 0 {
		return false
	}
	for i, m := range s.modes {
		d.give(s, m, counts[i])
	}
	return true
}

// mayUse says whether n GPUs of a kind are free for a job, and not kept for
// another.
func (d *desk) mayUse(s *seat, m deskMode, n int64) bool {
	if int64(len(d.free[m.kind])) < n || s.kind >= 0 && s.kind != m.kind {
		return false
	}
	return !d.delays(s, m) || d.keep.spare >= n
}

// delays says whether GPUs of a kind given to a job come back later than they
// are kept for another.
func (d *desk) delays(s *seat, m deskMode) bool {
	k := &d.keep
	return k.forJob != nil && k.forJob != s && k.kinds[m.kind] && d.nowUs+(s.rounds-s.round)*m.longUs > k.fromUs
}

// give starts the job's next n tasks on free GPUs of a kind.
func (d *desk) give(s *seat, m deskMode, n int64) {
	if d.delays(s, m) {
		d.keep.spare -= n
	}
	if d.rule.began != nil && n > 0 {
		d.rule.began(d, s, m.kind)
	}
	at := 0
	if d.oneNode && n > 1 {
		at = d.tightest(m.kind, n)
	}
	for range n {
		d.start(s, d.take(s, m.kind, at))
	}
}

// tightest is where the free GPUs of a kind begin that are on the node with the
// fewest of them that are enough, or 0 where no node has n. O(free GPUs).
func (d *desk) tightest(kind int, n int64) int {
	free, best, least := d.free[kind], 0, int64(0)
	for from := 0; from < len(free); {
		to := from
		for to < len(free) && d.gpus[free[to]].node == d.gpus[free[from]].node {
			to++
		}
		if have := int64(to - from); have >= n && (least == 0 || have < least) {
			best, least = from, have
		}
		from = to
	}
	return best
}

// reservation keeps GPUs for the first job that does not fit (EASY).
type reservation struct {
	forJob *seat
	kinds  []bool // that it waits for
	fromUs int64  // when they are expected to be free
	spare  int64  // GPUs of them that it will not need then
}

// reserve finds the kind on which the job is expected to end first, by the
// times that running jobs have left. O(GPUs log GPUs).
func (d *desk) reserve(s *seat) {
	hold, mix := d.holding(s)
	if hold == hare.Relaxed {
		return // every GPU helps it, and none is worth waiting for
	}
	type release struct {
		atUs int64
		kind int
	}
	var ends []release
	for _, o := range d.jobs {
		slow := int64(0)
		for _, g := range o.gpus {
			slow = max(slow, o.longUs(d.gpus[g].kind))
		}
		for _, g := range o.gpus {
			x := &d.gpus[g]
			end := x.sinceUs + slow
			if o.hold == hare.Rigid {
				end += (o.rounds - o.round - 1) * slow
			}
			ends = append(ends, release{max(end, d.nowUs), x.kind})
		}
	}
	slices.SortFunc(ends, func(a, b release) int { return cmp.Or(cmp.Compare(a.atUs, b.atUs), cmp.Compare(a.kind, b.kind)) })
	// when is the time at which enough GPUs of some kinds are free.
	when := func(kinds []bool) (atUs, spare int64, ok bool) {
		room := int64(0)
		for k := range kinds {
			if kinds[k] {
				room += int64(len(d.free[k]))
			}
		}
		atUs = d.nowUs
		for i := 0; ; i++ {
			if room >= s.spec.Tasks && (i == len(ends) || ends[i].atUs > atUs) {
				return atUs, room - s.spec.Tasks, true
			}
			if i == len(ends) {
				return 0, 0, false
			}
			atUs = ends[i].atUs
			if kinds[ends[i].kind] {
				room++
			}
		}
	}
	var best reservation
	bestEnd, all, slowest := int64(0), make([]bool, len(d.kinds)), int64(0)
	consider := func(kinds []bool, longUs int64) {
		at, spare, ok := when(kinds)
		if end := at + (s.rounds-s.round)*longUs; ok && (best.forJob == nil || end < bestEnd) {
			best, bestEnd = reservation{s, kinds, at, spare}, end
		}
	}
	for _, m := range s.modes {
		kinds := make([]bool, len(d.kinds))
		kinds[m.kind], all[m.kind] = true, true
		slowest = max(slowest, m.longUs)
		consider(kinds, m.longUs)
	}
	if mix {
		consider(all, slowest)
	}
	d.keep = best
}

// longUs is how long a task of the job takes on a kind, with synchronisation.
func (s *seat) longUs(kind int) int64 {
	for _, m := range s.modes {
		if m.kind == kind {
			return m.longUs
		}
	}
	return 0
}

// leastUs is how long a round takes on the fastest kind that is in service and
// wide enough, or on the fastest of all where none is.
func (d *desk) leastUs(s *seat) int64 {
	least, any := int64(0), int64(0)
	for _, m := range s.modes {
		if any == 0 || m.longUs < any {
			any = m.longUs
		}
		if int64(d.total[m.kind]) >= s.spec.Tasks && (least == 0 || m.longUs < least) {
			least = m.longUs
		}
	}
	if least == 0 {
		return any
	}
	return least
}
