package study_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/hare-sched/hare/sim/study"
)

// The tables in CSV and Parquet have the same columns and the figures of the report. A second table
// has the same bytes.
func TestTables(t *testing.T) {
	req := smallTest("gavel:fifo", "hlas")
	req.Repeat, req.First, req.Last = 2, 3, 9
	rep := simulate(t, req, study.Config{Timed: true})
	again := simulate(t, req, study.Config{Parallel: 3})

	var b, c bytes.Buffer
	if err := rep.JobsParquet(&b); err != nil {
		t.Fatal(err)
	}
	if err := again.JobsParquet(&c); err != nil || !bytes.Equal(b.Bytes(), c.Bytes()) {
		t.Error("jobs.parquet differs", err)
	}
	jobs, columns := read(t, b.Bytes())
	b.Reset()
	if err := rep.JobsCSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != len(jobs)+1 || !slices.Equal(rows[0], columns) {
		t.Fatalf("%d rows, %d in Parquet, %v", len(rows), len(jobs), err)
	}
	want := 0
	for i := range rep.Runs {
		want += len(rep.Runs[i].Figures)
	}
	if len(jobs) != want || want < 4*10 {
		t.Errorf("%d jobs, want %d", len(jobs), want)
	}
	unfinished := 0
	for i, row := range jobs {
		for k, name := range columns {
			text := rows[i+1][k]
			switch v := row[name].(type) {
			case nil:
				if text != "" {
					t.Errorf("row %d: %s is %q and null", i, name, text)
				}
			case float64:
				if fmt.Sprintf("%.6f", v) != text {
					t.Errorf("row %d: %s is %s and %v", i, name, text, v)
				}
			default:
				if fmt.Sprint(v) != text {
					t.Errorf("row %d: %s is %s and %v", i, name, text, v)
				}
			}
		}
		if row["state"] == "unfinished" {
			unfinished++
		}
	}
	if unfinished == 0 {
		t.Error("the window of leases ends when its jobs have, and no job is unfinished")
	}

	b.Reset()
	c.Reset()
	if err := rep.SummaryParquet(&b); err != nil {
		t.Fatal(err)
	}
	runs, columns := read(t, b.Bytes())
	if err := rep.SummaryCSV(&c); err != nil {
		t.Fatal(err)
	}
	if rows, err = csv.NewReader(&c).ReadAll(); err != nil || len(rows) != 5 || len(runs) != 4 {
		t.Fatal(len(rows), len(runs), err)
	}
	if want := append(slices.Clone(columns[:len(columns)-1]), "utilization_K80", "utilization_P100",
		"utilization_V100"); !slices.Equal(rows[0], want) {
		t.Errorf("columns\n%v\n%v", rows[0], want)
	}
	for i, row := range runs {
		if row["mean_jct_s"] != rep.Runs[i].MeanJCTS || row["policy"] != rep.Runs[i].Policy ||
			row["seed"] != int64(rep.Runs[i].Seed) || row["verified"] != rep.Runs[i].Verified {
			t.Errorf("%v", row)
		}
		if got := rows[i+1][slices.Index(rows[0],
			"weighted_jct_s")]; got != strconv.FormatFloat(rep.Runs[i].WeightedJCTS,
			'f', -1, 64) {
			t.Errorf("weighted_jct_s %s", got)
		}
		if got := rows[i+1][slices.Index(rows[0], "utilization_V100")]; got != strconv.FormatFloat(
			rep.Runs[i].UtilizationByType["V100"], 'f', -1, 64) {
			t.Errorf("use %s", got)
		}
	}
}

// read returns a Parquet file as rows and columns, by the schema of the file.
func read(t *testing.T, file []byte) (rows []map[string]any, columns []string) {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range f.Schema().Fields() {
		columns = append(columns, c.Name())
	}
	r := parquet.NewGenericReader[map[string]any](bytes.NewReader(file), f.Schema())
	defer func() { _ = r.Close() }()
	rows = make([]map[string]any, f.NumRows())
	for i := range rows {
		rows[i] = map[string]any{}
	}
	if n, _ := r.Read(rows); int64(n) != f.NumRows() {
		t.Fatalf("%d of %d rows", n, f.NumRows())
	}
	return rows, columns
}

// The table fits a terminal and keeps its main columns. The figures of repeats have intervals.
func TestTable(t *testing.T) {
	req := smallTest("gavel:fifo", "gavel:max_min_fairness_perf", "hlas")
	req.Repeat = 3
	rep := simulate(t, req, study.Config{Timed: true})
	for _, width := range []int{0, 200, 120, 100, 80, 60, 10} {
		var b bytes.Buffer
		if err := rep.Table(&b, width); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(b.String(), "\n")
		for _, line := range lines[:4] {
			if n := len([]rune(line)); width >= 80 && n > width {
				t.Errorf("%d columns wide, not %d: %s", n, width, line)
			}
		}
		if !strings.HasPrefix(lines[0], "policy ") || !strings.Contains(lines[0], "mean JCT s") ||
			!strings.Contains(lines[1], " ± ") || !strings.Contains(lines[4], "means of 3 repeats") {
			t.Errorf("%s", b.String())
		}
		if all := strings.Contains(lines[0], "jobs/s"); all != (width == 0 || width == 200) {
			t.Errorf("%d columns: %s", width, lines[0])
		}
	}
	var b bytes.Buffer
	if err := simulate(t, smallTest("gavel:fifo"), study.Config{}).Table(&b, 0); err != nil ||
		strings.Contains(b.String(), "jobs/s") || !strings.Contains(b.String(), "165.210") {
		t.Errorf("%v %s", err, b.String())
	}
}

// The page loads nothing from elsewhere, and text from outside is escaped.
func TestPage(t *testing.T) {
	req := smallTest("gavel:fifo", "hlas")
	req.Trace.Text = []byte(
		"job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight\n<script>,0,A3C,1000,1,1\n1,4,A3C,2000,1,2\n")
	rep := simulate(t, req, study.Config{})
	rep.Notes = append(rep.Notes, "<b>")
	var b, c bytes.Buffer
	if err := rep.Page(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if found := regexp.MustCompile(`(?i)<link|<img|<iframe|src=|href=|url\(|@import`).FindString(page); found != "" {
		t.Errorf("the page has %q", found)
	}
	if n := strings.Count(strings.ToLower(page), "<script"); n != 1 {
		t.Errorf("%d scripts in the page, want the switch between light and dark alone", n)
	}
	for _, want := range []string{"default-src 'none'", `name="viewport"`, "<svg ", ">gavel:fifo</td>", "&lt;b&gt;",
		"<dt>Jain</dt>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if err := rep.CDF(&c); err != nil || !strings.Contains(page, c.String()) {
		t.Error("the page has another picture", err)
	}
}
