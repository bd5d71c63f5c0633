package estimate

// PredictorSnapshot is the state of a Predictor.
type PredictorSnapshot struct {
	Window  []outcome       `json:"window,omitempty"`
	Next    int             `json:"next,omitempty"`
	Classes []classSnapshot `json:"classes,omitempty"` // the one that was used last comes last, as of Levels
	Levels  []levelSnapshot `json:"levels,omitempty"`
	Curves  [kinds]Survival `json:"curves"`
}

// classSnapshot is a class: its key, and the number and the sum of its log sizes and of
// its log estimates.
type classSnapshot struct {
	Key      uint64   `json:"key"`
	Sizes    [2]int64 `json:"sizes"`
	Estimate [2]int64 `json:"estimate"`
}

// levelSnapshot is a level: its key, and its skills.
type levelSnapshot struct {
	Key     uint64   `json:"key"`
	Sizes   [4]int64 `json:"sizes"`
	Offsets [4]int64 `json:"offsets"`
}

// Snapshot returns the state of p, or nil where no job has ended. It shares memory with p.
func (p *Predictor) Snapshot() *PredictorSnapshot {
	if len(p.window) == 0 {
		return nil
	}
	s := &PredictorSnapshot{Window: p.window, Next: p.next, Curves: p.curves}
	for e := p.classes.classes.order.Front(); e != nil; e = e.Next() {
		c := e.Value.(*class)
		s.Classes = append(s.Classes, classSnapshot{c.key, c.sizes.snapshot(), c.estimates.snapshot()})
	}
	for e := p.classes.levels.order.Front(); e != nil; e = e.Next() {
		v := e.Value.(*level)
		s.Levels = append(s.Levels, levelSnapshot{v.key, v.sizes.snapshot(), v.offsets.snapshot()})
	}
	return s
}

// Restore fills an empty Predictor; nil is the snapshot of one. It returns false where the
// snapshot contradicts itself.
func (p *Predictor) Restore(s *PredictorSnapshot) bool {
	if s == nil {
		return true
	}
	if len(s.Window) > maxOutcomes || s.Next < 0 || s.Next > max(0, len(s.Window)-1) || len(s.Classes) > maxClasses ||
		len(s.Levels) > maxLevels {
		return false
	}
	for i := range s.Window {
		if !s.Window[i].valid() {
			return false
		}
		p.count(&s.Window[i], 1)
	}
	for k := range s.Curves {
		if !s.Curves[k].Valid() {
			return false
		}
	}
	for _, c := range s.Classes {
		sizes, ok := restoreMean(c.Sizes, memory, maxLog)
		estimates, alsoOK := restoreMean(c.Estimate, memory, maxLog)
		if !ok || !alsoOK || p.classes.classes.find(c.Key) != nil {
			return false
		}
		*p.classes.class(c.Key) = class{c.Key, sizes, estimates}
	}
	for _, v := range s.Levels {
		sizes, ok := restoreSkill(v.Sizes)
		offsets, alsoOK := restoreSkill(v.Offsets)
		if !ok || !alsoOK || p.classes.levels.find(v.Key) != nil {
			return false
		}
		*p.classes.level(v.Key) = level{v.Key, sizes, offsets}
	}
	p.window, p.next, p.curves = s.Window, s.Next, s.Curves
	return true
}

func (o *outcome) valid() bool {
	for _, v := range append(o.Before[:], o.Size, o.Estimate, o.ClassSize, o.ClassEstimate) {
		if v < 0 || v > maxLog {
			return false
		}
	}
	return o.Size > 0 && o.Before[Plain] > 0
}

func (me *mean) snapshot() [2]int64 { return [2]int64{me.n, me.sum} }

// restoreMean makes a mean of at most n values up to most.
func restoreMean(s [2]int64, n, most int64) (mean, bool) {
	return mean{s[0], s[1]}, s[0] >= 0 && s[0] <= n && s[1] >= 0 && s[1] <= most*fine
}

func (sk *skill) snapshot() [4]int64 {
	return [4]int64{sk.missed.n, sk.missed.sum, sk.plain.n, sk.plain.sum}
}

func restoreSkill(s [4]int64) (skill, bool) {
	missed, ok := restoreMean([2]int64{s[0], s[1]}, skillMemory, maxError*maxError)
	plain, alsoOK := restoreMean([2]int64{s[2], s[3]}, skillMemory, maxError*maxError)
	return skill{missed, plain}, ok && alsoOK
}
