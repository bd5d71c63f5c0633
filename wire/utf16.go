package wire

import (
	"slices"
	"strings"
	"unicode/utf16"
)

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
