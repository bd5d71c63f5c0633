package hare

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

func (es *InvalidErrors) typeName(at, kind string) {
	switch {
	case kind == "":
		es.Add(at, "bad_name", "a GPU type needs a name")
	case !utf8.ValidString(kind):
		es.Add(at, "bad_name", "must be UTF-8")
	}
}

// Limits of the labels of a node and of the selectors of a job.
const (
	MaxLabels      = 64  // labels of a node, and labels of a selector
	MaxLabelValues = 1e5 // values of one label in a selector
	MaxLabelText   = 253 // bytes of a label's name, and of its value
)

// labelFault says what is wrong with the name or value of a label; "" means nothing.
func labelFault(text string) string {
	switch {
	case !utf8.ValidString(text):
		return "must be UTF-8"
	case len(text) > MaxLabelText:
		return fmt.Sprintf("has more than %d bytes", MaxLabelText)
	}
	return ""
}

// checkLabelName adds the fault of a label's name. A missing name is explained by an example.
func (es *InvalidErrors) checkLabelName(at, name, example string) {
	if name == "" {
		es.Add(at, "bad_name", "a label needs a name%s", example)
	} else if fault := labelFault(name); fault != "" {
		es.Add(at, "bad_name", "the name of the label %s", fault)
	}
}

// checkNames adds the faults of a sorted list of names.
func (es *InvalidErrors) checkNames(at string, names []string, most int) {
	if len(names) > most {
		es.Add(at, "too_many", "has %d names: at most %d are allowed", len(names), most)
		return
	}
	for i, name := range names {
		switch p := at + "/" + strconv.Itoa(i); {
		case name == "":
			es.Add(p, "bad_name", "is empty: give a name, or leave the entry out")
		case len(name) > MaxLabelText:
			es.Add(p, "bad_name", "has more than %d bytes", MaxLabelText)
		case !utf8.ValidString(name):
			es.Add(p, "bad_name", "must be UTF-8")
		}
		if i > 0 && names[i-1] >= name {
			es.Add(at, "unordered", "names must be sorted, each once")
		}
	}
}

// Misleads reports whether a text has characters that control a terminal or the direction of text, so that it is not
// shown as what it is.
func Misleads(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || r == '\u061c' || r == '\u200e' || r == '\u200f' || r >= '\u2028' && r <= '\u202e' ||
			r >= '\u2066' && r <= '\u2069'
	})
}

// Limits of the labels by which people find jobs, solves and sessions.
const (
	MaxTags     = 16  // labels of one thing
	MaxTagName  = 63  // characters
	MaxTagValue = 200 // characters
)

// Tags checks the labels by which people find a job, a solve or a session. Pointers begin with pointer.
func (es *InvalidErrors) Tags(pointer string, labels map[string]string) {
	if len(labels) > MaxTags {
		es.Add(pointer, "too_many", "has %d labels: at most %d are allowed", len(labels), MaxTags)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		at, value := pointer+"/"+EscapePointer(Clip(name)), labels[name]
		if n := utf8.RuneCountInString(name); n < 1 || n > MaxTagName || strings.Contains(name, "=") || Misleads(name) {
			es.Add(at, "bad_name", "the name of a label has 1 to %d characters, without = and those that control a terminal "+
				"or the direction of text", MaxTagName)
		}
		if utf8.RuneCountInString(value) > MaxTagValue || Misleads(value) {
			es.Add(at, "bad_value", "must be at most %d characters, without those that control a terminal or the direction "+
				"of text", MaxTagValue)
		}
	}
}
