// Package lp holds a linear program as data and solves it in child processes,
// so that a crash of the solver costs quality, never the service (docs/inside/design.md, section 4).
package lp

import "context"

// Problem is the linear program that minimises (or maximises) Cost·x subject to RowLower
// ≤ A x ≤ RowUpper and ColLower ≤ x ≤ ColUpper. A is stored by rows: row i has the
// entries Start[i] … Start[i+1]. Infinite bounds are ±math.Inf(1).
type Problem struct {
	Maximize           bool
	Cost               []float64 // by column
	ColLower, ColUpper []float64
	RowLower, RowUpper []float64
	Start              []int32 // by row, and one more
	Index              []int32 // the column of each entry
	Value              []float64
}

// Solution is an optimal basic solution. RowDual[i] is the derivative of the
// objective with respect to the right side of row i: its sign is the same for
// problems to minimise and to maximise.
type Solution struct {
	Objective  float64
	X          []float64 // by column
	RowDual    []float64 // by row
	Iterations int64     // of the simplex method; 0 if the engine does not report them
}

// Solver solves a problem to optimality or returns an error: ErrUnavailable if no engine
// runs, the context's error if the context ended, else the reason.
type Solver interface {
	Solve(context.Context, *Problem) (*Solution, error)
}
