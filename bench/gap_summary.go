package bench

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// GapSummary summarises one cell at one limit, for Hare's runs alone.
type GapSummary struct {
	Cell      string   `json:"cell"`
	LimitS    float64  `json:"limit_s"`
	Instances int      `json:"instances"`
	Median    *float64 `json:"median_gap"` // null without a useful bound or a plan
	Worst     *float64 `json:"worst_gap"`
	// WorstSeconds is the longest run.
	WorstSeconds float64 `json:"worst_seconds"`
	// OverBest and UnderBest are medians of those of the rows; null where no row has any.
	OverBest  *float64 `json:"median_over_best_value"`
	UnderBest *float64 `json:"median_under_best_bound"`
}

// Summary returns a row for each cell and limit, with cells in the order of the rows.
func (r *GapReport) Summary() []GapSummary {
	type key struct {
		cell  string
		limit float64
	}
	at := map[key]int{}
	order := map[string]int{}
	var out []GapSummary
	var gaps, over, under [][]float64
	for _, row := range r.Rows {
		if row.Method != GapHare {
			continue
		}
		if _, ok := order[row.Cell]; !ok {
			order[row.Cell] = len(order)
		}
		i, ok := at[key{row.Cell, row.LimitS}]
		if !ok {
			i = len(out)
			at[key{row.Cell, row.LimitS}] = i
			out, gaps = append(out, GapSummary{Cell: row.Cell, LimitS: row.LimitS}), append(gaps, nil)
			over, under = append(over, nil), append(under, nil)
		}
		gap := math.Inf(1)
		if row.Gap != nil {
			gap = *row.Gap
		}
		gaps[i] = append(gaps[i], gap)
		if row.OverBest != nil {
			over[i] = append(over[i], *row.OverBest)
		}
		if row.UnderBest != nil {
			under[i] = append(under[i], *row.UnderBest)
		}
		out[i].Instances++
		out[i].WorstSeconds = max(out[i].WorstSeconds, row.Seconds)
	}
	for i := range out {
		out[i].Median, out[i].Worst = finite(median(gaps[i])), finite(slices.Max(gaps[i]))
		if len(over[i]) > 0 {
			out[i].OverBest = finite(median(over[i]))
		}
		if len(under[i]) > 0 {
			out[i].UnderBest = finite(median(under[i]))
		}
	}
	slices.SortStableFunc(out, func(a, b GapSummary) int {
		return cmp.Or(cmp.Compare(order[a.Cell], order[b.Cell]), cmp.Compare(a.LimitS, b.LimitS))
	})
	return out
}

func finite(x float64) *float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return nil
	}
	return &x
}

// median sorts x and returns the median; for an even number of values, the mean of the
// middle two.
func median(x []float64) float64 {
	slices.Sort(x)
	n := len(x)
	if n%2 == 1 {
		return x[n/2]
	}
	return (x[n/2-1] + x[n/2]) / 2
}

// GapComparison compares the methods on one instance at one limit.
type GapComparison struct {
	Instance string   `json:"instance"`
	LimitS   float64  `json:"limit_s"`
	Gap      *float64 `json:"gap"` // Hare's gap
	// Model is the best of CP-SAT's models that found a plan. If none did, Status says why.
	Model  string `json:"cpsat_model,omitempty"`
	Status string `json:"cpsat_status,omitempty"`
	// OverHare is CP-SAT's best value over Hare's at the same limit, minus 1.
	OverHare *float64 `json:"cpsat_over_hare"`
	// CPSATGap is CP-SAT's best value over Hare's best certified bound, minus 1.
	CPSATGap *float64 `json:"cpsat_gap"`
	// The next fields are bounds over Hare's bound at the same limit; null if no such bound
	// holds.
	CPSATBound    *float64 `json:"cpsat_bound_over_hare"`
	IntervalBound *float64 `json:"interval_lp_bound_over_hare"`
	IntervalNote  string   `json:"interval_lp_note,omitempty"`
}

// Comparisons returns a row for each of Hare's runs beside which another method ran.
func (r *GapReport) Comparisons() []GapComparison {
	var out []GapComparison
	for _, own := range r.Rows {
		if own.Method != GapHare {
			continue
		}
		c := GapComparison{Instance: own.Instance, LimitS: own.LimitS, Gap: own.Gap}
		best := own.Bound
		var value, bound *hare.Amount
		beside := false
		for _, row := range r.Rows {
			if row.Instance != own.Instance {
				continue
			}
			switch row.Method {
			case GapHare:
				if best == nil || row.Bound != nil && row.Bound.Cmp(*best) > 0 {
					best = row.Bound
				}
			case GapIntervalLP:
				beside = true
				c.IntervalBound, c.IntervalNote = ratio(row.Bound, own.Bound), row.Termination
			case GapCPSAT:
				if row.LimitS != own.LimitS {
					continue
				}
				beside = true
				if c.Status == "" {
					c.Status = row.Termination
				}
				if row.Value != nil && (value == nil || row.Value.Cmp(*value) < 0) {
					value, c.Model, c.Status = row.Value, row.Model, row.Termination
				}
				if row.BoundHolds && row.Bound != nil && (bound == nil || row.Bound.Cmp(*bound) > 0) {
					bound = row.Bound
				}
			}
		}
		if !beside {
			continue
		}
		c.CPSATBound = ratio(bound, own.Bound)
		if over := ratio(value, own.Value); over != nil {
			*over--
			c.OverHare = over
		}
		c.CPSATGap = gapOf(value, best)
		out = append(out, c)
	}
	return out
}

// ratio returns a over b, or nil if one is missing or b is 0.
func ratio(a, b *hare.Amount) *float64 {
	if a == nil || b == nil || b.Sign() == 0 {
		return nil
	}
	return finite(a.Float() / b.Float())
}
