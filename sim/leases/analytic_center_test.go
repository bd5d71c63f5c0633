package leases

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare/internal/lp"
)

// One job may have the share x of a type with one GPU and the share y of a type with three
// GPUs, with x + y = 1. Of all optima, the analytic center has the greatest product
// x y (1 − x) (3 − y), which is at x² + x = 1/2.
func TestCentre(t *testing.T) {
	c := &analyticCenter{gpus: []float64{1, 3}, width: []float64{1}, greatest: true}
	c.rows = []constraint{{job: 0, a: []float64{1, 1}, z: -1}}
	share := make([]float64, 2)
	if err := c.solve(context.Background(), share); err != nil {
		t.Fatal(err)
	}
	if x := (math.Sqrt(3) - 1) / 2; math.Abs(share[0]-x) > 1e-6 || math.Abs(share[1]-(1-x)) > 1e-6 ||
		math.Abs(c.z-1) > 1e-6 {
		t.Errorf("share %v of %v, z %v", share, x, c.z)
	}
}

// randomState returns a state with jobs of one to four GPUs, some of which cannot use a type.
func randomState(seed uint64, jobs int) *State {
	r := rand.New(rand.NewPCG(seed, 3))
	s := state(1+r.IntN(4), 1+r.IntN(4), 1+r.IntN(4))
	s.NowS = 1000
	for i := range jobs {
		j := job(1+r.IntN(4), float64(1+r.IntN(3)), 1+int64(r.IntN(100_000)), 0.1+r.Float64(), 1+3*r.Float64(),
			2+5*r.Float64())
		if r.IntN(5) == 0 {
			j.Rate[0] = 0
		}
		j.Number, j.ArrivalS = i, 1000*r.Float64()
		s.Jobs = append(s.Jobs, j)
	}
	return s
}

// The objective at the analytic center equals the optimum that the simplex method finds, and
// the center keeps the constraints.
func TestCentreIsOptimal(t *testing.T) {
	for seed := range uint64(100) {
		s := randomState(seed, 1+int(seed%12))
		b := shareProgram(s)
		z := b.free(-1)
		c := shareProgramCenter(s)
		c.greatest = true
		for i := range s.Jobs {
			row := maxMinRow(s, s.Jobs[i].Rate, s.Jobs[i].Weight, s.Jobs[i].GPUs)
			c.rows = append(c.rows, constraint{job: i, a: row, z: -1})
			for k, v := range row {
				b.entry(3*i+k, -v)
			}
			b.entry(z, 1)
			b.row(-inf, 0)
		}
		sol, err := (&lp.Simplex{}).Solve(context.Background(), &b.prob)
		if err != nil {
			t.Fatal(err)
		}
		share := make([]float64, 3*len(s.Jobs))
		if err := c.solve(context.Background(), share); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if math.Abs(c.z/sol.X[z]-1) > 1e-5 {
			t.Errorf("seed %d: %v, the optimum is %v", seed, c.z, sol.X[z])
		}
		keepsBounds(t, s, share)
	}
}

func keepsBounds(t *testing.T, s *State, share []float64) {
	t.Helper()
	used := make([]float64, 3)
	for i := range s.Jobs {
		sum := 0.0
		for k := range 3 {
			sum += share[3*i+k]
			used[k] += share[3*i+k] * float64(s.Jobs[i].GPUs)
		}
		if sum > 1+1e-6 {
			t.Errorf("job %d has %v of its time", i, sum)
		}
	}
	for k, u := range used {
		if u > float64(s.GPUs[k])+1e-6 {
			t.Errorf("%v GPUs of %d", u, s.GPUs[k])
		}
	}
}

// The greatest ρ of the shares is the least for which a linear program is feasible.
func TestFinishTimeFairnessIsOptimal(t *testing.T) {
	for seed := range uint64(60) {
		s := randomState(seed, 1+int(seed%9))
		share := divide(t, &gavelFinish{perf: true}, s).Share
		keepsBounds(t, s, share)
		equal, alone, worst := make([]float64, 3), make([]float64, len(s.Jobs)), 0.0
		for i := range s.Jobs {
			j := &s.Jobs[i]
			equalShare(s, len(s.Jobs), j.GPUs, equal)
			isolated, has := 0.0, 0.0
			for k, r := range j.Rate {
				isolated += r * equal[k]
				has += r * share[3*i+k]
			}
			alone[i] = float64(j.StepsLeft) / isolated
			worst = max(worst, (s.NowS-j.ArrivalS+float64(j.StepsLeft)/has)/alone[i])
		}
		reaches := func(rho float64) bool {
			b := shareProgram(s)
			for i := range s.Jobs {
				left := rho*alone[i] - (s.NowS - s.Jobs[i].ArrivalS)
				if left <= 0 {
					return false
				}
				for k, r := range s.Jobs[i].Rate {
					b.entry(3*i+k, -r*left/float64(s.Jobs[i].StepsLeft))
				}
				b.row(-inf, -1)
			}
			_, err := (&lp.Simplex{}).Solve(context.Background(), &b.prob)
			return err == nil
		}
		if !reaches(worst*(1+1e-5)) || reaches(worst*(1-1e-4)) {
			t.Errorf("seed %d: ρ %v is not the least", seed, worst)
		}
	}
}

// If rates, weights and sizes differ by up to eight, four and ten orders of magnitude, there
// are always shares, and they keep the constraints.
func TestDivisionsOfExtremeJobs(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 10
	}
	entities := []*Entity{{Name: "a", Weight: 1}, {Name: "b", Weight: 200},
		{Name: "c", Weight: 0.3, FIFO: true}}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 5))
		s := randomState(seed, 1+int(seed*7%60))
		s.NowS = 1e7
		for k := range s.GPUs {
			s.GPUs[k] = 1 + r.IntN(100)
		}
		for i := range s.Jobs {
			j := &s.Jobs[i]
			scale := math.Pow(10, 8*r.Float64()-4)
			for k := range j.Rate {
				j.Rate[k] *= scale
				if k < 2 && r.IntN(3) == 0 {
					j.Rate[k] = 0
				}
			}
			j.Entity, j.ArrivalS, j.GPUs = entities[i%3], 1e7*r.Float64(), 1+r.IntN(64)
			j.StepsLeft, j.Weight = 1+int64(math.Pow(10, 10*r.Float64())), math.Pow(10, 4*r.Float64()-2)
		}
		for _, p := range []SharePolicy{
			&gavelFinish{perf: true}, &gavelFinish{}, &gavelWaterFill{perf: true}, &gavelWaterFill{perf: true,
				entities: true}, &gavelWaterFill{entities: true},
		} {
			keepsBounds(t, s, divide(t, p, s).Share)
		}
	}
}
