package greedy

// wind brings the track of type k to the state before entry to, from the last
// snapshot not after entry last or from where the trial left it.
func (d *decoder) wind(k int16, to, last int) {
	x := &d.dirty[k]
	i := d.snapshot(k, last)
	if x.pos >= i && x.pos <= to {
		i = x.pos
	} else {
		d.back(k, i)
	}
	for ; i < to; i++ {
		d.take(k, d.current(d.seq[k][i].job))
	}
	x.pos = to
}

// snapshot is the last entry with a snapshot, not after last; 0 where there is
// none.
func (d *decoder) snapshot(k int16, last int) int {
	for last > 0 && d.seq[k][last].snap == 0 {
		last--
	}
	return max(0, last)
}

// back brings the track of type k to the snapshot before entry i.
func (d *decoder) back(k int16, i int) {
	if i == 0 {
		d.tracks[k].copyFrom(d.p.empty[k])
	} else {
		d.tracks[k].copyFrom(d.snaps[d.seq[k][i].snap])
	}
}

// resnap takes new snapshots before entries from … to−1 of type k.
func (d *decoder) resnap(k int16, from, to int) {
	last := d.snapshot(k, from-1)
	d.back(k, last)
	for i := last; i < from; i++ {
		d.take(k, d.segs[d.seq[k][i].job])
	}
	for i := from; i < to; i++ {
		e := &d.seq[k][i]
		if i-last >= d.gap[k] {
			if e.snap == 0 {
				e.snap = d.newSnap(k)
			}
			d.snaps[e.snap].copyFrom(d.tracks[k])
			last = i
		} else if e.snap != 0 {
			d.release(e.snap)
			e.snap = 0
		}
		d.take(k, d.segs[e.job])
	}
}

func (d *decoder) newSnap(k int16) int32 {
	if n := len(d.unused[k]); n > 0 {
		s := d.unused[k][n-1]
		d.unused[k] = d.unused[k][:n-1]
		return s
	}
	d.snaps = append(d.snaps, make(track, len(d.p.empty[k])))
	d.owner = append(d.owner, k)
	return int32(len(d.snaps) - 1)
}

func (d *decoder) release(s int32) {
	if s != 0 {
		k := d.owner[s]
		d.unused[k] = append(d.unused[k], s)
	}
}
