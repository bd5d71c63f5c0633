package verify

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// shapesOf returns the shapes of a job, which is one for a job without a list of shapes.
func shapesOf(job *hare.Job) []hare.Shape {
	if job.Shapes == nil {
		return []hare.Shape{{Tasks: job.Tasks, GPUsPerTask: job.GPUsPerTask, Counts: 1, On: job.On}}
	}
	return job.Shapes
}

// inShape returns a job as it is if all of its rounds have one shape and so many units are left:
// a job without a list of shapes.
func inShape(job *hare.Job, s *hare.Shape, units int64) hare.Job {
	one := *job
	one.Tasks, one.GPUsPerTask, one.On = s.Tasks, s.GPUsPerTask, s.On
	one.Rounds = (units-1)/s.Counts + 1
	one.Shapes, one.Reshape, one.ReshapeUs = nil, false, 0
	return one
}

// modeOf returns the number of a profile among the profiles of all shapes of a job, one shape
// after another.
func modeOf(job *hare.Job, shape, profile int) int32 {
	for i := range shape {
		profile += len(job.Shapes[i].On)
	}
	return int32(profile)
}

// profileOf returns the profile with this number, and its shape.
func profileOf(job *hare.Job, mode int32) (p *hare.Profile, shape int) {
	if job.Shapes == nil {
		return &job.On[mode], 0
	}
	for int(mode) >= len(job.Shapes[shape].On) {
		mode -= int32(len(job.Shapes[shape].On))
		shape++
	}
	return &job.Shapes[shape].On[mode], shape
}

// switches reports whether some GPU needs a setup for some job.
func switches(inst *hare.Instance) bool {
	for i := range inst.Jobs {
		for _, s := range shapesOf(&inst.Jobs[i]) {
			if slices.ContainsFunc(s.On, func(p hare.Profile) bool { return p.SwitchUs > 0 }) {
				return true
			}
		}
	}
	return false
}

// hasShapes reports whether some job has a list of shapes.
func hasShapes(inst *hare.Instance) bool {
	return slices.ContainsFunc(inst.Jobs, func(j hare.Job) bool { return j.Shapes != nil })
}

// segment is a stretch of the units of a job with shapes: all of its units belong to the same
// entries.
type segment struct {
	unit  int64 // the first unit
	round int64 // how many rounds come before
	shape int
}

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
	slices.SortFunc(order, func(a, b int32) int { return int(min(1, max(-1, ps[a].round-ps[b].round))) })
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

// shapedJob is what is left of a job if all of it has one shape.
type shapedJob struct {
	job     hare.Job // without a list of shapes; its rounds are those that are left
	counts  int64    // u, the units of a round
	choices []typeChoice
	tau     int64 // τ, the least time of a round
}

// inShapes returns what is left of a job in each shape of which a round ever finds room. job has
// the units that are left. A job that runs at time 0 and may not change its shape has one.
func (su *supply) inShapes(job *hare.Job) ([]shapedJob, error) {
	var out []shapedJob
	for i, s := range shapesOf(job) {
		if p := job.Progress; p != nil && len(p.GPUs) > 0 && !job.Reshape && i != p.Shape {
			continue
		}
		x := shapedJob{job: inShape(job, &s, job.Rounds), counts: s.Counts}
		x.choices = su.choices(&x.job)
		var err error
		if x.tau, err = leastRound(&x.job, x.choices); err == nil {
			out = append(out, x)
		}
	}
	if len(out) == 0 {
		return nil, errNever
	}
	return out, nil
}

// leastTime returns ℓ, the least time of what is left of a job in its shapes: of all rounds in one
// shape or, where the shape may change, of the units at the greatest speed. It returns false
// beyond 2^53.
func leastTime(job *hare.Job, shapes []shapedJob) (int64, bool) {
	least := int64(-1)
	for i := range shapes {
		x := &shapes[i]
		t, ok := mul(x.job.Rounds, x.tau)
		if job.Reshape {
			whole := times(job.Rounds, x.tau) // rounded up, because all times are whole
			whole.Add(whole, big.NewInt(x.counts-1)).Quo(whole, big.NewInt(x.counts))
			t, ok = whole.Int64(), whole.IsInt64() && whole.Int64() <= hare.MaxExact
		}
		if ok && (least < 0 || t < least) {
			least = t
		}
	}
	return least, least >= 0
}

// setupOf returns σ, the least setup before the first start of a job.
func setupOf(shapes []shapedJob) int64 {
	least := int64(math.MaxInt64)
	for i := range shapes {
		for _, c := range shapes[i].choices {
			least = min(least, c.setup)
		}
	}
	return least
}

// leastWork returns W of the method machine, the least GPU-time of what is left of a job, as a
// numerator and a denominator, and the least synchronisation after its compute.
func leastWork(job *hare.Job, shapes []shapedJob) (work *big.Rat, sync int64) {
	sync = math.MaxInt64
	for i := range shapes {
		x := &shapes[i]
		task := int64(math.MaxInt64)
		for _, c := range x.choices {
			if job.Sync == hare.Relaxed {
				task, sync = min(task, c.p), min(sync, c.s)
			} else {
				task, sync = min(task, c.d), 0
			}
		}
		w := new(big.Rat).SetInt(times(x.job.Tasks, gpusOf(&x.job), x.job.Rounds, task))
		if job.Reshape {
			w.SetFrac(times(x.job.Tasks, gpusOf(&x.job), job.Rounds, task), big.NewInt(x.counts))
		}
		if work == nil || w.Cmp(work) < 0 {
			work = w
		}
	}
	return work, sync
}

