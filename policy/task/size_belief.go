package task

import (
	"encoding/json"
	"math"
	"math/bits"

	"github.com/hare-sched/hare/estimate"
)

// maxObservations is how many of the last jobs that ended a sizeBelief remembers.
const maxObservations = 2048

// observation is a job that ended: its rounds and the time of a round on its fastest
// type.
type observation struct {
	Rounds  int64 `json:"rounds"`
	RoundUs int64 `json:"round_us"`
}

// sizeBelief learns from jobs that ended how long the others will take. Sizes are counted
// in rounds where that explains the jobs that ended better than microseconds do: where
// jobs with longer rounds do not have fewer of them.
type sizeBelief struct {
	ended    []observation
	next     int  // the place of the oldest observation once there are maxObservations
	byRounds bool // by those that had ended when the curve was made
	curve    estimate.Survival
	gone     int  // the jobs that have ended or been cancelled since the curve was made
	learned  bool // whether there are none
	// version counts the curves, from 1 on, for what is computed from them.
	version int64
}

// add remembers a job that ended.
func (sb *sizeBelief) add(o observation) {
	if len(sb.ended) < maxObservations {
		sb.ended = append(sb.ended, o)
	} else {
		sb.ended[sb.next] = o
		sb.next = (sb.next + 1) % maxObservations
	}
}

// roundsExplain reports whether the number of rounds does not fall, or falls by less than
// half, with the length of a round: whether the regression of log rounds on log length
// has a slope above −1/2. It computes with integers, so that all machines agree.
func roundsExplain(all []observation) bool {
	var n, x, y, xx, xy int64
	for _, o := range all {
		if o.Rounds <= 0 || o.RoundUs <= 0 {
			continue
		}
		a, b := log2(o.RoundUs), log2(o.Rounds)
		n, x, y, xx, xy = n+1, x+a, y+b, xx+a*a, xy+a*b
	}
	return n > 0 && 2*(n*xy-x*y)+(n*xx-x*x) > 0
}

// log2 is the binary logarithm of v > 0 in 1/256, rounded down.
func log2(v int64) int64 {
	whole := int64(bits.Len64(uint64(v)) - 1)
	m := uint64(v) << (63 - whole) // in [2^63, 2^64)
	out := whole
	for range 8 {
		high, _ := bits.Mul64(m, m) // in [2^62, 2^64)
		out <<= 1
		if high>>63 == 1 {
			out |= 1
			m = high
		} else {
			m = high << 1
		}
	}
	return out
}

// unit is what a round of a job counts.
func (sb *sizeBelief) unit(j *JobState) int64 {
	if sb.byRounds {
		return 1
	}
	return max(1, j.fastestUs())
}

// attained is what a job has had, in units, or hare.MaxExact where that is more.
func (sb *sizeBelief) attained(j *JobState) int64 { return spanUs(j.round, sb.unit(j)) }

// learnEvery is the share of the jobs that are there, as 1 / learnEvery, that must have
// gone before the curve is made anew, which takes O(jobs log jobs).
const learnEvery = 256

// learn makes the curve anew where a job has gone since, and one for each learnEvery jobs.
func (sb *sizeBelief) learn(l *ListScheduler) {
	if sb.learned || sb.gone*learnEvery < len(l.jobs) && sb.curve.Known() {
		return
	}
	sb.byRounds = roundsExplain(sb.ended)
	var ended, running []int64
	for _, o := range sb.ended {
		if sb.byRounds {
			ended = append(ended, o.Rounds)
		} else {
			ended = append(ended, spanUs(o.Rounds, max(1, o.RoundUs)))
		}
	}
	for _, j := range l.jobs {
		if j.round > 0 {
			running = append(running, sb.attained(j))
		}
	}
	sb.curve = *estimate.NewSurvival(ended, running)
	sb.learned, sb.gone = true, 0
	sb.version++
}

// firstRounds is how many rounds a job is believed to have before any job has ended.
const firstRounds = 8

// roundsLeft is how many rounds a job is expected to have left, at least 1. The job's own
// size is used where the policy knows it.
func (sb *sizeBelief) roundsLeft(j *JobState) int64 {
	if j.rounds > 0 {
		return max(1, j.rounds-j.round)
	}
	if !sb.curve.Known() {
		return max(firstRounds, j.round)
	}
	rest := sb.curve.MeanResidual(sb.attained(j)) / float64(sb.unit(j))
	return max(1, int64(math.Ceil(min(rest, 1<<40))))
}

// beliefSnapshot is the state of a sizeBelief.
type beliefSnapshot struct {
	Ended   []observation     `json:"ended"`
	Next    int               `json:"next"`
	Curve   estimate.Survival `json:"curve"`
	Learned bool              `json:"learned"`
	// Gone and ByRounds are missing where versions before made the curve anew each time.
	Gone     int   `json:"gone,omitempty"`
	ByRounds *bool `json:"by_rounds,omitempty"`
}

func (sb *sizeBelief) snapshot() beliefSnapshot {
	return beliefSnapshot{Ended: sb.ended, Next: sb.next, Curve: sb.curve, Learned: sb.learned, Gone: sb.gone,
		ByRounds: &sb.byRounds}
}

// restore fills an empty belief; false says that the snapshot contradicts itself.
func (sb *sizeBelief) restore(s *beliefSnapshot) bool {
	if len(s.Ended) > maxObservations || s.Next < 0 || s.Gone < 0 || s.Next > max(0, len(s.Ended)-1) || !s.Curve.Valid() {
		return false
	}
	for _, o := range s.Ended {
		if o.Rounds <= 0 || o.RoundUs < 0 {
			return false
		}
	}
	sb.ended, sb.next, sb.curve, sb.learned, sb.version = s.Ended, s.Next, s.Curve, s.Learned, 1
	sb.gone = s.Gone
	if s.ByRounds != nil {
		sb.byRounds = *s.ByRounds
	} else {
		sb.byRounds = roundsExplain(sb.ended)
	}
	return true
}

// observe takes note of a job that is gone.
func (sb *sizeBelief) observe(j *JobState, ended bool) {
	if ended && j.round > 0 {
		sb.add(observation{j.round, j.fastestUs()})
	}
	sb.gone++
	sb.learned = false
}

func (sb *sizeBelief) encode(*ListScheduler) any { return sb.snapshot() }

func (sb *sizeBelief) decode(_ *ListScheduler, state json.RawMessage) bool {
	var s beliefSnapshot
	return json.Unmarshal(state, &s) == nil && sb.restore(&s)
}
