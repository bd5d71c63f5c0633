//go:build highs && (linux || darwin) && (amd64 || arm64)

package highs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/ebitengine/purego"
)

// library has the functions of HiGHS's C interface that are called, by their names there. Its HighsInt is an int32.
type library struct {
	version     func() string
	sizeofInt   func(model uintptr) int32
	create      func() uintptr
	destroy     func(model uintptr)
	setBool     func(model uintptr, option string, value int32) int32
	setInt      func(model uintptr, option string, value int32) int32
	setString   func(model uintptr, option, value string) int32
	addVars     func(model uintptr, n int32, lower, upper []float64) int32
	changeCosts func(model uintptr, from, to int32, cost []float64) int32
	changeSense func(model uintptr, sense int32) int32
	boundCols   func(model uintptr, from, to int32, lower, upper []float64) int32
	addRows     func(model uintptr, n int32, lower, upper []float64, nz int32, start, index []int32,
		value []float64) int32
	run          func(model uintptr) int32
	clear        func(model uintptr) int32
	modelStatus  func(model uintptr) int32
	solution     func(model uintptr, colValue, colDual, rowValue, rowDual []float64) int32
	intInfo      func(model uintptr, info string, value *int32) int32
	floatingInfo func(model uintptr, info string, value *float64) int32
}

// Statuses of calls, of models and of solutions, and the two senses.
const (
	callOK, callWarning                           = 0, 1
	modelOptimal, modelInfeasible, modelUnbounded = 7, 8, 10
	solutionFeasible                              = 2
	minimize, maximize                            = 1, -1
)

// modelStatuses are the names of the statuses of models that a solve without limits can end with.
var modelStatuses = map[int32]string{
	4: "SolveError", 6: "ModelEmpty", modelInfeasible: "Infeasible", 9: "UnboundedOrInfeasible",
	modelUnbounded: "Unbounded", 15: "Unknown",
}

// load loads HiGHS once.
var load = sync.OnceValues(func() (*library, error) {
	var faults []string
	for _, path := range paths() {
		l, err := open(path)
		if err == nil {
			return l, nil
		}
		faults = append(faults, err.Error())
	}
	remedy := "keep lib/" + fileName() + " beside the program, or name one in " + LibraryVariable
	if os.Getenv(LibraryVariable) != "" {
		remedy = LibraryVariable + " must name a " + fileName() + ", or be unset"
	}
	return nil, fmt.Errorf("%w: %s (%s)", ErrUnavailable, remedy, strings.Join(faults, "; "))
})

