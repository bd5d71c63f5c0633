package wire

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
)

func appendColumn[T int32 | int64](b []byte, xs []T) []byte {
	b = append(b, '[')
	for i, x := range xs {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(x), 10)
	}
	return append(b, ']')
}

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

func appendList[T any](b []byte, xs []T, item func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, x := range xs {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, x)
	}
	return append(b, ']')
}

// appendSet appends a key and its number where the number is not 0.
func appendSet(b []byte, key string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, key...), n, 10)
}

// quoted marks the bytes that a JSON string must escape, and the bytes of multibyte
// characters.
var quoted = func() (is [256]bool) {
	for c := range is {
		is[c] = c < 0x20 || c >= 0x7F || c == '"' || c == '\\'
	}
	return is
}()

// AppendString appends s as RFC 8785 writes strings.
func AppendString(b []byte, s string) []byte {
	for i := range len(s) {
		if quoted[s[i]] {
			out, _ := jsontext.AppendQuote(b, s) // text that is not UTF-8 gets U+FFFD
			return out
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// AppendMap appends an object with one member for each item. It appends nothing
// where items is empty.
func AppendMap[T any](b []byte, items []T, name func(*T) string, value func([]byte, *T) []byte) []byte {
	if len(items) == 0 {
		return b
	}
	return appendObject(b, items, name, value)
}

// appendObject appends an object with one member for each item.
func appendObject[T any](b []byte, items []T, name func(*T) string, value func([]byte, *T) []byte) []byte {
	b = append(b, '{')
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, name(&items[i])), ':')
		b = value(b, &items[i])
	}
	return append(b, '}')
}

// appendFloat appends a finite number as package encoding/json does.
func appendFloat(b []byte, f float64) []byte {
	text, err := json.Marshal(f)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, text...)
}

// appendFloats appends an object of numbers; items are sorted by name.
func appendFloats[T any](b []byte, items []T, of func(*T) (string, float64)) []byte {
	return appendObject(b, items,
		func(x *T) string { name, _ := of(x); return name },
		func(b []byte, x *T) []byte { _, number := of(x); return appendFloat(b, number) })
}

// utf16Sorted returns items sorted by name in the order of RFC 8785, which compares
// UTF-16 code units. Items that are sorted by bytes change places only for names
// beyond U+FFFF.
func utf16Sorted[T any](items []T, name func(T) string) []T {
	if slices.IsSortedFunc(items, func(a, b T) int { return utf16Compare(name(a), name(b)) }) {
		return items
	}
	out := slices.Clone(items)
	slices.SortFunc(out, func(a, b T) int { return utf16Compare(name(a), name(b)) })
	return out
}

func utf16Compare(a, b string) int {
	beyond := func(s string) bool { // U+FFFF: four bytes, two code units
		return strings.IndexFunc(s, func(r rune) bool { return r > 0xFFFF }) >= 0
	}
	if !beyond(a) && !beyond(b) {
		return strings.Compare(a, b)
	}
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}
