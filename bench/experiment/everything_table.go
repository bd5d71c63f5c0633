package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/sim"
)

// policyRow is a policy over the traces.
type policyRow struct {
	playedPolicy
	cells []policyCell // by trace
	// overall is the geometric mean over the traces of value over bound, by seed; N is 0 where a trace has
	// none.
	overall sim.Stat
}

// policyCell is a policy on a trace, over the seeds.
type policyCell struct {
	value  sim.Stat // weighted mean JCT, s
	ratio  sim.Stat // over the bound; N is 0 where no bound holds
	reason string   // why there is no run
}

// leastRatio is where a run is taken to be below the bound: sums of a run are floats.
const leastRatio = 1 - 1e-9

// everythingRows are the policies, the nearest to the bound first. Bounds are those of each trace. A run below
// its bound is an error.
func everythingRows(me *Measured) (rows []policyRow, bounds []sim.Stat, err error) {
	type key struct {
		group string
		seed  uint64
	}
	policies, err := playedPolicies()
	if err != nil {
		return nil, nil, err
	}
	boundOf := map[key]float64{}
	at := map[string]int{}
	bounds = make([]sim.Stat, len(drawnTraces))
	logs := map[string]map[uint64][]float64{} // by policy and seed, of the ratios
	for i := range me.runs {
		r := &me.runs[i]
		trace := slices.IndexFunc(drawnTraces, func(t drawnTrace) bool { return t.name == r.group })
		if r.row == boundRow {
			boundOf[key{r.group, r.seed}] = me.figures[i][0].value
			bounds[trace].Add(me.figures[i][0].value)
			continue
		}
		k, ok := at[r.row]
		if !ok {
			k = len(rows)
			at[r.row], logs[r.row] = k, map[uint64][]float64{}
			p := slices.IndexFunc(policies, func(p playedPolicy) bool { return p.row == r.row })
			rows = append(rows, policyRow{playedPolicy: policies[p], cells: make([]policyCell, len(drawnTraces))})
		}
		c := &rows[k].cells[trace]
		if c.reason = me.reasons[i]; c.reason != "" {
			continue
		}
		value := me.figures[i][0].value
		c.value.Add(value)
		if least := boundOf[key{r.group, r.seed}]; least > 0 && drawnTraces[trace].bounded(rows[k].info) {
			ratio := value / least
			if ratio < leastRatio {
				return nil, nil, fmt.Errorf("%s, %s, seed %d: %v s is below the bound of %v s", r.group, r.row, r.seed,
					value, least)
			}
			c.ratio.Add(ratio)
			logs[r.row][r.seed] = append(logs[r.row][r.seed], math.Log(ratio))
		}
	}
	for i := range me.runs { // in the order of the runs, so that the sums are the same each time
		r := &me.runs[i]
		if all := logs[r.row][r.seed]; r.group == drawnTraces[0].name && len(all) == len(drawnTraces) {
			sum := 0.
			for _, x := range all {
				sum += x
			}
			rows[at[r.row]].overall.Add(math.Exp(sum / float64(len(all))))
		}
	}
	slices.SortStableFunc(rows, func(a, b policyRow) int {
		if (a.overall.N > 0) != (b.overall.N > 0) {
			return cmp.Compare(b.overall.N, a.overall.N)
		}
		return cmp.Or(cmp.Compare(a.overall.Mean, b.overall.Mean), cmp.Compare(a.row, b.row))
	})
	return rows, bounds, nil
}

// everythingTables has a row for each policy, and a table of the cells that are empty.
func everythingTables(me *Measured) ([]table, error) {
	rows, bounds, err := everythingRows(me)
	if err != nil {
		return nil, err
	}
	t := table{Heads: []string{"policy", "engine", "knows", "value/bound, all traces"}, Texts: 3}
	t.Caption = "Weighted mean JCT in s and its value over the bound"
	if n := bounds[0].N; n > 1 {
		t.Caption += fmt.Sprintf("; means over %d seeds, ± 95 %% confidence", n)
	}
	why := table{Caption: "Policies that cannot play a trace", Heads: []string{"policy", "trace", "reason"}, Texts: 3}
	first := []string{boundRow, "", "", "1"}
	for k := range drawnTraces {
		t.Heads = append(t.Heads, drawnTraces[k].name+" s", "value/bound")
		first = append(first, cell(bounds[k], 0, true), "1")
	}
	t.Rows = append(t.Rows, first)
	for i := range rows {
		r := &rows[i]
		cells := []string{r.row, string(r.info.Engine), r.knows(), cell(r.overall, 2, true)}
		for k := range r.cells {
			c := &r.cells[k]
			cells = append(cells, cell(c.value, 0, true), cell(c.ratio, 2, true))
			if c.reason != "" {
				why.Rows = append(why.Rows, []string{r.row, drawnTraces[k].name, c.reason})
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	return []table{t, why}, nil
}

// everythingPicture has a row of dots for each policy that has a bound on some trace.
func everythingPicture(me *Measured) (picture, error) {
	rows, _, err := everythingRows(me)
	if err != nil {
		return nil, err
	}
	p := &plot.Dots{Mark: 1, Legend: "weighted JCT over the certified bound (the line at 1), mean over seeds with its " +
		"95 % confidence interval; at the right the mean over the traces"}
	for k := range drawnTraces {
		p.Series = append(p.Series, drawnTraces[k].name)
	}
	for i := range rows {
		r := plot.DotRow{Name: rows[i].row}
		if rows[i].overall.N > 0 {
			r.Note = cell(rows[i].overall, 2, false)
		}
		any := false
		for k := range rows[i].cells {
			ratio, value := rows[i].cells[k].ratio, math.NaN()
			if ratio.N > 0 {
				any, value = true, ratio.Mean
			}
			r.Values, r.Halves = append(r.Values, value), append(r.Halves, ratio.Half)
		}
		if any {
			p.Rows = append(p.Rows, r)
		}
	}
	return p, nil
}
