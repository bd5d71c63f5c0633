package capacity

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

var coverage = flag.String("hare.coverage", "", "an instance: report how often weeks drawn from its first half "+
	"cover those of its second half")

// TestCoverage draws weeks from the first half of a history and reports how many weeks of the second half lie in the
// middle nine tenths of them, as they are and with more jobs than the first half tells of.
func TestCoverage(t *testing.T) {
	if *coverage == "" {
		t.Skip("give -args -hare.coverage=INSTANCE")
	}
	f, err := os.Open(*coverage)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	inst, err := wire.DecodeInstance(f, wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for i := range inst.Jobs {
		last = max(last, inst.Jobs[i].ReleaseUs)
	}
	half := last / dayUs / 2
	first, second := *inst, *inst
	first.Jobs, second.Jobs = nil, nil
	for _, j := range inst.Jobs {
		if j.ReleaseUs < half*dayUs {
			first.Jobs = append(first.Jobs, j)
		} else {
			second.Jobs = append(second.Jobs, j)
		}
	}
	p, err := read(&capacitydoc.Request{Instance: &first, Weeks: 40, Policies: []string{"slurm", "hgittins"}})
	if err != nil {
		t.Fatal(err)
	}
	g := &grid{plan: p, cfg: Config{Parallel: 2}}
	if err := g.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	covered, all := coverageOf(t, g, &second, half+warmUpDays, last)
	if 2*covered < all {
		t.Errorf("%d of %d figures of real weeks lie in the middle nine tenths of drawn ones", covered, all)
	}
	for _, j := range second.Jobs[:len(second.Jobs):len(second.Jobs)] {
		if r := rand.New(rand.NewPCG(2, uint64(j.ReleaseUs))); r.IntN(10) < 3 {
			j.ID += "+"
			second.Jobs = append(second.Jobs, j)
		}
	}
	slices.SortStableFunc(second.Jobs, func(a, b hare.Job) int { return cmp.Compare(a.ReleaseUs, b.ReleaseUs) })
	t.Log("with three of ten jobs twice:")
	coverageOf(t, g, &second, half+warmUpDays, last)
}

// coverageOf plays the whole weeks of a history from a day on, and returns how many of their figures lie in the middle
// nine tenths of the drawn weeks, and how many there are.
func coverageOf(t *testing.T, g *grid, inst *hare.Instance, first, lastUs int64) (covered, all int) {
	for q := range g.policies {
		var weeks []*Figures
		for begin := first; (begin+7)*dayUs <= lastUs; begin += 7 {
			w, err := g.play(t.Context(), weekOf(inst, begin), &g.options[0], g.policies[q])
			if err != nil {
				t.Fatal(err)
			}
			weeks = append(weeks, g.figures(w))
		}
		for _, x := range []struct {
			name string
			of   func(*Figures) float64
		}{{"jobs", func(f *Figures) float64 { return float64(f.Jobs) }},
			{"mean wait", func(f *Figures) float64 { return f.MeanWaitS }},
			{"p95 wait", func(f *Figures) float64 { return f.P95WaitS }},
			{"mean completion", func(f *Figures) float64 { return f.MeanCompletionS }}} {
			var drawn []float64
			for _, w := range g.cells[q].weeks {
				drawn = append(drawn, x.of(w))
			}
			slices.Sort(drawn)
			low, high, in := drawn[1], drawn[len(drawn)-2], 0
			for _, w := range weeks {
				if v := x.of(w); v >= low && v <= high {
					in++
				}
			}
			t.Logf("%s, %s: %d of %d weeks lie between %.0f and %.0f", g.policies[q], x.name, in, len(weeks), low, high)
			covered, all = covered+in, all+len(weeks)
		}
	}
	return covered, all
}

// weekOf is a week of a history as it was, with the days before it as warm-up.
func weekOf(inst *hare.Instance, begin int64) *drawn {
	w := &drawn{beginUs: warmUpDays * dayUs}
	for _, j := range inst.Jobs {
		at := j.ReleaseUs - (begin-warmUpDays)*dayUs
		if at < 0 || at >= (warmUpDays+7)*dayUs {
			continue
		}
		if j.ReleaseUs = at; at < w.beginUs {
			w.first++
		}
		w.jobs = append(w.jobs, j)
	}
	return w
}
