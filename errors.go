package hare

import (
	"fmt"
	"strings"
)

// InvalidError is one fault of an input document.
type InvalidError struct {
	Pointer string `json:"pointer"` // RFC 6901; "" is the whole document
	Code    string `json:"code"`    // stable, snake_case
	Detail  string `json:"detail"`  // what is wrong and what to do
	Line    int    `json:"line,omitempty"`
}

func (e *InvalidError) Error() string {
	p := e.Pointer
	if p == "" {
		p = "document"
	}
	return fmt.Sprintf("%s: %s (%s)", p, e.Detail, e.Code)
}

// InvalidErrors are all faults found in one pass, in document order, at least one.
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

// Unwrap gives errors.As each fault.
func (es InvalidErrors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}
