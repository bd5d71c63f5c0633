// Package wire reads and writes the documents of the domain: a strict reader that
// reports all faults of a document, each with its JSON pointer, the encoders, and
// the canonical form with its hash.
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

// Limits limits what a decoder accepts. The memory of a decoder is proportional to
// the size of the document. Nesting is limited to 512 levels, and a number to 400
// characters.
type Limits struct {
	// MaxBytes limits the size of the document; zero means 64 MiB.
	MaxBytes int64
	// Claim is asked before a few bytes of the document become many in memory, and an error of it
	// ends the decoding; nil means that this has no limit.
	Claim func(bytes int64) error
}

// DefaultMaxBytes is the greatest size of a document where no limit is given.
const DefaultMaxBytes = 64 << 20

// CodeBodyTooLarge is the code of a document above the limit.
const CodeBodyTooLarge = "body_too_large"

// CodeMalformed is the code of a document that is not JSON.
const CodeMalformed = "malformed"

// errStop ends a pass: the rest of the document is not JSON, there are too many
// faults, or reading failed.
var errStop = errors.New("stop")

// Reader collects the faults of one document in one pass over its tokens.
type Reader struct {
	in     *source
	d      *jsontext.Decoder
	faults hare.InvalidErrors
	failed error              // the error of the underlying reader, or of claim
	claim  func(int64) error  // Limits.Claim; nil means no limit
	prefix string             // prefix of all pointers, for the lines of NDJSON
	one    bool               // the document is one line, whose number the caller knows
	names  map[string]string  // names that were read, so that each is stored once
	found  hare.InvalidErrors // faults of a check, for Table
}

func NewReader(r io.Reader, lim Limits) *Reader {
	if lim.MaxBytes <= 0 {
		lim.MaxBytes = DefaultMaxBytes
	}
	in := &source{r: r, limit: lim.MaxBytes, left: lim.MaxBytes, blank: true}
	// Reader finds duplicate names itself, so that the pass can continue after one.
	d := jsontext.NewDecoder(in, jsontext.AllowDuplicateNames(true))
	return &Reader{in: in, d: d, claim: lim.Claim, names: map[string]string{}}
}

// newLineReader returns a Reader for a document of one line.
func newLineReader(line []byte) *Reader {
	r := NewReader(bytes.NewReader(line), Limits{MaxBytes: int64(len(line)) + 1})
	r.one = true
	return r
}

// NewPartReader returns a Reader for the part of a document that is at pointer.
func NewPartReader(text []byte, pointer string) *Reader {
	r := newLineReader(text)
	r.prefix = pointer
	return r
}

// Pointer returns the pointer of the name or the value that was read last.
func (r *Reader) Pointer() string { return string(r.d.StackPointer()) }

// Raw returns a copy of the next value as it is written.
func (r *Reader) Raw() ([]byte, error) {
	v, err := r.d.ReadValue()
	if err != nil {
		return nil, r.broken(err)
	}
	return []byte(v.Clone()), nil
}

// AddFaults records faults that another reader found.
func (r *Reader) AddFaults(faults hare.InvalidErrors) error {
	r.faults = append(r.faults, faults...)
	if len(r.faults) >= hare.MaxFaults {
		return errStop
	}
	return nil
}

// Faults returns the number of faults so far.
func (r *Reader) Faults() int { return len(r.faults) }

// Fault records a fault at the value that was read last.
func (r *Reader) Fault(code, format string, a ...any) error {
	return r.FaultAt(string(r.d.StackPointer()), code, format, a...)
}

// FaultAt records a fault at a pointer.
func (r *Reader) FaultAt(pointer, code, format string, a ...any) error {
	r.faults = append(r.faults, &hare.InvalidError{Pointer: r.pointer(pointer), Code: code,
		Detail: fmt.Sprintf(format, a...)})
	if len(r.faults) >= hare.MaxFaults {
		r.faults = append(r.faults, &hare.InvalidError{Code: "too_many_faults",
			Detail: fmt.Sprintf("there are more than %d faults: correct these first, the rest is not listed",
				hare.MaxFaults)})
		return errStop
	}
	return nil
}

func (r *Reader) pointer(p string) string { return hare.Cut(r.prefix+p, maxPointer) }

// Report records the faults that a check of an object found, except at pointers at
// which reading has found a fault since there were `before` faults.
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

// maxPointer is the greatest length of a pointer in a fault, since the names of
// hostile documents may be long.
const maxPointer = 300

// broken turns a syntax error into a fault that names its line, and ends the pass.
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
	// A document above the limit is reported as too long, even if it is malformed
	// before.
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
	r.faults = hare.InvalidErrors{{Code: CodeBodyTooLarge, Detail: fmt.Sprintf("the document is longer than the "+
		"limit of %d bytes: split it, or have the limit raised", r.in.limit)}}
	return errStop
}

// Finish checks that nothing follows the document and returns the faults.
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

// reserved lists names of fields of instances that are refused elsewhere because later versions
// may give them a meaning there.
var reserved = []string{"within", "topology", "after", "shapes", "reshape_s", "durations", "deadline_s",
	"late_weight", "quota", "user", "progress", "reservations",
	"gpus_per_task", "cpus_per_task", "memory_mib_per_task", "distinct_nodes", "only", "exclude"}

// unknown refuses the field that was skipped last, and names the nearest known
// field.
func (r *Reader) unknown(name string, known []string) error {
	for _, x := range reserved {
		if x == name {
			return r.Fault("not_supported", "%q is not supported by this version: leave it out", name)
		}
	}
	name = hare.Cut(name, 60)
	if guess := hare.Guess(name, known); guess != "" {
		return r.Fault("unknown_field", "unknown field %q%s", name, guess)
	}
	return r.Fault("unknown_field", "unknown field %q: known are %s", name, strings.Join(known, ", "))
}
