package experiment

import (
	"fmt"
	"slices"
	"strings"
)

// Row is a scheme on the instances of a group, value and variant.
type Row struct {
	Group, Variant, Scheme, Knows string
	X                             float64
	Instances                     int
	// In the units of Run and sim.Metrics.
	WeightedJCTS, BoundS, Ratio, Lower   Stat
	MeanJCTS, MeanOver                   Stat
	P90JCTS, P99JCTS, MakespanS          Stat
	Utilisation, MeanRho, Jain, Switches Stat
	P99Slowdown, WorstSlowdown, LongJCTS Stat
	Within, ShareThen                    Stat
}

// label names a row within its group and X.
func (y *Row) label() string { return strings.TrimSpace(y.Variant + " " + y.Scheme) }

// Rows averages the runs of each group, value, variant and scheme, by group, then
// in the order of the runs.
func (r *Report) Rows() []Row {
	type key struct {
		group, variant, scheme string
		x                      float64
	}
	at := map[key]int{}
	var rows []Row
	var groups []string
	for _, x := range r.Runs {
		k := key{x.Group, x.Variant, x.Scheme, x.X}
		i, ok := at[k]
		if !ok {
			i = len(rows)
			at[k] = i
			if !slices.Contains(groups, x.Group) {
				groups = append(groups, x.Group)
			}
			rows = append(rows, Row{Group: x.Group, Variant: x.Variant, Scheme: x.Scheme, X: x.X, Knows: string(x.Policy.Knows)})
		}
		y, m := &rows[i], x.Metrics
		y.Instances++
		for _, add := range []struct {
			to *Stat
			x  float64
		}{
			{&y.WeightedJCTS, m.WeightedJCTS}, {&y.Lower, x.Lower},
			{&y.MeanJCTS, m.MeanJCTS}, {&y.MeanOver, x.MeanOver}, {&y.P90JCTS, m.P90JCTS}, {&y.P99JCTS, m.P99JCTS},
			{&y.MakespanS, m.MakespanS}, {&y.Utilisation, 100 * m.Utilisation}, {&y.MeanRho, m.MeanRho}, {&y.Jain, m.Jain},
			{&y.Switches, float64(m.Switches)}, {&y.P99Slowdown, m.P99Slowdown}, {&y.WorstSlowdown, x.WorstSlowdown},
			{&y.LongJCTS, x.LongJCTS}, {&y.Within, 100 * m.Share(withinS)}, {&y.ShareThen, 100 * x.ShareThen},
		} {
			add.to.add(add.x)
		}
		if x.Bound > 0 {
			y.BoundS.add(x.Bound)
			y.Ratio.add(x.Ratio)
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return slices.Index(groups, a.Group) - slices.Index(groups, b.Group) })
	return rows
}

// measure is a figure of a row.
type measure struct {
	name   string
	digits int
	of     func(*Row) Stat
	// bounded says that the certified bound is one too, or that 1 is.
	bounded bool
}

var (
	weighted      = measure{name: "weighted JCT", of: func(y *Row) Stat { return y.WeightedJCTS }, bounded: true}
	overBound     = measure{name: "value/bound", digits: 3, of: func(y *Row) Stat { return y.Ratio }, bounded: true}
	lower         = measure{name: "first is lower by %", digits: 1, of: func(y *Row) Stat { return y.Lower }}
	meanJCT       = measure{name: "mean JCT s", of: func(y *Row) Stat { return y.MeanJCTS }}
	meanOver      = measure{name: "mean JCT over the first's", digits: 2, of: func(y *Row) Stat { return y.MeanOver }}
	longJCT       = measure{name: "mean JCT of long jobs s", of: func(y *Row) Stat { return y.LongJCTS }}
	p99Slowdown   = measure{name: "p99 slowdown", digits: 1, of: func(y *Row) Stat { return y.P99Slowdown }}
	worstSlowdown = measure{name: "worst slowdown", digits: 1, of: func(y *Row) Stat { return y.WorstSlowdown }}
	within        = measure{name: "within 25 min %", digits: 1, of: func(y *Row) Stat { return y.Within }}
	then          = measure{name: "when the first has 90.5 %", digits: 1, of: func(y *Row) Stat { return y.ShareThen }}
)

// pictured are the measures that have a picture each.
func (x *Info) pictured() []measure {
	if x.measures != nil {
		return x.measures
	}
	return []measure{weighted, overBound}
}

// columns are the figures of a table.
func (x *Info) columns() []measure {
	all := []measure{
		weighted, overBound, lower, meanJCT,
		{name: "p90 s", of: func(y *Row) Stat { return y.P90JCTS }},
		{name: "makespan s", of: func(y *Row) Stat { return y.MakespanS }},
		{name: "use %", of: func(y *Row) Stat { return y.Utilisation }},
		{name: "mean rho", digits: 2, of: func(y *Row) Stat { return y.MeanRho }},
		{name: "Jain", digits: 2, of: func(y *Row) Stat { return y.Jain }},
		{name: "switches", of: func(y *Row) Stat { return y.Switches }},
	}
	for _, m := range x.measures {
		known := false
		for _, c := range all {
			known = known || c.name == m.name
		}
		if !known {
			all = append(all, m)
		}
	}
	return all
}

// withInterval are how many columns, from the first, print their intervals.
const withInterval = 4

// table is a table a group, ready to be written: its caption, heads and cells.
type table struct {
	Caption string
	Heads   []string
	Rows    [][]string
	// Texts is how many columns from the left are words.
	Texts int
}

func (r *Report) tables() []table {
	var all []table
	rows := r.Rows()
	columns := r.Info.columns()
	swept := r.Info.axis != ""
	for i := range rows {
		y := &rows[i]
		if i == 0 || rows[i-1].Group != y.Group {
			t := table{Caption: y.Group, Texts: 2}
			if swept {
				t.Heads, t.Texts = append(t.Heads, r.Info.axis), 3
			}
			t.Heads = append(t.Heads, "policy", "knows")
			if y.Variant != "" {
				t.Heads[len(t.Heads)-2] = "variant and policy"
			}
			if !swept && y.Variant == "" {
				t.Caption += fmt.Sprintf(": certified bound %.0f", y.BoundS.Mean)
			} else {
				t.Heads = append(t.Heads, "bound")
			}
			for n, c := range columns {
				t.Heads = append(t.Heads, c.name)
				if n < withInterval && y.Instances > 1 {
					t.Heads[len(t.Heads)-1] += " ±"
				}
			}
			if y.Instances > 1 {
				t.Caption += fmt.Sprintf("; means over %d instances, ± 95 %% confidence", y.Instances)
			}
			all = append(all, t)
		}
		t := &all[len(all)-1]
		var cells []string
		if swept {
			cells = append(cells, fmt.Sprintf("%g", y.X))
		}
		cells = append(cells, y.label(), y.Knows)
		if swept || y.Variant != "" {
			cells = append(cells, cell(y.BoundS, 0, false))
		}
		for n, c := range columns {
			cells = append(cells, cell(c.of(y), c.digits, n < withInterval))
		}
		t.Rows = append(t.Rows, cells)
	}
	return all
}

// cell is a figure as text, with its interval where it has one.
func cell(s Stat, digits int, interval bool) string {
	switch {
	case s.n == 0:
		return "–"
	case s.n > 1 && interval:
		return fmt.Sprintf("%.*f ± %.*f", digits, s.Mean, digits, s.Half)
	}
	return fmt.Sprintf("%.*f", digits, s.Mean)
}
