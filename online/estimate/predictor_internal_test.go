package estimate

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func TestLog2(t *testing.T) {
	for _, v := range []int64{1, 2, 3, 5, 7, 100, 1 << 20, 1<<40 + 12345, math.MaxInt64} {
		want := int64(math.Floor(256 * math.Log2(float64(v))))
		if got := Log2(v); got < want-1 || got > want+1 {
			t.Errorf("log2(%d) is %d, want about %d", v, got, want)
		}
	}
}

func TestExp2(t *testing.T) {
	for log := int64(-3); log < 65*LogUnit; log++ {
		want := min(math.Exp2(float64(max(0, log))/LogUnit), math.MaxInt64)
		if got := float64(Exp2(log)); math.Abs(got-want) > 1+want*1e-14 {
			t.Fatalf("2^(%d/256) is %v, want %v", log, got, want)
		}
	}
}

// The regression of Anscombe's first set (1973) is y = 3 + x/2.
func TestLineOfTheTextbook(t *testing.T) {
	x := []int64{10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5}
	y := []int64{804, 695, 758, 881, 833, 996, 724, 426, 1084, 482, 568}
	var ln, down line
	for i := range x {
		ln.add(x[i], y[i], 1)
		down.add(-x[i], y[i], 1)
	}
	if s := ln.slope(); s != 2 { // 50 in the units of the test, which is limited
		t.Errorf("slope %v", s)
	}
	if s := float64(ln.n*ln.xy-ln.x*ln.y) / float64(ln.n*ln.xx-ln.x*ln.x); math.Abs(s-50.01) > 0.01 {
		t.Errorf("slope %v, want 50.01", s)
	}
	if down.slope() != 0 || down.at(3) != down.at(30) {
		t.Errorf("the slope of a falling line is %v", down.slope())
	}
	for i := range x { // points that go leave nothing
		ln.add(x[i], y[i], -1)
	}
	if ln != (line{}) {
		t.Errorf("%+v is left", ln)
	}
}

// Student's hours of sleep gained by ten patients under two drugs (1908): the mean
// difference is 1.58, and t is 4.06.
func TestGainOfTheTextbook(t *testing.T) {
	var g gain
	for _, tenths := range []int64{12, 24, 13, 13, 0, 10, 18, 8, 46, 14} {
		g.add(-100-tenths, 100, 1)
	}
	n, mean := float64(g.n), float64(g.sum)/float64(g.n)
	tValue := mean / math.Sqrt((float64(g.squares)-n*mean*mean)/(n-1)/n)
	if math.Abs(mean/10-1.58) > 1e-9 || math.Abs(tValue-4.06) > 0.005 {
		t.Errorf("mean %v, t %v", mean/10, tValue)
	}
	if !g.sure() {
		t.Error("t of 4.06 is not sure")
	}
}

// sure is the test of Student's t for any pairs.
func TestGainAgreesWithCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g gain
		var ds []float64
		for range rapid.IntRange(2, 60).Draw(t, "n") {
			a, b := rapid.Int64Range(-3000, 3000).Draw(t, "a"), rapid.Int64Range(-3000, 3000).Draw(t, "b")
			g.add(a, b, 1)
			ds = append(ds, math.Min(math.Abs(float64(a)), maxError)-math.Min(math.Abs(float64(b)), maxError))
		}
		n, mean, square := float64(len(ds)), 0.0, 0.0
		for _, d := range ds {
			mean += d / n
		}
		for _, d := range ds {
			square += (d - mean) * (d - mean)
		}
		tValue := mean / math.Sqrt(square/(n-1)/n)
		if math.Abs(tValue-minTValue) < 1e-9 {
			return
		}
		if want := n >= minPairs && tValue > minTValue; g.sure() != want {
			t.Fatalf("t is %v of %v pairs: sure is %v", tValue, n, g.sure())
		}
	})
}

// dumb is a Predictor that keeps all jobs and computes with floating-point numbers.
type dumb struct {
	jobs []dumbJob
}

type dumbJob struct {
	class          string
	estimate, size float64 // logarithms in LogUnit
}

func (d *dumb) byEstimate(x float64) float64 {
	n, sx, sy, xx, xy := 0.0, 0.0, 0.0, 0.0, 0.0
	for _, j := range d.jobs {
		n, sx, sy, xx, xy = n+1, sx+j.estimate, sy+j.size, xx+j.estimate*j.estimate, xy+j.estimate*j.size
	}
	slope := math.Min(2, math.Max(0, (n*xy-sx*sy)/(n*xx-sx*sx)))
	return sy/n + slope*(x-sx/n)
}

