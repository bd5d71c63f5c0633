package verify

import (
	"context"
	"errors"
	"math/big"

	"github.com/hare-sched/hare"
)

// errEnough is returned for a makespan certificate that proves nothing.
var errEnough = errors.New("the prices do not prove that no schedule ends by the last time of grid_us")

// makespanBound proves that no schedule ends by T, the last time of the grid, so that the
// makespan is at least T + 1 µs: some job cannot end by T, or the jobs pay more for their work
// up to T than all capacity up to T is worth (docs/reference/model.md, "Makespan").
func makespanBound(ctx context.Context, inst *hare.Instance, s *supply, c *hare.Certificate) (*proved, error) {
	m, err := newPriceCertificate(inst, s, c)
	if err != nil {
		return nil, err
	}
	ds, err := s.demands(inst)
	if err != nil {
		return nil, err
	}
	if _, err := moveWeights(inst, ds, c.After); err != nil {
		return nil, err
	}
	last := c.GridUs[len(c.GridUs)-1]
	bound := &proved{low: big.NewRat(last+1, 1e6)}
	for i := range ds {
		if ds[i].earliest > last {
			return bound, nil
		}
	}
	psis, err := eachDemand(ctx, ds, m.psi)
	if err != nil {
		return nil, err
	}
	num, den := exactSum(psis)
	if num.Cmp(den.Mul(den, m.capacity())) <= 0 {
		return nil, errEnough
	}
	return bound, nil
}

// psi returns the least price of a job whose work ends by the last time of the grid, in 1e-15
// weight-seconds. P is no later than that time.
func (pc *priceCertificate) psi(d *demand) (*big.Rat, error) {
	if d.job.Shapes != nil {
		return pc.shapedPsi(d)
	}
	job := d.job
	job.WeightMicro, job.LateWeightMicro, job.DeadlineUs = 0, 0, 0
	cs, err := pc.pays(&job, pc.supply.choices(&job))
	if err != nil {
		return nil, err
	}
	grid := pc.cert.GridUs
	if job.Sync == hare.Rigid {
		return rigidPhi(&job, cs, d.earliest, grid[len(grid)-1])
	}
	return fluidPsi(&job, cs, grid), nil
}
