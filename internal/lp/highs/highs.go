//go:build cgo && highs

package highs

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/lanl/highs"
)

// #cgo pkg-config: highs
// #include "util/HighsInt.h"
// // highs_c_api.h defines constants with global scope up to 1.11 and may be
// // included once in a program, which the binding does.
// extern const char *Highs_version(void);
import "C"

// Version returns the version of the library at run time, such as "1.15.1".
func Version() (string, error) { return C.GoString(C.Highs_version()), nil }

// Solve runs the simplex method on one thread: the same model gives the same basis. It
// returns a *StatusError if there is no optimum.
func Solve(m Model) (*Result, error) {
	raw := highs.NewRawModel()
	// The finalizer of raw frees memory that Solve reads, and the binding does not keep raw
	// alive during the call.
	defer runtime.KeepAlive(raw)
	if err := configure(raw); err != nil {
		return nil, err
	}
	if err := load(raw, m); err != nil {
		return nil, err
	}
	sol, err := raw.Solve()
	if err != nil {
		return nil, fmt.Errorf("highs: run: %w", err)
	}
	if sol.Status != highs.Optimal {
		return nil, &StatusError{Status: statusOf(sol.Status), Detail: sol.Status.String()}
	}
	if sol.RowDual == nil {
		return nil, &StatusError{Status: Other, Detail: "optimal without feasible duals"}
	}
	iterations, err := sol.GetIntInfo("simplex_iteration_count")
	if err != nil {
		iterations = 0
	}
	return &Result{
		Objective:  sol.Objective,
		X:          sol.ColumnPrimal,
		RowDual:    sol.RowDual,
		Iterations: int64(max(iterations, 0)),
	}, nil
}

func configure(raw *highs.RawModel) error {
	if err := raw.SetBoolOption("output_flag", false); err != nil {
		return fmt.Errorf("highs: output_flag: %w", err)
	}
	if err := raw.SetIntOption("threads", 1); err != nil {
		return fmt.Errorf("highs: threads: %w", err)
	}
	for _, o := range [][2]string{{"parallel", "off"}, {"solver", "simplex"}} {
		if err := raw.SetStringOption(o[0], o[1]); err != nil {
			return fmt.Errorf("highs: %s: %w", o[0], err)
		}
	}
	return nil
}

// load passes costs, bounds and rows. HiGHS drops entries below its small_matrix_value
// with a warning, which is not an error.
func load(raw *highs.RawModel, m Model) error {
	if len(m.Cost) == 0 || len(m.RowLower) == 0 || len(m.Index) == 0 {
		return errors.New("highs: a model needs a column, a row and an entry")
	}
	start := make([]int, len(m.RowLower))
	for i := range start {
		start[i] = int(m.Start[i])
	}
	index := make([]int, len(m.Index))
	for i, c := range m.Index {
		index[i] = int(c)
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"columns", func() error { return raw.AddColumnBounds(m.ColLower, m.ColUpper) }},
		{"costs", func() error { return raw.SetColumnCosts(m.Cost) }},
		{"sense", func() error { return raw.SetMaximization(m.Maximize) }},
		{"rows", func() error { return raw.AddCompSparseRows(m.RowLower, start, index, m.Value, m.RowUpper) }},
	}
	for _, s := range steps {
		var call highs.CallStatus
		if err := s.do(); err != nil && !(errors.As(err, &call) && call.IsWarning()) {
			return fmt.Errorf("highs: %s: %w", s.name, err)
		}
	}
	return nil
}

func statusOf(s highs.ModelStatus) Status {
	switch s {
	case highs.Infeasible:
		return Infeasible
	case highs.Unbounded:
		return Unbounded
	default:
		return Other
	}
}