// byClass is Bühlmann's credibility mean over the jobs of a class, of which there are
// fewer than the class remembers.
func (d *dumb) byClass(class string, plain float64) float64 {
	n, sum := 0.0, 0.0
	for _, j := range d.jobs {
		if j.class == class {
			n, sum = n+1, sum+j.size
		}
	}
	return (sum + prior*plain) / (n + prior)
}

// Predictions by estimate and by class are those of a dumb implementation, up to rounding.
func TestPredictorAgreesWithCounting(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var p Predictor
		var d dumb
		for range 150 {
			user := fmt.Sprint("user", rng.IntN(8))
			sizeUs := 1 + int64(1e6*math.Exp(2*rng.NormFloat64()))
			estimateUs := 1 + int64(float64(sizeUs)*math.Exp(rng.NormFloat64()))
			j := NewSubject(estimateUs, []Label{{"user", user}})
			plainUs := int64(1e6)
			if len(d.jobs) > 4 {
				x, plain := float64(log(estimateUs)), float64(log(plainUs))
				want := []float64{0, d.byEstimate(x), d.byClass(user, plain), 0}
				for k := ByEstimate; k <= ByClass; k++ {
					got := float64(p.logOf(k, j, plainUs))
					if got != 0 && math.Abs(got-want[k]) > 2 {
						t.Fatalf("seed %d, %d jobs: kind %d predicts %v, want %v", seed, len(d.jobs), k, got, want[k])
					}
				}
			}
			p.Ended(j, sizeUs, plainUs)
			d.jobs = append(d.jobs, dumbJob{class: user, estimate: float64(log(estimateUs)), size: float64(log(sizeUs))})
		}
	}
}

// play lets n jobs end of which say gives the size and the hints, and learns. The plain
// prediction is the geometric mean so far.
func play(p *Predictor, n int, say func(i int) (sizeUs int64, j *Subject)) (plainUs int64) {
	plainUs = 1e6
	sum := int64(0)
	for i := range n {
		sizeUs, j := say(i)
		p.Ended(j, sizeUs, plainUs)
		sum += log(sizeUs)
		plainUs = Exp2(sum / int64(i+1))
	}
	p.Learn(nil)
	return plainUs
}

// Exact estimates, and estimates that are exact but for a factor and a power, give the
// size after few jobs.
func TestGoodEstimatesAreUsed(t *testing.T) {
	for name, say := range map[string]func(us float64) float64{
		"exact":            func(us float64) float64 { return us },
		"ten times longer": func(us float64) float64 { return 10 * us },
		"root":             func(us float64) float64 { return 1000 * math.Sqrt(us) },
	} {
		var p Predictor
		rng := rand.New(rand.NewPCG(1, 1))
		plainUs := play(&p, 40, func(int) (int64, *Subject) {
			us := 1e8 * math.Exp(rng.NormFloat64())
			return int64(us), NewSubject(int64(say(us)), nil)
		})
		for _, us := range []float64{2e7, 1e8, 5e8} {
			j := NewSubject(int64(say(us)), nil)
			got := p.Predict(j, plainUs)
			if got.Kind != ByEstimate || math.Abs(float64(got.Us)/us-1) > 0.03 {
				t.Errorf("%s: a job of %v is predicted as %+v", name, us, got)
				continue
			}
			if rest := p.MeanResidual(got, 0); math.Abs(rest/us-1) > 0.05 {
				t.Errorf("%s: the rest of a job of %v is expected to be %v", name, us, rest)
			}
			if index := p.Gittins(got, 0) * us; math.Abs(index-1) > 0.05 {
				t.Errorf("%s: the index of a job of %v is %v of one over its size", name, us, index)
			}
		}
	}
}

// Estimates that are the longer the shorter the job is are never used, whatever the
// sizes, and hints that tell nothing hardly ever.
func TestBadHintsAreNotUsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Predictor
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		spread := rapid.Float64Range(0.1, 4).Draw(t, "spread")
		plainUs := play(&p, 200, func(int) (int64, *Subject) {
			us := 1e8 * math.Exp(spread*rng.NormFloat64())
			return int64(max(2, us)), NewSubject(int64(max(2, 1e16/us)), nil)
		})
		if got := p.Predict(NewSubject(1e8, nil), plainUs); got.Kind != Plain {
			t.Fatalf("inverted estimates give %+v", got)
		}
	})
	used, all := 0, 200
	for seed := range all {
		var p Predictor
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		say := func(int) (int64, *Subject) {
			return int64(1e8 * math.Exp(2*rng.NormFloat64())), NewSubject(int64(1e8*math.Exp(2*rng.NormFloat64())),
				[]Label{{"user", fmt.Sprint(rng.IntN(10))}})
		}
		plainUs := play(&p, 100, say)
		if _, j := say(0); p.Predict(j, plainUs).Kind != Plain {
			used++
		}
	}
	if used > all/20 {
		t.Errorf("hints that tell nothing are used by %d of %d", used, all)
	}
}

