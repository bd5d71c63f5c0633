package bench

import (
	"fmt"
	"math"
	"math/big"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// These are the methods of a row.
const (
	GapHare       = "hare"
	GapCPSAT      = "cpsat"
	GapIntervalLP = "interval-lp"
)

// GapRow is one run on one instance.
type GapRow struct {
	Instance string `json:"instance"`
	Cell     string `json:"cell"`
	Jobs     int    `json:"jobs"`
	GPUs     int    `json:"gpus"`
	SHA256   string `json:"instance_sha256"`
	Method   string `json:"method"`
	Model    string `json:"model,omitempty"` // the model of CP-SAT
	// LimitS is the requested limit, 0 under a limit of work, and Seconds the time used: for Hare the whole call with
	// LPs and the check of the plan, for CP-SAT building the model and solving it, without
	// the start of Python.
	LimitS      float64 `json:"limit_s"`
	Seconds     float64 `json:"seconds"`
	Termination string  `json:"termination"`
	// Value is the weighted JCT of a plan that verify accepted; null without one.
	Value *hare.Amount `json:"value"`
	// Bound is certified for Hare and computed in floats for the other methods. BoundHolds
	// says that the bound holds for the instance, and not only for a model that leaves out
	// plans.
	Bound      *hare.Amount `json:"bound"`
	BoundHolds bool         `json:"bound_holds"`
	// Gap is value/bound − 1 of this row alone; null without a useful bound.
	Gap *float64 `json:"gap"`
	// OverBest is the value over the best known one, minus 1, and UnderBest the best known bound over the
	// bound, minus 1: the share of the plan in the gap, and that of the bound. Null where nothing is known,
	// below 0 where this row is better.
	OverBest  *float64 `json:"over_best_value"`
	UnderBest *float64 `json:"under_best_bound"`
	// Curve lists what was known at which time of the run.
	Curve []GapPoint `json:"curve,omitempty"`
}

// GapPoint is the state of a running solve.
type GapPoint struct {
	Seconds float64  `json:"t"`
	Gap     *float64 `json:"gap"` // of the plan and the bound known at that time
}

// GapReport is the whole measurement.
type GapReport struct {
	Version     string    `json:"version"`
	HiGHS       string    `json:"highs"`
	Machine     string    `json:"machine"`
	Workers     int       `json:"workers"`
	Seed        int64     `json:"seed"`
	WorkLimit   int64     `json:"work_limit,omitempty"`
	Interrupted bool      `json:"interrupted"` // some rows are missing
	Rows        []*GapRow `json:"rows"`
}

// gapOf returns value/bound − 1: 0 if they are equal, nil if one is missing or the bound
// is useless.
func gapOf(value, bound *hare.Amount) *float64 {
	if value == nil || bound == nil {
		return nil
	}
	gap := 0.0
	if value.Cmp(*bound) != 0 {
		if bound.Sign() <= 0 {
			return nil
		}
		gap = value.Float()/bound.Float() - 1
	}
	return &gap
}

// amountOf returns x weight-seconds, rounded down to millionths.
func amountOf(x float64) hare.Amount {
	n, _ := big.NewFloat(math.Floor(x * 1e6)).Int(nil)
	a, _ := hare.AmountFromBig(n.Mul(n, big.NewInt(1e6)))
	return a
}

func exact(a *hare.Amount) string {
	if a == nil {
		return ""
	}
	return a.String()
}

// figure writes a limit in seconds; 0 is none.
func figure(x float64) string {
	if x == 0 {
		return "–"
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// Percent returns a share in percent with two decimals, rounded up as gaps are, or "–"
// for nil.
func Percent(gap *float64) string {
	if gap == nil {
		return "–"
	}
	return strconv.FormatFloat(math.Ceil(max(0, *gap*1e4-1e-7))/100, 'f', 2, 64)
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func share(x *float64) string {
	if x == nil {
		return "–"
	}
	return strconv.FormatFloat(*x, 'f', 3, 64)
}

func signed(x *float64) string {
	if x == nil {
		return "–"
	}
	return fmt.Sprintf("%+.2f %%", 100**x)
}

// short returns an amount to about seven digits.
func short(a *hare.Amount) string {
	if a == nil {
		return "–"
	}
	x := a.Float()
	return strconv.FormatFloat(x, 'f', max(0, 6-int(math.Log10(max(1, math.Abs(x))))), 64)
}

// Line returns a description of a run for people.
func (row *GapRow) Line() string {
	method := row.Method
	if row.Model != "" {
		method += " " + row.Model
	}
	known := ""
	if row.OverBest != nil || row.UnderBest != nil {
		known = fmt.Sprintf("; best known: value %s, bound %s", signed(row.OverBest), signed(row.UnderBest))
	}
	return fmt.Sprintf("%-32s %-13s %6s s  value %-12s bound %-12s gap %7s %%  %s, %.2f s%s",
		row.Instance, method, figure(row.LimitS), short(row.Value), short(row.Bound), Percent(row.Gap),
		row.Termination, row.Seconds, known)
}

// machine returns the name of the processor.
func machine() string {
	name := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d × %s", runtime.NumCPU(), name)
}
