package estimate

// classTable remembers the classes and the levels that jobs ended in last.
type classTable struct {
	classes recent[class]
	levels  recent[level]
}

// base is what is known of a job without its classes, as logarithms: the plain prediction
// of its size, and the mean estimate of all jobs, 0 where there is none.
type base struct{ size, estimate int64 }

// classView is what a job's classes say of it, as logarithms; 0 where they say nothing.
type classView struct {
	size int64 // the mean size
	// calibrated are the mean size and the mean estimate of the classes that tell best how
	// the one goes with the other.
	calibrated base
}

func (ct *classTable) view(j *Subject, all base) classView {
	sizes := ct.chain(j, all, func(v *level) *skill { return &v.sizes }, func(*class) bool { return true })
	v := classView{size: sizes.size}
	if all.estimate > 0 {
		v.calibrated = ct.chain(j, all, func(v *level) *skill { return &v.offsets },
			func(c *class) bool { return c.estimates.n > 0 })
	}
	return v
}

// chain goes through the job's classes that may be used from wide to narrow, with the
// level of each width that has the best skill, and draws the mean of each towards that of
// the wider one. A level that has predicted worse than plain predictions is passed over.
// It returns zeros where no class is left.
func (ct *classTable) chain(j *Subject, all base, of func(*level) *skill, may func(*class) bool) base {
	size, estimate, found := all.size*fine, all.estimate*fine, false
	for i := 0; i < len(j.keys); {
		var best *class
		var most *skill
		for width := j.keys[i].width; i < len(j.keys) && j.keys[i].width == width; i++ {
			c, v := ct.classes.find(j.keys[i].key), ct.levels.find(j.keys[i].level)
			if c != nil && v != nil && may(c) && of(v).helps() && (best == nil || of(v).beats(most)) {
				best, most = c, of(v)
			}
		}
		if best != nil {
			size, estimate, found = best.sizes.credible(size), best.estimates.credible(estimate), true
		}
	}
	if !found {
		return base{}
	}
	return base{max(1, divide(size, fine)), max(1, divide(estimate, fine))}
}

// add takes note of a job that ended.
func (ct *classTable) add(j *Subject, o *outcome, all base) {
	for _, k := range j.keys {
		v := ct.level(k.level)
		if c := ct.classes.find(k.key); c != nil {
			size := divide(c.sizes.credible(all.size*fine), fine)
			v.sizes.add(o.Size-size, o.Size-all.size)
			if o.Estimate > 0 && c.estimates.n > 0 && all.estimate > 0 {
				offset := size - divide(c.estimates.credible(all.estimate*fine), fine)
				v.offsets.add(o.Size-o.Estimate-offset, o.Size-o.Estimate-(all.size-all.estimate))
			}
		}
		c := ct.class(k.key)
		c.sizes.add(o.Size, memory)
		if o.Estimate > 0 {
			c.estimates.add(o.Estimate, memory)
		}
	}
}

// class finds the class with a key, or makes it.
func (ct *classTable) class(key uint64) *class {
	return ct.classes.use(key, maxClasses, func() *class { return &class{key: key} },
		func(c *class) uint64 { return c.key })
}

// level finds the level with a key, or makes it.
func (ct *classTable) level(key uint64) *level {
	return ct.levels.use(key, maxLevels, func() *level { return &level{key: key} },
		func(v *level) uint64 { return v.key })
}
