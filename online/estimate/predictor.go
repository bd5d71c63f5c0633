package estimate

import (
	"math"
	"math/bits"
)

// Kind says what a prediction rests on.
type Kind uint8

// These are the kinds of predictions.
const (
	Plain      Kind = iota // on nothing but the sizes of all jobs; a Predictor does not predict
	ByEstimate             // on the user's estimate, calibrated
	ByClass                // on the jobs of the same classes
	ByBoth                 // on the classes, and on how the estimate differs from those of the classes
	kinds
)

// maxOutcomes is how many of the last jobs that ended a Predictor remembers one by one.
const maxOutcomes = 2048

// Subject is what a Predictor knows of a job. It is made once and not changed.
type Subject struct {
	estimateUs int64
	keys       []classKey
}

// NewSubject makes the subject of a job with an estimate, 0 for none, and labels, which
// are sorted by name.
func NewSubject(estimateUs int64, labels []Label) *Subject {
	return &Subject{estimateUs, classKeys(labels)}
}

// Predictor learns from jobs that ended how far the estimates of users and the classes of
// jobs tell what a job takes. Sizes are microseconds on the job's fastest GPU type. Beside
// each prediction stands a plain one, which the caller makes of the sizes of all jobs; a
// kind of prediction is used only where it has beaten the plain one beyond chance, so that
// estimates that are worthless or inverted change nothing. The zero value knows nothing.
//
// Estimates are calibrated by a regression of log size on log estimate with a slope of at
// least 0. Classes are those of each label, of all labels but one and of all labels; the
// mean log size of each is drawn towards that of the wider one, and that of the widest
// towards the plain prediction. What a prediction misses is distributed as the
// Kaplan-Meier estimate of size over prediction says, with the jobs that run censored.
//
// Logarithms are integers and products are rounded before they are added, so that all
// machines agree. A job that ends costs O(labels); Learn costs O(n log n).
type Predictor struct {
	window  []outcome
	next    int // the place of the oldest outcome once there are maxOutcomes
	classes classTable
	all     line // of log size on log estimate
	within  line // of the same, each less its mean in the job's classes
	gains   [kinds]gain
	curves  [kinds]Survival // of the last Learn, in 1/unitRatio; unknown for kinds that are not used
}

// unitRatio is what a ratio of size over prediction is counted in.
const unitRatio = 1 << 16

// outcome is a job that ended. Logarithms are of microseconds; 0 says that the job had no
// estimate, or that there was no such prediction.
type outcome struct {
	Size     int64        `json:"size"`
	Estimate int64        `json:"estimate,omitempty"`
	Before   [kinds]int64 `json:"before"` // predictions made before the job ended, by kind
	// ClassSize and ClassEstimate are classView.calibrated before the job ended.
	ClassSize     int64 `json:"class_size,omitempty"`
	ClassEstimate int64 `json:"class_estimate,omitempty"`
}

// log is the logarithm of a time of at least 2 µs, so that 0 means none.
func log(us int64) int64 { return Log2(max(2, us)) }

// Ended takes note of a job that ended after running for sizeUs; plainUs is what the
// sizes of all jobs predicted.
func (p *Predictor) Ended(j *Subject, sizeUs, plainUs int64) {
	o := outcome{Size: log(sizeUs)}
	plain := log(plainUs)
	if j.estimateUs > 0 {
		o.Estimate = log(j.estimateUs)
	}
	all := base{plain, p.meanEstimate()}
	view := p.classes.view(j, all)
	o.ClassSize, o.ClassEstimate = view.calibrated.size, view.calibrated.estimate
	for k := range kinds {
		o.Before[k] = p.predict(k, o.Estimate, plain, view)
	}
	p.classes.add(j, &o, all)
	if len(p.window) < maxOutcomes {
		p.window = append(p.window, o)
	} else {
		p.count(&p.window[p.next], -1)
		p.window[p.next] = o
		p.next = (p.next + 1) % maxOutcomes
	}
	p.count(&o, 1)
}

// count adds an outcome to the sums, or removes it.
func (p *Predictor) count(o *outcome, times int64) {
	if o.Estimate > 0 {
		p.all.add(o.Estimate, o.Size, times)
		if o.ClassEstimate > 0 {
			p.within.add(o.Estimate-o.ClassEstimate, o.Size-o.ClassSize, times)
		}
	}
	for k := ByEstimate; k < kinds; k++ {
		if o.Before[k] > 0 {
			p.gains[k].add(o.Size-o.Before[Plain], o.Size-o.Before[k], times)
		}
	}
}

