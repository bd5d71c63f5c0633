package text

import (
	"fmt"
	"io"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/whatif"
)

// perMicrosecond is the number of an amount's units, 1e-12 weight-seconds, in a microsecond of a job of weight 1.
var perMicrosecond = big.NewInt(1_000_000)

// times says in hours what a what-if says in weight-seconds.
type times struct {
	objective string
	alike     bool     // every weight is 1, so that weight-seconds are seconds of jobs
	weight    *big.Int // the sum of the weights in micro-units
	spanUs    int64    // from the first release to the last
	same      []bool
	oneType   bool // every job has times for one GPU type alone
}

// newTimes learns what it needs of the base.
func newTimes(inst *hare.Instance) *times {
	ts := &times{objective: inst.Objective, alike: true, oneType: true, weight: new(big.Int)}
	var first, last int64
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		ts.alike = ts.alike && j.WeightMicro == 1_000_000
		ts.oneType = ts.oneType && len(j.On) == 1
		ts.weight.Add(ts.weight, big.NewInt(j.WeightMicro))
		if i == 0 || j.ReleaseUs < first {
			first = j.ReleaseUs
		}
		last = max(last, j.ReleaseUs)
	}
	ts.spanUs = last - first
	return ts
}

// add notes whether a scenario has the jobs and weights of the base. Only then a change is one of the same jobs,
// and has a mean over them.
func (ts *times) add(base, scenario *hare.Instance) {
	ts.same = append(ts.same, slices.EqualFunc(base.Jobs, scenario.Jobs, func(a, b hare.Job) bool {
		return a.ID == b.ID && a.WeightMicro == b.WeightMicro
	}))
}

// objectiveWords name what the figures count, and their unit.
func (ts *times) objectiveWords() (what, unit string) {
	switch {
	case ts.objective == hare.ObjectiveMakespan:
		return "makespan", "seconds"
	case ts.objective == hare.ObjectiveJCTAndTardiness:
		return "weighted completion time and lateness", "weight-seconds"
	case ts.alike:
		return "completion time, summed over the jobs", "seconds"
	}
	return "weighted completion time, summed over the jobs", "weight-seconds"
}

// head prints what the objective is, and the value of the base in hours.
func (ts *times) head(to io.Writer, base *whatif.Line) {
	what, unit := ts.objectiveWords()
	fmt.Fprintf(to, "objective: %s, in %s", what, unit)
	if base.Value != nil {
		us := microseconds(base.Value, false)
		switch {
		case ts.objective == hare.ObjectiveMakespan:
			fmt.Fprintf(to, "; the base: %s", words.Duration(us))
		case ts.objective == hare.ObjectiveWeightedJCT && ts.weight.Sign() > 0:
			fmt.Fprintf(to, "; the base: %s", words.Duration(us))
			fmt.Fprintf(to, ", %s a job%s", words.Duration(ts.mean(base.Value, false)), ts.byWeight())
		}
	}
	fmt.Fprintln(to)
}

func (ts *times) byWeight() string {
	if ts.alike {
		return ""
	}
	return ", by weight"
}

// mean is an amount over the sum of the weights.
func (ts *times) mean(a *hare.Amount, up bool) int64 {
	return divided(a.Big(), ts.weight, up) // both have weights in micro-units
}

// microseconds is an amount in microseconds of a job of weight 1.
func microseconds(a *hare.Amount, up bool) int64 { return divided(a.Big(), perMicrosecond, up) }

// divided is a/b rounded down or up, within an int64.
func divided(a, b *big.Int, up bool) int64 {
	q, rest := new(big.Int).DivMod(a, b, new(big.Int))
	if up && rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	if !q.IsInt64() {
		return int64(q.Sign()) * (1<<63 - 1) // never an int64 that cannot be negated
	}
	return q.Int64()
}

// sentence says by how much the best plan of a scenario changes in hours; "" where that is not proved on both ends.
func (ts *times) sentence(i int, l *whatif.Line) string {
	if ts.objective == hare.ObjectiveJCTAndTardiness || len(l.OptimumChange) != 2 || l.OptimumChange[0] == nil ||
		l.OptimumChange[1] == nil || l.Termination == hare.TerminationInfeasible {
		return ""
	}
	low, high := l.OptimumChange[0], l.OptimumChange[1]
	if low.Sign() == 0 && high.Sign() == 0 {
		return "no change"
	}
	text := between(microseconds(low, false), microseconds(high, true))
	switch same := ts.same[i]; {
	case ts.objective == hare.ObjectiveMakespan:
		return text
	case !same:
		return text + " in all, with other jobs or weights than the base"
	case ts.weight.Sign() > 0:
		text += fmt.Sprintf(" in all, %s a job%s", between(ts.mean(low, false), ts.mean(high, true)),
			ts.byWeight())
	}
	const week = 7 * 86400 * 1_000_000
	if ts.spanUs >= week { // nothing is said of weeks that nobody has seen
		n := func(a *hare.Amount, up bool) int64 {
			return divided(new(big.Int).Mul(a.Big(), big.NewInt(week)),
				new(big.Int).Mul(perMicrosecond, big.NewInt(ts.spanUs)), up)
		}
		text += fmt.Sprintf("; %s a week, of the %s in which jobs arrive", between(n(low, false), n(high, true)),
			words.Duration(ts.spanUs))
	}
	return text
}

// between says a proved change of a time in words, rounded outwards.
func between(low, high int64) string {
	switch {
	case high <= 0:
		return span(-high, -low) + " less"
	case low >= 0:
		return span(low, high) + " more"
	}
	return fmt.Sprintf("from %s less to %s more", words.Duration(words.RoundUp(-low)),
		words.Duration(words.RoundUp(high)))
}

// span says two times, the lesser rounded down and the greater up.
func span(low, high int64) string {
	a, b := words.Duration(words.RoundDown(low)), words.Duration(words.RoundUp(high))
	if a == b {
		return a
	}
	return a + " to " + b
}
