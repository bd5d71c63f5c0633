package capacity

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

var coverage = flag.String("hare.coverage", "", "an instance: report how often weeks drawn from its first half "+
	"cover those of its second half")

// TestCoverage draws weeks from the first half of a history and reports how many weeks of the second half lie in the
// middle nine tenths of them.
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
	p, err := Request{History: &first, Weeks: 40, Policies: []string{"slurm", "hgittins"}, Seed: 1}.read()
	if err != nil {
		t.Fatal(err)
	}
	g := newGrid(p, Config{Parallel: 2})
	if err := g.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for q := range p.policies {
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
			in, all := 0, 0
			for begin := half + warmUpDays; (begin+7)*dayUs <= last; begin += 7 {
				w := weekOf(&second, begin)
				got, err := p.play(t.Context(), w, &p.options[0], p.policies[q])
				if err != nil {
					t.Fatal(err)
				}
				if v := x.of(g.figures(got)); v >= drawn[1] && v <= drawn[38] {
					in++
				}
				all++
			}
			t.Logf("%s, %s: %d of %d weeks lie between %.0f and %.0f", p.policies[q], x.name, in, all, drawn[1],
				drawn[38])
		}
	}
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
