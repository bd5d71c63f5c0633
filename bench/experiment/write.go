package experiment

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Write writes NAME.csv, NAME.md, NAME.html and the pictures NAME-N.svg and NAME-N.png into
// a folder, which it makes if necessary, and returns the paths of the files.
func (r *Report) Write(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	var files []string
	put := func(ending string, write func(io.Writer) error) error {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return err
		}
		name := filepath.Join(dir, r.Info.Name+ending)
		files = append(files, name)
		return os.WriteFile(name, b.Bytes(), 0o666)
	}
	err := errors.Join(put(".csv", r.CSV), put(".md", r.Markdown), put(".html", r.HTML))
	for i, p := range r.pictures() {
		n := fmt.Sprintf("-%d", i+1)
		err = errors.Join(err,
			put(n+".svg", func(w io.Writer) error { return p.SVG(w, r.options(i)) }),
			put(n+".png", func(w io.Writer) error { return p.PNG(w, r.options(i)) }))
	}
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	return files, nil
}

// CSV writes a header and a line for each run.
func (r *Report) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	lines := [][]string{{
		"group", "x", "variant", "seed", "instance", "scheme", "policy", "knows", "weighted_jct_s", "bound_s",
		"value_over_bound", "first_lower_percent",
		"mean_jct_s", "mean_jct_over_first", "p50_jct_s", "p90_jct_s", "p99_jct_s", "makespan_s", "utilization",
		"mean_wait_s", "p99_wait_s", "mean_slowdown",
		"p99_slowdown", "worst_slowdown", "long_jobs_jct_s", "mean_rho", "worst_rho", "jain", "switches",
		"share_within_25_min", "share_when_first_has_90_5",
	}}
	f := func(x float64) string { return strconv.FormatFloat(x, 'f', 6, 64) }
	for _, x := range r.Runs {
		m := x.Metrics
		lines = append(lines, []string{
			x.Group, strconv.FormatFloat(x.X, 'g', -1, 64), x.Variant, strconv.FormatUint(x.Seed,
				10), x.Instance, x.Scheme, x.Policy.Name, string(x.Policy.Knows),
			f(m.WeightedJCTS), f(x.Bound), f(x.Ratio), f(x.Lower), f(m.MeanJCTS), f(x.MeanOver), f(m.P50JCTS),
			f(m.P90JCTS), f(m.P99JCTS), f(m.MakespanS),
			f(m.Utilization), f(m.MeanWaitS), f(m.P99WaitS), f(m.MeanSlowdown), f(m.P99Slowdown), f(x.WorstSlowdown),
			f(x.LongJCTS), f(m.MeanRho), f(m.WorstRho),
			f(m.Jain), strconv.FormatInt(m.Switches, 10), f(m.Share(withinS)), f(x.ShareThen),
		})
	}
	return c.WriteAll(lines)
}

// Markdown writes the tables, with means over instances.
func (r *Report) Markdown(w io.Writer) error {
	return writeMarkdown(w, r.Info.Title, r.Info.Text, r.Info.Published, r.tables())
}

func writeMarkdown(w io.Writer, title, text, published string, tables []table) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# %s\n\n%s\n%s\n", title, text, published)
	for _, t := range tables {
		fmt.Fprintf(b, "\n%s\n\n| %s |\n|%s\n", t.Caption, strings.Join(t.Heads, " | "), strings.Repeat("---|",
			len(t.Heads)))
		for _, cells := range t.Rows {
			fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
		}
	}
	return b.Flush()
}
