package solver

import (
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
)

// The charges of plans lie on a line: up to 1 the number is the share of synchronisation, and what exceeds 1
// is the share of use. Where all jobs are there at the beginning, zeroCharge is best. Where jobs arrive over
// time, the best charge is often about spreadCharge, since jobs that would be late on the busy cluster must
// be planned as late; but it differs between instances. Where the times are multiples of a long unit, rounds
// end together, fewer GPUs idle between them, and unitCharge is better. Fewer jobs than fewForCharges do not
// keep a cluster busy, and zeroCharge serves them as well. Many relaxed jobs without others fill more of what
// each of them leaves idle: the charge falls by chargeFall for each factor e by which the root of jobs · GPUs
// exceeds chargeSize, down to leastZero for jobs that are there at the beginning and to leastSpread for others.
const (
	zeroCharge    = 0.5
	unitCharge    = 0.8
	spreadCharge  = 1.05
	mixedCharge   = 1.2
	chargeSize    = 180
	chargeFall    = 0.45
	leastZero     = 0.2
	leastSpread   = 0.5
	fewForCharges = 20
	longUnit      = 32 // a unit is long if tasks compute for less than so many units on average
)

func chargeAt(x float64) planCharge { return planCharge{min(1, x), max(0, x-1)} }

// at returns the place of the charge on the line.
func (pc planCharge) at() float64 { return pc.sync + pc.idle }

func (pc planCharge) plus(x float64) planCharge { return chargeAt(max(0.05, pc.at()+x)) }

// firstCharge returns the charge of the first plan of a model with relaxed jobs, and whether others may be better.
func (s *solve) firstCharge() (charge planCharge, varies bool) {
	first, last, others := int64(-1), int64(0), false
	total, modes := int64(0), int64(0)
	for i := range s.model.Jobs {
		j := &s.model.Jobs[i]
		for _, md := range j.Modes {
			total, modes = total+md.ComputeUs/1000, modes+1
		}
		if first < 0 || j.ReleaseUs < first {
			first = j.ReleaseUs
		}
		last = max(last, j.ReleaseUs)
		others = others || j.Sync != hare.Relaxed
	}
	size := math.Sqrt(float64(len(s.model.Jobs)) * float64(len(s.model.GPUs)))
	less := chargeFall * math.Log(max(1, size/chargeSize))
	atOnce := last == first || len(s.model.Jobs) < fewForCharges
	switch {
	case others && atOnce:
		return chargeAt(zeroCharge), false
	case others:
		return chargeAt(mixedCharge), false
	case atOnce:
		return chargeAt(max(leastZero, zeroCharge-less)), false
	case total/max(1, modes) < longUnit*greedy.TimeUnit(s.model)/1000:
		return chargeAt(max(leastSpread, unitCharge-less)), true
	}
	return chargeAt(max(leastSpread, spreadCharge-less)), true
}
