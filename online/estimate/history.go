package estimate

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// PastJob is a job of a History.
type PastJob struct {
	ArrivalS, DurationS float64 // DurationS is positive
	Labels              []Label // sorted by name; all jobs have the same names
}

// Score says how well a rule predicts. Errors are of natural logarithms: the factor by
// which a prediction misses is the exponential.
type Score struct {
	Rule    Rule
	RMS     float64 // root of the mean squared error
	Median  float64 // of the absolute error
	Within2 float64 // the share of jobs that are predicted within a factor of 2
}

// heldOut is the share of the jobs, from the last on, that Compare predicts.
const heldOut = 0.5

// refit is how many jobs arrive between two forests.
const refit = 1000

// Compare predicts the later half of the jobs by several rules, each from the jobs that
// had ended when the job arrived. The forest's columns are the labels, the hour of the
// day, and what the other rules say. It takes O(n²/refit) beside the forests.
func Compare(jobs []PastJob, cfg ForestConfig) ([]Score, int, error) {
	jobs = slices.Clone(jobs)
	slices.SortStableFunc(jobs, func(a, b PastJob) int { return cmp.Compare(a.ArrivalS, b.ArrivalS) })
	c := newComparison(jobs)
	first := int(float64(len(jobs)) * (1 - heldOut))
	errs := make([][]float64, len(rules))
	var forest *Forest
	fitted := -refit
	for i := range jobs {
		c.arrive(i)
		if i < first {
			continue
		}
		if i-fitted >= refit {
			var err error
			if forest, err = c.fit(cfg); err != nil {
				return nil, 0, err
			}
			fitted = i
		}
		said := c.rows[i]
		predictions := append(slices.Clone(said[len(said)-simpleRules:]), forest.Predict(said))
		for r, p := range predictions {
			errs[r] = append(errs[r], math.Abs(p-math.Log(jobs[i].DurationS)))
		}
	}
	var scores []Score
	for r := range rules {
		scores = append(scores, score(&rules[r], errs[r]))
	}
	return scores, len(jobs) - first, nil
}

func score(r *Rule, errs []float64) Score {
	s := Score{Rule: *r}
	for _, e := range errs {
		s.RMS += e * e / float64(len(errs))
		if e <= math.Ln2 {
			s.Within2 += 1 / float64(len(errs))
		}
	}
	s.RMS = math.Sqrt(s.RMS)
	if len(errs) > 0 {
		slices.Sort(errs)
		s.Median = errs[len(errs)/2]
	}
	return s
}

// Rule is a way to predict how long a job takes.
type Rule struct {
	Name string // a word for commands
	Text string
}

// rules are those that are compared. The order is that of the last columns of a row.
var rules = []Rule{
	{"median", "Kaplan-Meier of all"},
	{"last-2", "last 2 of the class"},
	{"last-5", "last 5 of the class"},
	{"last-50", "last 50 of the class"},
	{"user-2", "last 2 of the user"},
	{"classes", "classes with shrinkage"},
	{"forest", "random forest"},
}

// Rules lists the rules that Compare compares.
func Rules() []Rule { return slices.Clone(rules) }

// simpleRules is how many rules there are beside the forest.
const simpleRules = 6

// comparison is the state of Compare.
type comparison struct {
	jobs     []PastJob
	byEnd    []int // jobs by end
	ended    int   // how many of byEnd have ended
	subjects []*Subject
	rows     [][]float64 // by job: the forest's columns, the last ones the predictions of the simple rules
	codes    map[Label]float64
	last     map[string][]float64 // the log durations of the jobs that ended, by class and by user
	classes  Predictor
	sum      float64 // of the log durations of the jobs that ended
	median   float64 // of the Kaplan-Meier estimate
	nextKM   int
}

func newComparison(jobs []PastJob) *comparison {
	c := &comparison{jobs: jobs, codes: map[Label]float64{}, last: map[string][]float64{}}
	for i := range jobs {
		c.byEnd = append(c.byEnd, i)
	}
	end := func(i int) float64 { return jobs[i].ArrivalS + jobs[i].DurationS }
	slices.SortStableFunc(c.byEnd, func(a, b int) int { return cmp.Compare(end(a), end(b)) })
	return c
}

