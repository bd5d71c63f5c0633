package text

import (
	"fmt"
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/plot"
)

// Intervals returns the proved intervals of the scenarios, to draw.
func (a *Answer) Intervals() (out []plot.Interval) {
	number := func(a *hare.Amount) float64 {
		if a == nil {
			return math.NaN()
		}
		return a.Float()
	}
	for i, l := range a.Lines {
		if l == nil || len(l.OptimumChange) != 2 {
			continue
		}
		x := plot.Interval{Name: a.Label(i, l), Low: number(l.OptimumChange[0]), High: number(l.OptimumChange[1]),
			Value: number(l.ValueChange)}
		if l.Pruned != nil && *l.Pruned {
			x.Note = "pruned"
		} else if l.Value == nil {
			x.Note = l.Termination
		} else if l.Jobs != nil {
			x.Note = fmt.Sprintf("%s gain, %d lose", words.Count(l.Jobs.Gain, "job"), l.Jobs.Lose)
		}
		out = append(out, x)
	}
	return out
}
