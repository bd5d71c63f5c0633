package hare

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Limits of a job's class.
const (
	MaxClassLabels = 8   // labels of a job
	MaxClassText   = 100 // characters of a label's name, and of its value
)

// JobHints are what a user says about a job. Online policies that do not know sizes may go
// by hints; plans of instances know sizes and ignore them. Hints never limit a job.
type JobHints struct {
	// EstimateUs is for how long the user expects the job to run, with all its rounds,
	// alone on its fastest GPU type; 0 means that the user does not say.
	EstimateUs int64 `json:"estimate_us,omitempty"`
	// Class is what jobs that take alike have in common, sorted by name, each name once.
	Class []ClassLabel `json:"class,omitempty"`
}

// ClassLabel is one label of a job's class, such as user=ann.
type ClassLabel struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Clone returns hints that share no memory with h.
func (h *JobHints) Clone() *JobHints {
	if h == nil {
		return nil
	}
	return &JobHints{EstimateUs: h.EstimateUs, Class: slices.Clone(h.Class)}
}

// CheckHints reports the faults of what a user says about the job at a pointer.
func (es *InvalidErrors) CheckHints(at string, h *JobHints) {
	if h == nil {
		return
	}
	if h.EstimateUs < 0 || h.EstimateUs > MaxExact {
		es.Add(at+"/estimate_s", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
	}
	if len(h.Class) > MaxClassLabels {
		es.Add(at+"/class", "too_many", "there are %d: at most %d are allowed", len(h.Class), MaxClassLabels)
		return
	}
	for i := range h.Class {
		l := &h.Class[i]
		label := at + "/class/" + EscapePointer(l.Name)
		if fault := l.Fault(); fault != "" {
			es.Add(label, "bad_value", "%s", fault)
		}
		if i > 0 && h.Class[i-1].Name >= l.Name {
			es.Add(label, "unordered", "names must be sorted, each once")
		}
	}
}

// Fault says what is wrong with a label; "" means nothing.
func (cl *ClassLabel) Fault() string {
	switch {
	case cl.Name == "":
		return "a label needs a name"
	case !utf8.ValidString(cl.Name) || !utf8.ValidString(cl.Value):
		return "must be UTF-8"
	case utf8.RuneCountInString(cl.Name) > MaxClassText || utf8.RuneCountInString(cl.Value) > MaxClassText:
		return fmt.Sprintf("names and values have at most %d characters", MaxClassText)
	}
	return ""
}
