// Package wire reads and writes the documents of the domain: a strict reader that
// reports all faults of a document, each with its JSON pointer, the encoders, and
// the canonical form with its hash.
//
// The files stand in three layers. At the bottom are the reader of values, what appends them, and the table that
// writes down a form in one place (reader.go, append.go, table.go, field.go). In the middle are the documents, a file
// for each part of an instance, of a result and of events. On top are requests, logs of sessions, and the list of
// forms in the specification (request.go).
package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
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
			_ = r.broken(errors.New("something follows the document: remove it"))
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
	return r.Fault("unknown_field", "unknown field %q: the known fields are %s", name, strings.Join(known, ", "))
}

// Limits of every value of a document, also in unknown fields. Both verifiers have
// the same limits.
const (
	maxDepth  = 512 // levels of nesting; the outermost object is level 1
	maxNumber = 400 // characters of a number
)

// errDepth ends a pass at a value that is nested too deeply.
var errDepth = fmt.Errorf("the document is nested more than %d levels deep", maxDepth)

// Skip skips a value. A skipped value must still keep the rules of all values:
// unique names, and the limits of nesting and numbers.
func (r *Reader) Skip() error {
	switch r.d.PeekKind() {
	case '{':
		return r.Object(nil, func(string) (bool, error) { return true, r.Skip() })
	case '[':
		return r.Array(func(int) error { return r.Skip() })
	case '0':
		_, err := r.numberText()
		return err
	}
	if err := r.d.SkipValue(); err != nil {
		return r.broken(err)
	}
	return nil
}

// open reads the bracket that opens an object or an array.
func (r *Reader) open() error {
	if _, err := r.d.ReadToken(); err != nil {
		return r.broken(err)
	}
	if r.d.StackDepth() > maxDepth {
		return r.broken(errDepth)
	}
	return nil
}

// kindName returns the name of a kind of JSON value, for messages.
func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "something else"
}

// Is reports whether the next value is of this kind.
func (r *Reader) Is(kind jsontext.Kind) bool {
	got := r.d.PeekKind()
	return got == kind || got == 'f' && kind == 't'
}

// Want checks the kind of the next value. A value of another kind is skipped and
// recorded as a fault; ok reports whether the value can be read.
func (r *Reader) Want(kind jsontext.Kind) (ok bool, err error) {
	if r.Is(kind) {
		return true, nil
	}
	got := r.d.PeekKind()
	if got == 0 || got == '}' || got == ']' {
		_, err := r.d.ReadToken()
		if err == nil {
			err = errors.New("a value is missing")
		}
		return false, r.broken(err)
	}
	if err := r.Skip(); err != nil {
		return false, err
	}
	return false, r.Fault("wrong_type", "must be %s, not %s", kindName(kind), kindName(got))
}

// nameSet finds names that occur twice in an object. Most objects are small.
type nameSet struct {
	few  [12]string
	n    int
	many map[string]struct{}
}

// add reports whether name is new.
func (s *nameSet) add(name string) bool {
	if s.many != nil {
		if _, twice := s.many[name]; twice {
			return false
		}
		s.many[name] = struct{}{}
		return true
	}
	for _, x := range s.few[:s.n] {
		if x == name {
			return false
		}
	}
	if s.n < len(s.few) {
		s.few[s.n] = name
		s.n++
		return true
	}
	s.many = make(map[string]struct{}, 4*len(s.few))
	for _, x := range s.few {
		s.many[x] = struct{}{}
	}
	s.many[name] = struct{}{}
	return true
}

// rawName reads the name of a member. The name is valid until the next read.
func (r *Reader) rawName() ([]byte, error) {
	v, err := r.d.ReadValue()
	if err != nil {
		return nil, r.broken(err)
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1], nil
	}
	if v, err = jsontext.AppendUnquote(nil, v); err != nil {
		return nil, r.broken(err)
	}
	return v, nil
}

