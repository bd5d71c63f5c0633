// Package settings reads the parameters of policies of simulations: a JSON object with a value for each setting
// that is not to have its default.
package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
)

// Setting is a setting of a policy: what a value may be, and where the value goes in the policy's settings C.
type Setting[C any] struct {
	Name string
	// Type is number, integer, boolean or string, as in JSON.
	Type string
	// Unit is s, gpu_s (GPU-seconds), or empty.
	Unit string
	// Default is the value where the setting is left out: a float64, an int, a bool or a string.
	Default any
	Text    string

	kind string // what a value looks like
	set  func(c *C, value []byte) bool
}

// Number is a setting from least to most. into keeps a value.
func Number[C any](name, unit string, zero, least, most float64, text string, into func(*C, float64)) Setting[C] {
	return Setting[C]{name, "number", unit, zero, text, fmt.Sprintf("a number from %s to %s", plain(least), plain(most)),
		func(c *C, value []byte) bool {
			v, ok := decode[float64](value)
			if ok = ok && v >= least && v <= most; ok {
				into(c, v)
			}
			return ok
		}}
}

// plain writes a number without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Integer is a setting from least to most. into keeps a value.
func Integer[C any](name string, zero, least, most int, text string, into func(*C, int)) Setting[C] {
	return Setting[C]{name, "integer", "", zero, text, fmt.Sprintf("a whole number from %d to %d", least, most),
		func(c *C, value []byte) bool {
			v, ok := decode[int](value)
			if ok = ok && v >= least && v <= most; ok {
				into(c, v)
			}
			return ok
		}}
}

// Flag is a setting that is false by default. field is where the value goes.
func Flag[C any](name, text string, field func(*C) *bool) Setting[C] {
	return Setting[C]{name, "boolean", "", false, text, "true or false", func(c *C, value []byte) bool {
		v, ok := decode[bool](value)
		if ok {
			*field(c) = v
		}
		return ok
	}}
}

// Choice is one of several words, by default the first. field is where the word goes.
func Choice[C any, S ~string](name string, words []S, text string, field func(*C) *S) Setting[C] {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(string(w))
	}
	return Setting[C]{name, "string", "", string(words[0]), text, "one of " + strings.Join(quoted, ", "),
		func(c *C, value []byte) bool {
			v, ok := decode[string](value)
			if ok = ok && slices.Contains(words, S(v)); ok {
				*field(c) = S(v)
			}
			return ok
		}}
}

// Range says what a value looks like, such as "a whole number from 1 to 8".
func (s Setting[C]) Range() string { return s.kind }

func decode[T any](value []byte) (v T, ok bool) {
	if bytes.Equal(value, []byte("null")) || json.Unmarshal(value, &v) != nil {
		return v, false
	}
	if f, number := any(v).(float64); number && math.IsInf(f, 0) {
		return v, false
	}
	return v, true
}

// Read sets what the JSON object given has. The error is *hare.InvalidError, with a pointer into the object: for
// text that is not an object, a name that is not known or comes twice, and a value that a setting does not take.
func Read[C any](policy string, known []Setting[C], c *C, given []byte) error {
	refuse := func(pointer jsontext.Pointer, code, format string, a ...any) error {
		return &hare.InvalidError{Pointer: string(pointer), Code: code, Detail: fmt.Sprintf(format, a...)}
	}
	if len(known) == 0 {
		return refuse("", "not_allowed", "policy %s has no parameters", policy)
	}
	names := make([]string, len(known))
	for i := range known {
		names[i] = known[i].Name
	}
	notObject := refuse("", "invalid_type", "the parameters of %s are a JSON object", policy)
	d := jsontext.NewDecoder(bytes.NewReader(given)) // refuses names that come twice
	if d.PeekKind() != '{' {
		return notObject
	}
	if _, err := d.ReadToken(); err != nil {
		return notObject
	}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return refuse("", "duplicate", "the parameters of %s name a parameter twice", policy)
		}
		if err != nil {
			return notObject
		}
		name := token.String()
		at := jsontext.Pointer("").AppendToken(name)
		i := slices.Index(names, name)
		if i < 0 {
			hint := ""
			if best := hare.Nearest(hare.Cut(name, 60), names); best != "" {
				hint = fmt.Sprintf("did you mean %q? ", best)
			}
			return refuse(at, "unknown_member", "%s has no parameter %.60q: %sit has %s", policy, name, hint,
				strings.Join(names, ", "))
		}
		value, err := d.ReadValue()
		if err != nil {
			return notObject
		}
		if !known[i].set(c, value) {
			return refuse(at, "out_of_range", "%s of %s is %s", name, policy, known[i].kind)
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return notObject
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return notObject
	}
	return nil
}

// Refuse is the error for a value that another one rules out. pointer is into the object.
func Refuse(pointer, format string, a ...any) error {
	return &hare.InvalidError{Pointer: pointer, Code: "out_of_range", Detail: fmt.Sprintf(format, a...)}
}
