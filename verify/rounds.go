package verify

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
)

// roundChecker checks the rounds of one job after another.
//
// The entries of a job cut its rounds into stretches. All rounds of a stretch belong to the
// same entries. Along a stretch, the starts and ends of each entry are linear in the round r.
// The latest end f(r) is therefore convex, the earliest start g(r) is concave, and
// f(r) − g(r+1) is convex. If f(r) − g(r+1) ≤ 0 at the first and at the last but one round of
// the stretch, the same holds for the rounds between. Likewise, the latest start minus the
// earliest start is convex and ≥ 0. If the difference is 0 at the first and at the last round
// of the stretch, it is 0 between, so a gang starts together in each round. An entry holds its
// GPU until its next round starts, and the next round starts after all tasks of the round
// have synchronised, so how long the GPU is held must be checked only for the last round of
// an entry. Four rounds of each stretch are therefore enough.
type roundChecker struct {
	cuts   []int64 // the starts of the stretches, and the end of the last
	tasks  []int64 // of a stretch
	rounds []int64 // the rounds to examine: up to four of each stretch
	first  []int   // by stretch: the index of its first round in rounds
	end    envelope
	start  envelope // of −start, for the earliest start
	late   envelope // of start, for the latest start; only gang and rigid
	low    envelope // of −mode and mode, to see whether types mix
	high   envelope
	places placeChecker
	// spec, segments and ran are set while a job with shapes is checked: the job itself, its
	// segments, which are the stretches, and when its running work ends.
	spec     *hare.Job
	segments []segment
	ran      int64
	spread   *spreadChecker // nil if no job goes by levels
	levels   bool           // the job that is checked goes by levels
}

func newRoundChecker(cluster *hare.Cluster, nodeOf []int32, tp *topology) *roundChecker {
	c := &roundChecker{places: placeChecker{cluster: cluster, nodeOf: nodeOf}}
	if tp != nil {
		c.spread = newSpreadChecker(tp)
	}
	c.end.value = (*piece).endOf
	c.start.value = func(x *piece, r int64) int64 { return -x.startOf(r) }
	c.late.value = (*piece).startOf
	c.low.value = func(x *piece, _ int64) int64 { return -int64(x.mode) }
	c.high.value = func(x *piece, _ int64) int64 { return int64(x.mode) }
	return c
}

