package experiment

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/hare-sched/hare/plot"
)

// Size returns the number of runs, which is Progress.Total.
func (m Measurement) Size(cfg Config) (int, error) {
	runs, err := m.prepare(&cfg)
	return len(runs), err
}

func (m Measurement) prepare(cfg *Config) ([]measured, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Policies != nil || cfg.Parameters != nil || cfg.Instances != nil || cfg.PlanLatencyUs != 0 {
		return nil, fmt.Errorf("experiment %s compares settings of its own: leave out policies, parameters, instances "+
			"and the latency of plans", m.Name)
	}
	cfg.Scale, cfg.FirstSeed = max(1, cfg.Scale), max(1, cfg.FirstSeed)
	if cfg.Repeat == 0 {
		cfg.Repeat = 5
	}
	return m.plan(cfg)
}

// Run makes the runs. The same configuration gives the same figures. Of Config, Solver, Scale, Repeat,
// FirstSeed, Parallel, Unfinished and Progress count; others are refused or have no effect.
func (m Measurement) Run(ctx context.Context, cfg Config) (*Measured, error) {
	runs, err := m.prepare(&cfg)
	if err != nil {
		return nil, err
	}
	out := &Measured{Measurement: m, runs: runs, figures: make([][]figure, len(runs)), reasons: make([]string,
		len(runs))}
	kept, err := openUnfinished(&cfg, m.Name, runs)
	if err != nil {
		return nil, fmt.Errorf("experiment %s: %w", m.Name, err)
	}
	defer kept.close()
	w := &work{ctx: ctx, cfg: &cfg, total: len(runs)}
	err = w.each(len(runs), func(i int) error {
		if r, ok := kept.of(i); ok {
			out.figures[i], out.reasons[i] = r.figures(), r.Reason
			w.skip()
			return nil
		}
		w.begin("%s, seed %d", runs[i].row, runs[i].seed)
		found, err := runs[i].run(ctx)
		var cannot *cannotPlay
		if errors.As(err, &cannot) {
			out.reasons[i], err = cannot.reason, nil
		}
		if err != nil {
			return fmt.Errorf("%s, %s, seed %d: %w", runs[i].group, runs[i].row, runs[i].seed, err)
		}
		out.figures[i] = found
		return kept.add(&runs[i], found, out.reasons[i])
	})
	if err != nil {
		return nil, fmt.Errorf("experiment %s: %w", m.Name, err)
	}
	return out, nil
}

// tables has a table for each group, with a row for the runs of a name and means over seeds.
func (me *Measured) tables() ([]table, error) {
	if me.Measurement.tables != nil {
		return me.Measurement.tables(me)
	}
	var all []table
	for i := 0; i < len(me.runs); {
		group := me.runs[i].group
		t := table{Caption: group, Heads: []string{"setting", "runs"}, Texts: 1}
		for _, f := range me.figures[i] {
			t.Heads = append(t.Heads, f.name)
		}
		for i < len(me.runs) && me.runs[i].group == group {
			n := 1
			for i+n < len(me.runs) && me.runs[i+n].group == group && me.runs[i+n].row == me.runs[i].row {
				n++
			}
			cells := []string{me.runs[i].row, fmt.Sprint(n)}
			for k, f := range me.figures[i] {
				var values []float64
				for _, row := range me.figures[i : i+n] {
					values = append(values, row[k].value)
				}
				cells = append(cells, overSeeds(values, f.digits))
			}
			t.Rows = append(t.Rows, cells)
			i += n
		}
		all = append(all, t)
	}
	return all, nil
}

// overSeeds is the mean of values with their range, where they differ.
func overSeeds(values []float64, digits int) string {
	sum := 0.
	for _, v := range values {
		sum += v
	}
	text := func(v float64) string { return fmt.Sprintf("%.*f", digits, v) }
	mean, low, high := text(sum/float64(len(values))), text(slices.Min(values)), text(slices.Max(values))
	if math.IsNaN(sum) {
		return "–"
	}
	if low == high {
		return mean
	}
	return fmt.Sprintf("%s (%s to %s)", mean, low, high)
}

// Markdown writes the tables.
func (me *Measured) Markdown(w io.Writer) error {
	tables, err := me.tables()
	if err != nil {
		return err
	}
	return writeMarkdown(w, me.Measurement.Title, me.Measurement.Text, me.Measurement.Published, tables)
}

// CSV writes a header and a line for each figure of each run.
func (me *Measured) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	lines := [][]string{{"group", "setting", "seed", "figure", "value"}}
	for i, r := range me.runs {
		for _, f := range me.figures[i] {
			lines = append(lines, []string{r.group, r.row, fmt.Sprint(r.seed), f.name, fmt.Sprintf("%.6f", f.value)})
		}
	}
	return c.WriteAll(lines)
}

// Write writes NAME.csv and NAME.md into a folder, which it makes if necessary, and NAME.html, NAME-1.svg
// and NAME-1.png where the measurement has a picture. It removes the file of an unfinished run, and
// returns the paths of the files.
func (me *Measured) Write(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	var files []string
	put := func(ending string, write func(io.Writer) error) error {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return err
		}
		name := filepath.Join(dir, me.Measurement.Name+ending)
		files = append(files, name)
		return os.WriteFile(name, b.Bytes(), 0o666)
	}
	err := errors.Join(put(".csv", me.CSV), put(".md", me.Markdown))
	if err == nil && me.Measurement.picture != nil {
		var p picture
		if p, err = me.Measurement.picture(me); err == nil {
			options := plot.Options{Title: me.Measurement.Title, Width: 1000}
			err = errors.Join(put(".html", me.HTML),
				put("-1.svg", func(w io.Writer) error { return p.SVG(w, options) }),
				put("-1.png", func(w io.Writer) error { return p.PNG(w, options) }))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	return files, nil
}
