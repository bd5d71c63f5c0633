package wire

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hare-sched/hare"
)

// Tags are what people call a solve or a session by. They change nothing of what it does.
type Tags struct {
	// Name has at most MaxLabel characters; "" means none.
	Name string `json:"name,omitempty"`
	// Labels are at most MaxTags, each with a name of 1 to MaxTagName and a value of at most MaxLabel characters.
	Labels map[string]string `json:"labels,omitempty"`
}

// Limits of Tags.
const (
	MaxTags    = 16
	MaxTagName = 63 // characters
)

// tagFields are the fields of Tags within a document.
func tagFields[T any](at func(*T) *Tags) []Field[T] {
	return []Field[T]{
		String("name", func(v *T) *string { return &at(v).Name }).Reading(func(r *Reader, v *T) error {
			from := len(r.faults)
			if err := r.String(&at(v).Name); err != nil || len(r.faults) > from {
				return err
			}
			return r.checkTag(at(v).Name, 0, MaxLabel)
		}).About("name is for people: at most 200 characters.").With("maxLength", MaxLabel),
		StringMap("labels", func(v *T) *map[string]string { return &at(v).Labels }, MaxTags).
			Reading(func(r *Reader, v *T) error {
				if err := r.stringMap(&at(v).Labels, MaxTags); err != nil {
					return err
				}
				for _, name := range slices.Sorted(maps.Keys(at(v).Labels)) {
					if err := r.checkTag(name, 1, MaxTagName); err != nil {
						return err
					}
					if strings.Contains(name, "=") {
						return r.Fault("bad_name", "the name of a label has no =, not as %q", hare.Clip(name))
					}
					if err := r.checkTag(at(v).Labels[name], 0, MaxLabel); err != nil {
						return err
					}
				}
				return nil
			}).About("labels are for people and for filters of lists, such as team: vision."),
	}
}

// checkTag refuses a text that is too short or too long, or that would not be shown as what it is.
func (r *Reader) checkTag(text string, least, most int) error {
	if n := utf8.RuneCountInString(text); n < least || n > most {
		return r.Fault("bad_name", "%q has %d characters: %d to %d are allowed", hare.Clip(text), n, least, most)
	}
	if hare.Misleads(text) {
		return r.Fault("bad_name", "%q has characters that control a terminal or the direction of text", hare.Clip(text))
	}
	return nil
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
