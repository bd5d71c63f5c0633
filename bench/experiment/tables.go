package experiment

import (
	"fmt"
	"slices"
)

// tables returns for each group one table of schemes and measures or, if X is swept, for
// each measure a table of schemes and values of X.
func (r *Report) tables() []table {
	var all []table
	for _, rows := range groups(r.Rows()) {
		if r.Info.axis == "" {
			all = append(all, r.Info.flat(rows))
			continue
		}
		for _, m := range r.Info.tabled() {
			all = append(all, r.Info.pivot(rows, m))
		}
	}
	return all
}

// groups splits the rows, which are sorted by group, into groups.
func groups(rows []Row) [][]Row {
	var all [][]Row
	for len(rows) > 0 {
		n := slices.IndexFunc(rows, func(y Row) bool { return y.Group != rows[0].Group })
		if n < 0 {
			n = len(rows)
		}
		all, rows = append(all, rows[:n]), rows[n:]
	}
	return all
}

// over returns the part of a caption that says over how many instances means are taken.
func over(rows []Row) string {
	if n := rows[0].Instances; n > 1 {
		return fmt.Sprintf("; means over %d instances, ± 95 %% confidence", n)
	}
	return ""
}

// withInterval is the number of columns, from the first, that show confidence intervals.
const withInterval = 4

// flat returns a table with a row for each scheme and a column for each measure.
func (info *Info) flat(rows []Row) table {
	t := table{Caption: rows[0].Group, Heads: []string{"policy", "knows"}, Texts: 2}
	variants := rows[0].Variant != ""
	if variants {
		t.Heads = []string{"variant and policy", "knows", "bound"}
	} else if rows[0].BoundS.N > 0 {
		t.Caption += fmt.Sprintf(": certified bound %.0f", rows[0].BoundS.Mean)
	}
	t.Caption += over(rows)
	columns := info.columns()
	for _, c := range columns {
		t.Heads = append(t.Heads, c.name)
	}
	for i := range rows {
		y := &rows[i]
		cells := []string{y.label(), y.Knows}
		if variants {
			cells = append(cells, cell(y.BoundS, 0, false))
		}
		for n, c := range columns {
			cells = append(cells, cell(c.of(y), c.digits, n < withInterval))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// pivot returns a table with a row for each scheme and a column for each value of X.
func (info *Info) pivot(rows []Row, m measure) table {
	t := table{Caption: rows[0].Group + ": " + m.name + over(rows), Heads: []string{"policy \\ " + info.axis, "knows"},
		Texts: 2}
	var labels []string
	var xs []float64
	for i := range rows {
		if y := &rows[i]; !slices.Contains(xs, y.X) {
			xs = append(xs, y.X)
			t.Heads = append(t.Heads, fmt.Sprintf("%g", y.X))
		}
		if name := rows[i].label(); !slices.Contains(labels, name) {
			labels = append(labels, name)
			cells := []string{name, rows[i].Knows}
			for range rows {
				cells = append(cells, "–")
			}
			t.Rows = append(t.Rows, cells)
		}
	}
	for i := range rows {
		y := &rows[i]
		t.Rows[slices.Index(labels, y.label())][2+slices.Index(xs, y.X)] = cell(m.of(y), m.digits, true)
	}
	if m.name == weighted.name && rows[0].Variant == "" {
		cells := []string{"certified bound", ""}
		for _, v := range xs {
			at := slices.IndexFunc(rows, func(y Row) bool { return y.X == v })
			cells = append(cells, cell(rows[at].BoundS, 0, true))
		}
		t.Rows = append(t.Rows, cells)
	}
	for i := range t.Rows {
		t.Rows[i] = t.Rows[i][:2+len(xs)]
	}
	return t
}
