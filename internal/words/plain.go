package words

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// steers reports whether a character does something else than to be seen: control characters,
// characters of direction and format, and separators of lines and paragraphs.
func steers(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Plain returns a name or another text of somebody else with all that steers escaped as in Go and
// JSON, such as \x1b and \u202e. A new line in it is escaped, too.
func Plain(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return steers(r) || r == utf8.RuneError }) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case !steers(r):
			b.WriteString(text[i : i+size])
		case r < ' ':
			fmt.Fprintf(&b, `\x%02x`, r)
		default: // the same character also in a text of JSON
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
		}
		i += size
	}
	return b.String()
}

// PlainLines is Plain for a text of ours with names in it: its lines and tabs remain.
func PlainLines(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		n := strings.IndexAny(text, "\n\t")
		if n < 0 {
			n = len(text)
		}
		b.WriteString(Plain(text[:n]))
		if n < len(text) {
			b.WriteByte(text[n])
			n++
		}
		text = text[n:]
	}
	return b.String()
}

// PlainNames applies Plain to every text in a document that is printed for people next, so that
// no name in it begins a line or a column of its own. The document must have no cycles; its maps
// are not changed.
func PlainNames[T any](document T) T {
	plainValue(reflect.ValueOf(&document).Elem())
	return document
}

func plainValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(Plain(v.String()))
		}
	case reflect.Pointer:
		plainValue(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				plainValue(f)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			plainValue(v.Index(i))
		}
	}
}
