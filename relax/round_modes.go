package relax

import (
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// addRoundModes gives relaxed job i prices of its own: tight and loose rounds in place of the usual ones
// (docs/inside/bounds.md#branch-prices-of-jobs-and-trees, "Relaxed jobs in one leaf"). A type on which a loose round
// takes no longer than a tight one keeps the usual rounds, which prove more there.
func (pr *problem) addRoundModes(i int) {
	j, mj := &pr.jobs[i], &pr.specs[i]
	tau := float64((pr.pathUs[i] - mj.ReleaseUs) / mj.Rounds)
	var modes []mode
	for x := range j.modes {
		md := j.modes[x]
		most := float64(model.MostRoom(pr.caps[md.kind]))
		least := md.p*max(2, math.Ceil(j.tasks/most)) + md.s
		for y := range j.modes {
			if y != x {
				least = min(least, max(md.d, j.modes[y].d))
			}
		}
		d := max(md.d, tau, least)
		if j.tasks > 1 && d == md.d || d > hare.MaxExact {
			modes = append(modes, md)
			continue
		}
		tight := md
		tight.top, tight.row = len(pr.rows), len(pr.rows)
		pr.rows = append(pr.rows, row{md.kind, mj.Tasks, i + 1})
		if j.tasks <= most {
			modes = append(modes, tight)
		}
		if j.tasks > 1 {
			loose := md
			loose.d, loose.each, loose.held = d, d, j.tasks*md.p/d
			loose.s, loose.ahead = max(md.d, d-md.p), max(md.p, d-md.d)
			modes = append(modes, loose)
		}
	}
	j.modes = modes
	sortModes(j.modes)
	j.setPerRate()
}

// ahead lets trailing minima from a on see prices that come so much later.
func ahead(steps []trailingStep, by, a float64) []trailingStep {
	if by == 0 {
		return steps
	}
	n := 0
	for _, s := range steps {
		if s.start = max(a, s.start-by); n > 0 && steps[n-1].start == s.start {
			n--
		}
		steps[n] = s
		n++
	}
	return steps[:n]
}

// wideRounds is the share of the GPUs of its fastest type that a round of a job takes, on average over GPU-time, from
// which on prices of jobs pay where some jobs are relaxed: on 48 instances of 20 to 80 jobs on two types of 4 to 32
// GPUs, bounds rose by up to 6 % where it was greater, and hardly where it was less.
const wideRounds = 0.25

// WideRounds reports whether the rounds of jobs are so wide that prices of jobs pay where some jobs are relaxed.
func WideRounds(m *model.Model) bool {
	all, wide := 0.0, 0.0
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if len(j.Modes) == 0 {
			continue // the job has no GPU, as the solve will say
		}
		fast := &j.Modes[0]
		for x := range j.Modes {
			if j.Modes[x].DurationUs() < fast.DurationUs() {
				fast = &j.Modes[x]
			}
		}
		work := float64(j.Rounds) * float64(j.Tasks) * float64(fast.DurationUs())
		most := max(1, model.MostRoom(m.Capacity(int(fast.Type))))
		all += work
		wide += work * min(1, float64(j.Tasks)/float64(most))
	}
	return wide >= wideRounds*all
}
