package verify

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
)

// checkShaped is check for a job with a list of shapes. The entries of such a job have units, and
// check wants rounds: checkShaped cuts the units into segments, counts the rounds of each, and
// lets check see a job with these rounds.
func (ck *roundChecker) checkShaped(job *hare.Job, s standing, ps []piece, lanes []hare.Lane) (end, start int64,
	fault *Fault) {
	segments, rounds, fault := segmentsOf(job, s, ps, lanes)
	if fault != nil {
		return 0, 0, fault
	}
	units := make([]int64, len(ps))
	for i := range ps {
		units[i] = ps[i].round
		at, _ := slices.BinarySearchFunc(segments, units[i], func(x segment, unit int64) int { return int(x.unit - unit) })
		ps[i].round = segments[at].round
	}
	one := inShape(job, &job.Shapes[segments[0].shape], 1)
	one.Rounds = rounds
	ck.spec, ck.segments, ck.ran = job, segments, s.until
	ck.places.spec = job
	s.first = 0
	end, start, fault = ck.check(&one, s, ps, lanes)
	ck.spec, ck.segments, ck.ran, ck.places.spec = nil, nil, 0, nil
	for i := range ps {
		ps[i].round = units[i]
	}
	if fault != nil && fault.Round != nil {
		unit := unitOf(job, segments, *fault.Round)
		fault.Round = &unit
	}
	return end, start, fault
}

// unitOf returns the first unit of a round.
func unitOf(job *hare.Job, segments []segment, round int64) int64 {
	at := len(segments) - 1
	for at > 0 && segments[at].round > round {
		at--
	}
	x := segments[at]
	return x.unit + (round-x.round)*job.Shapes[x.shape].Counts
}

// segmentsOf cuts the units that are left of a job into segments, and returns how many rounds
// they have. It returns a fault if the rounds do not tile the units, or if the shape changes in
// a job that keeps it. It takes O(n log n).
func segmentsOf(job *hare.Job, s standing, ps []piece, lanes []hare.Lane) ([]segment, int64, *Fault) {
	bad := func(unit int64, line int32, detail string, a ...any) ([]segment, int64, *Fault) {
		f := &Fault{Constraint: CodeShape, Job: job.ID, Round: &unit, Detail: fmt.Sprintf(detail, a...)}
		if line >= 0 {
			f.GPU = lanes[ps[line].gpu].GPU
		}
		return nil, 0, f
	}
	cuts := []int64{s.first, job.Rounds}
	order := make([]int32, len(ps))
	for i := range ps {
		order[i] = int32(i)
		cuts = append(cuts, ps[i].round, endUnit(job, &ps[i]))
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(ps[a].round, ps[b].round) })
	var out []segment
	var here []int32 // the entries of the segment
	rounds, shape := int64(0), -1
	if s.until > 0 && !job.Reshape {
		shape = job.Progress.Shape
	}
	for c, unit := range cuts[:len(cuts)-1] {
		here = slices.DeleteFunc(here, func(i int32) bool { return endUnit(job, &ps[i]) <= unit })
		for len(order) > 0 && ps[order[0]].round == unit {
			here, order = append(here, order[0]), order[1:]
		}
		if len(here) == 0 {
			return nil, 0, &Fault{Constraint: CodeRounds, Job: job.ID, Round: &unit, Detail: "no lane holds this unit"}
		}
		_, of := profileOf(job, ps[here[0]].mode)
		counts := job.Shapes[of].Counts
		for _, i := range here {
			if _, other := profileOf(job, ps[i].mode); other != of {
				return bad(unit, i, "the entries of a round have different shapes")
			}
			if (unit-ps[i].round)%counts != 0 {
				return bad(unit, i, "a round of %d units of this entry begins before this unit and ends after it", counts)
			}
		}
		if shape >= 0 && of != shape && !job.Reshape {
			return bad(unit, here[0], "the shape changes, and the job has no reshape_s")
		}
		shape = of
		out = append(out, segment{unit, rounds, of})
		rounds += (cuts[c+1]-unit-1)/counts + 1
	}
	return out, rounds, nil
}

// endUnit returns the unit after the last one that an entry does of its job.
func endUnit(job *hare.Job, p *piece) int64 {
	_, shape := profileOf(job, p.mode)
	return min(job.Rounds, p.round+p.rounds*job.Shapes[shape].Counts)
}