// twice skips a member whose name its object had before, and records the fault.
func (r *Reader) twice(name string) error {
	if err := r.Skip(); err != nil {
		return err
	}
	return r.Fault("duplicate_name", "%q appears twice in its object: keep one", hare.Clip(name))
}

// name reads the name of a member. Equal names share one string.
func (r *Reader) name() (string, error) {
	v, err := r.rawName()
	if err != nil {
		return "", err
	}
	if s, ok := r.names[string(v)]; ok {
		return s, nil
	}
	s := string(v)
	if len(r.names) < 1024 && len(s) <= 64 {
		r.names[s] = s
	}
	return s, nil
}

// Object reads an object and calls field for each name, when the value is the next
// to be read; field returns false for unknown names.
func (r *Reader) Object(known []string, field func(name string) (bool, error)) error {
	if ok, err := r.Want('{'); !ok {
		return err
	}
	if err := r.open(); err != nil {
		return err
	}
	var seen nameSet
	for r.d.PeekKind() != '}' {
		name, err := r.name()
		if err != nil {
			return err
		}
		if !seen.add(name) {
			if err := r.twice(name); err != nil {
				return err
			}
			continue
		}
		took, err := field(name)
		if err != nil {
			return err
		}
		if took {
			continue
		}
		if err := r.Skip(); err != nil {
			return err
		}
		if err := r.unknown(name, known); err != nil {
			return err
		}
	}
	if _, err := r.d.ReadToken(); err != nil {
		return r.broken(err)
	}
	return nil
}

// Array reads an array and calls item before each value.
func (r *Reader) Array(item func(i int) error) error {
	if ok, err := r.Want('['); !ok {
		return err
	}
	if err := r.open(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		switch r.d.PeekKind() {
		case 0, '}':
			_, err := r.d.ReadToken()
			if err == nil {
				err = errors.New("a value is missing")
			}
			return r.broken(err)
		case ']':
			if _, err := r.d.ReadToken(); err != nil {
				return r.broken(err)
			}
			return nil
		}
		if err := item(i); err != nil {
			return err
		}
	}
}

// String reads a string.
func (r *Reader) String(to *string) error {
	if ok, err := r.Want('"'); !ok {
		return err
	}
	tok, err := r.d.ReadToken()
	if err != nil {
		return r.broken(err)
	}
	*to = tok.String()
	return nil
}

// Word reads a string that selects something and therefore must not be empty.
func (r *Reader) Word(to *string) error {
	if ok, err := r.Want('"'); !ok {
		return err
	}
	tok, err := r.d.ReadToken()
	if err != nil {
		return r.broken(err)
	}
	if *to = tok.String(); *to == "" {
		return r.Fault("unknown_value", "must not be empty: leave the field out for the default")
	}
	return nil
}

// Bool reads true or false.
func (r *Reader) Bool(to *bool) error {
	if ok, err := r.Want('t'); !ok {
		return err
	}
	tok, err := r.d.ReadToken()
	if err != nil {
		return r.broken(err)
	}
	*to = tok.Bool()
	return nil
}

// Number reads the text of a number.
func (r *Reader) Number() (text string, ok bool, err error) {
	v, err := r.numberOrFault()
	return string(v), v != nil, err
}

// numberOrFault reads the text of a number, which is valid until the next read. It
// returns nil for a value of another kind and for a number that is too long, after
// recording the fault.
func (r *Reader) numberOrFault() ([]byte, error) {
	if ok, err := r.Want('0'); !ok {
		return nil, err
	}
	return r.numberText()
}

// plainDecimal reads a number in the form that programs write, as a multiple of
// 10^-places up to MaxExact; hare.ParseDecimal reads the numbers that it refuses.
func plainDecimal(text []byte, places int) (int64, bool) {
	s := scanner{b: text}
	n, ok := s.decimal(places)
	return n, ok && s.i == len(text)
}

// numberText reads the text of a number; nil means that the number is too long,
// which was recorded as a fault.
func (r *Reader) numberText() ([]byte, error) {
	v, err := r.d.ReadValue()
	if err != nil {
		return nil, r.broken(err)
	}
	if len(v) > maxNumber {
		return nil, r.Fault("too_long", "a number has %d characters: give at most %d", len(v), maxNumber)
	}
	return v, nil
}

