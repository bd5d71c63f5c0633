package hare

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// InvalidError is one fault of an input document.
type InvalidError struct {
	Pointer string `json:"pointer"` // a JSON pointer (RFC 6901); "" is the whole document
	Code    string `json:"code"`    // a stable name in snake_case
	Detail  string `json:"detail"`  // what is wrong and how to mend it
	Line    int    `json:"line,omitempty"`
}

func (e *InvalidError) Error() string {
	p := e.Pointer
	if p == "" {
		p = "document"
	}
	return fmt.Sprintf("%s: %s (%s)", p, e.Detail, e.Code)
}

// InvalidErrors holds all faults found in one pass, in document order. It has at least
// one.
type InvalidErrors []*InvalidError

func (es InvalidErrors) Error() string {
	const shown = 5
	var b strings.Builder
	for i, e := range es {
		if i == shown {
			fmt.Fprintf(&b, "; and %d more", len(es)-shown)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(e.Error())
	}
	return b.String()
}

// Unwrap gives errors.As access to each fault.
func (es InvalidErrors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// MaxFaults limits the faults that one pass collects.
const MaxFaults = 100

// Add appends a fault.
func (es *InvalidErrors) Add(pointer, code, format string, a ...any) {
	*es = append(*es, &InvalidError{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, a...)})
}

// EscapePointer escapes a name as a part of a JSON pointer (RFC 6901).
func EscapePointer(s string) string {
	if !strings.ContainsAny(s, "~/") {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// Clip shortens quoted input to 40 bytes.
func Clip(text string) string { return Cut(text, 40) }

// Cut shortens text to at most most bytes, without cutting a character.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}
