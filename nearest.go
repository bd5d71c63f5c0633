package hare

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Nearest returns the known name that was meant by a mistyped one, or "" where that is not certain enough to be said.
// A guess must not lead to something else than was meant. Therefore a slip of the fingers is taken for one, and a word
// of its own is not: the two names have the same digits (A100 is not H100), their words begin with the same letters
// (import is not export), each word differs by few letters for its length (task_finished is not task_failed), and no
// other known name is as near. Capitals, hyphens and underscores do not count. It takes O(len(name) · length of all
// known).
func Nearest(name string, known []string) string {
	const far = 4
	least, at := far, ""
	typed := splitName(name)
	for _, k := range known {
		switch d := typed.slips(splitName(k)); {
		case d < least:
			least, at = d, k
		case d == least && d < far && k != at:
			at = "" // two are equally near
		}
	}
	return at
}

// Guess says in a sentence's end which known name was meant: `: did you mean "x"?`; "" where Nearest gives none.
func Guess(name string, known []string) string {
	near := Nearest(Cut(name, 200), known)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", Cut(near, 80))
}

// Names lists at most most of the names, quoted, and says how many there are beside them.
func Names(names []string, most int) string {
	var b strings.Builder
	for i, name := range names[:min(most, len(names))] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", Clip(name))
	}
	if more := len(names) - most; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// nameParts are the lower-case words of a name, and its digits one after the other.
type nameParts struct {
	words  []string
	digits string
}

func splitName(name string) (p nameParts) {
	var digits strings.Builder
	word := ""
	end := func() {
		if word != "" {
			p.words = append(p.words, word)
		}
		word = ""
	}
	for _, r := range name {
		switch {
		case unicode.IsLetter(r):
			word += string(unicode.ToLower(r))
			continue
		case unicode.IsDigit(r):
			digits.WriteRune(r)
		}
		end()
	}
	end()
	p.digits = digits.String()
	return p
}

// noSlip is a number of slips above what Nearest takes.
const noSlip = 100

// slips counts the slips by which one name becomes the other; noSlip where it is another name.
func (p nameParts) slips(other nameParts) int {
	a, b := strings.Join(p.words, ""), strings.Join(other.words, "")
	switch {
	case p.digits != other.digits:
		return noSlip
	case a == b:
		return 0
	case len(p.words) != len(other.words):
		// A separator or the last letters are missing: timelimt for time-limit, release for release_s.
		if begins(a, b, 2) || min(len(a), len(b)) >= 6 && wordSlips(a, b) <= 1 {
			return 1
		}
		return noSlip
	}
	sum := 0
	for i, word := range p.words {
		sum += wordSlips(word, other.words[i])
	}
	return sum
}

// opposites are beginnings of words that differ in few letters and mean the contrary.
var opposites = [][2]string{{"min", "max"}, {"start", "stop"}, {"under", "upper"}, {"more", "most"}, {"none", "node"}}

// wordSlips counts the letters that are missing, added, changed or swapped; noSlip where it is another word.
func wordSlips(a, b string) int {
	if a == b {
		return 0
	}
	if trimPlural(a) == trimPlural(b) {
		return 1
	}
	for _, x := range opposites {
		if strings.HasPrefix(a, x[0]) && strings.HasPrefix(b, x[1]) ||
			strings.HasPrefix(a, x[1]) && strings.HasPrefix(b, x[0]) {
			return noSlip
		}
	}
	r, s := []rune(a), []rune(b)
	short := min(len(r), len(s))
	d := editDistance(r, s)
	switch swapped := short > 1 && r[0] == s[1] && r[1] == s[0]; {
	case r[0] != s[0] && !swapped:
		return noSlip
	case d <= short/4, d == 1 && short == 3, begins(a, b, short/2), d == 2 && short <= 6 && sameLetters(r, s):
		return d
	}
	return noSlip
}

// trimPlural returns the word without the ending of its plural.
func trimPlural(word string) string {
	if stem, ok := strings.CutSuffix(word, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(word, "s")
}

// begins reports whether one word is the beginning of the other, with at most more letters behind.
func begins(a, b string, more int) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return len(a) > 1 && len(b)-len(a) <= more && strings.HasPrefix(b, a)
}

func sameLetters(a, b []rune) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// editDistance counts the letters to insert, remove or change, and neighbours to swap. It takes O(len(a)·len(b)).
func editDistance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range b {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
