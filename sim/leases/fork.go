package leases

import (
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare/sim"
)

// Fork says how several copies of a job progress, in the way of HadarE (arXiv 2503.10918): the copies
// train at the same time on nodes of their own. A tracker divides the steps that the job has left among the
// copies by their rates; at the end of the lease the steps done are added up, the parameters of the copies are
// averaged, and the next lease divides what is left then. A step that a copy has not done by the end of its
// lease, or that a fault takes, is divided again, so that no step is lost or done twice.
type Fork struct {
	// MergeS is the time that exchanging and averaging the parameters takes at the end of a lease with
	// several copies, in seconds.
	MergeS float64
	// Efficiency is e, from 0 to 1: a step of c copies counts as (1 + e (c − 1)) / c steps of one copy,
	// because copies that average once a lease learn less from as many steps. Zero means 1: steps of
	// copies count in full. How much a model really learns is not simulated.
	Efficiency float64
	// Guess is the factor by which the tracker misjudges the rate of a job on a type until the first lease
	// of a copy there has measured it; nil means 1. It must be above 0.
	Guess func(j *Job, gpuType int) float64
}

// leaseCopy is a copy of a job in a lease.
type leaseCopy struct {
	kind  int
	steps int64   // done by the end of the lease
	busyS float64 // from the start of the lease to the end of its steps, and merging
}

// SplitSteps divides a number of steps in proportion to rates, in whole units: the shares add up to steps, and
// each is less than a unit from its proportion, but for the steps that are not a whole unit, which go to the
// first. Units left over go to the greatest fractions, of equal ones to the first. Rates must be above 0, and
// the unit at least 1. It costs O(n log n).
func SplitSteps(steps int64, rates []float64, unit int64) []int64 {
	shares, sum := make([]int64, len(rates)), 0.0
	for _, r := range rates {
		sum += r
	}
	units, given := steps/unit, int64(0)
	fraction, order := make([]float64, len(rates)), make([]int, len(rates))
	for i, r := range rates {
		exact := float64(units) * (r / sum)
		shares[i] = min(int64(exact), units-given)
		fraction[i], order[i] = exact-float64(shares[i]), i
		given += shares[i]
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case fraction[a] > fraction[b]:
			return -1
		case fraction[a] < fraction[b]:
			return 1
		}
		return 0
	})
	for i := 0; given < units; i++ {
		shares[order[i%len(order)]]++
		given++
	}
	for i := range shares {
		shares[i] *= unit
	}
	shares[0] += steps % unit
	return shares
}

// checkCopies checks a hold of several copies whose GPUs are there, free and of types with a rate.
func (le *leaseEngine) checkCopies(h Hold, j *View) error {
	refuse := func(gpu, format string, args ...any) error {
		return &sim.AllocationError{Policy: le.name, NowS: le.nowS, GPU: gpu, Reason: fmt.Sprintf(format, args...)}
	}
	if !le.forks {
		return refuse("of any type", "job %.60q got %d copies from a policy that forks no jobs", j.ID, h.Copies)
	}
	var nodes [][2]int
	for c := range h.Copies {
		gpus := h.GPUs[c*j.GPUs : (c+1)*j.GPUs]
		node := le.nodeOf(gpus[0])
		if le.spread(gpus) || slices.Contains(nodes, node) {
			return refuse(le.gpuName(gpus[0], node[0]), "copy %d of job %.60q needs %d GPUs of a node without another "+
				"of its copies", c, j.ID, j.GPUs)
		}
		nodes = append(nodes, node)
	}
	return nil
}

