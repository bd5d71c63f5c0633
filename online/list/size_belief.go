package list

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/estimate"
)

// MaxObservations is how many of the last jobs that ended a SizeBelief remembers.
const MaxObservations = 2048

// observation is a job that ended: its rounds and the time of a round on its fastest
// type.
type observation struct {
	Rounds  int64 `json:"rounds"`
	RoundUs int64 `json:"round_us"`
}

// SizeBelief learns from jobs that ended how long the others will take. Sizes are counted
// in rounds where that explains the jobs that ended better than microseconds do: where
// jobs with longer rounds do not have fewer of them.
type SizeBelief struct {
	ended    []observation
	next     int // the place of the oldest observation once there are MaxObservations
	sums     logSums
	byRounds bool    // by those that had ended when the curve was made
	sizes    []int64 // of ended, by byRounds, sorted
	curve    estimate.Survival
	// hints learns what estimates and classes tell, and seen is the number of the last job
	// that was predicted by them.
	hints   estimate.Predictor
	seen    int
	gone    int  // the jobs that have ended or been cancelled since the curve was made
	learned bool // whether there are none
	// version counts the curves, from 1 on, for what is computed from them.
	version int64
}

// add remembers a job that ended.
func (sb *SizeBelief) add(o observation) {
	if len(sb.ended) < MaxObservations {
		sb.ended = append(sb.ended, o)
	} else {
		oldest := sb.ended[sb.next]
		sb.sums.add(oldest, -1)
		at, _ := slices.BinarySearch(sb.sizes, sb.size(oldest))
		sb.sizes = slices.Delete(sb.sizes, at, at+1)
		sb.ended[sb.next] = o
		sb.next = (sb.next + 1) % MaxObservations
	}
	sb.sums.add(o, 1)
	at, _ := slices.BinarySearch(sb.sizes, sb.size(o))
	sb.sizes = slices.Insert(sb.sizes, at, sb.size(o))
}

// size is that of a job that ended, in rounds or in microseconds.
func (sb *SizeBelief) size(o observation) int64 {
	if sb.byRounds {
		return o.Rounds
	}
	return SpanUs(o.Rounds, max(1, o.RoundUs))
}

// countBy says in what sizes are counted.
func (sb *SizeBelief) countBy(rounds bool) {
	sb.byRounds, sb.sizes = rounds, nil
	for _, o := range sb.ended {
		sb.sizes = append(sb.sizes, sb.size(o))
	}
	slices.Sort(sb.sizes)
}

// logSums are sums over jobs that ended, with x the logarithm of the length of a round
// and y that of the number of rounds.
type logSums struct{ n, x, y, xx, xy int64 }

// add adds a job; times is −1 to remove one.
func (ls *logSums) add(o observation, times int64) {
	if o.Rounds <= 0 || o.RoundUs <= 0 {
		return
	}
	x, y := estimate.Log2(o.RoundUs), estimate.Log2(o.Rounds)
	ls.n += times
	ls.x += times * x
	ls.y += times * y
	ls.xx += times * x * x
	ls.xy += times * x * y
}

// roundsExplain reports whether the number of rounds does not fall, or falls by less than
// half, with the length of a round: whether the regression of log rounds on log length
// has a slope above −1/2. It computes with integers, so that all machines agree.
func (ls *logSums) roundsExplain() bool {
	return ls.n > 0 && 2*(ls.n*ls.xy-ls.x*ls.y)+(ls.n*ls.xx-ls.x*ls.x) > 0
}

// plainUs is about what a job takes on its fastest type by the jobs that ended, without
// the job's hints: a geometric mean.
func (sb *SizeBelief) plainUs(j *JobState) int64 {
	switch s := &sb.sums; {
	case s.n == 0:
		return SpanUs(FirstRounds, j.FastestUs())
	case sb.byRounds:
		return SpanUs(estimate.Exp2(s.y/s.n), j.FastestUs())
	default:
		return min(estimate.Exp2((s.x+s.y)/s.n), hare.MaxExact)
	}
}

// unit is what a round of a job counts.
func (sb *SizeBelief) unit(j *JobState) int64 {
	if sb.byRounds {
		return 1
	}
	return max(1, j.FastestUs())
}

// attained is what a job has had, in units, or hare.MaxExact where that is more.
func (sb *SizeBelief) attained(j *JobState) int64 { return SpanUs(j.round, sb.unit(j)) }

// learnEvery is the share of the jobs that are there, as 1 / learnEvery, that must have
// gone before the curve is made again, which takes O(jobs log jobs).
const learnEvery = 256

// Learn makes the curves again where a job has gone since, and one for each learnEvery jobs,
// and predicts the jobs that have hints. Their predictions stay the same until then.
func (sb *SizeBelief) Learn(l *Scheduler) {
	if sb.learned || sb.gone*learnEvery < len(l.jobs) && sb.curve.Known() {
		for i := len(l.jobs) - 1; i >= 0 && l.jobs[i].serial > sb.seen; i-- {
			sb.predict(l.jobs[i])
		}
		sb.seen = l.serial - 1
		return
	}
	if by := sb.sums.roundsExplain(); by != sb.byRounds {
		sb.countBy(by)
	}
	var running []int64
	for _, j := range l.jobs {
		if j.round > 0 {
			running = append(running, sb.attained(j))
		}
	}
	sb.curve = *estimate.NewSurvival(sb.sizes, running)
	var hinted []estimate.Running
	for _, j := range l.jobs {
		if j.subject != nil && j.round > 0 && j.FastestUs() > 0 {
			hinted = append(hinted, estimate.Running{Subject: j.subject, AttainedUs: SpanUs(j.round, j.FastestUs()),
				PlainUs: sb.plainUs(j)})
		}
	}
	sb.hints.Learn(hinted)
	for _, j := range l.jobs {
		sb.predict(j)
	}
	sb.seen = l.serial - 1
	sb.learned, sb.gone = true, 0
	sb.version++
}

