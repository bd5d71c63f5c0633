// Package wire has the documents of the domain: a strict reader that says
// everything that is wrong with a document, each fault at its JSON pointer, the
// encoders, and the canonical form with its hash.
package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
)

// Limits bound what a decoder takes. Memory grows with the document, whatever
// is in it; nesting is limited to 512 levels, a number to 400 characters.
type Limits struct {
	// MaxBytes limits the document; zero means 64 MiB.
	MaxBytes int64
}

// DefaultMaxBytes is the limit on a document when none is given.
const DefaultMaxBytes = 64 << 20

// CodeBodyTooLarge is the code of a document over the limit.
const CodeBodyTooLarge = "body_too_large"

// CodeMalformed is the code of what is not JSON at all.
const CodeMalformed = "malformed"

// errStop ends a pass: the document is not JSON from here on, has too many
// faults, or cannot be read.
var errStop = errors.New("stop")

// Reader collects the faults of one document in one pass over its tokens.
type Reader struct {
	in     *source
	d      *jsontext.Decoder
	faults hare.InvalidErrors
	failed error              // of the underlying reader
	prefix string             // of all pointers, for the lines of NDJSON
	one    bool               // the document is a line of something, whose number the caller knows
	names  map[string]string  // names met so far, to hold each once
	found  hare.InvalidErrors // of a check, for Table
}

func NewReader(r io.Reader, lim Limits) *Reader {
	if lim.MaxBytes <= 0 {
		lim.MaxBytes = DefaultMaxBytes
	}
	in := &source{r: r, limit: lim.MaxBytes, left: lim.MaxBytes, blank: true}
	// Duplicate names are found here, so that the pass can go on after one.
	d := jsontext.NewDecoder(in, jsontext.AllowDuplicateNames(true))
	return &Reader{in: in, d: d, names: map[string]string{}}
}

// newLineReader reads a document of one line.
func newLineReader(line []byte) *Reader {
	r := NewReader(bytes.NewReader(line), Limits{MaxBytes: int64(len(line)) + 1})
	r.one = true
	return r
}

// NewPartReader reads a part of a document, which stands at a pointer.
func NewPartReader(text []byte, pointer string) *Reader {
	r := newLineReader(text)
	r.prefix = pointer
	return r
}

// Pointer is that of the name or the value just read.
func (r *Reader) Pointer() string { return string(r.d.StackPointer()) }

// Raw copies a value as it stands.
func (r *Reader) Raw() ([]byte, error) {
	v, err := r.d.ReadValue()
	if err != nil {
		return nil, r.broken(err)
	}
	return []byte(v.Clone()), nil
}

// AddFaults records faults that were found apart.
func (r *Reader) AddFaults(faults hare.InvalidErrors) error {
	r.faults = append(r.faults, faults...)
	if len(r.faults) >= hare.MaxFaults {
		return errStop
	}
	return nil
}

// Faults counts the faults so far.
func (r *Reader) Faults() int { return len(r.faults) }

// Fault records a fault at the value just read.
func (r *Reader) Fault(code, format string, a ...any) error {
	return r.FaultAt(string(r.d.StackPointer()), code, format, a...)
}

// FaultAt records a fault at a pointer.
func (r *Reader) FaultAt(pointer, code, format string, a ...any) error {
	r.faults = append(r.faults, &hare.InvalidError{Pointer: r.pointer(pointer), Code: code, Detail: fmt.Sprintf(format, a...)})
	if len(r.faults) >= hare.MaxFaults {
		r.faults = append(r.faults, &hare.InvalidError{Code: "too_many_faults", Detail: fmt.Sprintf("there are more than %d faults: correct these first, the rest is not listed", hare.MaxFaults)})
		return errStop
	}
	return nil
}

func (r *Reader) pointer(p string) string { return hare.Cut(r.prefix+p, maxPointer) }

// Report records faults found by a check of an object, except at pointers at
// which reading has found one since there were `before` faults.
func (r *Reader) Report(before int, found hare.InvalidErrors) error {
	if len(found) == 0 {
		return nil
	}
	said := make(map[string]bool, len(r.faults)-before)
	for _, f := range r.faults[before:] {
		said[f.Pointer] = true
	}
	for _, f := range found {
		if said[r.pointer(f.Pointer)] {
			continue
		}
		if err := r.FaultAt(f.Pointer, f.Code, "%s", f.Detail); err != nil {
			return err
		}
	}
	return nil
}

// maxPointer keeps the pointers of hostile documents readable.
const maxPointer = 300

// broken turns a syntax error into a fault with its line, and ends the pass.
func (r *Reader) broken(err error) error {
	switch {
	case errors.Is(err, errStop):
		return err
	case r.in.over:
		return r.tooLong()
	case r.in.err != nil:
		r.failed = r.in.err
		return errStop
	}
	ahead, pointer, what := int64(0), string(r.d.StackPointer()), err.Error()
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		ahead, pointer, what = syn.ByteOffset-r.d.InputOffset(), string(syn.JSONPointer), syn.Err.Error()
	}
	switch {
	case r.in.blank:
		what = "the document is empty: give one JSON object"
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		what = "the document ends too early: it was cut off, or a bracket or quote is missing"
	case strings.Contains(what, "max depth"):
		what = errDepth.Error()
	}
	line := r.in.line(r.d.UnreadBuffer(), ahead)
	// Too long is what an endless document is, whatever its beginning.
	if _, _ = io.Copy(io.Discard, r.in); r.in.over {
		return r.tooLong()
	}
	f := &hare.InvalidError{Pointer: r.pointer(pointer), Code: CodeMalformed, Detail: what}
	if !r.one {
		f.Detail, f.Line = fmt.Sprintf("%s (line %d)", what, line), line
	}
	r.faults = append(r.faults, f)
	return errStop
}

func (r *Reader) tooLong() error {
	r.faults = hare.InvalidErrors{{Code: CodeBodyTooLarge, Detail: fmt.Sprintf("the document is longer than the limit of %d bytes: split it, or have the limit raised", r.in.limit)}}
	return errStop
}

// Finish checks that nothing follows and returns the faults.
func (r *Reader) Finish(err error) error {
	if err == nil {
		_, more := r.d.ReadToken()
		switch {
		case more == nil:
			_ = r.broken(errors.New("something follows the document: leave it out"))
		case !errors.Is(more, io.EOF):
			_ = r.broken(more)
		}
	} else {
		_ = r.broken(err)
	}
	if r.failed != nil {
		return r.failed
	}
	if len(r.faults) > 0 {
		return r.faults
	}
	return nil
}

// reserved names are refused, never ignored.
var reserved = []string{"shapes", "after", "deadline_s", "only", "quota", "user", "gpus_per_task", "within", "switch_s", "progress"}

// unknown refuses the field just passed over, naming the nearest known one.
func (r *Reader) unknown(name string, known []string) error {
	for _, x := range reserved {
		if x == name {
			return r.Fault("not_supported", "%q is not supported by this version: leave it out", name)
		}
	}
	name = hare.Cut(name, 60)
	if best := hare.Nearest(name, known); best != "" {
		return r.Fault("unknown_field", "unknown field %q: did you mean %q?", name, best)
	}
	return r.Fault("unknown_field", "unknown field %q: known are %s", name, strings.Join(known, ", "))
}