// shapedPhi is φ of a job with a list of shapes: the least over its shapes or, where the shape may
// change, that of one fluid over the modes of all shapes.
func (pc *priceCertificate) shapedPhi(d *demand, path int64) (*big.Rat, error) {
	shapes, err := pc.supply.inShapes(&d.job)
	if err != nil {
		return nil, err
	}
	var least *big.Rat
	var all []typeChoice
	for i := range shapes {
		x := &shapes[i]
		cs, err := pc.paysIn(x)
		if err != nil {
			return nil, err
		}
		if d.job.Reshape {
			all = append(all, cs...)
			continue
		}
		var phi *big.Rat
		if d.job.Sync == hare.Rigid {
			phi, err = rigidPhi(&x.job, cs, path, math.MaxInt64)
		} else {
			units := x.job
			units.Rounds = d.job.Rounds
			phi = fluidPhi(&units, cs, pc.cert.GridUs, path)
		}
		if err == nil && d.job.Sync == hare.Relaxed && pc.cert.StepUs > 0 {
			var exact *big.Rat
			if exact, err = pc.stepsPhi(&x.job, x.choices, cs, x.tau, d.earliest); exact != nil && exact.Cmp(phi) > 0 {
				phi = exact
			}
		}
		if err != nil {
			return nil, err
		}
		if least == nil || phi.Cmp(least) < 0 {
			least = phi
		}
	}
	if d.job.Reshape {
		return fluidPhi(&d.job, all, pc.cert.GridUs, path), nil
	}
	return least, nil
}

// paysIn returns what a job pays in one shape.
func (pc *priceCertificate) paysIn(x *shapedJob) ([]typeChoice, error) {
	cs, err := pc.pays(&x.job, slices.Clone(x.choices))
	for i := range cs {
		cs[i].does = x.counts
	}
	return cs, err
}

// shapedPsi is ψ of a job with a list of shapes, whose work ends by the last time of the grid.
func (pc *priceCertificate) shapedPsi(d *demand) (*big.Rat, error) {
	shapes, err := pc.supply.inShapes(&d.job)
	if err != nil {
		return nil, err
	}
	grid := pc.cert.GridUs
	last := grid[len(grid)-1]
	least := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 200)) // more than any capacity is worth
	units := d.job                                                     // its rounds are units
	units.WeightMicro, units.LateWeightMicro, units.DeadlineUs = 0, 0, 0
	var all []typeChoice
	for i := range shapes {
		x := &shapes[i]
		x.job.WeightMicro, x.job.LateWeightMicro, x.job.DeadlineUs = 0, 0, 0
		cs, err := pc.paysIn(x)
		if err != nil {
			return nil, err
		}
		var psi *big.Rat
		switch {
		case d.job.Reshape:
			all = append(all, cs...)
			continue
		case d.job.Sync == hare.Rigid:
			cs = slices.DeleteFunc(cs, func(c typeChoice) bool {
				length, ok := mul(x.job.Rounds, c.d)
				return !ok || x.job.ReleaseUs+length > last
			})
			if len(cs) == 0 {
				continue
			}
			if psi, err = rigidPhi(&x.job, cs, x.job.ReleaseUs, last); err != nil {
				return nil, err
			}
		case !endsBy(&units, cs, last):
			continue
		default:
			one := x.job
			one.Rounds = units.Rounds
			psi = fluidPsi(&one, cs, grid)
		}
		if psi.Cmp(least) < 0 {
			least = psi
		}
	}
	if d.job.Reshape && endsBy(&units, all, last) {
		least = fluidPsi(&units, all, grid)
	}
	return least, nil
}

// endsBy reports whether the units of a job can be done by a time, at the speed of the fastest mode.
func endsBy(job *hare.Job, cs []typeChoice, last int64) bool {
	return slices.ContainsFunc(cs, func(c typeChoice) bool {
		return times(job.Rounds, c.d).Cmp(times(last-job.ReleaseUs, c.unitsDone())) <= 0
	})
}

// unitsDone returns u, the units that a round does.
func (tc *typeChoice) unitsDone() int64 { return max(1, tc.does) }

// shapedKey is phiKey for a job with a list of shapes.
func shapedKey(d *demand, pc *priceCertificate, origin []int32) string {
	shapes, _ := pc.supply.inShapes(&d.job)
	b := binary.AppendVarint([]byte("shapes"), d.job.Rounds)
	if d.job.Reshape {
		b = append(b, 'r')
	}
	for i := range shapes {
		key := phiKey(&demand{job: shapes[i].job, earliest: d.earliest}, pc, origin)
		b = binary.AppendVarint(b, shapes[i].counts)
		b = append(binary.AppendVarint(b, int64(len(key))), key...)
	}
	return string(b)
}