// check returns the completion and the first start of a job, or a fault. ps are the
// job's entries, lane by lane, each within the job's rounds. It takes O(n log² n).
//
// The entries must have the rounds from s.first on.
func (ck *roundChecker) check(job *hare.Job, s standing, ps []piece, lanes []hare.Lane) (end, start int64,
	fault *Fault) {
	bad := func(constraint string, round, by int64, line int32, detail string, a ...any) (int64, int64, *Fault) {
		f := &Fault{Constraint: constraint, Job: job.ID, Round: &round, ByUs: by, Detail: fmt.Sprintf(detail, a...)}
		if line >= 0 {
			f.GPU = lanes[ps[line].gpu].GPU
		}
		return 0, 0, f
	}
	spec := job
	if ck.spec != nil {
		spec = ck.spec
	}
	if ck.levels = ck.spread != nil && goesByLevels(spec); ck.levels {
		ck.spread.syncTimes(spec)
		if job.Sync == hare.Rigid {
			ck.spread.rigid(ps, ck.places.nodeOf)
		}
	}
	if job.Sync == hare.Rigid && len(ps) > 0 {
		if line, round, by, detail := offRigid(job, s.first, ps); detail != "" {
			return bad(CodeRigid, round, by, line, "%s", detail)
		}
	}
	if s := ck.cut(job, s.first, ps); s >= 0 {
		_, tasks, g := ck.needed(job, s)
		if g > 1 {
			return bad(CodeRounds, ck.cuts[s], 0, -1, "the lanes hold %d of the round's %d tasks of %d GPUs, GPU by GPU",
				ck.tasks[s], tasks, g)
		}
		return bad(CodeRounds, ck.cuts[s], 0, -1, "the lanes hold %d of the round's %d tasks", ck.tasks[s], tasks)
	}
	if constraint, line, detail := ck.places.check(job, ps); constraint != "" {
		return bad(constraint, ps[line].round, 0, line, "%s", detail)
	}
	if ck.levels {
		ck.spread.find(ck.cuts, ps, ck.places.nodeOf)
		within := ck.spread.tp.levelOf(job.Within)
		if s := slices.IndexFunc(ck.spread.levels, func(level int) bool { return level > within }); s >= 0 {
			return bad(CodeWithin, ck.cuts[s], 0, -1, "the round is not in one domain of the level %.40q", job.Within)
		}
	}
	ck.build(job, ps)
	previous := int64(-1) // the latest end of the previous round
	for s := range ck.tasks {
		from, to := ck.first[s], ck.first[s+1]
		pause, ended := ck.reshapes(s)
		previous = max(previous, ended)
		for x := from; x < to; x++ {
			earliest, early := ck.start.at(x)
			earliest = -earliest
			if job.Sync != hare.Relaxed && (x == from || x == to-1) {
				if latest, line := ck.late.at(x); latest != earliest {
					return bad(CodeGang, ck.rounds[x], latest-earliest, line,
						"the tasks of a round do not start together")
				}
				if !job.Mix {
					low, _ := ck.low.at(x)
					if high, line := ck.high.at(x); high != -low {
						return bad(CodeGang, ck.rounds[x], 0, line, "a round mixes GPU types")
					}
				}
			}
			// Rounds that are left out lie within the stretch.
			if x == from && earliest < previous+pause && earliest >= previous {
				return bad(CodePrecedence, ck.rounds[x], previous+pause-earliest, early,
					"a round starts too early after one of another shape")
			}
			if next := x == from || ck.rounds[x] == ck.rounds[x-1]+1; next && earliest < previous {
				return bad(CodePrecedence, ck.rounds[x], previous-earliest, early,
					"a task starts before the round before it has synchronised")
			}
			previous, _ = ck.endOf(x)
		}
	}
	if job.Sync != hare.Relaxed {
		for i := range ps {
			x := &ps[i]
			last, _ := slices.BinarySearch(ck.rounds, x.lastRound())
			free, _ := ck.endOf(last)
			if free > x.limit {
				return bad(CodeGang, ck.rounds[last], free-x.limit, int32(i),
					"the GPU is used or leaves service before the round's slowest task has synchronised")
			}
			if x.frees = free; x.until > 0 {
				x.until = free
			}
		}
	} else {
		for i := range ps {
			ps[i].frees = ps[i].startOf(ps[i].lastRound()) + ps[i].compute
		}
	}
	if previous > hare.MaxExact {
		return bad(CodeForm, job.Rounds-1, previous-hare.MaxExact, -1, "the job ends after 2^53 µs")
	}
	earliest, _ := ck.start.at(0)
	return previous, -earliest, nil
}

// endOf returns the latest end of the round number x of those that are examined.
func (ck *roundChecker) endOf(x int) (int64, int32) {
	if ck.levels {
		return ck.spread.ends[ck.spread.rows[x]].at(x)
	}
	return ck.end.at(x)
}

// cut makes the stretches and returns the first one without exactly K tasks on g GPUs each,
// or −1.
func (ck *roundChecker) cut(job *hare.Job, firstRound int64, ps []piece) int {
	ck.cuts = append(ck.cuts[:0], firstRound, job.Rounds)
	for i := range ps {
		ck.cuts = append(ck.cuts, ps[i].round, ps[i].round+ps[i].rounds)
	}
	slices.Sort(ck.cuts)
	ck.cuts = slices.Compact(ck.cuts)
	n, need := len(ck.cuts)-1, job.Tasks*gpusOf(job)
	ck.tasks = append(ck.tasks[:0], make([]int64, n+1)...)
	for i := range ps {
		x := &ps[i]
		at, _ := slices.BinarySearch(ck.cuts, x.round)
		ck.tasks[at] += x.tasks
		at, _ = slices.BinarySearch(ck.cuts, x.round+x.rounds)
		ck.tasks[at] -= x.tasks
	}
	ck.tasks = ck.tasks[:n]
	for s := range ck.tasks {
		if s > 0 {
			ck.tasks[s] += ck.tasks[s-1]
		}
		if ck.segments != nil {
			need, _, _ = ck.needed(job, s)
		}
		if ck.tasks[s] != need {
			return s
		}
	}
	return -1
}

