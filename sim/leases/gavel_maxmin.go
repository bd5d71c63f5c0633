package leases

import (
	"context"
	"encoding/binary"
	"math"
	"slices"

	"github.com/hare-sched/hare/internal/lp"
)

// gavelMaxMin is Gavel's heterogeneity-aware LAS: it maximises the least
// throughput of a job, in units of weight × what the job would get from an equal
// share of every type, × GPUs.
//
//	max min_i  s_i Σ_k r_ik x_ik / (w_i Σ_k r_ik W_k / ΣW)
//
// Source: Gavel (OSDI 2020), its code at commit c4fa400. Without perf all rates
// count as 1, also those of types that a job cannot use, so that time is given
// there too, which nobody takes.
//
// The program often has many optima, and which of them an engine returns moves
// mean JCT by some percent on small traces. It is therefore solved job by job in
// the form of shareProgram. Without perf, solutions are kept, since it depends
// on nothing but the jobs' numbers of GPUs and weights. With perf and more than
// jobByJob jobs, those of equal rates, GPUs and weight are one class with equal
// shares, and the program has two rows a class, whatever the number of jobs.
type gavelMaxMin struct {
	perf   bool
	solver lp.Solver
	small  lp.Simplex // for classes
	kept   map[string][]float64
}

// jobByJob is the number of jobs up to which programs with perf have variables for each job.
const jobByJob = 32

// maxKept limits the number of solutions that are kept.
const maxKept = 4096

var _ SharePolicy = (*gavelMaxMin)(nil)

func (mm *gavelMaxMin) LeaseTraits() Traits {
	return Traits{ShuffleTypes: !mm.perf}
}

func (mm *gavelMaxMin) Shares(ctx context.Context, s *State, out *Shares) error {
	if mm.perf && len(s.Jobs) > jobByJob {
		return mm.byClass(ctx, s, out)
	}
	if mm.perf {
		return mm.byJob(ctx, s, out)
	}
	key := make([]byte, 0, 16*len(s.Jobs))
	for i := range s.Jobs {
		key = binary.LittleEndian.AppendUint64(key, uint64(s.Jobs[i].GPUs))
		key = binary.LittleEndian.AppendUint64(key, math.Float64bits(s.Jobs[i].Weight))
	}
	if share, ok := mm.kept[string(key)]; ok {
		copy(out.Share, share)
		return nil
	}
	if err := mm.byJob(ctx, s, out); err != nil {
		return err
	}
	if mm.kept == nil || len(mm.kept) == maxKept {
		mm.kept = map[string][]float64{}
	}
	mm.kept[string(key)] = slices.Clone(out.Share)
	return nil
}

func (mm *gavelMaxMin) byJob(ctx context.Context, s *State, out *Shares) error {
	n := len(s.Types)
	one := slices.Repeat([]float64{1}, n)
	b := shareProgram(s)
	z := b.free(-1)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		rate := one
		if mm.perf {
			rate = j.Rate
		}
		for k, c := range maxMinRow(s, rate, j.Weight, j.GPUs) {
			b.entry(i*n+k, -c)
		}
		b.entry(z, 1)
		b.row(-inf, 0)
	}
	return b.solve(ctx, mm.solver, out.Share)
}

// maxMinRow gives the coefficients of a job's shares in what is maximised.
func maxMinRow(s *State, rate []float64, weight float64, gpus int) []float64 {
	total := 0
	for _, w := range s.GPUs {
		total += w
	}
	equal := 0.0
	for k, w := range s.GPUs {
		equal += rate[k] * (float64(w) / float64(total))
	}
	row := make([]float64, len(rate))
	for k, r := range rate {
		row[k] = r * (1 / weight * (1 / equal)) * float64(gpus)
	}
	return row
}

func (mm *gavelMaxMin) byClass(ctx context.Context, s *State, out *Shares) error {
	classes, of := classesOf(s)
	n := len(s.Types)
	var b programBuilder
	for range n * len(classes) {
		b.column(0)
	}
	z := b.free(-1)
	for c := range classes {
		k0, first := c*n, classes[c].first
		for k := range n {
			b.entry(k0+k, 1)
		}
		b.row(-inf, 1)
		for k, v := range maxMinRow(s, first.Rate, first.Weight, first.GPUs) {
			b.entry(k0+k, -v)
		}
		b.entry(z, 1)
		b.row(-inf, 0)
	}
	for k, w := range s.GPUs {
		for c := range classes {
			b.entry(c*n+k, float64(classes[c].jobs*classes[c].first.GPUs))
		}
		b.row(-inf, float64(w))
	}
	share := make([]float64, n*len(classes))
	if err := b.solve(ctx, &mm.small, share); err != nil {
		return err
	}
	for i, c := range of {
		copy(out.Share[i*n:(i+1)*n], share[c*n:(c+1)*n])
	}
	return nil
}