// meanEstimate is the mean log estimate, 0 where there is none.
func (p *Predictor) meanEstimate() int64 {
	if p.all.n == 0 {
		return 0
	}
	return divide(p.all.x, p.all.n)
}

// predict is the log size of a job by one kind of prediction, at least 1; 0 says that the
// kind does not apply.
func (p *Predictor) predict(k Kind, estimate, plain int64, view classView) int64 {
	switch {
	case k == Plain:
		return plain
	case k == ByEstimate && estimate > 0 && p.all.slope() > 0:
		return limited(p.all.at(estimate))
	case k == ByClass && view.size > 0:
		return view.size
	case k == ByBoth && view.calibrated.size > 0 && estimate > 0 && p.within.slope() > 0:
		off := float64(p.within.slope() * float64(estimate-view.calibrated.estimate))
		return limited(view.calibrated.size + int64(math.Floor(off)))
	}
	return 0
}

// maxLog is the largest logarithm of a prediction.
const maxLog = 63 * LogUnit

func limited(log int64) int64 { return min(max(1, log), maxLog) }

// Running is a job that has not ended.
type Running struct {
	Subject    *Subject
	AttainedUs int64 // what the job has run for, as a size
	PlainUs    int64 // see Ended
}

// Learn distributes what the predictions that are worth using miss, over the jobs that
// ended and those that run.
func (p *Predictor) Learn(running []Running) {
	for k := range kinds {
		p.curves[k] = Survival{}
		if k == Plain || !p.gains[k].sure() {
			continue
		}
		ended, censored := make([]int64, 0, len(p.window)), make([]int64, 0, len(running))
		for i := range p.window {
			o := &p.window[i]
			if o.Before[k] == 0 {
				continue
			}
			// The regressions of today are applied to the jobs of the past too, where the few
			// jobs of the first predictions would tell little.
			log := p.predict(k, o.Estimate, o.Before[Plain],
				classView{o.Before[ByClass], base{o.ClassSize, o.ClassEstimate}})
			if log > 0 {
				ended = append(ended, ratio(Exp2(o.Size), Exp2(log)))
			}
		}
		for i := range running {
			r := &running[i]
			if log := p.logOf(k, r.Subject, r.PlainUs); log > 0 {
				censored = append(censored, ratio(r.AttainedUs, Exp2(log)))
			}
		}
		p.curves[k] = *NewSurvival(ended, censored)
	}
}

// ratio is a/b in unitRatio, for a ≥ 0 and b > 0, at most 2^62.
func ratio(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), unitRatio)
	if high >= uint64(b) {
		return 1 << 62
	}
	q, _ := bits.Div64(high, low, uint64(b))
	return int64(min(q, 1<<62))
}

func (p *Predictor) logOf(k Kind, j *Subject, plainUs int64) int64 {
	estimate := int64(0)
	if j.estimateUs > 0 {
		estimate = log(j.estimateUs)
	}
	plain := log(plainUs)
	return p.predict(k, estimate, plain, p.classes.view(j, base{plain, p.meanEstimate()}))
}

// Prediction is what a Predictor says of a job.
type Prediction struct {
	Kind Kind `json:"kind"`
	// Us is about what the job takes, the exponential of a mean log size; 0 for a plain
	// prediction.
	Us int64 `json:"us"`
}

// Valid reports whether a prediction that was read is one.
func (pr Prediction) Valid() bool { return pr.Kind < kinds && (pr.Us > 0) == (pr.Kind != Plain) }

// Predict says what a job takes, by the kind that has gained most over the plain
// prediction among those that apply to the job. It is to be asked again after Learn.
func (p *Predictor) Predict(j *Subject, plainUs int64) Prediction {
	best := Prediction{}
	for k := ByEstimate; k < kinds; k++ {
		if !p.curves[k].Known() || best.Kind != Plain && !p.gains[k].better(&p.gains[best.Kind]) {
			continue
		}
		if log := p.logOf(k, j, plainUs); log > 0 {
			best = Prediction{k, Exp2(log)}
		}
	}
	return best
}

// MeanResidual is the expected rest in microseconds of a job that has attained some, by a
// prediction that is not plain.
func (p *Predictor) MeanResidual(of Prediction, attainedUs int64) float64 {
	rest := p.curves[of.Kind].MeanResidual(ratio(attainedUs, of.Us))
	return float64(rest*float64(of.Us)) / unitRatio
}

// Gittins is the index of a job that has attained some, a share of 1/µs, by a prediction
// that is not plain.
func (p *Predictor) Gittins(of Prediction, attainedUs int64) float64 {
	return p.curves[of.Kind].Gittins(ratio(attainedUs, of.Us)) / float64(of.Us) * unitRatio
}
