package verify

import (
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

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