// predict notes what a job's hints say by the last curves.
func (sb *SizeBelief) predict(j *JobState) {
	j.prediction = estimate.Prediction{}
	if j.subject != nil && j.FastestUs() > 0 {
		j.prediction = sb.hints.Predict(j.subject, sb.plainUs(j))
	}
}

// FirstRounds is how many rounds a job is believed to have before any job has ended.
const FirstRounds = 8

// RoundsLeft is how many rounds a job is expected to have left, at least 1. The job's own
// size is used where the policy knows it.
func (sb *SizeBelief) RoundsLeft(j *JobState) int64 {
	if j.rounds > 0 {
		return max(1, j.rounds-j.round)
	}
	if !sb.curve.Known() {
		if h := j.spec.Hints; h != nil && h.EstimateUs > 0 && h.EstimateUs <= j.FastestUs() {
			return max(1, j.round) // its round is the whole job, as it says
		}
		return max(FirstRounds, j.round)
	}
	var rest float64
	if p := j.prediction; p.Kind == estimate.Plain || j.FastestUs() == 0 {
		rest = sb.curve.MeanResidual(sb.attained(j)) / float64(sb.unit(j))
	} else {
		rest = sb.hints.MeanResidual(p, SpanUs(j.round, j.FastestUs())) / float64(j.FastestUs())
	}
	return max(1, int64(math.Ceil(min(rest, 1<<40))))
}

// Gittins is the index of a job for what it has attained, a share of 1/µs.
func (sb *SizeBelief) Gittins(j *JobState) float64 {
	if p := j.prediction; p.Kind != estimate.Plain {
		return sb.hints.Gittins(p, SpanUs(j.round, j.FastestUs()))
	}
	return sb.curve.Gittins(sb.attained(j)) * float64(sb.unit(j)) / float64(max(1, j.FastestUs()))
}

// subjectOf is what a job's hints say; nil where they say nothing.
func subjectOf(h *hare.JobHints) *estimate.Subject {
	if h == nil || h.EstimateUs == 0 && len(h.Class) == 0 {
		return nil
	}
	var labels []estimate.Label
	for _, l := range h.Class {
		labels = append(labels, estimate.Label(l))
	}
	return estimate.NewSubject(h.EstimateUs, labels)
}

// BeliefSnapshot is the state of a SizeBelief.
type BeliefSnapshot struct {
	Ended   []observation     `json:"ended"`
	Next    int               `json:"next"`
	Curve   estimate.Survival `json:"curve"`
	Learned bool              `json:"learned"`
	// Gone and ByRounds are missing where versions before made the curve again each time.
	Gone     int   `json:"gone,omitempty"`
	ByRounds *bool `json:"by_rounds,omitempty"`

	Hints *estimate.PredictorSnapshot `json:"hints,omitempty"`
	Seen  int                         `json:"seen,omitempty"`
}

func (sb *SizeBelief) Snapshot() BeliefSnapshot {
	return BeliefSnapshot{Ended: sb.ended, Next: sb.next, Curve: sb.curve, Learned: sb.learned, Gone: sb.gone,
		ByRounds: &sb.byRounds, Hints: sb.hints.Snapshot(), Seen: sb.seen}
}

// Restore fills an empty belief; false says that the snapshot contradicts itself.
func (sb *SizeBelief) Restore(s *BeliefSnapshot) bool {
	if len(s.Ended) > MaxObservations || s.Next < 0 || s.Gone < 0 || s.Next > max(0, len(s.Ended)-1) ||
		!s.Curve.Valid() {
		return false
	}
	for _, o := range s.Ended {
		if o.Rounds <= 0 || o.RoundUs < 0 {
			return false
		}
		sb.sums.add(o, 1)
	}
	sb.ended, sb.next, sb.curve, sb.learned, sb.version = s.Ended, s.Next, s.Curve, s.Learned, 1
	sb.gone = s.Gone
	by := sb.sums.roundsExplain()
	if s.ByRounds != nil {
		by = *s.ByRounds
	}
	sb.countBy(by)
	sb.seen = s.Seen
	return sb.hints.Restore(s.Hints)
}

// Observe takes note of a job that is gone.
func (sb *SizeBelief) Observe(j *JobState, ended bool) {
	if ended && j.round > 0 {
		if j.subject != nil && j.FastestUs() > 0 {
			sb.hints.Ended(j.subject, SpanUs(j.round, j.FastestUs()), sb.plainUs(j))
		}
		sb.add(observation{j.round, j.FastestUs()})
	}
	sb.gone++
	sb.learned = false
}

func (sb *SizeBelief) Encode(*Scheduler) any { return sb.Snapshot() }

func (sb *SizeBelief) Decode(_ *Scheduler, state json.RawMessage) bool {
	var s BeliefSnapshot
	return DecodeState(state, &s) == nil && sb.Restore(&s)
}

// Version counts the curves of sizes, from 1 on, for what is computed from them.
func (sb *SizeBelief) Version() int64 { return sb.version }
