package relax

import (
	"math"
	"math/bits"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// scaledUs returns a time at a factor in 1e-6, rounded down.
func scaledUs(us, factorMicro int64) int64 {
	hi, lo := bits.Mul64(uint64(us), uint64(factorMicro))
	if hi >= 1e6 {
		return hare.MaxExact
	}
	q, _ := bits.Div64(hi, lo, 1e6)
	return int64(min(q, hare.MaxExact))
}

// factors returns the factors of a job in 1e-6, rising. They are lowered where the times of all
// rounds would not fit, which lowers the bound and never raises it.
func factors(j *hare.Job) []hare.Duration {
	work := 1.0
	for s := range j.ShapeCount() {
		shape := j.Shape(s)
		for _, p := range shape.On {
			all := float64(p.DurationUs()) * float64(j.Rounds)
			if j.Sync == hare.Relaxed {
				all *= float64(shape.Tasks)
			}
			work = max(work, all)
		}
	}
	most := int64(math.Max(1e6, math.Min(hare.MaxExact, 1e6*math.Floor(hare.MaxExact/work))))
	out := slices.Clone(j.Durations)
	for i := range out {
		out[i].FactorMicro = min(out[i].FactorMicro, most)
	}
	return out
}

// shortest returns the instance with the shortest durations of all jobs. Its times by spread may
// be equal on several levels.
func shortest(inst *hare.Instance) *hare.Instance {
	out := *inst
	out.Jobs = slices.Clone(inst.Jobs)
	for i := range out.Jobs {
		j := &out.Jobs[i]
		if j.Durations == nil {
			continue
		}
		f := factors(j)[0].FactorMicro
		scale := func(on []hare.Profile) []hare.Profile {
			on = slices.Clone(on)
			for x := range on {
				p := &on[x]
				p.ComputeUs, p.SyncUs = max(1, scaledUs(p.ComputeUs, f)), scaledUs(p.SyncUs, f)
				p.SwitchUs, p.SyncAt = scaledUs(p.SwitchUs, f), slices.Clone(p.SyncAt)
				for l := range p.SyncAt {
					p.SyncAt[l].SyncUs = scaledUs(p.SyncAt[l].SyncUs, f)
				}
			}
			return on
		}
		j.On, j.Shapes = scale(j.On), slices.Clone(j.Shapes)
		for s := range j.Shapes {
			j.Shapes[s].On = scale(j.Shapes[s].On)
		}
		if until := model.RunningUntilUs(&out, i); j.Running() && until < 1 {
			// The work still runs, so that it takes longer than this.
			progress := *j.Progress
			progress.ElapsedUs -= 1 - until
			j.Progress = &progress
		}
	}
	return &out
}

// asWritten returns job i of the model with the times of the instance as they are written.
func (pr *problem) asWritten(i int) *model.Job {
	j, spec := pr.model.Jobs[i], &pr.written.Instance.Jobs[i]
	modes := func(of []model.Mode, on []hare.Profile) []model.Mode {
		of = slices.Clone(of)
		for x := range of {
			md := &of[x]
			p := on[slices.IndexFunc(on, func(p hare.Profile) bool { return p.Type == pr.model.Types[md.Type] })]
			md.ComputeUs, md.SyncUs, md.SwitchUs = p.ComputeUs, p.SyncUs, p.SwitchUs
			if md.SyncByLevel != nil {
				md.SyncByLevel = slices.Clone(md.SyncByLevel)
				for level := range md.SyncByLevel {
					md.SyncByLevel[level] = pr.model.Levels.SyncUs(&p, level)
				}
				md.SyncUs = md.SyncByLevel[j.Within]
			}
		}
		return of
	}
	if j.Shapes == nil {
		j.Modes = modes(j.Modes, spec.On)
		return &j
	}
	j.Shapes = slices.Clone(j.Shapes)
	for s := range j.Shapes {
		j.Shapes[s].Modes = modes(j.Shapes[s].Modes, spec.Shapes[j.Shapes[s].Index].On)
	}
	return &j
}

// scaledModes returns modes with their times at a factor in 1e-6.
func scaledModes(modes []roundMode, factorMicro int64) []roundMode {
	modes = slices.Clone(modes)
	for x := range modes {
		md := &modes[x]
		md.ComputeUs, md.SyncUs = max(1, scaledUs(md.ComputeUs, factorMicro)), scaledUs(md.SyncUs, factorMicro)
		md.SwitchUs = scaledUs(md.SwitchUs, factorMicro)
	}
	return modes
}
