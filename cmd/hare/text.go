package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// What people read on standard output and standard error goes through these two. Names come from
// documents that others wrote; so no character of a name may steer the terminal, hide a text or
// feign another one. Documents for programs go to exact(stdout).
var (
	stdout = &textWriter{to: os.Stdout}
	stderr = &textWriter{to: os.Stderr}
)

// steers reports whether a character does something else than to be seen: control characters,
// characters of direction and format, and separators of lines and paragraphs.
func steers(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// plain returns a name or another text of somebody else with all that steers escaped as in Go and
// JSON, such as \x1b and \u202e. A new line in it is escaped, too.
func plain(text string) string {
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

// plainLines is plain for a text of ours with names in it: its lines and tabs remain.
func plainLines(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		n := strings.IndexAny(text, "\n\t")
		if n < 0 {
			n = len(text)
		}
		b.WriteString(plain(text[:n]))
		if n < len(text) {
			b.WriteByte(text[n])
			n++
		}
		text = text[n:]
	}
	return b.String()
}

// textWriter writes text for people by plainLines. Up to three bytes at the end of a Write that
// may be the beginning of a character wait for the next Write. Safe for concurrent use.
type textWriter struct {
	to   *os.File
	mu   sync.Mutex
	part []byte
}

func (tw *textWriter) Write(p []byte) (int, error) {
	tw.mu.Lock()
	defer tw.mu.Unlock()
	text := p
	if len(tw.part) > 0 {
		text = append(tw.part, p...)
		tw.part = nil
	}
	for back := 1; back <= min(utf8.UTFMax-1, len(text)); back++ {
		if end := text[len(text)-back:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRune(end) {
				tw.part = bytes.Clone(end)
				text = text[:len(text)-back]
			}
			break
		}
	}
	if _, err := io.WriteString(tw.to, plainLines(string(text))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// exact returns the writer below a textWriter, for documents that programs read and for outputs of
// jobs; others are returned as they are.
func exact(w io.Writer) io.Writer {
	if tw, ok := w.(*textWriter); ok {
		return tw.to
	}
	return w
}

// plainNames applies plain to every text in a document that is printed for people next, so that
// no name in it begins a line or a column of its own. The document must have no cycles; its maps
// are not changed.
func plainNames[T any](document T) T {
	plainValue(reflect.ValueOf(&document).Elem())
	return document
}

func plainValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(plain(v.String()))
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
