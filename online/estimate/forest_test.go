package estimate_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/hare-sched/hare/online/estimate"
)

// readForest reads the data of which testdata/forest.py recorded scikit-learn's error.
func readForest(t *testing.T) *estimate.Table {
	t.Helper()
	file, err := os.Open("testdata/forest.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	width := len(rows[0]) - 1
	table := &estimate.Table{Columns: make([][]float64, width), Categories: make([]bool, width)}
	for _, row := range rows {
		for c, text := range row {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			if c < width {
				table.Columns[c] = append(table.Columns[c], v)
			} else {
				table.Target = append(table.Target, v)
			}
		}
	}
	return table
}

// The out-of-bag error is that of scikit-learn's forest on the same data, within 2 %.
func TestForestAgreesWithScikitLearn(t *testing.T) {
	text, err := os.ReadFile("testdata/forest.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Trees    int     `json:"trees"`
		MinLeaf  int     `json:"min_leaf"`
		OutOfBag float64 `json:"out_of_bag"`
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	table, mean := readForest(t), 0.0
	const seeds = 3
	for seed := range uint64(seeds) {
		f, err := estimate.NewForest(table, estimate.ForestConfig{Trees: want.Trees, MinLeaf: want.MinLeaf, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		mean += f.OutOfBag() / seeds
	}
	t.Logf("out-of-bag error %.4f, scikit-learn's %.4f", mean, want.OutOfBag)
	if math.Abs(mean/want.OutOfBag-1) > 0.02 {
		t.Errorf("out-of-bag error %.4f, scikit-learn's %.4f", mean, want.OutOfBag)
	}
	// The last column has no order: to say so makes the error no greater.
	table.Categories[len(table.Categories)-1] = true
	f, err := estimate.NewForest(table, estimate.ForestConfig{Trees: want.Trees, MinLeaf: want.MinLeaf})
	if err != nil || f.OutOfBag() > mean {
		t.Errorf("%v: out-of-bag error with categories %.4f", err, f.OutOfBag())
	}
}

// Predictions lie between the least and the greatest target, the same seed gives the same
// forest, and nothing that is finite makes it fail.
func TestForestTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		n := rapid.IntRange(1, 80).Draw(t, "n")
		table := &estimate.Table{Columns: make([][]float64, 3), Categories: []bool{false, true, rng.IntN(2) == 0}}
		least, most := math.Inf(1), math.Inf(-1)
		for range n {
			for c := range table.Columns {
				table.Columns[c] = append(table.Columns[c], float64(rng.IntN(5)))
			}
			y := rng.NormFloat64()
			table.Target = append(table.Target, y)
			least, most = math.Min(least, y), math.Max(most, y)
		}
		cfg := estimate.ForestConfig{Trees: 5, MinLeaf: 1 + rng.IntN(4), Columns: rng.IntN(4), Seed: 3}
		f, err := estimate.NewForest(table, cfg)
		if err != nil {
			t.Fatal(err)
		}
		g, err := estimate.NewForest(table, cfg)
		if err != nil || f.OutOfBag() != g.OutOfBag() {
			t.Fatalf("%v: the same seed gives %v and %v", err, f.OutOfBag(), g.OutOfBag())
		}
		row := []float64{float64(rng.IntN(7)), float64(rng.IntN(7)), 9}
		if p := f.Predict(row); p != g.Predict(row) || p < least-1e-9 || p > most+1e-9 {
			t.Fatalf("%v is not from %v to %v", p, least, most)
		}
	})
	for _, bad := range []*estimate.Table{
		{},
		{Target: []float64{1}},
		{Target: []float64{1}, Columns: [][]float64{{}}, Categories: []bool{false}},
		{Target: []float64{1}, Columns: [][]float64{{1}}},
	} {
		if _, err := estimate.NewForest(bad, estimate.ForestConfig{}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

func ExampleNewForest() {
	table := &estimate.Table{Categories: []bool{true, false}, Columns: make([][]float64, 2)}
	for i := range 200 { // jobs of category 1 take ten times as long, and time grows with the GPUs
		category, gpus := float64(i%2), float64(i%7)
		table.Columns[0] = append(table.Columns[0], category)
		table.Columns[1] = append(table.Columns[1], gpus)
		table.Target = append(table.Target, math.Pow(10, category)*(1+gpus))
	}
	f, err := estimate.NewForest(table, estimate.ForestConfig{})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.0f %.0f\n", f.Predict([]float64{0, 3}), f.Predict([]float64{1, 3}))
	// Output:
	// 4 40
}

// Rules that know the class beat those that do not, where the class tells the size.
func TestCompare(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var jobs []estimate.PastJob
	for i := range 600 {
		name := rng.IntN(5)
		jobs = append(jobs, estimate.PastJob{ArrivalS: float64(100 * i), DurationS: math.Pow(4, float64(name)) *
			math.Exp(0.2*rng.NormFloat64()), Labels: []estimate.Label{{"name", fmt.Sprint(name)}, {"user", "u"}}})
	}
	scores, n, err := estimate.Compare(jobs, estimate.ForestConfig{Trees: 20})
	if err != nil || n != 300 || len(scores) != 7 {
		t.Fatalf("%v, %d of %d", err, len(scores), n)
	}
	for i, s := range scores {
		knows := i != 0 && i != 4
		if knows != (s.RMS < 0.4) || s.Median > s.RMS*1.2 || knows != (s.Within2 > 0.9) {
			t.Errorf("%+v", s)
		}
	}
	if _, _, err := estimate.Compare(nil, estimate.ForestConfig{}); err != nil {
		t.Error(err)
	}
}
