package verify

import (
	"encoding/binary"
	"slices"
	"sort"

	"github.com/hare-sched/hare"
)

// A job needs room that lasts. Where room comes and goes, the earliest end of a job is later than its work alone says;
// this file finds the stretches in which the rounds of a job may start, from the room of nodes over time, and goes
// through them (docs/inside/bounds.md#room-and-modes).

// mostStretches limits the stretches in which rounds of one kind may start. The last of so many
// counts as one without an end. With more than maxPieceWork jobs times pieces of room, room that is
// there counts as room that stays. Both limits are part of the meaning of P.
const (
	mostStretches = 32
	maxPieceWork  = 1 << 26
)

// addSteps adds the room over time on count equal nodes. A level of room from ≤ x < to that lasts is
// a period of its own.
func (lr *lastingRoom) addSteps(at, tasks []int64, count int64) {
	var since []int64 // by level of room: since when there is so much
	for i, t := range at {
		for int64(len(since)) > tasks[i] {
			last := len(since) - 1
			lr.tasks[period{since[last], t}] += count
			since = since[:last]
		}
		for int64(len(since)) < tasks[i] {
			since = append(since, t)
		}
	}
	for _, t := range since {
		lr.tasks[period{t, always}] += count
	}
}

// settle completes a lastingRoom of an instance with so many jobs.
func (lr *lastingRoom) settle(jobs int) {
	if len(lr.tasks)*jobs > maxPieceWork {
		stay := map[period]int64{}
		for p, n := range lr.tasks {
			stay[period{p.from, always}] += n
		}
		lr.tasks = stay
	}
	for p := range lr.tasks {
		lr.ends = lr.ends || p.until != always
		lr.starts = append(lr.starts, p.from)
	}
	if lr.ends {
		return
	}
	slices.Sort(lr.starts)
	sum := int64(0)
	for _, t := range lr.starts {
		sum += lr.tasks[period{t, always}]
		lr.sums = append(lr.sums, sum)
	}
}

// stretches returns when blocks of so many tasks and a length may start, from a time on: in the
// periods returned, their ends included.
func (lr *lastingRoom) stretches(tasks, length, from int64) []period {
	if !lr.ends {
		i := sort.Search(len(lr.sums), func(i int) bool { return lr.sums[i] >= tasks })
		if i == len(lr.sums) {
			return nil
		}
		return []period{{max(from, lr.starts[i]), always}}
	}
	type change struct {
		at    int64
		after bool // after the time, not at it
		by    int64
	}
	var changes []change
	for p, n := range lr.tasks {
		if p.until == always {
			changes = append(changes, change{p.from, false, n})
		} else if p.until-p.from >= length {
			changes = append(changes, change{p.from, false, n}, change{p.until - length, true, -n})
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		switch {
		case a.at < b.at || a.at == b.at && !a.after && b.after:
			return -1
		case a.at > b.at || a.at == b.at && a.after && !b.after:
			return 1
		}
		return 0
	})
	var out []period
	room := int64(0)
	for i, c := range changes {
		if room += c.by; i+1 < len(changes) && changes[i+1].at == c.at && changes[i+1].after == c.after {
			continue // more happens at once
		}
		switch open := len(out) > 0 && out[len(out)-1].until == always; {
		case room >= tasks && !open:
			out = append(out, period{c.at, always})
		case room < tasks && open:
			out[len(out)-1].until = c.at
		}
	}
	for len(out) > 0 && out[0].until < from {
		out = out[1:]
	}
	if len(out) > 0 {
		out[0].from = max(out[0].from, from)
	}
	if len(out) >= mostStretches {
		out = out[:mostStretches]
		out[mostStretches-1].until = always
	}
	return out
}