// paths returns where the library may lie: where HARE_LIBHIGHS says, or else beside the executable, where archives and
// make have it, or in the lib of its bin, where wheels have it, or where the system has it.
func paths() []string {
	if path := os.Getenv(LibraryVariable); path != "" {
		return []string{path}
	}
	system := "libhighs.so.1"
	if runtime.GOOS == "darwin" {
		system = "libhighs.1.dylib"
	}
	exe, err := os.Executable()
	if err != nil {
		return []string{system}
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	var paths []string
	for _, folder := range []string{"lib", "../lib/hare/lib"} {
		path := filepath.Join(filepath.Dir(exe), folder, fileName())
		if _, err := os.Stat(path); err == nil {
			paths = append(paths, path)
		}
	}
	return append(paths, system)
}

func fileName() string {
	if runtime.GOOS == "darwin" {
		return "libhighs.dylib"
	}
	return "libhighs.so"
}

func open(path string) (*library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	l := &library{}
	for name, function := range map[string]any{
		"version": &l.version, "getSizeofHighsInt": &l.sizeofInt, "create": &l.create, "destroy": &l.destroy,
		"setBoolOptionValue": &l.setBool, "setIntOptionValue": &l.setInt, "setStringOptionValue": &l.setString,
		"addVars": &l.addVars, "changeColsCostByRange": &l.changeCosts, "changeObjectiveSense": &l.changeSense,
		"changeColsBoundsByRange": &l.boundCols, "clearSolver": &l.clear,
		"addRows": &l.addRows, "run": &l.run, "getModelStatus": &l.modelStatus, "getSolution": &l.solution,
		"getIntInfoValue": &l.intInfo, "getDoubleInfoValue": &l.floatingInfo,
	} {
		at, err := purego.Dlsym(handle, "Highs_"+name)
		if err != nil {
			return nil, fmt.Errorf("%s: no HiGHS that Hare knows: it lacks Highs_%s", path, name)
		}
		purego.RegisterFunc(function, at)
	}
	model := l.create()
	defer l.destroy(model)
	if n := l.sizeofInt(model); n != 4 {
		return nil, fmt.Errorf("%s: integers have %d bytes, not 4", path, n)
	}
	return l, nil
}

// Version returns the version of the library, such as "1.15.1".
func Version() (string, error) {
	l, err := load()
	if err != nil {
		return "", err
	}
	return l.version(), nil
}

// Solve runs the simplex method on one thread: the same model gives the same basis. It
// returns a *StatusError if there is no optimum.
func Solve(m Model) (*Result, error) {
	l, err := load()
	if err != nil {
		return nil, err
	}
	model, err := l.pass(m)
	if err != nil {
		return nil, err
	}
	defer l.destroy(model)
	return l.solve(model, len(m.Cost), len(m.RowLower))
}

// solve runs the simplex method from the basis that the model has, if it has one.
func (l *library) solve(model uintptr, n, rows int) (*Result, error) {
	if status := l.run(model); status != callOK {
		return nil, fmt.Errorf("highs: run: status %d", status)
	}
	if status := l.modelStatus(model); status != modelOptimal {
		return nil, statusError(status)
	}
	return l.result(model, n, rows)
}

// pass makes a model of options, costs, bounds and rows. HiGHS drops entries below its small_matrix_value with a
// warning, which is not an error.
func (l *library) pass(m Model) (uintptr, error) {
	if len(m.Cost) == 0 || len(m.RowLower) == 0 || len(m.Index) == 0 {
		return 0, errors.New("highs: a model needs a column, a row and an entry")
	}
	model := l.create()
	sense := int32(minimize)
	if m.Maximize {
		sense = maximize
	}
	n := int32(len(m.Cost))
	err := check([]step{
		{"output_flag", l.setBool(model, "output_flag", 0)},
		{"threads", l.setInt(model, "threads", 1)},
		{"parallel", l.setString(model, "parallel", "off")},
		{"solver", l.setString(model, "solver", "simplex")},
		{"columns", l.addVars(model, n, m.ColLower, m.ColUpper)},
		{"costs", l.changeCosts(model, 0, n-1, m.Cost)},
		{"sense", l.changeSense(model, sense)},
		{"rows", l.add(model, m)},
	})
	if err != nil {
		l.destroy(model)
		return 0, err
	}
	return model, nil
}

// add adds the rows of m.
func (l *library) add(model uintptr, m Model) int32 {
	rows, entries := int32(len(m.RowLower)), int32(len(m.Index))
	return l.addRows(model, rows, m.RowLower, m.RowUpper, entries, m.Start, m.Index, m.Value)
}

// step is a call of HiGHS and how it ended.
type step struct {
	name   string
	status int32
}

func check(steps []step) error {
	for _, s := range steps {
		if s.status != callOK && s.status != callWarning {
			return fmt.Errorf("highs: %s: status %d", s.name, s.status)
		}
	}
	return nil
}

// result reads the optimum of a model with n columns.
func (l *library) result(model uintptr, n, rows int) (*Result, error) {
	r := &Result{X: make([]float64, n), RowDual: make([]float64, rows)}
	colDual, rowValue := make([]float64, n), make([]float64, rows)
	if status := l.solution(model, r.X, colDual, rowValue, r.RowDual); status != callOK {
		return nil, fmt.Errorf("highs: solution: status %d", status)
	}
	if status := l.floatingInfo(model, "objective_function_value", &r.Objective); status != callOK {
		return nil, fmt.Errorf("highs: objective: status %d", status)
	}
	var dual, iterations int32
	if l.intInfo(model, "dual_solution_status", &dual) != callOK || dual != solutionFeasible {
		return nil, &StatusError{Status: Other, Detail: "optimal without feasible duals"}
	}
	if l.intInfo(model, "simplex_iteration_count", &iterations) == callOK {
		r.Iterations = int64(max(iterations, 0))
	}
	return r, nil
}

func statusError(status int32) error {
	e := &StatusError{Status: Other, Detail: modelStatuses[status]}
	switch status {
	case modelInfeasible:
		e.Status = Infeasible
	case modelUnbounded:
		e.Status = Unbounded
	}
	if e.Detail == "" {
		e.Detail = "model status " + strconv.Itoa(int(status))
	}
	return e
}