// startCopies gives the copies of a job their GPUs and steps for the round.
func (le *leaseEngine) startCopies(slot int32, kind int, h Hold) {
	u := &le.units[slot]
	spec, j := &le.specs[u.a], &le.jobs[u.a]
	ran := le.rounds > 0 && u.heldIn == le.rounds
	before := slices.Clone(u.held)
	switch {
	case ran && slices.Equal(u.held, h.GPUs) && u.copies == h.Copies:
		le.stats.extended++
	case ran:
		le.preempted(u)
	}
	if !ran {
		before = nil
	}
	u.held = append(u.held[:0], h.GPUs...)
	u.heldType, u.heldIn, u.copies = kind, le.rounds+1, h.Copies
	le.stats.leases++
	le.putOn(u, h.GPUs)
	if j.startS < 0 {
		j.startS = le.nowS
	}

	unit, left := int64(1), spec.Steps-j.stepsRun
	if spec.Rounds {
		unit = int64(spec.GPUs)
	}
	counts := le.cfg.Fork.counts(h.Copies)
	needed := left
	if counts < 1 {
		needed = min(maxLeaseSteps, int64(math.Ceil(float64(left)/counts)))
		needed += (unit - needed%unit) % unit
	}
	shares := SplitSteps(needed, le.expectedRates(u.a, h), unit)
	l := lease{slot: slot, kind: kind, endS: le.nowS, copies: make([]leaseCopy, h.Copies)}
	var done int64
	lost := 0
	for c := range l.copies {
		gpus := h.GPUs[c*spec.GPUs : (c+1)*spec.GPUs]
		restartS := le.cfg.RestartS
		if !slices.ContainsFunc(gpus, func(g int32) bool { return !slices.Contains(before, g) }) {
			restartS = 0
		}
		le.stats.switchS += restartS * float64(len(gpus))
		copied := leaseCopy{kind: le.typeOf(gpus[0]), steps: shares[c]}
		rate := spec.Rate[copied.kind]
		if most := rate * (le.cfg.LeaseS - restartS - le.cfg.Fork.MergeS); most < float64(copied.steps) {
			copied.steps = whole(spec, int64(most))
		}
		copied.busyS = restartS + float64(copied.steps)/rate + le.cfg.Fork.MergeS
		le.ranOn[[2]int{int(u.a), copied.kind}] = true
		if le.faults != nil && le.cutCopy(spec, &copied, gpus, restartS) {
			lost++
		}
		done += copied.steps
		l.endS = max(l.endS, le.nowS+copied.busyS)
		l.copies[c] = copied
	}
	if l.steps[0] = done; counts < 1 {
		l.steps[0] = min(left, whole(spec, int64(float64(done)*counts)))
		if done >= needed {
			l.steps[0] = left
		}
	}
	if l.cut = lost == h.Copies; lost > 0 && !l.cut {
		le.stats.cut++
	}
	le.running = append(le.running, l)
}

// counts is what a step of so many copies counts.
func (lf *Fork) counts(copies int) float64 {
	if lf.Efficiency == 0 {
		return 1
	}
	return (1 + lf.Efficiency*float64(copies-1)) / float64(copies)
}

// expectedRates are the rates of the copies as the tracker takes them to be.
func (le *leaseEngine) expectedRates(job int32, h Hold) []float64 {
	spec := &le.specs[job]
	if le.ranOn == nil {
		le.ranOn = map[[2]int]bool{}
	}
	rates := make([]float64, h.Copies)
	for c := range rates {
		k := le.typeOf(h.GPUs[c*spec.GPUs])
		rates[c] = spec.Rate[k]
		if le.cfg.Fork.Guess != nil && !le.ranOn[[2]int{int(job), k}] {
			rates[c] *= le.cfg.Fork.Guess(spec, k)
		}
	}
	return rates
}

// cutCopy ends a copy at the time at which one of its GPUs leaves, if that is before its end, and reports whether
// it did. Its parameters are gone then, and with them the steps of the lease, unless each step is kept.
func (le *leaseEngine) cutCopy(spec *Job, c *leaseCopy, gpus []int32, restartS float64) bool {
	atS := math.Inf(1)
	for _, g := range gpus {
		atS = min(atS, le.faults.gpus[g].now.fromS)
	}
	if atS >= le.nowS+c.busyS {
		return false
	}
	ranS := atS - le.nowS
	kept := int64(0)
	if le.cfg.KeepSteps {
		kept = min(c.steps, whole(spec, int64(max(0, spec.Rate[c.kind]*(ranS-restartS)))))
	} else {
		le.stats.lostS += ranS * float64(len(gpus))
	}
	c.steps, c.busyS = kept, ranS
	return true
}
