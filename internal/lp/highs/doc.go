// Package highs solves one linear program in this process with HiGHS. It is
// the only package that needs cgo, and the library of HiGHS only with the build
// tag highs, so that programs which import Hare build with Go alone; without
// the tag or cgo every call returns ErrUnavailable. A fault inside HiGHS ends the process, so only LP workers
// call it.
package highs

import "errors"

// ErrUnavailable says that this binary was built without HiGHS.
var ErrUnavailable = errors.New("built without HiGHS: build with -tags highs, cgo and pkg-config")

// Status says how a solve without an optimum ended.
type Status int

const (
	Infeasible Status = iota + 1
	Unbounded
	Other
)

// StatusError reports a program without an optimum.
type StatusError struct {
	Status Status
	Detail string // the name that HiGHS gives it
}

func (e *StatusError) Error() string { return "highs: " + e.Detail }

// Model has the fields of lp.Problem with the same meaning. It must have at least one
// column, one row and one entry.
type Model struct {
	Maximize           bool
	Cost               []float64
	ColLower, ColUpper []float64
	RowLower, RowUpper []float64
	Start              []int32
	Index              []int32
	Value              []float64
}

// Result is an optimal basic solution. RowDual[i] is the derivative of the objective
// with respect to the right side of row i, for both senses.
type Result struct {
	Objective  float64
	X          []float64
	RowDual    []float64
	Iterations int64
}
