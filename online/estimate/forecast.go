package estimate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Forecast predicts how long new jobs take from a history, all jobs of which have ended.
type Forecast struct {
	c      *comparison
	forest *Forest // nil for other rules
	rule   int
	names  []string // of the history's labels
	endS   float64  // when the last job of the history ended
}

// NewForecast makes a forecast by the rule of that name, which is one of Rules.
func NewForecast(history []PastJob, rule string, cfg ForestConfig) (*Forecast, error) {
	f := &Forecast{rule: slices.IndexFunc(rules, func(r Rule) bool { return r.Name == rule })}
	if f.rule < 0 {
		return nil, fmt.Errorf("estimate: there is no rule %q", rule)
	}
	if len(history) == 0 {
		return nil, errTable
	}
	jobs := slices.Clone(history)
	slices.SortStableFunc(jobs, func(a, b PastJob) int { return cmp.Compare(a.ArrivalS, b.ArrivalS) })
	f.c = newComparison(jobs)
	for i := range jobs {
		f.c.arrive(i)
		f.endS = max(f.endS, jobs[i].ArrivalS+jobs[i].DurationS)
	}
	f.c.end(math.Inf(1), len(jobs))
	f.c.median = f.c.medianOfAll(math.Inf(1), len(jobs))
	for _, l := range jobs[0].Labels {
		f.names = append(f.names, l.Name)
	}
	if rules[f.rule].Name != "forest" {
		return f, nil
	}
	var err error
	f.forest, err = f.c.fit(cfg)
	return f, err
}

// DurationS is for how many seconds a job is expected to run that arrives some seconds
// after the history. Labels that the history does not have are ignored, and those that are
// missing are unknown. known reports whether jobs of one of its classes have ended, so that
// the prediction does not rest on all jobs alone.
func (f *Forecast) DurationS(labels []Label, afterS float64) (s float64, known bool) {
	j := PastJob{ArrivalS: f.endS + afterS}
	var codes []float64
	for _, name := range f.names {
		code := -1.0
		if i := slices.IndexFunc(labels, func(l Label) bool { return l.Name == name }); i >= 0 {
			j.Labels = append(j.Labels, labels[i])
			if c, ok := f.c.codes[labels[i]]; ok {
				code = c
			}
		}
		codes = append(codes, code)
	}
	subject := NewSubject(0, j.Labels)
	row := f.c.row(codes, &j, subject)
	known = f.c.classes.logOf(ByClass, subject, f.c.plainUs()) > 0
	if f.forest != nil {
		return math.Exp(f.forest.Predict(row)), known
	}
	return math.Exp(row[len(row)-simpleRules+f.rule]), known
}
