package history

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hare-sched/hare/trace"
)

// Limits of one text, and of the jobs of all texts: a year of a large cluster.
const (
	maxBytes = 1 << 30
	maxLine  = 1 << 20
	maxJobs  = 1_000_000
)

// table reads rows of fields that a delimiter separates, without quotes, below a row of names:
// what sacct -P and sacctmgr -P write.
type table struct {
	file      string
	in        *bufio.Reader
	line      int
	delimiter string
	names     []string
	column    map[string]int // by name in lower case
	row       []string
	rows      int
	values    []int
	used      []bool
	// text names columns, in lower case, in which users write what they like, the delimiter too.
	text []string
	// valid reports whether row, with delimiters counted as text in one column, can be meant.
	valid func() bool
}

// errFields says that a row does not have one field for each name.
var errFields = errors.New("the row has another number of fields than the first row has names")

// newTable reads the names.
func newTable(file string, skipped int, in *bufio.Reader, text ...string) (*table, error) {
	t := &table{file: file, in: in, line: skipped, column: map[string]int{}, text: text}
	line, err := t.readLine()
	if errors.Is(err, io.EOF) {
		return nil, t.fault("the text is empty")
	}
	if errors.Is(err, errLong) {
		return nil, t.fault("%v", err)
	}
	if err != nil {
		return nil, err
	}
	t.delimiter = "|"
	for _, d := range []string{"\t", "\x1f", "|", ";", ","} {
		if strings.Contains(line, d) {
			t.delimiter = d
			break
		}
	}
	t.names = strings.Split(line, t.delimiter)
	for i, name := range t.names {
		name = strings.ToLower(name)
		if _, twice := t.column[name]; twice {
			return nil, t.fault("column %.60q is named twice", name)
		}
		t.column[name] = i
	}
	t.values, t.used = make([]int, len(t.names)), make([]bool, len(t.names))
	return t, nil
}

func (t *table) fault(format string, args ...any) error {
	return &RowError{t.place(), fmt.Sprintf(format, args...)}
}

func (t *table) place() Place { return Place{File: t.file, Line: max(1, t.line)} }

// errLong says that a line is too long for a row.
var errLong = fmt.Errorf("the line has more than %d bytes: it is no row of a table", maxLine)

// readLine returns the next line without its end, or errLong for a line that it has passed over.
func (t *table) readLine() (string, error) {
	t.line++
	var long []byte
	skip := false
	for {
		part, err := t.in.ReadSlice('\n')
		switch {
		case skip && (err == nil || errors.Is(err, io.EOF)):
			return "", errLong
		case err == nil || errors.Is(err, io.EOF) && len(long)+len(part) > 0:
			if long != nil {
				part = append(long, part...)
			}
			return string(bytes.TrimRight(part, "\r\n")), nil
		case errors.Is(err, io.EOF):
			return "", io.EOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", t.fault("%v", err)
		}
		if long = append(long, part...); len(long) > maxLine {
			long, skip = long[:0], true
		}
	}
}

// next reads the next row. A row whose number of fields nothing explains gives errFields.
func (t *table) next() (bool, error) {
	for {
		line, err := t.readLine()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if errors.Is(err, errLong) {
			t.rows++
			return true, errFields
		}
		if err != nil {
			return false, err
		}
		if line == "" {
			continue
		}
		t.rows++
		t.split(line)
		if len(t.row) != len(t.names) && !t.repair() {
			return true, errFields
		}
		for i, v := range t.row {
			if v != "" {
				t.values[i]++
			}
		}
		return true, nil
	}
}

// split takes the fields of a line.
func (t *table) split(line string) {
	t.row = t.row[:0]
	for {
		field, rest, more := strings.Cut(line, t.delimiter)
		t.row = append(t.row, field)
		if line = rest; !more {
			return
		}
	}
}

// maxSurplus limits the delimiters in the texts of one row, so that repair ends soon.
const maxSurplus = 6

// repair joins the surplus fields of a row into columns of text, so that the row is valid. A comma may as well cut a
// list of resources or nodes.
func (t *table) repair() bool {
	if t.valid == nil || t.delimiter == "," {
		return false
	}
	var columns []int
	for _, name := range t.text {
		if i, ok := t.column[name]; ok {
			columns = append(columns, i)
		}
	}
	return JoinSurplus(slices.Clone(t.row), len(t.names), columns, t.delimiter, func(row []string) bool {
		t.row = row
		return t.valid()
	}) != nil
}

// JoinSurplus joins fields that delimiters inside texts cut, into columns of text, one or several, so that the row
// has width fields and is valid; the first of these columns get more. nil means that nothing makes the row valid,
// or that it has too few fields, or more than maxSurplus too many.
func JoinSurplus(fields []string, width int, columns []int, delimiter string, valid func(row []string) bool) []string {
	extra := len(fields) - width
	if extra < 0 || extra > maxSurplus {
		return nil
	}
	surplus := make([]int, width) // by column
	var try func(at, left int) []string
	try = func(at, left int) []string {
		if left == 0 {
			if row := joinFields(fields, surplus, delimiter); valid(row) {
				return row
			}
			return nil
		}
		if at == len(columns) {
			return nil
		}
		for n := left; n >= 0; n-- {
			surplus[columns[at]] = n
			if row := try(at+1, left-n); row != nil {
				return row
			}
		}
		return nil
	}
	return try(0, extra)
}

// joinFields joins each field with as many that follow as surplus says.
func joinFields(fields []string, surplus []int, delimiter string) []string {
	row := make([]string, len(surplus))
	at := 0
	for i, n := range surplus {
		row[i] = strings.Join(fields[at:at+n+1], delimiter)
		at += n + 1
	}
	return row
}

// has reports whether the table has the column.
func (t *table) has(name string) bool {
	_, ok := t.column[strings.ToLower(name)]
	return ok
}

// get returns the field of the first of the named columns that the table has; "" without one.
func (t *table) get(names ...string) string {
	for _, name := range names {
		if i, ok := t.column[strings.ToLower(name)]; ok {
			t.used[i] = true
			return strings.TrimSpace(t.row[i])
		}
	}
	return ""
}

// use returns the number of the first of the named columns that the table has, which counts as used; -1 without one.
func (t *table) use(names ...string) int {
	for _, name := range names {
		if i, ok := t.column[name]; ok {
			t.used[i] = true
			return i
		}
	}
	return -1
}

// field returns the field of a column by its number; "" for -1.
func (t *table) field(column int) string {
	if column < 0 {
		return ""
	}
	return strings.TrimSpace(t.row[column])
}

// report describes the table.
func (t *table) report(kind string) File {
	f := File{Name: t.file, Kind: kind, Rows: t.rows}
	for i, name := range t.names {
		c := trace.Column{Name: name, Values: t.values[i]}
		switch {
		case t.used[i]:
			f.Used = append(f.Used, c)
		case c.Values > 0:
			f.Ignored = append(f.Ignored, c)
		}
	}
	return f
}
