package verify

import (
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// piece is one entry of a lane, resolved.
type piece struct {
	gpu    int32 // lane
	kind   int32 // of the GPU
	round  int64
	rounds int64
	tasks  int64
	period int64
	start  int64
	p, d   int64 // compute, compute + sync of one task on this GPU
	limit  int64 // when the GPU must be free again: next entry, end of service
}

// startOf and endOf are the start of round r on this GPU, and the time when
// its tasks of that round have synchronised; both are linear in r.
func (x *piece) startOf(r int64) int64 { return x.start + (r-x.round)*x.period }
func (x *piece) endOf(r int64) int64   { return x.startOf(r) + x.tasks*x.p + (x.d - x.p) }

// checkSchedule checks every constraint and returns value, ends and starts by
// job. Times are at most 2^53 and products are checked, so nothing overflows.
// O(entries log entries), whatever the number of rounds.
func checkSchedule(inst *hare.Instance, s *hare.Schedule, r *Report) (value hare.Amount, ends, starts []int64) {
	place := make(map[string]int, len(inst.Jobs))
	for i := range inst.Jobs {
		place[inst.Jobs[i].ID] = i
	}
	jobOf := make([]int, len(s.Jobs))
	used := make(map[string]bool, len(s.Jobs))
	for i, id := range s.Jobs {
		at, ok := place[id]
		if !ok || used[id] {
			r.fault(Fault{Constraint: "form", Job: id, Detail: "schedule.jobs lists an unknown job, or one twice"})
			return
		}
		used[id] = true
		jobOf[i] = at
	}
	// Profiles by job and type.
	on := make([]map[string]hare.Profile, len(inst.Jobs))
	for i := range inst.Jobs {
		on[i] = make(map[string]hare.Profile, len(inst.Jobs[i].On))
		for _, p := range inst.Jobs[i].On {
			on[i][p.Type] = p
		}
	}
	gpus := devices(inst)
	kinds := map[string]int32{}
	for i := range inst.Cluster.Nodes {
		for _, g := range inst.Cluster.Nodes[i].GPUs {
			if _, ok := kinds[g.Type]; !ok {
				kinds[g.Type] = int32(len(kinds))
			}
		}
	}
	counts := make([]int, len(inst.Jobs))
	for i := range s.Lanes {
		for _, j := range s.Lanes[i].Job {
			if j < 0 || int(j) >= len(jobOf) {
				r.fault(Fault{Constraint: "form", GPU: s.Lanes[i].GPU, Detail: fmt.Sprintf("job index %d is not in schedule.jobs", j)})
				return
			}
			counts[jobOf[j]]++
		}
	}
	pieces := make([][]piece, len(inst.Jobs))
	for i, n := range counts {
		pieces[i] = make([]piece, 0, n)
	}
	seen := make(map[string]bool, len(s.Lanes))
	for i := range s.Lanes {
		l := &s.Lanes[i]
		g, ok := gpus[l.GPU]
		if !ok || seen[l.GPU] {
			r.fault(Fault{Constraint: "form", GPU: l.GPU, Detail: "a lane names an unknown GPU, or one twice"})
			return
		}
		seen[l.GPU] = true
		if !checkLane(inst, l, int32(i), kinds[g.kind], g, jobOf, on, pieces, r) {
			return
		}
	}
	ends, starts = make([]int64, len(inst.Jobs)), make([]int64, len(inst.Jobs))
	for i := range inst.Jobs {
		end, start, ok := checkJob(inst, i, pieces[i], s, r)
		if !ok {
			if len(r.Faults) >= maxFaults {
				return
			}
			continue
		}
		ends[i], starts[i] = end, start
		value = value.Add(hare.Product(inst.Jobs[i].WeightMicro, end-inst.Jobs[i].ReleaseUs))
	}
	return value, ends, starts
}

// checkLane checks what concerns one GPU alone: the columns, the order of
// entries, that nothing overlaps, and the windows of service.
func checkLane(inst *hare.Instance, l *hare.Lane, index, kind int32, g *device, jobOf []int, on []map[string]hare.Profile, pieces [][]piece, r *Report) bool {
	n := len(l.Job)
	for _, c := range [][]int64{l.Round, l.Rounds, l.Tasks, l.PeriodUs} {
		if c != nil && len(c) != n {
			r.fault(Fault{Constraint: "form", GPU: l.GPU, Detail: "the columns of a lane are not equally long"})
			return false
		}
	}
	if len(l.StartUs) != n {
		r.fault(Fault{Constraint: "form", GPU: l.GPU, Detail: "the columns of a lane are not equally long"})
		return false
	}
	var free int64
	window := 0
	var last *piece
	for x := range n {
		e := l.Entry(x)
		i := jobOf[e.Job]
		job := &inst.Jobs[i]
		bad := func(constraint, detail string, by int64) bool {
			r.fault(Fault{Constraint: constraint, Job: job.ID, Round: e.Round, GPU: l.GPU, ByUs: by, Detail: detail})
			return false
		}
		p, ok := on[i][g.kind]
		if !ok {
			return bad("service", "the job has no profile for this GPU's type "+g.kind, 0)
		}
		if e.Round < 0 || e.Rounds < 1 || e.Tasks < 1 || e.PeriodUs < 0 || e.StartUs < 0 ||
			e.Round > hare.MaxExact || e.Rounds > hare.MaxExact || e.Tasks > hare.MaxExact || e.PeriodUs > hare.MaxExact || e.StartUs > hare.MaxExact {
			return bad("form", "an entry has a number out of range", 0)
		}
		if e.Round+e.Rounds > job.Rounds {
			return bad("rounds", fmt.Sprintf("the entry runs to round %d of %d", e.Round+e.Rounds, job.Rounds), 0)
		}
		if job.Sync != hare.Relaxed && e.Tasks != 1 {
			return bad("gang", "a GPU has several tasks of a round", 0)
		}
		compute, ok1 := mul(e.Tasks, p.ComputeUs)
		span, ok2 := mul(e.Rounds-1, e.PeriodUs)
		if !ok1 || !ok2 {
			return bad("form", "an entry lasts longer than 2^53 µs", 0)
		}
		hold := compute
		if job.Sync != hare.Relaxed {
			// The slowest of the round may hold it longer: checkJob sees that.
			hold = p.DurationUs()
		}
		if e.Rounds > 1 && e.PeriodUs < hold {
			return bad("overlap", "the period is shorter than a round holds the GPU", hold-e.PeriodUs)
		}
		if e.StartUs < job.ReleaseUs {
			return bad("release", "a task starts before the release", job.ReleaseUs-e.StartUs)
		}
		if e.StartUs < free {
			return bad("overlap", "the entry starts before the one before it has ended", free-e.StartUs)
		}
		end := e.StartUs + span + hold
		for window < len(g.open) && g.open[window].EndUs <= e.StartUs {
			window++
		}
		if window == len(g.open) || e.StartUs < g.open[window].StartUs {
			return bad("service", "the GPU is not in service when the entry starts", 0)
		}
		if end > g.open[window].EndUs {
			return bad("service", "the GPU leaves service before the entry ends", end-g.open[window].EndUs)
		}
		free = end
		if last != nil {
			last.limit = min(last.limit, e.StartUs)
		}
		// There is room for every entry of the job: last stays where it is.
		pieces[i] = append(pieces[i], piece{
			gpu: index, kind: kind, round: e.Round, rounds: e.Rounds, tasks: e.Tasks, period: e.PeriodUs, start: e.StartUs,
			p: p.ComputeUs, d: p.DurationUs(), limit: g.open[window].EndUs,
		})
		last = &pieces[i][len(pieces[i])-1]
	}
	return true
}

// mul is a·b of non-negative numbers, ok up to 2^53.
func mul(a, b int64) (int64, bool) {
	if a != 0 && b > hare.MaxExact/a {
		return 0, false
	}
	return a * b, true
}

// checkJob checks the rounds of one job over all lanes. Its entries cut the
// rounds into stretches with the same entries throughout. Along a stretch
// start and end of each entry's round are linear in the round, so the latest
// end of a round is convex, the earliest start concave, and a condition
// "latest end of r ≤ earliest start of r+1" that holds at both ends of the
// stretch holds within it.
func checkJob(inst *hare.Instance, i int, ps []piece, s *hare.Schedule, r *Report) (end, start int64, ok bool) {
	job := &inst.Jobs[i]
	bad := func(constraint string, round, by int64, gpu int32, detail string) (int64, int64, bool) {
		f := Fault{Constraint: constraint, Job: job.ID, Round: round, ByUs: by, Detail: detail}
		if gpu >= 0 {
			f.GPU = s.Lanes[gpu].GPU
		}
		r.fault(f)
		return 0, 0, false
	}
	if len(ps) == 0 {
		return bad("rounds", 0, 0, -1, "the job is not in the schedule")
	}
	if job.Sync == hare.Rigid {
		if detail, gpu := rigidShape(job, ps); detail != "" {
			return bad("rigid", 0, 0, gpu, detail)
		}
	}
	slices.SortFunc(ps, func(a, b piece) int {
		if a.round != b.round {
			return int(min(1, max(-1, a.round-b.round)))
		}
		return int(a.gpu) - int(b.gpu)
	})
	start = math.MaxInt64
	var active []piece
	previous := int64(-1) // latest end of the last round of the stretch before
	next := 0
	for at := int64(0); at < job.Rounds; {
		kept := active[:0]
		stop := job.Rounds
		for _, x := range active {
			if x.round+x.rounds > at {
				kept = append(kept, x)
			}
		}
		active = kept
		for next < len(ps) && ps[next].round == at {
			active = append(active, ps[next])
			next++
		}
		if next < len(ps) {
			stop = min(stop, ps[next].round)
		}
		for _, x := range active {
			stop = min(stop, x.round+x.rounds)
		}
		if constraint, detail, gpu := roundShape(job, active, at, stop-1); constraint != "" {
			return bad(constraint, at, 0, gpu, detail)
		}
		firstStart, firstEnd := extremes(active, at)
		lastStart, lastEnd := extremes(active, stop-1)
		start = min(start, firstStart)
		if firstStart < previous {
			return bad("precedence", at, previous-firstStart, -1, "a task starts before the round before it has synchronised")
		}
		if stop-at > 1 {
			// Within the stretch: end of r against start of r+1, at its ends.
			second, _ := extremes(active, at+1)
			if second < firstEnd {
				return bad("precedence", at+1, firstEnd-second, -1, "a task starts before the round before it has synchronised")
			}
			_, beforeLast := extremes(active, stop-2)
			if lastStart < beforeLast {
				return bad("precedence", stop-1, beforeLast-lastStart, -1, "a task starts before the round before it has synchronised")
			}
		}
		// Gang and rigid: the GPUs are held until the slowest has synchronised.
		for _, x := range active {
			if job.Sync != hare.Relaxed && x.round+x.rounds == stop && lastEnd > x.limit {
				return bad("gang", stop-1, lastEnd-x.limit, x.gpu, "the GPU is given away or leaves service before the round's slowest task has synchronised")
			}
		}
		previous = lastEnd
		at = stop
	}
	if next < len(ps) {
		return bad("rounds", ps[next].round, 0, ps[next].gpu, "an entry lies beyond the rounds of the job")
	}
	return previous, start, true
}

// extremes are the earliest start and the latest end of a round.
func extremes(active []piece, round int64) (start, end int64) {
	start = math.MaxInt64
	for i := range active {
		start = min(start, active[i].startOf(round))
		end = max(end, active[i].endOf(round))
	}
	return start, end
}

// roundShape checks counts, and for gang and rigid jobs that tasks start
// together on distinct GPUs of one type, at both ends of a stretch.
func roundShape(job *hare.Job, active []piece, first, last int64) (constraint, detail string, gpu int32) {
	var n int64
	for i := range active {
		if n += active[i].tasks; n > job.Tasks {
			break
		}
	}
	if n != job.Tasks {
		return "rounds", fmt.Sprintf("the tasks of the round over all lanes are not the %d of the job", job.Tasks), -1
	}
	if job.Sync == hare.Relaxed {
		return "", "", -1
	}
	lanes := make(map[int32]bool, len(active))
	for i := range active {
		x := &active[i]
		if lanes[x.gpu] {
			return "gang", "a GPU has two tasks of a round", x.gpu
		}
		lanes[x.gpu] = true
		if x.startOf(first) != active[0].startOf(first) || x.startOf(last) != active[0].startOf(last) {
			return "gang", "the tasks of a round do not start together", x.gpu
		}
		if !job.Mix && x.kind != active[0].kind {
			return "gang", "a round mixes GPU types", x.gpu
		}
	}
	return "", "", -1
}

// rigidShape checks that a rigid job stays on its K GPUs of one type from the
// first round to the last, back to back.
func rigidShape(job *hare.Job, ps []piece) (detail string, gpu int32) {
	type stay struct{ round, time int64 }
	at := make(map[int32]stay, job.Tasks)
	slices.SortFunc(ps, func(a, b piece) int {
		if a.round != b.round {
			return int(min(1, max(-1, a.round-b.round)))
		}
		return int(a.gpu) - int(b.gpu)
	})
	for i := range ps {
		x := &ps[i]
		if x.kind != ps[0].kind {
			return "a rigid job mixes GPU types", x.gpu
		}
		s, begun := at[x.gpu]
		switch {
		case !begun && x.round != 0:
			return "a rigid job moves to another GPU", x.gpu
		case begun && x.round != s.round:
			return "the rounds of a rigid job are not in one piece on a GPU", x.gpu
		case begun && x.start != s.time:
			return "a rigid job is not back to back", x.gpu
		case x.rounds > 1 && x.period != x.d:
			return "a rigid job is not back to back", x.gpu
		}
		at[x.gpu] = stay{x.round + x.rounds, x.start + x.rounds*x.d}
	}
	for _, x := range ps {
		if at[x.gpu].round != job.Rounds {
			return "a rigid job leaves a GPU before its last round", x.gpu
		}
	}
	if int64(len(at)) != job.Tasks {
		return fmt.Sprintf("a rigid job of %d tasks is on %d GPUs", job.Tasks, len(at)), -1
	}
	return "", -1
}
