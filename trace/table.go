package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strings"

	hare "github.com/hare-sched/hare"
)

// maxBytes limits the bytes read of one text.
const maxBytes = 256 << 20

// RowError is an error at a position in a text. Line and column count from 1, the column
// in bytes.
type RowError struct {
	File         string
	Line, Column int
	Reason       string
}

func (re *RowError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", re.File, re.Line, re.Column, re.Reason)
}

// table reads a CSV text with a header, one row at a time.
type table struct {
	file   string
	r      *csv.Reader
	limit  *io.LimitedReader
	column map[string]int
	row    []string
	derive func() // appends fields to a row that follow from others
	rows   int
	names  []string     // the columns of the text, in their order
	values []int        // how many rows have a value, by column
	used   map[int]bool // the columns that were asked for
}

// newTable reads the header, which must have the required columns; others may follow.
func newTable(src Source, required ...string) (*table, error) {
	t := &table{file: src.Name, column: map[string]int{}, used: map[int]bool{}}
	if t.file == "" {
		t.file = "input"
	}
	if src.R == nil {
		return nil, &RowError{t.file, 1, 1, "nothing to read"}
	}
	t.limit = &io.LimitedReader{R: src.R, N: maxBytes + 1}
	t.r = csv.NewReader(t.limit)
	t.r.ReuseRecord = true
	if err := t.read(); err == io.EOF {
		return nil, &RowError{t.file, 1, 1, "empty; the first line must name the columns " +
			strings.Join(required, ",")}
	} else if err != nil {
		return nil, err
	}
	for i, name := range t.row {
		if i == 0 {
			name = strings.TrimPrefix(name, "\ufeff")
		}
		name = strings.Clone(name)
		if _, twice := t.column[name]; twice {
			line, col := t.r.FieldPos(i)
			return nil, &RowError{t.file, line, col, fmt.Sprintf("column %q is named twice", name)}
		}
		t.column[name] = i
		t.names = append(t.names, name)
	}
	t.values = make([]int, len(t.names))
	for _, name := range required {
		if _, ok := t.column[name]; !ok {
			return nil, &RowError{t.file, 1, 1, fmt.Sprintf("no column %q; needed are %s", name,
				strings.Join(required, ","))}
		}
	}
	return t, nil
}

// next moves to the next row and returns false at the end.
func (t *table) next() (bool, error) {
	err := t.read()
	if err == io.EOF {
		return false, nil
	}
	return err == nil, err
}

func (t *table) read() error {
	row, err := t.r.Read()
	if t.limit.N == 0 {
		return fmt.Errorf("%s: more than %d MiB", t.file, maxBytes>>20)
	}
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return &RowError{t.file, parse.Line, parse.Column, parse.Err.Error()}
	}
	if err == io.EOF {
		return io.EOF
	}
	if err != nil {
		return fmt.Errorf("%s: %w", t.file, err)
	}
	t.row = row
	for i := range t.values {
		if row[i] != "" {
			t.values[i]++
		}
	}
	if t.derive != nil {
		t.derive()
	}
	return nil
}

// text returns the field of the named column without blanks around it.
func (t *table) text(column string) string {
	at := t.column[column]
	t.used[at] = true
	return strings.TrimSpace(t.row[at])
}

// columns lists the columns that were asked for and those that were not.
func (t *table) columns() (used, ignored []Column) {
	for i, name := range t.names {
		c := Column{name, t.values[i]}
		if t.used[i] {
			used = append(used, c)
		} else {
			ignored = append(ignored, c)
		}
	}
	return used, ignored
}

// errorAt returns an error at the named column of this row.
func (t *table) errorAt(column, format string, args ...any) error {
	at := t.column[column]
	if at >= len(t.names) {
		at = 0 // a derived field is not in the text
	}
	line, col := t.r.FieldPos(at)
	return &RowError{t.file, line, col, column + ": " + fmt.Sprintf(format, args...)}
}

// line returns the number of this row's first line.
func (t *table) line() int {
	line, _ := t.r.FieldPos(0)
	return line
}

// count reads an integer from least to 2^53.
func (t *table) count(column string, least int64) (int64, error) {
	v, err := t.decimal(column, 0)
	if err == nil && v < least {
		err = t.errorAt(column, "%d is less than %d", v, least)
	}
	return v, err
}

// decimal reads a number that is not negative in units of 10^-digits, rounded to the
// nearest unit.
func (t *table) decimal(column string, digits int) (int64, error) {
	text := t.text(column)
	v, reason := parseDecimal(text, digits)
	if reason != "" {
		return 0, t.errorAt(column, "%q %s", truncate(text), reason)
	}
	return v, nil
}

// truncate shortens a field for use in a message.
func truncate(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// parseDecimal reads digits with an optional point exactly, as a multiple of 10^-digits
// of at most 2^53; further decimals are rounded to the nearest multiple. With digits 0,
// only zeros may follow the point. The reason is empty if the text is valid.
func parseDecimal(text string, digits int) (v int64, reason string) {
	if text == "" {
		return 0, "is not a number"
	}
	if text[0] == '-' {
		if len(text) > 1 && text[1] != '-' {
			if _, reason := parseDecimal(text[1:], digits); reason == "" || reason == "is too large" {
				return 0, "is negative"
			}
		}
		return 0, "is not a number"
	}
	whole, fraction, point := strings.Cut(text, ".")
	if whole == "" || point && fraction == "" {
		return 0, "is not a number"
	}
	for _, c := range []byte(whole + fraction) {
		if c < '0' || c > '9' {
			return 0, "is not a number (digits and a point, no exponent)"
		}
	}
	if digits == 0 && strings.Trim(fraction, "0") != "" {
		return 0, "is not a whole number"
	}
	for i := range len(whole) + digits {
		var d byte = '0'
		if i < len(whole) {
			d = whole[i]
		} else if k := i - len(whole); k < len(fraction) {
			d = fraction[k]
		}
		if v > (math.MaxInt64-9)/10 {
			return 0, "is too large"
		}
		v = v*10 + int64(d-'0')
	}
	if len(fraction) > digits && fraction[digits] >= '5' {
		v++
	}
	if v > hare.MaxExact {
		return 0, "is too large"
	}
	return v, ""
}

// roundHalfUp returns the nearest integer to x, with halves rounded up. It returns false
// beyond 2^53.
func roundHalfUp(x *big.Rat) (v int64, ok bool) {
	n := new(big.Int).Lsh(x.Num(), 1)
	n.Add(n, x.Denom())
	n.Div(n, new(big.Int).Lsh(x.Denom(), 1))
	if !n.IsInt64() || n.Int64() > hare.MaxExact || n.Int64() < -hare.MaxExact {
		return 0, false
	}
	return n.Int64(), true
}

// Column is a column of a trace and how many of its rows have a value there.
type Column struct {
	Name   string `json:"name"`
	Values int    `json:"values"`
}