// lastingOf returns the room of a job on some types together.
func (r *rooms) lastingOf(job *hare.Job, kinds []string) *lastingRoom {
	key := r.keyOf(job)
	for _, kind := range kinds {
		key = append(binary.AppendVarint(append(key, 0), int64(len(kind))), kind...)
	}
	selectors := selectorText(job)
	r.mu.Lock()
	defer r.mu.Unlock()
	if lr := r.lasting[string(key)]; lr != nil {
		return lr
	}
	counts := r.allowedBy(job, selectors)
	lr := &lastingRoom{tasks: map[period]int64{}}
	for i := range r.groups {
		g := &r.groups[i]
		for _, kind := range kinds {
			if free := g.free[kind]; free != nil && counts[i] > 0 {
				at, tasks := r.roomOn(job, g, free)
				lr.addSteps(at, tasks, counts[i])
			}
		}
	}
	lr.settle(len(r.inst.Jobs))
	r.lasting[string(key)] = lr
	return lr
}

// course is a way to run rounds: they start in stretches and take length each.
type course struct {
	stretches []period
	length    int64
}

// first returns the first stretch that does not end before t, from t on, or false.
func (co *course) first(t int64) (period, bool) {
	for _, p := range co.stretches {
		if p.until >= t {
			return period{max(p.from, t), p.until}, true
		}
	}
	return period{}, false
}

// after returns when so many rounds have ended at the earliest that start one after another at t or
// later, each by the course with which it ends first.
func after(courses []course, t, rounds int64) (int64, bool) {
	for rounds > 0 {
		var in period
		least, length := int64(always), int64(0)
		for i := range courses {
			if p, ok := courses[i].first(t); ok && p.from+courses[i].length < least {
				in, length = p, courses[i].length
				least = p.from + length
			}
		}
		if least == always {
			return 0, false
		}
		n := rounds
		if in.until != always {
			n = min(n, 1+(in.until-in.from)/length)
		}
		for i := range courses {
			// A shorter round that starts later may end earlier than the rounds to come.
			if p, ok := courses[i].first(t); ok && courses[i].length < length {
				n = min(n, max(1, (p.from+courses[i].length-in.from)/length))
			}
		}
		t = in.from + n*length
		rounds -= n
	}
	return t, true
}

// inWindows returns the first time ≥ t at which what is left of a job may start, and the first at
// which it may end, by when its nodes have room for it. It returns false if they never have.
//
// Proof that no schedule ends the job before P. A block lies in one window of a node, and at each instant running
// work and the node itself leave r_nk(t) tasks at most; so a block from S for h has at most min r_nk tasks on n,
// and at most room_k(S, h) in all. A gang holds K tasks for the d of its mode at least, with mix for τ at least; a
// relaxed task computes for p_k within one window, and its round takes τ from its first start on. So no round that
// starts at t or later ends before e(t). e does not fall, so the rounds in turn end no earlier than e applied in
// turn. Quotas and levels are left out, which lowers P. ∎
func (su *supply) inWindows(job *hare.Job, shapes []shapedJob, t, least int64) (start, end int64, ok bool) {
	start, end = always, always
	for i := range shapes {
		x := &shapes[i]
		rounds := x.job.Rounds
		var courses []course
		switch {
		case job.Sync == hare.Relaxed:
			for _, c := range x.choices {
				lr := su.rooms.lastingOf(&x.job, []string{c.kind})
				courses = append(courses, course{lr.stretches(1, c.p, t), x.tau})
			}
		case job.Mix:
			var kinds []string
			for _, c := range x.choices {
				if !slices.Contains(kinds, c.kind) {
					kinds = append(kinds, c.kind)
				}
			}
			lr := su.rooms.lastingOf(&x.job, kinds)
			courses = append(courses, course{lr.stretches(x.job.Tasks, x.tau, t), x.tau})
		default:
			for _, c := range x.choices {
				length := c.d
				if job.Sync == hare.Rigid {
					if length, ok = mul(c.d, x.job.Rounds); !ok {
						continue
					}
					rounds = 1
				}
				lr := su.rooms.lastingOf(&x.job, []string{c.kind})
				courses = append(courses, course{lr.stretches(x.job.Tasks, length, t), length})
			}
		}
		for k := range courses {
			if p, found := courses[k].first(t); found {
				start = min(start, p.from)
			}
		}
		if last, found := after(courses, t, rounds); found {
			end = min(end, last)
		}
	}
	if job.Reshape && start != always {
		end = start + least
	}
	return start, end, end != always
}