// sha256 reads the hash of an instance; null means none.
func (r *Reader) sha256(to *string) error {
	if r.Is('n') {
		return r.Skip()
	}
	before := len(r.faults)
	text := ""
	if err := r.String(&text); err != nil || len(r.faults) > before {
		return err
	}
	if len(text) != 64 || strings.Trim(text, "0123456789abcdef") != "" {
		return r.Fault("bad_hash", "%q is not a SHA-256 hash: give 64 lower-case hexadecimal digits, or leave it out",
			hare.Clip(text))
	}
	*to = text
	return nil
}

// Micros reads a decimal as millionths between least, which is 0 or 1, and MaxExact.
func (r *Reader) Micros(to *int64, least int64) error {
	v, err := r.numberOrFault()
	if v == nil {
		return err
	}
	if n, ok := plainDecimal(v, 6); ok && n >= least {
		*to = n
		return nil
	}
	text := string(v)
	n, bad := hare.ParseDecimal(text, 6)
	switch {
	case errors.Is(bad, hare.ErrDecimalPlaces):
		return r.Fault("too_many_decimals", "%s has more than six decimals: round it to millionths", hare.Clip(text))
	case bad == nil && n < 0 || errors.Is(bad, hare.ErrDecimalRange) && text[0] == '-':
		return r.Fault("out_of_range", "%s must not be negative", hare.Clip(text))
	case bad != nil || n > hare.MaxExact:
		return r.Fault("too_large", "%s is above the limit of %s", hare.Clip(text), hare.FormatMicros(hare.MaxExact))
	case n < least:
		return r.Fault("out_of_range", "%s must be positive, at least 0.000001", hare.Clip(text))
	}
	*to = n
	return nil
}

// Millis reads a decimal with at most three places, between least and most thousandths.
func (r *Reader) Millis(to *int64, least, most int64) error {
	v, err := r.numberOrFault()
	if v == nil {
		return err
	}
	text := string(v)
	n, bad := hare.ParseDecimal(text, 3)
	switch {
	case errors.Is(bad, hare.ErrDecimalPlaces):
		return r.Fault("too_many_decimals", "%s has more than three decimals: round it to thousandths",
			hare.Clip(text))
	case bad != nil || n < least || n > most:
		return r.Fault("out_of_range", "%s must be between %s and %s", hare.Clip(text), hare.FormatMillis(least),
			hare.FormatMillis(most))
	}
	*to = n
	return nil
}

// Integer reads a whole number between least and most.
func (r *Reader) Integer(to *int64, least, most int64) error {
	v, err := r.numberOrFault()
	if v == nil {
		return err
	}
	if n, ok := plainDecimal(v, 0); ok && least <= n && n <= most {
		*to = n
		return nil
	}
	text := string(v)
	n, bad := hare.ParseDecimal(text, 0)
	negative := strings.HasPrefix(text, "-")
	switch {
	case errors.Is(bad, hare.ErrDecimalPlaces):
		return r.Fault("wrong_type", "%s must be a whole number", hare.Clip(text))
	case bad == nil && n < least || bad != nil && negative:
		return r.Fault("out_of_range", "%s must be at least %d", hare.Clip(text), least)
	case bad != nil || n > most:
		return r.Fault("too_large", "%s is above the limit of %d", hare.Clip(text), most)
	}
	*to = n
	return nil
}

// OneOf reads a string that must be one of known.
func (r *Reader) OneOf(to *string, known ...string) error {
	from := len(r.faults)
	if err := r.String(to); err != nil || len(r.faults) > from {
		return err
	}
	if slices.Contains(known, *to) {
		return nil
	}
	return r.Fault("unknown_value", "%q is not one of %s%s", hare.Clip(*to), strings.Join(known, ", "),
		hare.Guess(*to, known))
}
