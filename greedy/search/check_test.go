package search

import (
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/model"
)

// checkGangs returns the first fault of a plan. It expands every round of every gang and rigid
// job and, for each class, checks every instant at which work starts.
func checkGangs(m *model.Model, p *place.Plan) error {
	type held struct{ from, to, width int64 }
	byClass := make([][]held, len(m.Classes))
	for i := range m.Jobs {
		j := &m.Jobs[i]
		id := m.Instance.Jobs[i].ID
		if j.Sync == hare.Relaxed {
			for _, b := range p.Jobs[i] {
				byClass[b.Class] = append(byClass[b.Class], held{b.StartUs, b.EndUs(), int64(b.Width)})
			}
			continue
		}
		dur := map[int]int64{}
		for _, md := range j.Modes {
			dur[md.Type] = md.DurationUs()
		}
		type round struct{ tasks, start, end int64 }
		rounds := make([]round, j.Rounds)
		for _, b := range p.Jobs[i] {
			k := m.Classes[b.Class].Type
			if d := dur[k]; d == 0 || b.PeriodUs < b.HoldUs || !j.Mix && b.HoldUs != d || b.HoldUs < d ||
				b.Tasks != 1 ||
				b.Width < 1 {
				return fmt.Errorf("%s: block %+v", id, b)
			}
			if j.Sync == hare.Rigid && (b.Round != 0 || b.Rounds != j.Rounds || b.PeriodUs != b.HoldUs ||
				k != m.Classes[p.Jobs[i][0].Class].Type) {
				return fmt.Errorf("%s: not rigid: %+v", id, b)
			}
			byClass[b.Class] = append(byClass[b.Class], held{b.StartUs, b.EndUs(), int64(b.Width)})
			for r := range b.Rounds {
				x := &rounds[b.Round+r]
				start := b.StartUs + r*b.PeriodUs
				if x.tasks > 0 && x.start != start {
					return fmt.Errorf("%s: round %d starts at %d and %d", id, b.Round+r, x.start, start)
				}
				x.tasks += int64(b.Width)
				x.start, x.end = start, start+b.HoldUs
			}
		}
		ready := j.ReleaseUs
		for r, x := range rounds {
			if x.tasks != j.Tasks || x.start < ready {
				return fmt.Errorf("%s: round %d is %+v, ready at %d", id, r, x, ready)
			}
			ready = x.end
		}
		if p.EndUs[i] != ready {
			return fmt.Errorf("%s: ends at %d, said %d", id, ready, p.EndUs[i])
		}
	}
	for c, all := range byClass {
		for _, h := range all {
			fits := false
			for _, w := range m.Classes[c].Windows {
				fits = fits || w.StartUs <= h.from && h.to <= w.EndUs
			}
			used := int64(0)
			for _, o := range all {
				if o.from <= h.from && h.from < o.to {
					used += o.width
				}
			}
			if !fits || used > int64(len(m.Classes[c].GPUs)) {
				return fmt.Errorf("class %d at %d: %d of %d GPUs, in a window: %v", c, h.from, used,
					len(m.Classes[c].GPUs), fits)
			}
		}
	}
	return nil
}
