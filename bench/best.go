package bench

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// Best is the least value and the greatest bound that are known of an instance, with the commands that found
// them. Every value is of a plan that verify accepted, and every bound is certified or, where its command says
// so, of another solver.
type Best struct {
	Instance string
	SHA256   string
	Value    *hare.Amount
	ValueBy  string
	Bound    *hare.Amount
	BoundBy  string
}

//go:embed best.csv
var bestCSV string

// Known are the best values and bounds by the hash of the instance, as bench/best.csv has them.
func Known() (map[string]*Best, error) { return ReadBest(strings.NewReader(bestCSV)) }

var bestColumns = []string{"instance", "instance_sha256", "value", "value_by", "bound", "bound_by"}

// ReadBest reads a table of best values and bounds.
func ReadBest(r io.Reader) (map[string]*Best, error) {
	c := csv.NewReader(r)
	c.FieldsPerRecord = len(bestColumns)
	lines, err := c.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("best values: %w", err)
	}
	if len(lines) == 0 || !slices.Equal(lines[0], bestColumns) {
		return nil, fmt.Errorf("best values: the first line must be %s", strings.Join(bestColumns, ","))
	}
	out := map[string]*Best{}
	for i, f := range lines[1:] {
		b := &Best{Instance: f[0], SHA256: f[1], ValueBy: f[3], BoundBy: f[5]}
		for _, x := range []struct {
			text string
			to   **hare.Amount
		}{{f[2], &b.Value}, {f[4], &b.Bound}} {
			if x.text == "" {
				continue
			}
			a, err := hare.ParseAmount(x.text)
			if err != nil {
				return nil, fmt.Errorf("best values, line %d: %w", i+2, err)
			}
			*x.to = &a
		}
		if b.Value != nil && b.Bound != nil && b.Value.Cmp(*b.Bound) < 0 {
			return nil, fmt.Errorf("best values, line %d: the bound of %s is above its value", i+2, b.Instance)
		}
		out[b.SHA256] = b
	}
	return out, nil
}

// WriteBest writes a table, sorted by the names of the instances.
func WriteBest(w io.Writer, all map[string]*Best) error {
	lines := [][]string{}
	for _, b := range all {
		lines = append(lines, []string{b.Instance, b.SHA256, exact(b.Value), b.ValueBy, exact(b.Bound), b.BoundBy})
	}
	slices.SortFunc(lines, slices.Compare)
	c := csv.NewWriter(w)
	return errors.Join(c.Write(bestColumns), c.WriteAll(lines), c.Error())
}

// Improve takes what the rows of a report found better, each with its command, and returns how many values and
// bounds changed. Bounds of other methods, which are computed in floating point, are not taken.
func (r *GapReport) Improve(all map[string]*Best, command func(*GapRow) string) (changed int) {
	for _, row := range r.Rows {
		b := all[row.SHA256]
		if b == nil {
			b = &Best{Instance: row.Instance, SHA256: row.SHA256}
			all[row.SHA256] = b
		}
		if row.Value != nil && (b.Value == nil || row.Value.Cmp(*b.Value) < 0) {
			b.Value, b.ValueBy = row.Value, command(row)
			changed++
		}
		if row.Method == GapHare && row.Bound != nil && (b.Bound == nil || row.Bound.Cmp(*b.Bound) > 0) {
			b.Bound, b.BoundBy = row.Bound, command(row)
			changed++
		}
	}
	return changed
}

// compare notes how far a row is from the best that is known.
func (row *GapRow) compare(known *Best) {
	if known == nil {
		return
	}
	row.OverBest = gapOf(row.Value, known.Value)
	if under := gapOf(known.Bound, row.Bound); under != nil {
		row.UnderBest = under
	}
}
