package greedy

// replayTo brings the capacity of type k to the state before entry to. It starts from the
// last snapshot not after entry last, or from the state that the trial left.
func (dec *decoder) replayTo(k int16, to, last int) {
	x := &dec.dirty[k]
	i := dec.lastSnapshot(k, last)
	if x.position >= i && x.position <= to {
		i = x.position
	} else {
		dec.restore(k, i)
	}
	for ; i < to; i++ {
		j := dec.seq[k][i].job
		dec.reserve(k, j, dec.currentSegments(j))
	}
	x.position = to
}

// lastSnapshot returns the last entry with a snapshot that is not after last, or 0 if
// there is none.
func (dec *decoder) lastSnapshot(k int16, last int) int {
	for last > 0 && dec.seq[k][last].snapshot == 0 {
		last--
	}
	return max(0, last)
}

// restore sets the capacity of type k to the snapshot before entry i.
func (dec *decoder) restore(k int16, i int) {
	dec.finder.forget(k)
	if i == 0 {
		dec.capacities[k].copyFrom(dec.p.empty[k])
	} else {
		dec.capacities[k].copyFrom(dec.snapshots[dec.seq[k][i].snapshot])
	}
}

// refreshSnapshots takes new snapshots before entries from … to−1 of type k.
func (dec *decoder) refreshSnapshots(k int16, from, to int) {
	last := dec.lastSnapshot(k, from-1)
	dec.restore(k, last)
	for i := last; i < from; i++ {
		j := dec.seq[k][i].job
		dec.reserve(k, j, dec.segments[j])
	}
	for i := from; i < to; i++ {
		e := &dec.seq[k][i]
		if i-last >= dec.snapshotInterval[k] {
			if e.snapshot == 0 {
				e.snapshot = dec.newSnapshot(k)
			}
			dec.snapshots[e.snapshot].copyFrom(dec.capacities[k])
			last = i
		} else if e.snapshot != 0 {
			dec.freeSnapshot(e.snapshot)
			e.snapshot = 0
		}
		dec.reserve(k, e.job, dec.segments[e.job])
	}
}

func (dec *decoder) newSnapshot(k int16) int32 {
	if n := len(dec.freeSnapshots[k]); n > 0 {
		s := dec.freeSnapshots[k][n-1]
		dec.freeSnapshots[k] = dec.freeSnapshots[k][:n-1]
		return s
	}
	dec.snapshots = append(dec.snapshots, make(typeCapacity, len(dec.p.empty[k])))
	dec.snapshotType = append(dec.snapshotType, k)
	return int32(len(dec.snapshots) - 1)
}

func (dec *decoder) freeSnapshot(s int32) {
	if s != 0 {
		k := dec.snapshotType[s]
		dec.freeSnapshots[k] = append(dec.freeSnapshots[k], s)
	}
}
