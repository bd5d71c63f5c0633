package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/solver"
)

func gapRow(instance, cell, method string, limit float64, value, bound int64) *GapRow {
	row := &GapRow{Instance: instance, Cell: cell, Method: method, LimitS: limit, Seconds: limit + 0.25,
		BoundHolds: true}
	if value > 0 {
		v := hare.Product(value, 1e12)
		row.Value = &v
	}
	if bound >= 0 {
		b := hare.Product(bound, 1e12)
		row.Bound = &b
	}
	row.Gap = gapOf(row.Value, row.Bound)
	return row
}

func TestGapSummary(t *testing.T) {
	rep := &GapReport{Rows: []*GapRow{
		gapRow("a", "z", GapHare, 2, 110, 100),
		gapRow("a", "z", GapHare, 1, 120, 100),
		gapRow("b", "z", GapHare, 1, 100, 100),
		gapRow("c", "z", GapHare, 1, 130, 100),
		gapRow("d", "z", GapHare, 1, 110, 100),
		gapRow("e", "y", GapHare, 1, 0, 0),   // the row has no plan
		gapRow("f", "x", GapHare, 1, 100, 0), // the row has no useful bound
		gapRow("g", "x", GapHare, 1, 150, 100),
		gapRow("h", "x", GapHare, 1, 101, 100),
		gapRow("a", "z", GapCPSAT, 1, 999, 1),
	}}
	var got []string
	for _, s := range rep.Summary() {
		got = append(got, strings.Join([]string{s.Cell, figure(s.LimitS), figure(float64(s.Instances)),
			Percent(s.Median),
			Percent(s.Worst), figure(s.WorstSeconds)}, " "))
	}
	want := []string{"z 1 4 15.00 30.00 1.25", "z 2 1 10.00 10.00 2.25", "y 1 1 – – 1.25", "x 1 3 50.00 – 1.25"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var text bytes.Buffer
	if err := rep.WriteMarkdown(&text); err != nil {
		t.Fatal(err)
	}
	table := "| z | 4 | 15.00 (30.00) | 10.00 | 250 |\n| y | 1 | – |   | 250 |\n| x | 3 | 50.00 (–) |   | 250 |\n"
	if !strings.Contains(text.String(), table) {
		t.Errorf("no\n%s in\n%s", table, &text)
	}
}

// Longer limits are compared with the next shorter ones of the same instance.
func TestGapLonger(t *testing.T) {
	rep := &GapReport{Rows: []*GapRow{
		gapRow("a", "z", GapHare, 4, 112, 99),
		gapRow("a", "z", GapHare, 1, 120, 100),
		gapRow("a", "z", GapHare, 2, 110, 100),
		gapRow("b", "z", GapHare, 1, 1000, 100),
		gapRow("b", "z", GapHare, 2, 1001, 100),
		gapRow("b", "z", GapHare, 8, 0, 0), // no plan
		gapRow("c", "z", GapHare, 1, 100, 90),
		gapRow("a", "z", GapCPSAT, 8, 999, 1),
	}}
	l := rep.Longer()
	if l == nil || l.Pairs != 3 || l.Values != 2 || l.Bounds != 2 {
		t.Fatalf("got %+v, want 3 pairs, 2 values and 2 bounds", l)
	}
	var text bytes.Buffer
	if err := rep.WriteMarkdown(&text); err != nil {
		t.Fatal(err)
	}
	want := "With the next longer limit, 2 of 3 values were no higher and 2 bounds no lower, but for 0.1 %; " +
		"at worst 1.82 and 1.02 %."
	if !strings.Contains(text.String(), want) {
		t.Errorf("no %q in\n%s", want, &text)
	}
	if l := (&GapReport{Rows: rep.Rows[6:7]}).Longer(); l != nil {
		t.Errorf("one run gave %+v", l)
	}
}

func TestGapComparisons(t *testing.T) {
	blocks, restricted := gapRow("a", "z", GapCPSAT, 1, 150, 50), gapRow("a", "z", GapCPSAT, 1, 140, 90)
	blocks.Model, restricted.Model, restricted.BoundHolds = "tasks", "rounds", false
	rep := &GapReport{Rows: []*GapRow{
		gapRow("a", "z", GapHare, 1, 120, 100), gapRow("a", "z", GapHare, 2, 110, 105),
		gapRow("b", "z", GapHare, 1, 110, 100),
		blocks, restricted, gapRow("a", "z", GapIntervalLP, 60, 0, 80),
	}}
	all := rep.Comparisons()
	if len(all) != 2 {
		t.Fatalf("%d rows", len(all))
	}
	c := all[0]
	if c.Model != "rounds" || signed(c.OverHare) != "+16.67 %" || Percent(c.CPSATGap) != "33.34" ||
		share(c.CPSATBound) != "0.500" || share(c.IntervalBound) != "0.800" {
		t.Errorf("%+v: %s, %s, %s, %s", c, signed(c.OverHare), Percent(c.CPSATGap), share(c.CPSATBound),
			share(c.IntervalBound))
	}
	if c := all[1]; c.OverHare != nil || c.CPSATBound != nil || share(c.IntervalBound) != "0.762" {
		t.Errorf("%+v", c)
	}
}

func TestPercentIsRoundedUp(t *testing.T) {
	for x, want := range map[float64]string{0: "0.00", 0.0001: "0.01", 0.00011: "0.02", 0.25: "25.00", 1.5: "150.00"} {
		if got := Percent(&x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}

func TestParseLimits(t *testing.T) {
	got, err := ParseLimits("2, 0.1,2")
	if err != nil || len(got) != 2 || got[0] != 100*time.Millisecond || got[1] != 2*time.Second {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "0", "-1", "x", "1,,2", "1e9", "0.0000001"} {
		if _, err := ParseLimits(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestRunGap measures one small instance and writes everything.
func TestRunGap(t *testing.T) {
	cases, err := GapSet(GapSixty, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg := GapConfig{Cases: cases[:2], Limits: []time.Duration{100 * time.Millisecond, 200 * time.Millisecond},
		Seed: 1,
		Progress: func(p GapProgress) {
			if p.Total != 4 || p.Left != []time.Duration{600e6, 500e6, 300e6, 200e6}[p.Done] {
				t.Errorf("%+v", p)
			}
			if p.Done == 3 {
				cancel()
			}
		},
		Row: func(*GapRow) { rows++ },
	}
	rep, err := RunGap(ctx, cfg)
	if err != nil || !rep.Interrupted || rows != 3 || len(rep.Rows) != 3 {
		t.Fatalf("%v: %d rows of %+v", err, rows, rep)
	}
	for _, row := range rep.Rows {
		if row.Gap == nil || *row.Gap < 0 || row.Value.Cmp(*row.Bound) < 0 || len(row.Curve) == 0 || row.Seconds > 5 {
			t.Errorf("%+v", row)
		}
	}
	dir := filepath.Join(t.TempDir(), "new")
	if err := rep.WriteDir(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"results.json", "results.csv", "results.md", "gap-20.svg", "within-20.svg"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Contains(text, []byte("relaxed")) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Interrupted bool
		Rows        []struct{ Value, Bound, Gap json.Number }
		Summary     []struct{ Cell string }
	}
	if err := json.Unmarshal(text, &doc); err != nil || !doc.Interrupted || len(doc.Rows) != 3 ||
		len(doc.Summary) != 2 ||
		doc.Rows[0].Value == "" {
		t.Errorf("%v: %+v", err, doc)
	}
}

// TestIntervalLPBounds compares the LP with optima found by brute force.
func TestIntervalLPBounds(t *testing.T) {
	pool, err := lp.NewPool(lp.PoolConfig{Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	if _, err := pool.Ready(context.Background()); err != nil {
		t.Skip(err)
	}
	judged, useful := 0, 0
	for seed := uint64(0); seed < 150; seed++ {
		inst := brute.Random(rand.New(rand.NewPCG(seed, 11)))
		opt, found, done := brute.Optimum(inst, 100_000)
		if !done || !found || len(greedy.Infeasible(model.New(inst))) > 0 {
			continue
		}
		bound, err := IntervalLP(context.Background(), pool, inst)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		optimum := hare.Product(1, opt).Float()
		if *bound > optimum*(1+1e-7)+1e-7 {
			t.Errorf("seed %d: bound %v above the optimum %v", seed, *bound, optimum)
		}
		judged++
		if *bound > optimum/2 {
			useful++
		}
	}
	if judged < 80 || useful < judged/2 {
		t.Errorf("%d judged, %d useful", judged, useful)
	}
}

// TestCPSAT solves tiny instances of each rule with each model.
func TestCPSAT(t *testing.T) {
	c := &CPSAT{Python: "../.venv/bin/python"}
	if _, err := c.Check(context.Background()); err != nil {
		t.Skip(err)
	}
	for _, sync := range []string{"relaxed", "gang", "rigid", "mixed"} {
		inst, err := generator{jobs: 4, gpus: "V100=3,T4=2", sync: sync, span: 20, seed: 7}.instance()
		if err != nil {
			t.Fatal(err)
		}
		for i := range inst.Jobs {
			inst.Jobs[i].Rounds, inst.Jobs[i].Tasks = 2, min(4, inst.Jobs[i].Tasks)
		}
		res, err := solver.Solve(context.Background(), inst, hare.Options{WorkLimit: 2000, Seed: 1},
			solver.Config{Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		models := 0
		for _, model := range cpsatNames {
			if !cpsatModels(inst, model) {
				continue
			}
			models++
			row := &GapRow{Method: GapCPSAT, Model: model}
			if err := c.run(context.Background(), inst, time.Second, 2, 1, row); err != nil {
				t.Fatalf("%s, %s: %v", sync, model, err)
			}
			if row.Value == nil || row.Bound == nil {
				t.Fatalf("%s, %s: %+v", sync, model, row)
			}
			if row.Value.Cmp(*res.Bound) < 0 {
				t.Errorf("%s, %s: value %v below the bound %v", sync, model, row.Value, res.Bound)
			}
			if row.BoundHolds && row.Bound.Cmp(*res.Value) > 0 {
				t.Errorf("%s, %s: bound %v above the plan %v", sync, model, row.Bound, res.Value)
			}
			if row.Termination == "optimal" && row.Value.Sub(*row.Bound).Float() > 0.01 {
				t.Errorf("%s, %s: optimal with %v and %v", sync, model, row.Value, row.Bound)
			}
			t.Logf("%s, %s: %s %v, Hare %v", sync, model, row.Termination, row.Value, res.Value)
		}
		if want := map[string]int{"relaxed": 3, "gang": 2, "rigid": 1, "mixed": 1}[sync]; models != want {
			t.Errorf("%s: %d models", sync, models)
		}
	}
	paused, err := generator{jobs: 4, gpus: "V100=4", sync: "rigid", seed: 7}.instance()
	if err != nil {
		t.Fatal(err)
	}
	Pause(paused, 100)
	row := &GapRow{Model: "whole"}
	if err := c.run(context.Background(), paused, time.Second, 2, 1, row); err != nil ||
		row.Termination != "no model of pausing nodes" {
		t.Errorf("%v, %+v", err, row)
	}
	missing := &CPSAT{Python: "/nowhere/python"}
	if _, err := missing.Check(context.Background()); !errors.Is(err, ErrNoORTools) {
		t.Errorf("got %v", err)
	}
}

func TestWithoutNamesParts(t *testing.T) {
	w, err := ParseAblation([]string{"steps", "search"})
	if err != nil || w != (solver.Ablation{Steps: true, Search: true}) {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := ParseAblation([]string{"luck"}); err == nil || !strings.Contains(err.Error(), "fine-grid") {
		t.Errorf("%v does not name the parts", err)
	}
}
