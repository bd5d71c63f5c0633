package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare/sim"
)

// label names a row within its group and X.
func (row *Row) label() string { return strings.TrimSpace(row.Variant + " " + row.Scheme) }

// Rows averages the runs of each group, X, variant and scheme. The rows are sorted by
// group; the rows of a group are in the order of the runs.
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
			rows = append(rows, Row{Group: x.Group, Variant: x.Variant, Scheme: x.Scheme, X: x.X,
				Knows: string(x.Policy.Knows)})
		}
		y, m := &rows[i], x.Metrics
		y.Instances++
		for _, add := range []struct {
			to *sim.Stat
			x  float64
		}{
			{&y.WeightedJCTS, m.WeightedJCTS}, {&y.Lower, x.Lower},
			{&y.MeanJCTS, m.MeanJCTS}, {&y.MeanOver, x.MeanOver}, {&y.P90JCTS, m.P90JCTS}, {&y.P99JCTS, m.P99JCTS},
			{&y.MakespanS, m.MakespanS}, {&y.Utilization, 100 * m.Utilization}, {&y.MeanRho, m.MeanRho}, {&y.Jain,
				m.Jain},
			{&y.Switches, float64(m.Switches)}, {&y.P99Slowdown, m.P99Slowdown}, {&y.WorstSlowdown, x.WorstSlowdown},
			{&y.LongJCTS, x.LongJCTS}, {&y.Within, 100 * m.Share(withinS)}, {&y.ShareThen, 100 * x.ShareThen},
		} {
			add.to.Add(add.x)
		}
		if x.Bound > 0 {
			y.BoundS.Add(x.Bound)
			y.Ratio.Add(x.Ratio)
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		return slices.Index(groups, a.Group) - slices.Index(groups,
			b.Group)
	})
	return rows
}

var (
	weighted  = measure{name: "weighted JCT", of: func(y *Row) sim.Stat { return y.WeightedJCTS }, bounded: true}
	overBound = measure{name: "value/bound", digits: 3, of: func(y *Row) sim.Stat { return y.Ratio },
		bounded: true}
	lower    = measure{name: "first policy lower by %", digits: 1, of: func(y *Row) sim.Stat { return y.Lower }}
	makespan = measure{name: "makespan s", of: func(y *Row) sim.Stat { return y.MakespanS }}
	use      = measure{name: "use %", of: func(y *Row) sim.Stat { return y.Utilization }}
	meanJCT  = measure{name: "mean JCT s", of: func(y *Row) sim.Stat { return y.MeanJCTS }}
	meanOver = measure{name: "mean JCT over the first's", digits: 2,
		of: func(y *Row) sim.Stat { return y.MeanOver }}
	longJCT       = measure{name: "mean JCT of long jobs s", of: func(y *Row) sim.Stat { return y.LongJCTS }}
	p99Slowdown   = measure{name: "p99 slowdown", digits: 1, of: func(y *Row) sim.Stat { return y.P99Slowdown }}
	worstSlowdown = measure{name: "worst slowdown", digits: 1, of: func(y *Row) sim.Stat { return y.WorstSlowdown }}
	within        = measure{name: "within 25 min %", digits: 1, of: func(y *Row) sim.Stat { return y.Within }}
	then          = measure{name: "when the first has 90.5 %", digits: 1,
		of: func(y *Row) sim.Stat { return y.ShareThen }}
)

// pictured returns the measures that have a picture each.
func (info *Info) pictured() []measure {
	if info.measures != nil {
		return info.measures
	}
	return []measure{weighted, overBound}
}

// tabled returns the measures that have a table each if X is swept: those with a picture,
// the value over the bound, and the comparison with the first scheme.
func (info *Info) tabled() []measure {
	all := slices.Clone(info.pictured())
	for _, m := range []measure{overBound, lower} {
		if !slices.ContainsFunc(all, func(o measure) bool { return o.name == m.name }) {
			all = append(all, m)
		}
	}
	return all
}

// columns returns the measures of a table if X is not swept.
func (info *Info) columns() []measure {
	all := []measure{
		weighted, overBound, lower, meanJCT,
		{name: "p90 s", of: func(y *Row) sim.Stat { return y.P90JCTS }},
		makespan, use,
		{name: "mean rho", digits: 2, of: func(y *Row) sim.Stat { return y.MeanRho }},
		{name: "Jain", digits: 2, of: func(y *Row) sim.Stat { return y.Jain }},
		{name: "switches", of: func(y *Row) sim.Stat { return y.Switches }},
	}
	for _, m := range info.measures {
		if !slices.ContainsFunc(all, func(o measure) bool { return o.name == m.name }) {
			all = append(all, m)
		}
	}
	return all
}

// cell returns a figure as text. With interval, a mean of several values has its confidence
// interval.
func cell(s sim.Stat, digits int, interval bool) string {
	switch {
	case s.N == 0:
		return "–"
	case s.N > 1 && interval:
		return fmt.Sprintf("%.*f ± %.*f", digits, s.Mean, digits, s.Half)
	}
	return fmt.Sprintf("%.*f", digits, s.Mean)
}