// build selects the rounds to examine and fills the envelopes.
func (ck *roundChecker) build(job *hare.Job, ps []piece) {
	ck.rounds, ck.first = ck.rounds[:0], ck.first[:0]
	for s := range ck.tasks {
		a, b := ck.cuts[s], ck.cuts[s+1]
		ck.first = append(ck.first, len(ck.rounds))
		at := a
		for _, r := range []int64{a, a + 1, b - 2, b - 1} {
			if r >= at && r < b {
				ck.rounds = append(ck.rounds, r)
				at = r + 1
			}
		}
	}
	ck.first = append(ck.first, len(ck.rounds))
	all := []*envelope{&ck.end, &ck.start, &ck.late, &ck.low, &ck.high}
	if job.Sync == hare.Relaxed {
		all = all[:2]
	} else if job.Mix {
		all = all[:3]
	}
	if ck.levels {
		all = append(all[1:], ck.spread.envelopes(ck.first)...)
	}
	for _, e := range all {
		e.reset(ck.rounds, ps)
	}
	for i := range ps {
		from, _ := slices.BinarySearch(ck.rounds, ps[i].round)
		to, _ := slices.BinarySearch(ck.rounds, ps[i].round+ps[i].rounds)
		for _, e := range all {
			e.insert(int32(i), from, to)
		}
	}
}

// offRigid finds where a rigid job is not on K·g GPUs of one type from firstRound to its last
// round, back to back. ps are sorted by lane.
func offRigid(job *hare.Job, firstRound int64, ps []piece) (line int32, round, by int64, detail string) {
	gpus := int64(0)
	for i := range ps {
		x := &ps[i]
		begins := i == 0 || ps[i-1].gpu != x.gpu
		ends := i == len(ps)-1 || ps[i+1].gpu != x.gpu
		d := x.compute + x.after
		switch {
		case x.mode != ps[0].mode:
			return int32(i), x.round, 0, "a rigid job mixes GPU types"
		case begins && x.round != firstRound:
			return int32(i), x.round, 0, "a rigid job comes to this GPU after its first round"
		case ends && x.round+x.rounds != job.Rounds:
			return int32(i), x.round + x.rounds, 0, "a rigid job leaves this GPU before its last round"
		case x.rounds > 1 && x.period != d:
			return int32(i), x.round, x.period - d, "a rigid job is not back to back"
		case !begins && x.round != ps[i-1].round+ps[i-1].rounds:
			return int32(i), x.round, 0, "the rounds of a rigid job do not follow each other on this GPU"
		case !begins && x.start != ps[i-1].endOf(x.round-1):
			return int32(i), x.round, x.start - ps[i-1].endOf(x.round-1), "a rigid job is not back to back"
		}
		if begins {
			gpus++
		}
	}
	if need := job.Tasks * gpusOf(job); gpus != need {
		return -1, 0, 0, fmt.Sprintf("a rigid job of %d tasks on %d GPUs each is on %d GPUs", job.Tasks, gpusOf(job), gpus)
	}
	return -1, 0, 0, ""
}

// segment is a stretch of the units of a job with shapes: all of its units belong to the same
// entries.
type segment struct {
	unit  int64 // the first unit
	round int64 // how many rounds come before
	shape int
}

// reshapes returns the least time between the end of the round before a stretch and its first
// round, and when the round before ended if it ran at time 0.
func (ck *roundChecker) reshapes(stretch int) (pause, ended int64) {
	if ck.segments == nil || !ck.spec.Reshape {
		return 0, -1
	}
	before := ck.spec.Progress
	switch {
	case stretch > 0 && ck.segments[stretch].shape != ck.segments[stretch-1].shape:
		return ck.spec.ReshapeUs, -1
	case stretch == 0 && ck.ran > 0 && before.Shape != ck.segments[0].shape:
		return ck.spec.ReshapeUs, ck.ran
	}
	return 0, -1
}

// needed returns how many tasks, GPU by GPU, the rounds of a stretch have, and of how many GPUs a
// task is.
func (ck *roundChecker) needed(job *hare.Job, stretch int) (entries, tasks, gpus int64) {
	tasks, gpus = job.Tasks, gpusOf(job)
	if ck.segments != nil {
		s := &ck.spec.Shapes[ck.segments[stretch].shape]
		tasks, gpus = s.Tasks, max(1, s.GPUsPerTask)
	}
	return tasks * gpus, tasks, gpus
}
