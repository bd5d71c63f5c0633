package greedy

// opening is the earliest place for a job on one type from a time on.
type opening struct {
	start int64 // never when there is none, −1 when not searched yet
	open  int64 // how long its GPUs stay free
	width []int64
}

// scout finds places on tracks. It owns scratch memory and takes nothing.
type scout struct {
	found [maxSet]opening
	width []int64 // by pool, of the last slot
	segs  []seg
}

func newScout(p *annealProblem) *scout {
	n := 1
	for _, pools := range p.pools {
		n = max(n, len(pools))
	}
	sc := &scout{width: make([]int64, n)}
	for i := range sc.found {
		sc.found[i].width = make([]int64, n)
	}
	return sc
}

// slot is the earliest start ≥ from at which need GPUs of the track are free
// for hold; their pools are left in sc.width. O(steps) with one pool, O(steps²)
// with several.
func (sc *scout) slot(tr track, from, hold, need int64) int64 {
	if len(tr) == 1 {
		sc.width[0] = need
		start, _ := tr[0].earliest(from, hold, need)
		return start
	}
	for t := from; len(tr) > 0; {
		left := need
		for i, s := range tr {
			sc.width[i] = min(left, s.least(t, t+hold))
			left -= sc.width[i]
		}
		if left == 0 {
			return t
		}
		next := never
		for _, s := range tr {
			next = min(next, s.rise(t))
		}
		if next == never {
			break
		}
		t = next
	}
	return never
}

// emit appends a run of rounds on the GPUs that width counts by pool.
func (sc *scout) emit(k int16, pools int, width []int64, round, rounds, start, end int64) {
	if n := len(sc.segs); pools == 1 && n > 0 && sc.segs[n-1].typ == k && sc.segs[n-1].end == start {
		sc.segs[n-1].rounds += rounds
		sc.segs[n-1].end = end
		return
	}
	for i, w := range width[:pools] {
		if w > 0 {
			sc.segs = append(sc.segs, seg{typ: k, pool: int16(i), width: int32(w), round: round, rounds: rounds, start: start, end: end})
		}
	}
}

// place finds where job j goes by plan: its runs are left in sc.segs. It
// reports false when there is no place.
func (sc *scout) place(j *annealJob, plan *jobPlan, tracks []track) (end int64, ok bool) {
	sc.segs = sc.segs[:0]
	switch plan.kind {
	case split:
		end, ok = sc.piece(j, plan.types[0], tracks, 0, plan.rounds, j.release)
		if ok {
			end, ok = sc.piece(j, plan.types[1], tracks, plan.rounds, j.rounds-plan.rounds, end)
		}
		return end, ok
	case chain:
		return sc.chain(j, plan.uses(), tracks)
	}
	return sc.piece(j, plan.types[0], tracks, 0, j.rounds, j.release)
}

// piece places rounds back to back on type k as early as possible.
func (sc *scout) piece(j *annealJob, k int16, tracks []track, round, rounds, from int64) (end int64, ok bool) {
	hold := rounds * j.dur[k]
	start := sc.slot(tracks[k], from, hold, j.width)
	if start == never {
		return 0, false
	}
	sc.emit(k, len(tracks[k]), sc.width, round, rounds, start, start+hold)
	return start + hold, true
}

// chain places every round on the type of the set where it ends first, which is
// the earliest completion over the set: ending a round earlier never hurts the
// next. A run stays on its type while its GPUs are free and until a faster type
// would end the next round earlier, so the cost grows with the steps of the
// profiles and not with the rounds.
func (sc *scout) chain(j *annealJob, types []int16, tracks []track) (end int64, ok bool) {
	t, round := j.release, int64(0)
	for i := range types {
		sc.found[i].start = -1
	}
	for round < j.rounds {
		best, bestEnd := -1, never
		for i, k := range types {
			o, d := &sc.found[i], j.dur[k]
			if o.start < t {
				if o.start >= 0 && t+d <= o.open {
					o.start = t
				} else {
					sc.open(o, tracks[k], t, d, j.width)
				}
			}
			if o.start == never {
				continue
			}
			if e := o.start + d; e < bestEnd || e == bestEnd && d < j.dur[types[best]] {
				best, bestEnd = i, e
			}
		}
		if best < 0 {
			return 0, false
		}
		o, d := &sc.found[best], j.dur[types[best]]
		n := j.rounds - round
		if o.open != never {
			n = min(n, (o.open-o.start)/d)
		}
		for i, k := range types {
			// Stay while a round here ends no later than one over there.
			if f := &sc.found[i]; i != best && j.dur[k] < d && f.start != never {
				n = min(n, max(1, (f.start+j.dur[k]-o.start)/d))
			}
		}
		t = o.start + n*d
		sc.emit(types[best], len(tracks[types[best]]), o.width, round, n, o.start, t)
		round += n
	}
	return t, true
}

// open searches the earliest opening of a track from t on.
func (sc *scout) open(o *opening, tr track, t, hold, need int64) {
	if len(tr) == 1 {
		start, i := tr[0].earliest(t, hold, need)
		o.start, o.open, o.width[0] = start, never, need
		if start != never {
			o.open = tr[0].until(i, need)
		}
		return
	}
	o.start = sc.slot(tr, t, hold, need)
	if o.start == never {
		return
	}
	copy(o.width, sc.width)
	o.open = never
	for i, s := range tr {
		if w := o.width[i]; w > 0 {
			o.open = min(o.open, s.until(s.index(o.start), w))
		}
	}
}
