package leases

import (
	"context"
	"math"
	"slices"

	"github.com/hare-sched/hare/internal/lp"
)

var inf = math.Inf(1)

// programBuilder builds a linear program to be minimised, row by row.
type programBuilder struct{ prob lp.Problem }

// column adds a variable that is at least 0 and returns its index.
func (pb *programBuilder) column(cost float64) int {
	p := &pb.prob
	p.Cost, p.ColLower, p.ColUpper = append(p.Cost, cost), append(p.ColLower, 0), append(p.ColUpper, inf)
	return len(p.Cost) - 1
}

// entry adds an entry to the current row, which row ends.
func (pb *programBuilder) entry(column int, value float64) {
	if value != 0 {
		pb.prob.Index, pb.prob.Value = append(pb.prob.Index, int32(column)), append(pb.prob.Value, value)
	}
}

func (pb *programBuilder) row(lower, upper float64) {
	p := &pb.prob
	if len(p.Start) == 0 {
		p.Start = append(p.Start, 0)
	}
	p.Start = append(p.Start, int32(len(p.Index)))
	p.RowLower, p.RowUpper = append(p.RowLower, lower), append(p.RowUpper, upper)
}

// solve fills share with the first columns, cut to 0 … 1.
func (pb *programBuilder) solve(ctx context.Context, solver lp.Solver, share []float64) error {
	sol, err := solver.Solve(ctx, &pb.prob)
	if err != nil {
		return err
	}
	for i := range share {
		share[i] = min(max(sol.X[i], 0), 1)
	}
	return nil
}

// shareProgram has the share of job i on type k in column i*types+k and what
// every division of time keeps. Where there are many optima, the engine's choice
// depends on the form: free columns with x ≥ 0 as rows, then a row a type, then
// a row a job, then what a policy adds. It is the form in which the published
// figures of data/peer_reference_results.csv came about, which HiGHS then gives
// to the last digit, with Gavel's rates unrounded (docs/use/policies.md).
func shareProgram(s *State) *programBuilder {
	b := &programBuilder{}
	n := len(s.Types)
	for c := range n * len(s.Jobs) {
		b.column(0)
		b.prob.ColLower[c] = -inf
		b.entry(c, -1)
		b.row(-inf, 0)
	}
	for k := range n {
		for i := range s.Jobs {
			b.entry(i*n+k, float64(s.Jobs[i].GPUs))
		}
		b.row(-inf, float64(s.GPUs[k]))
	}
	for i := range s.Jobs {
		for k := range n {
			b.entry(i*n+k, 1)
		}
		b.row(-inf, 1)
	}
	return b
}

// class is a set of jobs that a policy cannot tell apart.
type class struct {
	first *Job
	jobs  int
}

// classesOf groups jobs of equal rates, GPUs and weight; of is the class of each
// job. Time is O(jobs × classes × types).
func classesOf(s *State) (classes []class, of []int) {
	of = make([]int, len(s.Jobs))
	for i := range s.Jobs {
		j := s.Jobs[i].Job
		c := slices.IndexFunc(classes, func(c class) bool {
			return c.first.GPUs == j.GPUs && c.first.Weight == j.Weight && slices.Equal(c.first.Rate, j.Rate)
		})
		if c < 0 {
			c = len(classes)
			classes = append(classes, class{first: j})
		}
		classes[c].jobs++
		of[i] = c
	}
	return classes, of
}

// free adds a variable without bounds.
func (pb *programBuilder) free(cost float64) int {
	c := pb.column(cost)
	pb.prob.ColLower[c] = -inf
	return c
}
