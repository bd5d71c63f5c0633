package place

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// Time grids are used if horizon × classes is at most maxGridCells and tasks are at most
// maxGridHold units of time long on average.
const (
	maxGridCells = 1 << 20
	maxGridHold  = 512
)

// minUnits is the least number of units in a horizon if releases are rounded.
const minUnits = 2000

// TimeUnit returns the largest unit of time, in µs, that divides all compute and synchronisation times of m; 1 without
// jobs. It takes O(jobs · types · log).
func TimeUnit(m *model.Model) int64 {
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
	return max(1, unit)
}

// commonUnit returns the unit of TimeUnit. If it does not divide all releases and windows, a smaller
// unit is returned, so that rounding them costs little within horizon. It takes O(jobs ·
// types + windows · log).
func commonUnit(m *model.Model, horizon int64) int64 {
	unit := TimeUnit(m)
	if unit == 1 {
		return 1
	}
	exact := true
	for i := range m.Jobs {
		exact = exact && m.Jobs[i].ReleaseUs%unit == 0 && m.Jobs[i].DeadlineUs%unit == 0
	}
	for c := range m.Classes {
		for _, w := range m.Classes[c].Windows {
			exact = exact && w.StartUs%unit == 0 && (w.EndUs == hare.Forever || w.EndUs%unit == 0)
		}
	}
	for f := int64(2); !exact && unit > max(1, horizon/minUnits) && f <= 7; {
		if unit%f == 0 {
			unit /= f
		} else {
			f++
		}
	}
	return unit
}

// Coarsen returns m with all times in units of so many µs, or nil if time grids would
// not suit a search up to horizon: they hold relaxed jobs only. Releases are rounded up
// and windows inwards, so that a plan for the result is a plan for m. Deadlines are rounded down.
func Coarsen(m *model.Model, horizon int64) (*model.Model, int64) {
	unit := commonUnit(m, horizon)
	if horizon/unit*int64(len(m.Classes)) > maxGridCells {
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
	if hold > modes*maxGridHold {
		return nil, 1
	}
	x := *m
	x.Jobs = append([]model.Job(nil), m.Jobs...)
	for i := range x.Jobs {
		j := &x.Jobs[i]
		j.ReleaseUs, j.DeadlineUs = (j.ReleaseUs+unit-1)/unit, j.DeadlineUs/unit
		j.Modes = append([]model.Mode(nil), j.Modes...)
		for k := range j.Modes {
			j.Modes[k].ComputeUs /= unit
			j.Modes[k].SyncUs /= unit
		}
	}
	x.Classes = append([]model.Class(nil), m.Classes...)
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

// ToUnits returns p with times in units of so many µs, or nil if a time is not a
// multiple.
func (p *Plan) ToUnits(unit int64) *Plan {
	exact := true
	part := func(t int64) int64 {
		exact = exact && t%unit == 0
		return t / unit
	}
	x := p.mapTimes(part)
	if !exact {
		return nil
	}
	return x
}

// FromUnits returns p, whose times are in units of so many µs, with times in µs.
func (p *Plan) FromUnits(unit int64) *Plan {
	return p.mapTimes(func(t int64) int64 { return t * unit })
}

// mapTimes returns a deep copy of p with f applied to all times.
func (p *Plan) mapTimes(f func(t int64) int64) *Plan {
	x := &Plan{Jobs: make([][]room.Block, len(p.Jobs)), EndUs: make([]int64, len(p.EndUs))}
	for i := range p.Jobs {
		x.EndUs[i] = f(p.EndUs[i])
		x.Jobs[i] = append([]room.Block(nil), p.Jobs[i]...)
		for n := range x.Jobs[i] {
			b := &x.Jobs[i][n]
			b.StartUs, b.PeriodUs, b.HoldUs = f(b.StartUs), f(b.PeriodUs), f(b.HoldUs)
		}
	}
	return x
}
