package hare

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits bound what a decoder takes.
type Limits struct {
	// MaxBytes limits the document; zero means 64 MiB.
	MaxBytes int64
}

// DefaultMaxBytes is the limit on a document when none is given.
const DefaultMaxBytes = 64 << 20

// maxFaults limits the faults that one pass collects.
const maxFaults = 100

// CodeBodyTooLarge is the code of a document over the limit.
const CodeBodyTooLarge = "body_too_large"

// CodeMalformed is the code of what is not JSON at all.
const CodeMalformed = "malformed"

// errStop ends a pass: the document is not JSON from here on, or has too many
// faults.
var errStop = errors.New("stop")

// reader collects the faults of one document in one pass.
type reader struct {
	text   []byte
	d      *jsontext.Decoder
	faults InvalidErrors
	prefix string // of pointers, for parts of a larger document
}

func newReader(r io.Reader, lim Limits) (*reader, error) {
	if lim.MaxBytes <= 0 {
		lim.MaxBytes = DefaultMaxBytes
	}
	text, err := io.ReadAll(io.LimitReader(r, lim.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > lim.MaxBytes {
		return nil, InvalidErrors{{Code: CodeBodyTooLarge, Detail: fmt.Sprintf("is longer than the limit of %d bytes", lim.MaxBytes)}}
	}
	return &reader{text: text, d: jsontext.NewDecoder(bytes.NewReader(text))}, nil
}

// subReader reads a part of a document that is well-formed.
func subReader(text []byte, prefix string) *reader {
	text = bytes.Clone(text)
	return &reader{text: text, d: jsontext.NewDecoder(bytes.NewReader(text)), prefix: prefix}
}

// finishPart is nil unless there are too many faults to go on.
func (r *reader) finishPart(err error) error {
	if len(r.faults) >= maxFaults {
		return errStop
	}
	if errors.Is(err, errStop) {
		return nil // the part's own faults are recorded
	}
	return err
}

// fault records a fault at the value just read.
func (r *reader) fault(code, format string, a ...any) error {
	return r.faultAt(string(r.d.StackPointer()), code, format, a...)
}

func (r *reader) faultAt(pointer, code, format string, a ...any) error {
	r.faults = append(r.faults, &InvalidError{Pointer: r.prefix + shortPointer(pointer), Code: code, Detail: fmt.Sprintf(format, a...)})
	if len(r.faults) >= maxFaults {
		r.faults = append(r.faults, &InvalidError{Code: "too_many_faults", Detail: fmt.Sprintf("has more than %d faults; the rest is not listed", maxFaults)})
		return errStop
	}
	return nil
}

// shortPointer keeps the pointers of hostile documents readable.
func shortPointer(p string) string {
	if len(p) > 300 {
		return p[:300] + "…"
	}
	return p
}

// broken turns a syntax error into a fault with its line, and ends the pass.
func (r *reader) broken(err error) error {
	if errors.Is(err, errStop) {
		return err
	}
	offset := r.d.InputOffset()
	pointer, what := string(r.d.StackPointer()), err.Error()
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		offset, pointer = syn.ByteOffset, string(syn.JSONPointer)
		what = syn.Err.Error()
	}
	code := CodeMalformed
	switch {
	case len(bytes.TrimSpace(r.text)) == 0:
		what = "the document is empty"
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		what = "the document ends too early"
	case errors.Is(err, jsontext.ErrDuplicateName):
		code, what = "duplicate_name", "the name stands twice in its object: keep one"
	}
	line := 1 + bytes.Count(r.text[:min(int64(len(r.text)), max(0, offset))], []byte("\n"))
	r.faults = append(r.faults, &InvalidError{Pointer: r.prefix + shortPointer(pointer), Code: code, Detail: fmt.Sprintf("%s (line %d)", what, line), Line: line})
	return errStop
}

// finish checks that nothing follows and returns the faults.
func (r *reader) finish(err error) error {
	if err == nil {
		if _, more := r.d.ReadToken(); !errors.Is(more, io.EOF) {
			if more == nil {
				more = errors.New("something follows the document")
			}
			_ = r.broken(more)
		}
	}
	if len(r.faults) > 0 {
		return r.faults
	}
	return nil
}

// skip passes over a value.
func (r *reader) skip() error {
	if err := r.d.SkipValue(); err != nil {
		return r.broken(err)
	}
	return nil
}

// kindName is what people call a JSON value.
func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
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

// want faults a value of another kind, passing over it; ok says it may be read.
func (r *reader) want(kind jsontext.Kind) (ok bool, err error) {
	got := r.d.PeekKind()
	if got == 'f' {
		got = 't'
	}
	if got == kind {
		return true, nil
	}
	if got == 0 || got == '}' || got == ']' {
		_, err := r.d.ReadToken()
		if err == nil {
			err = errors.New("a value is missing")
		}
		return false, r.broken(err)
	}
	if err := r.skip(); err != nil {
		return false, err
	}
	return false, r.fault("wrong_type", "must be %s, not %s", kindName(kind), kindName(got))
}

// object reads an object, calling field for each name with the decoder before
// its value; field returns false for names that it does not know.
func (r *reader) object(known []string, field func(name string) (bool, error)) error {
	if ok, err := r.want('{'); !ok {
		return err
	}
	if _, err := r.d.ReadToken(); err != nil {
		return r.broken(err)
	}
	for r.d.PeekKind() != '}' {
		tok, err := r.d.ReadToken()
		if err != nil {
			return r.broken(err)
		}
		name := tok.String()
		took, err := field(name)
		if err != nil {
			return err
		}
		if took {
			continue
		}
		if err := r.skip(); err != nil {
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

// reserved names are refused, never ignored.
var reserved = []string{"shapes", "after", "deadline_s", "only", "quota", "user", "gpus_per_task", "within", "switch_s", "progress"}

func (r *reader) unknown(name string, known []string) error {
	for _, x := range reserved {
		if x == name {
			return r.fault("not_supported", "%q is not supported by this version: leave it out", name)
		}
	}
	if len(name) > 60 {
		name = name[:60] + "…"
	}
	if best := nearest(name, known); best != "" {
		return r.fault("unknown_field", "unknown field %q: did you mean %q?", name, best)
	}
	return r.fault("unknown_field", "unknown field %q: known are %s", name, strings.Join(known, ", "))
}

// nearest is the known name at the least edit distance, if that is small.
func nearest(name string, known []string) string {
	best, at := len(name)/2+1, ""
	for _, k := range known {
		if d := editDistance(name, k); d < best {
			best, at = d, k
		}
	}
	return at
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		prev := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := prev
			if a[i] != b[j] {
				cost++
			}
			prev = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// array reads an array, calling item before each value.
func (r *reader) array(item func(i int) error) error {
	if ok, err := r.want('['); !ok {
		return err
	}
	if _, err := r.d.ReadToken(); err != nil {
		return r.broken(err)
	}
	for i := 0; r.d.PeekKind() != ']'; i++ {
		if k := r.d.PeekKind(); k == 0 {
			_, err := r.d.ReadToken()
			return r.broken(err)
		}
		if err := item(i); err != nil {
			return err
		}
	}
	if _, err := r.d.ReadToken(); err != nil {
		return r.broken(err)
	}
	return nil
}

// str reads a string.
func (r *reader) str(to *string) error {
	if ok, err := r.want('"'); !ok {
		return err
	}
	tok, err := r.d.ReadToken()
	if err != nil {
		return r.broken(err)
	}
	*to = tok.String()
	return nil
}

// boolean reads true or false.
func (r *reader) boolean(to *bool) error {
	if ok, err := r.want('t'); !ok {
		return err
	}
	tok, err := r.d.ReadToken()
	if err != nil {
		return r.broken(err)
	}
	*to = tok.Bool()
	return nil
}

// number reads a number's text.
func (r *reader) number() (text string, ok bool, err error) {
	if ok, err := r.want('0'); !ok {
		return "", false, err
	}
	v, err := r.d.ReadValue()
	if err != nil {
		return "", false, r.broken(err)
	}
	return string(v), true, nil
}

// micros reads a decimal as millionths between least and MaxExact.
func (r *reader) micros(to *int64, least int64) error {
	text, ok, err := r.number()
	if !ok {
		return err
	}
	n, bad := ParseMicros(text)
	switch {
	case bad != nil:
		return r.fault(decimalCode(bad), "%s %v", clip(text), bad)
	case n < least && least > 0:
		return r.fault("out_of_range", "%s must be positive", clip(text))
	case n < least:
		return r.fault("out_of_range", "%s must not be negative", clip(text))
	case n > MaxExact:
		return r.fault("too_large", "%s is above the limit of %s", clip(text), FormatMicros(MaxExact))
	}
	*to = n
	return nil
}

func decimalCode(err error) string {
	switch {
	case errors.Is(err, errDecimalPlaces):
		return "too_many_decimals"
	case errors.Is(err, errDecimalRange):
		return "too_large"
	}
	return "wrong_type"
}

func clip(text string) string {
	if len(text) > 40 {
		return text[:40] + "…"
	}
	return text
}

// integer reads a whole number between least and most.
func (r *reader) integer(to *int64, least, most int64) error {
	text, ok, err := r.number()
	if !ok {
		return err
	}
	n, bad := ParseMicros(text)
	const million = 1_000_000
	switch {
	case errors.Is(bad, errDecimalPlaces) || bad == nil && n%million != 0:
		return r.fault("wrong_type", "%s must be a whole number", clip(text))
	case bad != nil:
		// Whole numbers beyond 10^12 do not fit as millionths.
		m, ok := wholeNumber(text)
		if !ok || m > most {
			return r.fault("too_large", "%s is above the limit of %d", clip(text), most)
		}
		if m < least {
			return r.fault("out_of_range", "%s must be at least %d", clip(text), least)
		}
		*to = m
		return nil
	}
	n /= million
	switch {
	case n < least:
		return r.fault("out_of_range", "%s must be at least %d", clip(text), least)
	case n > most:
		return r.fault("too_large", "%s is above the limit of %d", clip(text), most)
	}
	*to = n
	return nil
}

func wholeNumber(text string) (int64, bool) {
	if len(text) > 17 {
		return 0, false
	}
	var n int64
	s, neg := text, false
	if strings.HasPrefix(s, "-") {
		s, neg = s[1:], true
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if neg {
		n = -n
	}
	return n, true
}