// A class tells the sizes of its jobs, and among its labels the one that tells counts.
func TestClassesAreUsed(t *testing.T) {
	var p Predictor
	rng := rand.New(rand.NewPCG(3, 3))
	labels := func(name int) []Label {
		return []Label{{"name", fmt.Sprint(name)}, {"run", fmt.Sprint(rng.IntN(50))}, {"user", fmt.Sprint(rng.IntN(5))}}
	}
	plainUs := play(&p, 300, func(int) (int64, *Subject) {
		name := rng.IntN(4)
		return int64(1e8 * math.Pow(10, float64(name)) * math.Exp(0.1*rng.NormFloat64())), NewSubject(0, labels(name))
	})
	for name := range 4 {
		want := 1e8 * math.Pow(10, float64(name))
		got := p.Predict(NewSubject(0, labels(name)), plainUs)
		if got.Kind != ByClass || math.Abs(float64(got.Us)/want-1) > 0.3 {
			t.Errorf("jobs of about %v are predicted as %+v", want, got)
		}
	}
	if got := p.Predict(NewSubject(0, []Label{{"name", "new"}}), plainUs); got.Kind != Plain {
		t.Errorf("a class without history gives %+v", got)
	}
}

// A user who always says ten times too much and one who says what is true are calibrated
// each for oneself.
func TestEstimatesAreCalibratedByClass(t *testing.T) {
	var p Predictor
	rng := rand.New(rand.NewPCG(4, 4))
	subject := func(user int, us float64) *Subject {
		return NewSubject(int64(us*math.Pow(10, float64(user))), []Label{{"user", fmt.Sprint(user)}})
	}
	plainUs := play(&p, 300, func(i int) (int64, *Subject) {
		us := 1e8 * math.Exp(rng.NormFloat64())
		return int64(us), subject(i%2, us)
	})
	for user := range 2 {
		for _, us := range []float64{3e7, 3e8} {
			got := p.Predict(subject(user, us), plainUs)
			if got.Kind != ByBoth || math.Abs(float64(got.Us)/us-1) > 0.3 {
				t.Errorf("a job of user %d of %v is predicted as %+v", user, us, got)
			}
		}
	}
}

// A job that outlives what it was predicted to take is expected to take ever longer.
func TestJobsThatRunAreCensored(t *testing.T) {
	var p Predictor
	rng := rand.New(rand.NewPCG(5, 5))
	play(&p, 100, func(int) (int64, *Subject) {
		us := 1e8 * math.Exp(rng.NormFloat64())
		return int64(us * math.Exp(0.3*rng.NormFloat64())), NewSubject(int64(us), nil)
	})
	j := NewSubject(1e8, nil)
	before := p.MeanResidual(p.Predict(j, 1e8), 0)
	var running []Running
	for range 50 {
		running = append(running, Running{Subject: j, AttainedUs: 3e8, PlainUs: 1e8})
	}
	p.Learn(running)
	pr := p.Predict(j, 1e8)
	if after := p.MeanResidual(pr, 0); after <= before {
		t.Errorf("with long jobs that run %v, without %v", after, before)
	}
	if rest := p.MeanResidual(pr, 1e12); math.Abs(rest/1e12-1) > 1e-6 {
		t.Errorf("a job beyond all others is expected to take %v more, want as long again", rest)
	}
}

// The memory of classes by the million is bounded, and the last ones are remembered.
func TestClassesAreBounded(t *testing.T) {
	var p Predictor
	n := 50_000
	if testing.Short() {
		n = 10_000
	}
	for i := range n {
		p.Ended(NewSubject(0, []Label{{fmt.Sprint("label", i%1000), "x"}, {"user", fmt.Sprint(i)}}), 1e8, 1e8)
	}
	if c, v := p.classes.classes.order.Len(), p.classes.levels.order.Len(); c != maxClasses || v != maxLevels ||
		len(p.classes.classes.of) != c || len(p.classes.levels.of) != v || len(p.window) != maxOutcomes {
		t.Errorf("%d classes, %d levels, %d outcomes", c, v, len(p.window))
	}
	if p.classes.classes.find(keyOf([]Label{{"user", fmt.Sprint(n - 1)}}).key) == nil {
		t.Error("the last class is forgotten")
	}
}

// drawPredictor draws a predictor with some history.
func drawPredictor(seed uint64, n int) *Predictor {
	p := &Predictor{}
	continueWith(p, seed, n)
	return p
}

