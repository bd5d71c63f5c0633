package greedy

// firstFree returns the first time ≥ from at which need GPUs are free, or never.
func (fn stepFunction) firstFree(from, need int64) int64 {
	if from == never {
		return never
	}
	i := fn.index(from)
	for ; fn[i].free < need; from = fn[i].from {
		if i++; i == len(fn) {
			return never
		}
	}
	return from
}

// firstFreeFor returns the first time ≥ from at which need GPUs are free for hold, or never.
func (fn stepFunction) firstFreeFor(from, hold, need int64) int64 {
	if hold == 0 || from == never {
		return fn.firstFree(from, need)
	}
	from, _ = fn.earliest(from, hold, need)
	return from
}

// gapAfter is gapAt for a block that ends at end.
func (fn stepFunction) gapAfter(end int64) int64 {
	i := fn.index(end)
	if fn[i].from < end {
		i++
	}
	return fn.gapAt(i, end)
}

// gapAt returns how far a block's end is from the next change of the free GPUs, which is at
// step i, or from the last change if there is none after it.
func (fn stepFunction) gapAt(i int, end int64) int64 {
	if i == len(fn) {
		return end - fn[i-1].from
	}
	return fn[i].from - end
}

// earliestBefore is earliest with a limit: the start is never if it would be after limit. It
// also returns the least number of free GPUs over the block, and the gap after it.
func (fn stepFunction) earliestBefore(from, hold, need, limit int64) (start, free, gap int64) {
	if from > limit {
		return never, 0, 0
	}
	i := fn.index(from)
	start = from
	for {
		for fn[i].free < need {
			i++
			if i == len(fn) {
				return never, 0, 0
			}
			start = fn[i].from
		}
		if start > limit {
			return never, 0, 0
		}
		free = fn[i].free
		end := start + hold
		j := i + 1
		for j < len(fn) && fn[j].from < end && fn[j].free >= need {
			free = min(free, fn[j].free)
			j++
		}
		if j == len(fn) || fn[j].from >= end {
			return start, free, fn.gapAt(j, end)
		}
		i = j
	}
}
