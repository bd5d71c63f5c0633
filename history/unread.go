package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// decode reads a JSON object into v, which points to a struct. Members and elements of lists that do not fit are set
// aside, each with its place, and count as not told; the others are read. An error says that text is no JSON object.
// It takes time in proportion to text, or to text times its depth where something does not fit.
func (r *Report) decode(text json.RawMessage, v any, place Place) error {
	first := json.Unmarshal(text, v)
	if first == nil {
		return nil
	}
	kind := reflect.TypeOf(v).Elem()
	p := pruner{report: r, fits: func(part json.RawMessage) bool {
		return json.Unmarshal(part, reflect.New(kind).Interface()) == nil
	}}
	kept := p.prune(text, func(part json.RawMessage) json.RawMessage { return part }, place)
	reflect.ValueOf(v).Elem().SetZero()
	if kept == nil || bytes.TrimSpace(kept)[0] != '{' || json.Unmarshal(kept, v) != nil {
		return first
	}
	return nil
}

// pruner leaves out of a document what does not fit.
type pruner struct {
	report *Report
	fits   func(json.RawMessage) bool
}

// prune returns what fits of a part of a document; nil if nothing does. whole makes a document with that part alone.
func (p *pruner) prune(part json.RawMessage, whole func(json.RawMessage) json.RawMessage,
	place Place) json.RawMessage {
	if p.fits(whole(part)) {
		return part
	}
	at := func(name string) Place {
		return Place{File: place.File, At: place.At + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)}
	}
	var members map[string]json.RawMessage
	var elements []json.RawMessage
	switch {
	case json.Unmarshal(part, &members) == nil && p.fits(whole(json.RawMessage("{}"))):
		for _, name := range slices.Sorted(maps.Keys(members)) {
			one := func(value json.RawMessage) json.RawMessage {
				text, _ := json.Marshal(map[string]json.RawMessage{name: value})
				return whole(text)
			}
			if kept := p.prune(members[name], one, at(name)); kept != nil {
				members[name] = kept
			} else {
				delete(members, name)
			}
		}
		text, _ := json.Marshal(members)
		return text
	case json.Unmarshal(part, &elements) == nil && p.fits(whole(json.RawMessage("[]"))):
		var kept []json.RawMessage
		for i, element := range elements {
			one := func(value json.RawMessage) json.RawMessage {
				return whole(slices.Concat([]byte("["), value, []byte("]")))
			}
			if fit := p.prune(element, one, at(strconv.Itoa(i))); fit != nil {
				kept = append(kept, fit)
			}
		}
		text, _ := json.Marshal(kept)
		return text
	}
	p.report.setAside(memberName(place.At)+" has another form than is known: counts as not told", place,
		strings.Trim(string(part), `"`))
	return nil
}

// memberName is a JSON pointer such as /jobs/3/time/start without its list and its number: time.start. A pointer
// without words, of a value that stands for an object, gives "a value".
func memberName(pointer string) string {
	var words []string
	for word := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if _, err := strconv.Atoi(word); err != nil && word != "" {
			words = append(words, word)
		}
	}
	if len(words) == 0 {
		return "a value"
	}
	return strings.Join(words[min(1, len(words)-1):], ".")
}

// firstByte returns the first byte of a text that is no space, and leaves the byte there.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(b)) {
			return b, in.UnreadByte()
		}
	}
}

// DecodeObject reads a JSON object into v, which points to a struct, as Read does: members of another form than v has
// are set aside in the report, and the others are read. at is the place that the report names. It returns whether all
// was read; an error means that text is no JSON object.
func (r *Report) DecodeObject(text json.RawMessage, v any, file, at string) (whole bool, err error) {
	before := r.Unread()
	place := Place{File: file, At: at}
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		r.setAside("an entry of a list that is no object: left out", place, string(text))
		return false, &RowError{place, "is no object"}
	}
	if err := r.decode(text, v, place); err != nil {
		return false, &RowError{place, err.Error()}
	}
	return r.Unread() == before, nil
}

// jsonError is an error in a JSON text of which offset bytes were read.
type jsonError struct {
	*RowError
	offset int64
}

// jsonFault names file, pointer and byte of a fault of a JSON text; Read adds the line.
func jsonFault(name, pointer string, d *json.Decoder, err error) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	row := &RowError{Place{File: name, At: pointer}, err.Error()}
	if errors.As(err, &wrong) { // Go's words name Go's types
		a := "a "
		if wrong.Value == "array" || wrong.Value == "object" {
			a = "an "
		}
		row.Reason = strings.TrimPrefix(wrong.Field+": must not be "+a+wrong.Value, ": ")
	}
	if errors.As(err, &syntax) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		row.Reason = fmt.Sprintf("byte %d: the JSON ends or breaks off here: %v", d.InputOffset(), err)
	}
	return &jsonError{row, d.InputOffset()}
}
