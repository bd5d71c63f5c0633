// Package highs solves linear programs in this process with HiGHS, a C library that it loads at run time: neither
// a compiler nor cgo is needed. Only programs that are built with the tag highs can load it, since an executable that
// can load libraries is linked with the C library; without the tag, on other systems than Linux and macOS, and where
// the library is not found, every call returns ErrUnavailable. A fault inside HiGHS ends the process, so only LP
// workers call it.
package highs

import "errors"

// LibraryVariable names the environment variable that may hold the path of the library.
const LibraryVariable = "HARE_LIBHIGHS"

// ErrUnavailable says that there is no HiGHS; the errors that wrap it say why, and how to mend it.
var ErrUnavailable = errors.New("no HiGHS")

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
