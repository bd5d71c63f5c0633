package search

import (
	"context"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/trace"
)

// benched returns a search over 200 jobs whose first states are evaluated, guided by an
// order and by prices that fall over time.
func benched(b *testing.B, grainUs int64) (*keySearch, *hare.Relaxation) {
	b.Helper()
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: 200, Seed: 3, GrainUs: grainUs})
	if err != nil {
		b.Fatal(err)
	}
	m := model.New(inst)
	start, err := place.Assign(b.Context(), m, place.Order(m, nil, "wspt"), place.Insertion)
	if err != nil {
		b.Fatal(err)
	}
	// Each job runs at an even pace until its end in the first plan.
	rel := &hare.Relaxation{Progress: make([][]hare.Point, len(m.Jobs))}
	last := int64(0)
	for i, e := range start.EndUs {
		rel.Progress[i] = []hare.Point{{TimeUs: float64(room.FirstStart(start.Jobs[i]))},
			{TimeUs: float64(e), Rounds: float64(m.Jobs[i].Rounds)}}
		last = max(last, e)
	}
	const cells = 64
	for x := range int64(cells + 1) {
		rel.GridUs = append(rel.GridUs, last*x/cells)
	}
	for range m.Types {
		row := make([]float64, cells)
		for x := range row {
			row[x] = 0.3 * float64(cells-x) / cells
		}
		rel.Prices = append(rel.Prices, row)
	}
	s := newKeySearch(context.Background(), m, start, &ImproveConfig{Moves: 1, Workers: 1})
	s.chooseResidual(start, make([]bool, len(m.Jobs)))
	s.bestValue = room.Weighted(s.m, s.best.EndUs)
	s.prepare(rel)
	s.evaluateStart(startLambdas[:])
	return s, rel
}

func grains(b *testing.B, f func(b *testing.B, s *keySearch, rel *hare.Relaxation)) {
	for _, c := range []struct {
		name    string
		grainUs int64
	}{{"seconds", 0}, {"microseconds", 1}} {
		b.Run(c.name, func(b *testing.B) {
			s, rel := benched(b, c.grainUs)
			f(b, s, rel)
		})
	}
}

// BenchmarkDecode places 200 jobs by price in the order of keys.
func BenchmarkDecode(b *testing.B) {
	grains(b, func(b *testing.B, s *keySearch, _ *hare.Relaxation) {
		t := &s.trials[0]
		for b.Loop() {
			t.jobs = t.jobs[:0]
			t.evaluate(s, 0)
		}
	})
}

// BenchmarkJustify does one pass of double justification over 200 jobs.
func BenchmarkJustify(b *testing.B) {
	grains(b, func(b *testing.B, s *keySearch, _ *hare.Relaxation) {
		t := &s.trials[0]
		t.jobs = t.jobs[:0]
		t.evaluate(s, 0)
		for b.Loop() {
			t.residual.Justify(context.Background(), t.plan)
		}
	})
}

// BenchmarkTables prepares the tables of values of 200 jobs.
func BenchmarkTables(b *testing.B) {
	grains(b, func(b *testing.B, s *keySearch, rel *hare.Relaxation) {
		for b.Loop() {
			place.NewPriceGuide(s.m, s.unit, rel, s.empty.Big, 2_000_000_000/s.unit, 1)
		}
	})
}
