package verify

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/hare-sched/hare"
)

// demand is what is left of a job for the plan.
type demand struct {
	// job has a' as its release and only the rounds that are left. It has a deadline only where
	// the objective has tardiness, and its weight is w' once weight has been moved.
	job      hare.Job
	arrival  int64 // a of the job itself
	weight   int64 // w of the job itself
	setup    int64 // σ, the least setup before the first start, which a' counts
	least    int64 // ℓ, the least time of the rounds that are left
	earliest int64 // P, the least end
	fixed    bool  // the job ends with its running work, at P
}

// demands returns what is left of each job, with a' and P (docs/reference/model.md, "Bounds"), or an
// error if a job can never run. It takes O(predecessors) besides the modes of the jobs.
func (su *supply) demands(inst *hare.Instance) ([]demand, error) {
	index := indexOf(inst)
	order, ok := topological(inst, index)
	if !ok {
		return nil, errors.New("some jobs wait for each other")
	}
	out := make([]demand, len(inst.Jobs))
	for _, i := range order {
		spec, at := &inst.Jobs[i], su.running.jobs[i]
		d := &out[i]
		*d = demand{job: *spec, arrival: spec.ReleaseUs, weight: spec.WeightMicro, fixed: at.fixed}
		if d.job.LateWeightMicro = lateWeight(inst, spec); d.job.LateWeightMicro == 0 {
			d.job.DeadlineUs = 0
		}
		if d.fixed {
			d.earliest = at.until
			continue
		}
		d.job.Rounds -= at.first
		d.job.ReleaseUs = max(spec.ReleaseUs, at.until)
		for _, p := range spec.After {
			d.job.ReleaseUs = max(d.job.ReleaseUs, out[index[p.Job]].earliest+p.LagUs)
		}
		shapes, err := su.inShapes(&d.job)
		if err != nil {
			return nil, err
		}
		if at.until == 0 {
			d.setup = setupOf(shapes)
			d.job.ReleaseUs += d.setup
		}
		if d.least, ok = leastTime(&d.job, shapes); !ok || d.job.ReleaseUs+d.least > hare.MaxExact {
			return nil, errLong(spec)
		}
		d.earliest = d.job.ReleaseUs + d.least
		if su.placed {
			if d.job.ReleaseUs, d.earliest, ok = su.inWindows(&d.job, shapes, d.job.ReleaseUs, d.least); !ok {
				return nil, errNever
			}
			if d.earliest > hare.MaxExact {
				return nil, errLong(spec)
			}
		}
	}
	return out, nil
}

// tardiness returns v max(0, end − d) of a demand in 1e-12 weight-seconds.
func (de *demand) tardiness(end int64) *big.Int {
	return times(de.job.LateWeightMicro, max(0, end-de.job.DeadlineUs))
}

// moveWeights moves weight from jobs to those for which they wait, as a certificate says. It
// returns Σ λ (lag + σ + ℓ), with the ends of fixed predecessors, in 1e-12 weight-seconds.
func moveWeights(inst *hare.Instance, ds []demand, after []hare.AfterWeight) (*big.Int, error) {
	constant := new(big.Int)
	if len(after) == 0 {
		return constant, nil
	}
	if inst.Objective == hare.ObjectiveMakespan {
		return nil, errors.New("a makespan has no weights to move along dependencies")
	}
	index := indexOf(inst)
	moved := make([]*big.Int, len(ds))
	for i := range ds {
		moved[i] = big.NewInt(ds[i].weight)
	}
	type pair struct{ job, before int }
	seen := map[pair]bool{}
	for _, a := range after {
		j, ok := index[a.Job]
		lag, waits := int64(0), false
		if ok {
			lag, waits = lagOf(&inst.Jobs[j], a.Before)
		}
		if !waits {
			return nil, fmt.Errorf("after moves weight from job %.40q to %.40q, for which it does not wait", a.Job, a.Before)
		}
		i := index[a.Before]
		if outside(a.Micro, 0, hare.MaxExact) || seen[pair{j, i}] {
			return nil, fmt.Errorf("after has the weight of %.40q and %.40q twice or out of range", a.Job, a.Before)
		}
		seen[pair{j, i}] = true
		weight := big.NewInt(a.Micro)
		moved[j].Sub(moved[j], weight)
		moved[i].Add(moved[i], weight)
		apart := lag + ds[j].setup + ds[j].least
		if ds[i].fixed {
			apart += ds[i].earliest
		}
		constant.Add(constant, times(a.Micro, apart))
	}
	for i := range ds {
		if ds[i].fixed {
			continue
		}
		if moved[i].Sign() < 0 || moved[i].Cmp(big.NewInt(hare.MaxExact)) > 0 {
			return nil, fmt.Errorf("after leaves job %.40q a weight outside 0 to 2^53 in 1e-6", inst.Jobs[i].ID)
		}
		ds[i].job.WeightMicro = moved[i].Int64()
	}
	return constant, nil
}
