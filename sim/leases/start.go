package leases

import (
	"cmp"
	"slices"
)

// start gives a unit its GPUs for the round.
func (le *leaseEngine) start(slot int32, kind int, gpus []int32) {
	u := &le.units[slot]
	ran := le.rounds > 0 && u.heldIn == le.rounds // whether the unit ran in the round before
	var restartS float64
	if ran && slices.Equal(u.held, gpus) {
		le.stats.extended++
	} else {
		if ran {
			le.preempted(u)
		}
		u.held = append(u.held[:0], gpus...)
		restartS = le.cfg.RestartS
	}
	u.heldType, u.heldIn, u.copies = kind, le.rounds+1, 0
	le.stats.leases++
	l := lease{slot: slot, kind: kind, endS: le.nowS}
	members, n := u.members()
	le.stats.switchS += restartS * float64(len(gpus))
	le.putOn(u, gpus)
	l.rates = le.ratesOn(u, kind, gpus)
	for i, number := range members[:n] {
		rate := l.rates[i]
		j := &le.jobs[number]
		l.steps[i] = le.specs[number].Steps - j.stepsRun
		if most := rate * (le.cfg.LeaseS - restartS); most < float64(l.steps[i]) {
			l.steps[i] = whole(&le.specs[number], int64(most))
		}
		l.endS = max(l.endS, le.nowS+restartS+float64(l.steps[i])/rate)
		if j.startS < 0 {
			j.startS = le.nowS
		}
	}
	if le.faults != nil {
		le.cut(&l, gpus, restartS)
	}
	le.running = append(le.running, l)
}

// putOn counts the GPUs that change their job.
func (le *leaseEngine) putOn(u *unit, gpus []int32) {
	who := int64(u.a+1)<<32 | int64(u.b+1)
	for _, g := range gpus {
		if le.lastOn[g] != 0 && le.lastOn[g] != who {
			le.stats.switches++
		}
		le.lastOn[g] = who
	}
}

// ratesOn are the rates of the jobs of a unit on its GPUs, of which those of type kind are
// the slowest.
func (le *leaseEngine) ratesOn(u *unit, kind int, gpus []int32) [2]float64 {
	rates := [2]float64{u.rate[kind], u.rateB[kind]}
	spread := le.specs[u.a].SpreadRate
	if u.b != noJob || spread == nil || !le.spread(gpus) {
		return rates
	}
	rates[0] = spread[kind]
	for _, g := range gpus {
		rates[0] = min(rates[0], spread[le.typeOf(g)])
	}
	if le.holds == nil && rates[0] == 0 {
		rates[0] = u.rate[kind]
	}
	return rates
}

// spread reports whether GPUs are on more than one node.
func (le *leaseEngine) spread(gpus []int32) bool {
	for _, g := range gpus[1:] {
		if le.nodeOf(g) != le.nodeOf(gpus[0]) {
			return true
		}
	}
	return false
}

// nodeOf gives the type of a GPU and the number of its node within the type.
func (le *leaseEngine) nodeOf(gpu int32) [2]int {
	k := le.typeOf(gpu)
	return [2]int{k, int(gpu-le.base[k]) / le.cluster.GPUsPerNode(k)}
}

// whole rounds steps down to whole rounds for a job with rounds.
func whole(j *Job, steps int64) int64 {
	if j.Rounds {
		return steps - steps%int64(j.GPUs)
	}
	return steps
}

// sortLeases sorts the leases of the round by their ends, and counts the preempted units.
func (le *leaseEngine) sortLeases() {
	for _, slot := range le.before {
		if u := &le.units[slot]; u.heldIn != le.rounds+1 {
			le.preempted(u)
		}
	}
	le.ends = le.ends[:0]
	for i := range le.running {
		u := &le.units[le.running[i].slot]
		le.ends = append(le.ends, leaseEnd{le.running[i].endS, u.a, u.b, int32(i)})
	}
	slices.SortFunc(le.ends, func(x, y leaseEnd) int {
		if x.endS != y.endS {
			return falling(x.endS, y.endS)
		}
		if x.b == noJob && y.b == noJob {
			return int(x.a - y.a)
		}
		// Pairs come after single jobs.
		return cmp.Or(cmp.Compare(min(x.b, 0), min(y.b, 0)), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
}

func (le *leaseEngine) preempted(u *unit) {
	members, n := u.members()
	for _, number := range members[:n] {
		le.jobs[number].preemptions++
		le.stats.preemptions++
	}
}
