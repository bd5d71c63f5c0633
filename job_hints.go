package hare

import (
	"fmt"
	"unicode/utf8"
)

// Limits of a job's class.
const (
	MaxClassLabels = 8   // labels of a job
	MaxClassText   = 100 // characters of a label's name, and of its value
)

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
