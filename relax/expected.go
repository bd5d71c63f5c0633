package relax

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// runExpected bounds the mean cost over what the durations of jobs may be (docs/reference/model.md,
// "Uncertain durations"): prices are common to all durations, and each job counts with the mean
// of its φ. What jobs need of each other, and when running work ends, is taken at the shortest
// durations.
func runExpected(ctx context.Context, m *model.Model, cfg Config) (*hare.Relaxation, error) {
	if m.Instance.Objective == hare.ObjectiveMakespan || cfg.Method != hare.MethodPrice || cfg.SyncAsCompute > 0 {
		return nil, fmt.Errorf("relax: the mean over durations is bounded by %s, for sums over jobs", hare.MethodPrice)
	}
	pr := &problem{model: model.New(shortest(m.Instance)), written: m}
	if !pr.compile() {
		return nil, pr.infeasible
	}
	if !cfg.NoSizes {
		pr.addPools()
	}
	cfg.Steps, cfg.WarmStart, cfg.Improved = 0, nil, nil
	rel := pr.price(ctx, &cfg)
	rel.Certified, rel.Certificate, rel.Phi = false, nil, nil
	return rel, nil
}

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

// setScenarios gives the jobs of uncertain durations the job at each of these.
func (pr *problem) setScenarios() {
	for i, written := range pr.writtenModes {
		if written == nil {
			continue
		}
		j, mj := &pr.jobs[i], &pr.specs[i]
		durations := factors(&pr.written.Instance.Jobs[pr.index[i]])
		scenarios := make([]job, len(durations))
		for x, d := range durations {
			modes := scaledModes(written, d.FactorMicro)
			least, ok := leastTime(mj, modes)
			one := *j
			if one.scenarios, one.micro = nil, d.Micro; ok {
				one.path = float64(mj.ReleaseUs + least)
			}
			one.modes = slices.Clone(j.modes)
			for m := range one.modes {
				md := &one.modes[m]
				at := slices.IndexFunc(modes, func(r roundMode) bool {
					return r.Type == md.kind && r.level == int(md.level) && r.shape == int(md.shape)
				})
				tasks, gpus, counts := pr.shapeOf(i, md)
				md.setTimes(mj.Sync, float64(modes[at].ComputeUs), float64(modes[at].SyncUs), float64(tasks*gpus),
					float64(counts))
				md.trailingID = -1
			}
			sortModes(one.modes)
			one.setPerRate()
			pr.splitShapes(&one, mj)
			scenarios[x] = one
		}
		j.scenarios = scenarios
	}
}

// eachScenario is solve for a job of uncertain duration: the mean of the answers.
func (o *oracle) eachScenario(j *job, ans *answer, wantUse bool) {
	var uses []use
	var progress []progressInterval
	phi, end := 0.0, 0.0
	for s := range j.scenarios {
		one := &j.scenarios[s]
		one.w = j.w
		share := float64(one.micro) * 1e-6
		ans.cutoff = 0
		o.solve(one, ans, wantUse)
		phi += share * ans.phi
		end += share * ans.end
		for _, u := range ans.uses {
			u.amount *= share
			uses = append(uses, u)
		}
		for _, p := range ans.progress {
			p.rounds *= share
			progress = append(progress, p)
		}
	}
	ans.phi, ans.end, ans.slope, ans.cutoff = phi, end, 0, 0
	ans.uses, ans.progress = append(ans.uses[:0], uses...), append(ans.progress[:0], progress...)
}

// meanLeast is least for a job of uncertain duration.
func (ej *exactJob) meanLeast() *big.Rat {
	sum := new(big.Rat)
	for s := range ej.j.scenarios {
		one := *ej
		one.j = &ej.j.scenarios[s]
		one.j.w, one.path = ej.j.w, int64(one.j.path)
		v := one.least()
		sum.Add(sum, v.Mul(v, big.NewRat(one.j.micro, 1_000_000)))
	}
	return sum
}
