package greedy

import (
	"github.com/hare-sched/hare"
)

// Cells serve where horizon × classes is at most gridCells, and tasks are at
// most gridHold units of time long on average.
const (
	gridCells = 1 << 20
	gridHold  = 512
)

// roundedUnits is into how many units a horizon is cut at least where releases
// are rounded.
const roundedUnits = 2000

// commonUnit is the largest unit of time, in µs, of which all compute and
// synchronisation times of m are multiples; smaller, where releases or windows
// are none, so that rounding them within horizon costs little. O(jobs · types
// + windows · log).
func commonUnit(m *hare.Model, horizon int64) int64 {
	common := func(unit, t int64) int64 {
		for t != 0 {
			unit, t = t, unit%t
		}
		return unit
	}
	unit := int64(0)
	for i := range m.Jobs {
		for _, md := range m.Jobs[i].Modes {
			unit = common(common(unit, md.ComputeUs), md.SyncUs)
		}
		if unit == 1 {
			return 1
		}
	}
	unit = max(1, unit)
	exact := true
	for i := range m.Jobs {
		exact = exact && m.Jobs[i].ReleaseUs%unit == 0
	}
	for c := range m.Classes {
		for _, w := range m.Classes[c].Windows {
			exact = exact && w.StartUs%unit == 0 && (w.EndUs == hare.Forever || w.EndUs%unit == 0)
		}
	}
	for f := int64(2); !exact && unit > max(1, horizon/roundedUnits) && f <= 7; {
		if unit%f == 0 {
			unit /= f
		} else {
			f++
		}
	}
	return unit
}

// coarse is m with all times in units of so many µs, or nil where cells would
// not serve a search up to horizon: relaxed jobs alone may be placed on them.
// Releases are rounded up and windows inwards: a plan for it is one for m.
func coarse(m *hare.Model, horizon int64) (*hare.Model, int64) {
	unit := commonUnit(m, horizon)
	if horizon/unit*int64(len(m.Classes)) > gridCells {
		return nil, 1
	}
	hold, modes := int64(0), int64(0)
	for i := range m.Jobs {
		if m.Jobs[i].Sync != hare.Relaxed {
			return nil, 1
		}
		for _, md := range m.Jobs[i].Modes {
			hold, modes = hold+md.ComputeUs/unit, modes+1
		}
	}
	if hold > modes*gridHold {
		return nil, 1
	}
	x := *m
	x.Jobs = append([]hare.ModelJob(nil), m.Jobs...)
	for i := range x.Jobs {
		j := &x.Jobs[i]
		j.ReleaseUs = (j.ReleaseUs + unit - 1) / unit
		j.Modes = append([]hare.Mode(nil), j.Modes...)
		for k := range j.Modes {
			j.Modes[k].ComputeUs /= unit
			j.Modes[k].SyncUs /= unit
		}
	}
	x.Classes = append([]hare.Class(nil), m.Classes...)
	for c := range x.Classes {
		var ws []hare.Window
		for _, w := range x.Classes[c].Windows {
			w.StartUs = (w.StartUs + unit - 1) / unit
			if w.EndUs != hare.Forever {
				w.EndUs /= unit
			}
			if w.StartUs < w.EndUs {
				ws = append(ws, w)
			}
		}
		x.Classes[c].Windows = ws
	}
	return &x, unit
}

// in is p with times in units of so many µs; nil where one is no multiple.
func (p *Plan) in(unit int64) *Plan {
	exact := true
	part := func(t int64) int64 {
		exact = exact && t%unit == 0
		return t / unit
	}
	x := p.mapped(part)
	if !exact {
		return nil
	}
	return x
}

// from is p, whose times are in units of so many µs, in µs.
func (p *Plan) from(unit int64) *Plan {
	return p.mapped(func(t int64) int64 { return t * unit })
}

// mapped is a deep copy of p with f of its times.
func (p *Plan) mapped(f func(t int64) int64) *Plan {
	x := &Plan{Jobs: make([][]Block, len(p.Jobs)), EndUs: make([]int64, len(p.EndUs))}
	for i := range p.Jobs {
		x.EndUs[i] = f(p.EndUs[i])
		x.Jobs[i] = append([]Block(nil), p.Jobs[i]...)
		for n := range x.Jobs[i] {
			b := &x.Jobs[i][n]
			b.StartUs, b.PeriodUs, b.HoldUs = f(b.StartUs), f(b.PeriodUs), f(b.HoldUs)
		}
	}
	return x
}
