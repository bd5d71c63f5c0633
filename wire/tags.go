package wire

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hare-sched/hare"
)

// Tags are what people call a solve, a session, a what-if or a simulation by. They change nothing of what it does.
type Tags struct {
	// Name has at most MaxLabel characters; "" means none.
	Name string `json:"name,omitempty"`
	// Labels are those that hare.InvalidErrors.Tags accepts.
	Labels map[string]string `json:"labels,omitempty"`
}

// NameField is the field name of Tags within a document.
func NameField[T any](at func(*T) *string) Field[T] {
	return String("name", at).Reading(func(r *Reader, v *T) error {
		from := len(r.faults)
		if err := r.String(at(v)); err != nil || len(r.faults) > from {
			return err
		}
		if name := *at(v); utf8.RuneCountInString(name) > MaxLabel || hare.Misleads(name) {
			return r.Fault("bad_name", "must be at most %d characters, without those that control a terminal or the "+
				"direction of text", MaxLabel)
		}
		return nil
	}).About("name is for people: at most 200 characters.").With("maxLength", MaxLabel)
}

// TagFields are the fields of Tags within a document.
func TagFields[T any](at func(*T) *Tags) []Field[T] {
	return []Field[T]{
		NameField(func(v *T) *string { return &at(v).Name }),
		StringMap("labels", func(v *T) *map[string]string { return &at(v).Labels }, hare.MaxTags).
			Reading(func(r *Reader, v *T) error {
				from := len(r.faults)
				if err := r.stringMap(&at(v).Labels, hare.MaxTags); err != nil || len(r.faults) > from {
					return err
				}
				var faults hare.InvalidErrors
				faults.Tags(string(r.d.StackPointer()), at(v).Labels)
				for _, f := range faults {
					if err := r.FaultAt(f.Pointer, f.Code, "%s", f.Detail); err != nil {
						return err
					}
				}
				return nil
			}).About("labels are for people and for filters of lists, such as team: vision."),
	}
}

// Has reports whether the tags have all of these labels, each NAME=VALUE, or NAME for any value.
func (t *Tags) Has(labels []string) bool {
	for _, l := range labels {
		name, value, given := strings.Cut(l, "=")
		if has, ok := t.Labels[name]; !ok || given && has != value {
			return false
		}
	}
	return true
}

// Mention reports whether the name or the value of a label has this part, in upper or lower case.
func (t *Tags) Mention(part string) bool {
	part = strings.ToLower(part)
	return strings.Contains(strings.ToLower(t.Name), part) || slices.ContainsFunc(slices.Collect(maps.Values(t.Labels)),
		func(value string) bool { return strings.Contains(strings.ToLower(value), part) })
}