// arrive takes note of the jobs that ended before job i arrived, and predicts it.
func (c *comparison) arrive(i int) {
	j := &c.jobs[i]
	c.end(j.ArrivalS, i)
	if i >= c.nextKM {
		c.median, c.nextKM = c.medianOfAll(j.ArrivalS, i), i+100
	}
	c.subjects = append(c.subjects, NewSubject(0, j.Labels))
	var codes []float64
	for _, l := range j.Labels {
		if _, known := c.codes[l]; !known {
			c.codes[l] = float64(len(c.codes))
		}
		codes = append(codes, c.codes[l])
	}
	c.rows = append(c.rows, c.row(codes, j, c.subjects[i]))
}

// end takes note of the jobs before job n that have ended by a time.
func (c *comparison) end(nowS float64, n int) {
	for c.ended < len(c.byEnd) {
		k := c.byEnd[c.ended]
		o := &c.jobs[k]
		if o.ArrivalS+o.DurationS > nowS || k >= n {
			return
		}
		c.classes.Ended(c.subjects[k], micros(o.DurationS), c.plainUs())
		c.ended++
		size := math.Log(o.DurationS)
		c.sum += size
		for _, key := range []string{classOf(o.Labels), userOf(o.Labels)} {
			c.last[key] = append(c.last[key], size)
		}
	}
}

// row is what the forest knows of a job whose labels have such codes.
func (c *comparison) row(codes []float64, j *PastJob, subject *Subject) []float64 {
	row := codes
	class := c.last[classOf(j.Labels)]
	row = append(row, math.Mod(j.ArrivalS/3600, 24), float64(len(class)), c.median)
	for _, n := range []int{2, 5, 50} {
		row = append(row, c.meanOf(class, n))
	}
	row = append(row, c.meanOf(c.last[userOf(j.Labels)], 2))
	if log := c.classes.logOf(ByClass, subject, c.plainUs()); log > 0 {
		return append(row, math.Ln2*float64(log)/LogUnit-math.Log(1e6))
	}
	return append(row, c.median)
}

// meanOf is the mean of the last n values, or the median of all jobs where there is none.
func (c *comparison) meanOf(values []float64, n int) float64 {
	values = values[max(0, len(values)-n):]
	if len(values) == 0 {
		return c.median
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func (c *comparison) plainUs() int64 {
	if c.ended == 0 {
		return 3600e6
	}
	return micros(math.Exp(c.sum / float64(c.ended)))
}

func micros(s float64) int64 { return int64(min(max(1, s*1e6), 1<<53)) }

// medianOfAll is the logarithm of the duration that half of the first n jobs exceed, as it
// is estimated at a time.
func (c *comparison) medianOfAll(nowS float64, n int) float64 {
	var ended, running []int64
	for k := range c.jobs[:n] {
		if o := &c.jobs[k]; o.ArrivalS+o.DurationS <= nowS {
			ended = append(ended, micros(o.DurationS))
		} else {
			running = append(running, micros(nowS-o.ArrivalS))
		}
	}
	s := NewSurvival(ended, running)
	for k, at := range s.At {
		if s.Alive[k] <= 0.5 || k == len(s.At)-1 {
			return math.Log(at / 1e6)
		}
	}
	return math.Log(3600)
}

// fit grows a forest on the jobs that have ended.
func (c *comparison) fit(cfg ForestConfig) (*Forest, error) {
	t := &Table{}
	if c.ended == 0 {
		return nil, errTable
	}
	width := len(c.rows[0])
	t.Columns, t.Categories = make([][]float64, width), make([]bool, width)
	for k := range c.jobs[0].Labels {
		t.Categories[k] = true
	}
	for _, k := range c.byEnd[:c.ended] {
		for at, v := range c.rows[k] {
			t.Columns[at] = append(t.Columns[at], v)
		}
		t.Target = append(t.Target, math.Log(c.jobs[k].DurationS))
	}
	return NewForest(t, cfg)
}

func classOf(labels []Label) string {
	var b strings.Builder
	for _, l := range labels {
		b.WriteString(l.Name + "\x00" + l.Value + "\x00")
	}
	return b.String()
}

// userOf is the class of a job's user: the label user, or else vc, the virtual cluster of
// Philly's traces, or else the last label.
func userOf(labels []Label) string {
	for _, name := range []string{"user", "vc"} {
		for _, l := range labels {
			if l.Name == name {
				return "user\x00" + l.Value
			}
		}
	}
	if len(labels) == 0 {
		return "user"
	}
	return "user\x00" + labels[len(labels)-1].Value
}