func continueWith(p *Predictor, seed uint64, n int) {
	rng := rand.New(rand.NewPCG(seed, 6))
	for range n {
		us := 1e7 * math.Exp(3*rng.NormFloat64())
		var labels []Label
		for l := range rng.IntN(4) {
			labels = append(labels, Label{fmt.Sprint(l), fmt.Sprint(int(math.Log(us))/2, rng.IntN(2))})
		}
		said := int64(0)
		if rng.IntN(3) > 0 {
			said = int64(us * math.Exp(rng.NormFloat64()))
		}
		p.Ended(NewSubject(said, labels), int64(us), 1e7)
	}
	p.Learn([]Running{{NewSubject(1e7, nil), 1e7, 1e7}})
}

// A predictor that was restored goes on as the one of which the snapshot was taken.
func TestPredictorSnapshot(t *testing.T) {
	for _, n := range []int{0, 1, 30, maxOutcomes + 500} {
		p, restored := drawPredictor(9, n), &Predictor{}
		text, err := json.Marshal(p.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		var s *PredictorSnapshot
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		if !restored.Restore(s) {
			t.Fatalf("%d jobs: the snapshot is refused", n)
		}
		continueWith(p, 10, 200)
		continueWith(restored, 10, 200)
		if a, b := p.Snapshot(), restored.Snapshot(); !reflect.DeepEqual(a, b) {
			t.Errorf("%d jobs: the restored predictor goes on otherwise", n)
		}
	}
	for name, spoil := range map[string]func(s *PredictorSnapshot){
		"next":            func(s *PredictorSnapshot) { s.Next = len(s.Window) },
		"size":            func(s *PredictorSnapshot) { s.Window[3].Size = 0 },
		"huge size":       func(s *PredictorSnapshot) { s.Window[3].Size = 1 << 40 },
		"negative":        func(s *PredictorSnapshot) { s.Window[3].Before[ByClass] = -1 },
		"twice":           func(s *PredictorSnapshot) { s.Classes[0] = s.Classes[1] },
		"level twice":     func(s *PredictorSnapshot) { s.Levels[0] = s.Levels[1] },
		"class of many":   func(s *PredictorSnapshot) { s.Classes[0].Sizes[0] = 1 << 40 },
		"huge mean":       func(s *PredictorSnapshot) { s.Classes[0].Sizes[1] = 1 << 60 },
		"huge error":      func(s *PredictorSnapshot) { s.Levels[0].Sizes[1] = 1 << 60 },
		"too many":        func(s *PredictorSnapshot) { s.Window = make([]outcome, maxOutcomes+1) },
		"not a curve":     func(s *PredictorSnapshot) { s.Curves[1] = Survival{At: []float64{1}} },
		"too many levels": func(s *PredictorSnapshot) { s.Levels = make([]levelSnapshot, maxLevels+1) },
	} {
		s := drawPredictor(9, 100).Snapshot()
		spoil(s)
		if new(Predictor).Restore(s) {
			t.Errorf("%s: the snapshot is restored", name)
		}
	}
}

// Any hints and sizes give finite predictions, and a snapshot that can be restored.
func TestPredictorTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Predictor
		us := rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, math.MaxInt64), rapid.Int64Range(1, 1e9))
		subject := func() *Subject {
			var labels []Label
			for i := range rapid.IntRange(0, 4).Draw(t, "labels") {
				labels = append(labels, Label{fmt.Sprint(i), rapid.StringN(0, 2, 4).Draw(t, "value")})
			}
			return NewSubject(rapid.OneOf(rapid.Just(int64(0)), us).Draw(t, "estimate"), labels)
		}
		for range rapid.IntRange(0, 60).Draw(t, "n") {
			p.Ended(subject(), us.Draw(t, "size"), us.Draw(t, "plain"))
		}
		var running []Running
		for range rapid.IntRange(0, 5).Draw(t, "running") {
			running = append(running, Running{subject(), us.Draw(t, "attained"), us.Draw(t, "plain")})
		}
		p.Learn(running)
		j, attained := subject(), us.Draw(t, "attained")
		if got := p.Predict(j, us.Draw(t, "plain")); got.Kind != Plain {
			rest, index := p.MeanResidual(got, attained), p.Gittins(got, attained)
			if got.Us < 1 || !(rest >= 0) || math.IsInf(rest, 1) || !(index > 0) || math.IsInf(index, 1) {
				t.Fatalf("%+v after %d: rest %v, index %v", got, attained, rest, index)
			}
		}
		if s := p.Snapshot(); !new(Predictor).Restore(s) {
			t.Fatal("the snapshot cannot be restored")
		}
	})
}
