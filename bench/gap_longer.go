package bench

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
)

// longerMargin is what a clock cannot repeat: a share by which a value may rise, or a bound fall, with a longer limit.
const longerMargin = 1e-3

// GapLonger compares Hare's runs of one instance with the next shorter limit.
type GapLonger struct {
	Pairs int `json:"pairs"` // of runs with a plan and a bound
	// Values and Bounds count the pairs in which the longer limit gave no higher value, or no lower bound, but for a
	// thousandth.
	Values int `json:"values_no_higher"`
	Bounds int `json:"bounds_no_lower"`
	// WorstValue is the greatest share by which a value rose, and WorstBound that by which a bound fell.
	WorstValue float64 `json:"worst_value_rise"`
	WorstBound float64 `json:"worst_bound_fall"`
}

// Longer returns nil where no instance has runs with two limits.
func (r *GapReport) Longer() *GapLonger {
	runs := map[string][]*GapRow{}
	for _, row := range r.Rows {
		if row.Method == GapHare && row.Value != nil && row.Bound != nil {
			runs[row.Instance] = append(runs[row.Instance], row)
		}
	}
	var out GapLonger
	for _, rows := range runs {
		slices.SortStableFunc(rows, func(a, b *GapRow) int { return cmp.Compare(a.LimitS, b.LimitS) })
		for x := range len(rows) - 1 {
			short, long := rows[x], rows[x+1]
			rise, fall := ratio(long.Value, short.Value), ratio(short.Bound, long.Bound)
			if long.LimitS == short.LimitS || rise == nil || fall == nil {
				continue
			}
			out.Pairs++
			if *rise <= 1+longerMargin {
				out.Values++
			}
			if *fall <= 1+longerMargin {
				out.Bounds++
			}
			out.WorstValue, out.WorstBound = max(out.WorstValue, *rise-1), max(out.WorstBound, *fall-1)
		}
	}
	if out.Pairs == 0 {
		return nil
	}
	return &out
}

// writeLonger writes what Longer found.
func (r *GapReport) writeLonger(b *bufio.Writer) {
	if l := r.Longer(); l != nil {
		fmt.Fprintf(b, "\nWith the next longer limit, %d of %d values were no higher and %d bounds no lower, "+
			"but for 0.1 %%; at worst %s and %s %%.\n",
			l.Values, l.Pairs, l.Bounds, Percent(&l.WorstValue), Percent(&l.WorstBound))
	}
}
