package sim

import (
	"cmp"
	"slices"
)

// start gives the unit the GPUs for a round.
func (e *leaseEngine) start(slot int32, kind int, gpus []int32) {
	u := &e.units[slot]
	ran := e.rounds > 0 && u.heldIn == e.rounds // in the round before
	var restartS float64
	if ran && slices.Equal(u.held, gpus) {
		e.stats.extended++
	} else {
		if ran {
			e.preempted(u)
		}
		u.held = append(u.held[:0], gpus...)
		restartS = e.cfg.RestartS
	}
	u.heldType, u.heldIn = kind, e.rounds+1
	e.stats.leases++
	l := lease{slot: slot, kind: kind, endS: e.nowS}
	members, n := u.members()
	e.stats.switchS += restartS * float64(len(gpus))
	who := int64(u.a+1)<<32 | int64(u.b+1)
	for _, g := range gpus {
		if e.lastOn[g] != 0 && e.lastOn[g] != who {
			e.stats.switches++
		}
		e.lastOn[g] = who
	}
	for i, number := range members[:n] {
		rate := u.rate[kind]
		if i == 1 {
			rate = u.rateB[kind]
		}
		j := &e.jobs[number]
		l.steps[i] = e.specs[number].Steps - j.stepsRun
		if most := rate * (e.cfg.LeaseS - restartS); most < float64(l.steps[i]) {
			l.steps[i] = whole(&e.specs[number], int64(most))
		}
		l.endS = max(l.endS, e.nowS+restartS+float64(l.steps[i])/rate)
		if j.startS < 0 {
			j.startS = e.nowS
		}
	}
	if e.faults != nil {
		e.cut(&l, gpus, restartS)
	}
	e.running = append(e.running, l)
}

// whole is as many of steps as a job can do: those of whole rounds, where it has
// rounds.
func whole(j *LeaseJob, steps int64) int64 {
	if j.Rounds {
		return steps - steps%int64(j.GPUs)
	}
	return steps
}

// begun sorts the leases that have started and counts gangs that must wait.
func (e *leaseEngine) begun() {
	for _, slot := range e.before {
		if u := &e.units[slot]; u.heldIn != e.rounds+1 {
			e.preempted(u)
		}
	}
	e.ends = e.ends[:0]
	for i := range e.running {
		u := &e.units[e.running[i].slot]
		e.ends = append(e.ends, leaseEnd{e.running[i].endS, u.a, u.b, int32(i)})
	}
	slices.SortFunc(e.ends, func(x, y leaseEnd) int {
		if x.endS != y.endS {
			return falling(x.endS, y.endS)
		}
		if x.b == none && y.b == none {
			return int(x.a - y.a)
		}
		// Pairs after singles.
		return cmp.Or(cmp.Compare(min(x.b, 0), min(y.b, 0)), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
}

func (e *leaseEngine) preempted(u *unit) {
	members, n := u.members()
	for _, number := range members[:n] {
		e.jobs[number].preemptions++
		e.stats.preemptions++
	}
}
