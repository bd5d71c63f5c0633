package wire

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hare-sched/hare"
)

// Table writes down a document of type T in one place: a row has a field's name,
// its parser, its encoder and its form in the specification. The order of the
// rows is that of the encoder and of the specification.
type Table[T any] struct {
	name, about string
	fields      []Field[T]
	rows        []writer[T]
	names       []string
	known       []string // names that faults propose: all names except those of hidden fields
	index       nameIndex
	required    uint64 // one bit for each field that must be present
	open        bool
	growing     bool
	check       func(v *T, has Members, found *hare.InvalidErrors)
}

// Field is one row of a Table.
type Field[T any] struct {
	name   string
	read   func(r *Reader, v *T) error
	write  func(b []byte, v *T) []byte // appends nothing where the field is left out
	micros func(v *T) *int64           // returns the number of a field that Micros made
	needed bool
	always bool   // the field is written even where it has its zero value
	hidden bool   // the specification does not show the field
	quiet  bool   // the table's check reports that the field is missing
	remedy string // what a fault proposes where a needed field is missing
	zero   string // what is written for a needed field where write appends nothing
	form   fieldForm
}

// writer holds what Append needs to write one field.
type writer[T any] struct {
	key   [16]byte // the key as it is written: ,"name":
	short int      // length of key; 0 means that the key does not fit, and long holds it
	long  string
	write func(b []byte, v *T) []byte
	zero  string // what is written where write appends nothing; "" leaves the field out
	// micros returns the number of a field that is written as millionths; such a
	// field does not use write.
	micros func(v *T) *int64
}

func (w *writer[T]) appendKey(b []byte) []byte {
	if w.short > 0 {
		n := len(b) + w.short
		return append(b, w.key[:]...)[:n] // a copy of fixed length is fast
	}
	return append(b, w.long...)
}

func newWriters[T any](fields []Field[T]) []writer[T] {
	var rows []writer[T]
	for _, f := range fields {
		if f.write == nil {
			continue
		}
		w := writer[T]{long: `,"` + f.name + `":`, write: f.write, micros: f.micros}
		if len(w.long) <= len(w.key) {
			w.short = copy(w.key[:], w.long)
		}
		if f.always {
			w.zero = f.zero
		}
		rows = append(rows, w)
	}
	return rows
}

// NewTable makes the table of a document; name is the name of the document in the
// specification.
func NewTable[T any](name, about string, fields ...Field[T]) *Table[T] {
	if len(fields) > 64 {
		panic("wire: " + name + " has more than 64 fields")
	}
	t := &Table[T]{name: name, about: about, fields: fields}
	for i, f := range fields {
		t.names = append(t.names, f.name)
		if !f.hidden {
			t.known = append(t.known, f.name)
		}
		if f.needed && !f.quiet {
			t.required |= 1 << i
		}
	}
	for i, name := range t.names {
		if slices.Contains(t.names[:i], name) {
			panic("wire: " + t.name + " has two fields " + name)
		}
	}
	t.index = newNameIndex(t.names)
	t.rows = newWriters(fields)
	return t
}

// Open makes the table accept fields that this version does not know; the reader
// skips these fields.
func (t *Table[T]) Open() *Table[T] {
	t.open = true
	return t
}

// Growing says in the specification that documents of later versions may have more
// fields. The reader of this version refuses them, unlike that of an Open table.
func (t *Table[T]) Growing() *Table[T] {
	t.growing = true
	return t
}

// Part returns a table with some of the fields of t, in the order of names.
func (t *Table[T]) Part(name, about string, names ...string) *Table[T] {
	var fields []Field[T]
	for _, n := range names {
		fields = append(fields, t.fields[slices.Index(t.names, n)])
	}
	return NewTable(name, about, fields...)
}

// Check adds a check of the whole object. The pointers that check reports are
// relative to the object. A fault is not reported at a pointer at which reading has
// already found one.
func (t *Table[T]) Check(check func(v *T, has Members, found *hare.InvalidErrors)) *Table[T] {
	t.check = check
	return t
}

// Members tells which fields of the table an object has.
type Members struct {
	// Sound means that reading the object found no fault.
	Sound bool
	names []string
	bits  uint64
}

// Has reports whether the object has the field.
func (m Members) Has(name string) bool {
	for i, x := range m.names {
		if x == name {
			return m.bits>>i&1 != 0
		}
	}
	panic("wire: the table has no field " + name)
}

// Names returns the fields that the object has, in the order of the table.
func (m Members) Names() []string {
	var names []string
	for i, x := range m.names {
		if m.bits>>i&1 != 0 {
			names = append(names, x)
		}
	}
	return names
}

// None reports whether the object has no field of the table.
func (m Members) None() bool { return m.bits == 0 }

// Read reads an object into v. The reader r keeps the faults; an error ends the
// pass.
func (t *Table[T]) Read(r *Reader, v *T) error {
	if ok, err := r.Want('{'); !ok {
		return err
	}
	if err := r.open(); err != nil {
		return err
	}
	before, has := len(r.faults), uint64(0)
	var strange nameSet
	for r.d.PeekKind() != '}' {
		raw, err := r.rawName()
		if err != nil {
			return err
		}
		i := t.index.find(raw)
		if i < 0 {
			if err := t.unknown(r, string(raw), &strange); err != nil {
				return err
			}
			continue
		}
		if bit := uint64(1) << i; has&bit == 0 {
			has |= bit
			err = t.fields[i].read(r, v)
		} else {
			err = r.twice(t.names[i])
		}
		if err != nil {
			return err
		}
	}
	if _, err := r.d.ReadToken(); err != nil {
		return r.broken(err)
	}
	if missing := t.required &^ has; missing != 0 || t.check != nil {
		return t.checked(r, v, has, before)
	}
	return nil
}

func (t *Table[T]) unknown(r *Reader, name string, strange *nameSet) error {
	if !strange.add(name) {
		return r.twice(name)
	}
	if err := r.Skip(); err != nil || t.open {
		return err
	}
	return r.unknown(name, t.known)
}

// checked reports missing fields and the faults that the table's check finds.
func (t *Table[T]) checked(r *Reader, v *T, has uint64, before int) error {
	found := &r.found // in the reader, because the pointer that check gets would make a local variable escape
	*found = (*found)[:0]
	for i := range t.fields {
		if f := &t.fields[i]; t.required&^has>>i&1 != 0 {
			found.Add("", "missing_field", "%s", f.missing())
		}
	}
	if t.check != nil {
		t.check(v, Members{len(r.faults) == before, t.names, has}, found)
	}
	if len(*found) == 0 {
		return nil
	}
	at := string(r.d.StackPointer())
	for _, f := range *found {
		f.Pointer = at + f.Pointer
	}
	return r.Report(before, *found)
}

func (f *Field[T]) missing() string {
	if f.remedy == "" {
		return fmt.Sprintf("%q is missing", f.name)
	}
	return fmt.Sprintf("%q is missing: %s", f.name, f.remedy)
}

// Append appends the document as JSON. A field that has its default is left out
// unless the field is needed.
func (t *Table[T]) Append(b []byte, v *T) []byte {
	begin := len(b)
	for i := range t.rows {
		w := &t.rows[i]
		if w.micros != nil { // most fields of most documents: one indirect call suffices
			if n := *w.micros(v); n != 0 || w.zero != "" {
				b = hare.AppendMicros(w.appendKey(b), n)
			}
			continue
		}
		before := len(b)
		b = w.appendKey(b)
		value := len(b)
		if b = w.write(b, v); len(b) == value {
			if w.zero == "" {
				b = b[:before]
			} else {
				b = append(b, w.zero...)
			}
		}
	}
	if len(b) == begin {
		return append(b, "{}"...)
	}
	b[begin] = '{' // overwrites the comma of the first field
	return append(b, '}')
}

// appendFields appends the begin of an object with the named fields, without the
// closing brace.
func (t *Table[T]) appendFields(b []byte, v *T, names ...string) []byte {
	part := make([]Field[T], len(names))
	for i, name := range names {
		part[i] = t.fields[slices.Index(t.names, name)]
	}
	b = (&Table[T]{rows: newWriters(part)}).Append(b, v)
	return b[:len(b)-1]
}

// Decode reads a document that is one object.
func (t *Table[T]) Decode(r *Reader, v *T) error { return r.Finish(t.Read(r, v)) }

// NewField makes a row for a value that has its own parser and encoder. The parser
// read reads or skips one value. The encoder write appends the value, or nothing
// where the field is left out; a nil encoder means that the field is never written.
func NewField[T any](name string, kind Schema, read func(r *Reader, v *T) error,
	write func(b []byte, v *T) []byte) Field[T] {
	f := Field[T]{name: name, read: read, write: write, form: fieldForm{schema: kind}}
	switch kind["type"] {
	case "string":
		f.zero = `""`
	case "integer", "number":
		f.zero = "0"
	case "boolean":
		f.zero = "false"
	case "array":
		f.zero = "[]"
	}
	return f
}

// Required makes the field mandatory; remedy tells a caller what to give where the
// field is missing.
func (f Field[T]) Required(remedy string) Field[T] {
	f.needed, f.always, f.remedy = true, true, remedy
	return f
}

// Needed makes the field mandatory, as Required does, but leaves it to the table's
// check to report that the field is missing.
func (f Field[T]) Needed() Field[T] {
	f.needed, f.always, f.quiet = true, true, true
	return f
}

// MayLack lets the encoder leave out a mandatory field that has its zero value,
// because the document may come from a caller who does not know the field.
func (f Field[T]) MayLack() Field[T] {
	f.always = false
	return f
}

// Reading returns the field with another parser.
func (f Field[T]) Reading(read func(r *Reader, v *T) error) Field[T] {
	f.read = read
	return f
}

// Writing returns the field with another encoder.
func (f Field[T]) Writing(write func(b []byte, v *T) []byte) Field[T] {
	f.write, f.micros = write, nil
	return f
}

// Hidden keeps the field out of the specification. Hidden fields are old names that
// are still read.
func (f Field[T]) Hidden() Field[T] {
	f.hidden = true
	return f
}

// Always makes the encoder write the field even where it has its zero value.
func (f Field[T]) Always() Field[T] {
	f.always = true
	return f
}

// String makes a field whose value is a string.
func String[T any](name string, at func(*T) *string) Field[T] {
	return NewField(name, Schema{"type": "string"},
		func(r *Reader, v *T) error { return r.String(at(v)) },
		func(b []byte, v *T) []byte {
			if s := *at(v); s != "" {
				return appendString(b, s)
			}
			return b
		})
}

// Text makes a field whose value is a string of any length, which is held as bytes.
// An empty string is left out, and is read as nil.
func Text[T any](name string, at func(*T) *[]byte) Field[T] {
	return NewField(name, Schema{"type": "string"},
		func(r *Reader, v *T) error {
			var s string
			err := r.String(&s)
			if s != "" {
				*at(v) = []byte(s)
			}
			return err
		},
		func(b []byte, v *T) []byte {
			if text := *at(v); len(text) > 0 {
				return appendString(b, string(text))
			}
			return b
		})
}

// Choice makes a field whose value is a string that selects something and therefore
// must not be empty. The reader accepts every name; the code that uses the value
// refuses unknown names.
func Choice[T any](name string, at func(*T) *string, known ...string) Field[T] {
	f := String(name, at).With("enum", known)
	f.read = func(r *Reader, v *T) error { return r.Word(at(v)) }
	return f
}

// OneOf makes a field whose value is a string; the reader refuses every string that
// is not in known.
func OneOf[T any](name string, at func(*T) *string, known ...string) Field[T] {
	f := String(name, at).With("enum", known)
	f.read = func(r *Reader, v *T) error { return r.OneOf(at(v), known...) }
	return f
}

// Bool makes a field that is true or false; false is left out.
func Bool[T any](name string, at func(*T) *bool) Field[T] {
	return NewField(name, Schema{"type": "boolean"},
		func(r *Reader, v *T) error { return r.Bool(at(v)) },
		func(b []byte, v *T) []byte {
			if *at(v) {
				return append(b, "true"...)
			}
			return b
		})
}

// Integer makes a field whose value is a whole number from least to most. 0 is left
// out unless the field is needed.
func Integer[T any](name string, at func(*T) *int64, least, most int64) Field[T] {
	return NewField(name, Schema{"type": "integer", "format": "int64", "minimum": least},
		func(r *Reader, v *T) error { return r.Integer(at(v), least, most) },
		func(b []byte, v *T) []byte {
			if n := *at(v); n != 0 {
				return appendInt(b, n)
			}
			return b
		})
}

// Micros makes a field whose value is a decimal that is held in millionths. least
// is 0 or 1, in millionths, and 0 is left out.
func Micros[T any](name string, at func(*T) *int64, least int64) Field[T] {
	f := NewField(name, microsSchema(least),
		func(r *Reader, v *T) error { return r.Micros(at(v), least) },
		func(b []byte, v *T) []byte { return hare.AppendMicros(b, *at(v)) })
	f.micros = at
	return f
}

// OptionalMicros is Micros for a field that may be 0: nil, not 0, stands for a
// field that is left out.
func OptionalMicros[T any](name string, at func(*T) **int64, least int64) Field[T] {
	return NewField(name, microsSchema(least),
		func(r *Reader, v *T) error {
			to := at(v)
			*to = new(int64)
			return r.Micros(*to, least)
		},
		func(b []byte, v *T) []byte {
			if n := *at(v); n != nil {
				return hare.AppendMicros(b, *n)
			}
			return b
		})
}

func microsSchema(least int64) Schema {
	s := Schema{"type": "number", "format": "double"}
	if least > 0 {
		s["exclusiveMinimum"] = 0
	} else {
		s["minimum"] = 0
	}
	return s
}

// Object makes a field whose value is an object that has its own table; nil is left
// out.
func Object[T, U any](name string, at func(*T) **U, t *Table[U]) Field[T] {
	return NewField(name, RefTo(t),
		func(r *Reader, v *T) error {
			to := at(v)
			*to = new(U)
			return t.Read(r, *to)
		},
		func(b []byte, v *T) []byte {
			if u := *at(v); u != nil {
				return t.Append(b, u)
			}
			return b
		})
}

// Part makes a field whose value is an object; the zero value is left out.
func Part[T any, U comparable](name string, at func(*T) *U, t *Table[U]) Field[T] {
	return NewField(name, RefTo(t),
		func(r *Reader, v *T) error { return t.Read(r, at(v)) },
		func(b []byte, v *T) []byte {
			var zero U
			if u := at(v); *u != zero {
				return t.Append(b, u)
			}
			return b
		})
}

// Objects makes a field whose value is an array of objects; an empty array is left
// out.
func Objects[T, U any](name string, at func(*T) *[]U, t *Table[U]) Field[T] {
	return NewField(name, ListOf(RefTo(t)),
		func(r *Reader, v *T) error {
			return r.Array(func(int) error {
				var u U
				err := t.Read(r, &u)
				to := at(v)
				*to = append(*to, u)
				return err
			})
		},
		func(b []byte, v *T) []byte {
			if us := *at(v); len(us) > 0 {
				return appendList(b, us, func(b []byte, u U) []byte { return t.Append(b, &u) })
			}
			return b
		})
}

// Strings makes a field whose value is an array of at most most strings; the fault
// for a longer array calls the strings by the plural what. An empty array is left
// out.
func Strings[T any](name string, at func(*T) *[]string, most int, what string) Field[T] {
	return NewField(name, ListOf(Schema{"type": "string"}),
		func(r *Reader, v *T) error {
			return r.Array(func(i int) error {
				if i >= most {
					err := r.Skip()
					if err == nil && i == most {
						err = r.Fault("too_many", "there are more than %d %s", most, what)
					}
					return err
				}
				var s string
				err := r.String(&s)
				to := at(v)
				*to = append(*to, s)
				return err
			})
		},
		func(b []byte, v *T) []byte {
			if ss := *at(v); len(ss) > 0 {
				return appendList(b, ss, appendString)
			}
			return b
		})
}

// MaxLabel is the largest number of characters of a name or a value of a StringMap.
const MaxLabel = 200

// StringMap makes a field whose value is an object of at most most strings; an
// empty object is left out.
func StringMap[T any](name string, at func(*T) *map[string]string, most int) Field[T] {
	f := NewField(name, MapOf(Schema{"type": "string", "maxLength": MaxLabel}),
		func(r *Reader, v *T) error { return r.stringMap(at(v), most) },
		func(b []byte, v *T) []byte {
			m := *at(v)
			return AppendMap(b, slices.Sorted(maps.Keys(m)),
				func(key *string) string { return *key },
				func(b []byte, key *string) []byte { return appendString(b, m[*key]) })
		})
	return f.With("maxProperties", most)
}

func (r *Reader) stringMap(to *map[string]string, most int) error {
	m := map[string]string{}
	isObject := r.Is('{')
	err := r.Object(nil, func(name string) (bool, error) {
		text, before := "", len(r.faults)
		if err := r.String(&text); err != nil || len(r.faults) > before {
			return true, err
		}
		m[name] = text
		if utf8.RuneCountInString(name) > MaxLabel || utf8.RuneCountInString(text) > MaxLabel {
			return true, r.Fault("too_large", "names and values have at most %d characters", MaxLabel)
		}
		return true, nil
	})
	if err != nil || !isObject {
		return err
	}
	if len(m) > most {
		return r.Fault("too_many", "there are %d: at most %d are allowed", len(m), most)
	}
	if len(m) > 0 {
		*to = m
	}
	return nil
}

// TimeLimit makes a field whose value is a number of seconds, at most one day; 0 is
// left out.
func TimeLimit[T any](name string, at func(*T) *time.Duration, least int64) Field[T] {
	return NewField(name, microsSchema(least),
		func(r *Reader, v *T) error { return r.timeLimit(at(v), least) },
		func(b []byte, v *T) []byte {
			if us := at(v).Microseconds(); us != 0 {
				return hare.AppendMicros(b, us)
			}
			return b
		}).With("maximum", int64(maxTimeLimit.Seconds()))
}

// maxTimeLimit is the longest time limit that a request may give.
const maxTimeLimit = 24 * time.Hour

func (r *Reader) timeLimit(to *time.Duration, least int64) error {
	var us int64
	err := r.Micros(&us, least)
	if err == nil && us > maxTimeLimit.Microseconds() {
		return r.Fault("out_of_range", "must be at most %d", int64(maxTimeLimit.Seconds()))
	}
	*to = time.Duration(us) * time.Microsecond
	return err
}

// Instance makes a field whose value is an instance/v1 document; nil is left out.
func Instance[T any](name string, at func(*T) **hare.Instance) Field[T] {
	return NewField(name, RefTo(instanceTable),
		func(r *Reader, v *T) error { return r.instanceAt(string(r.d.StackPointer()), at(v)) },
		func(b []byte, v *T) []byte {
			if inst := *at(v); inst != nil {
				return appendInstance(b, inst)
			}
			return b
		})
}

// Result makes a field whose value is a result/v1 document. The field is read and
// never written.
func Result[T any](name string, at func(*T) **hare.Result) Field[T] {
	return NewField(name, RefTo(resultTable),
		func(r *Reader, v *T) error { return r.resultAt(string(r.d.StackPointer()), at(v)) }, nil)
}

// Cluster makes a field whose value is a cluster; nil is left out.
func Cluster[T any](name string, at func(*T) **hare.Cluster) Field[T] {
	return NewField(name, RefTo(clusterTable),
		func(r *Reader, v *T) error {
			d := newInstanceReader(r, strings.TrimSuffix(string(r.d.StackPointer()), "/cluster"))
			*at(v) = &d.inst.Cluster
			return d.cluster()
		},
		func(b []byte, v *T) []byte {
			if c := *at(v); c != nil {
				return AppendCluster(b, c)
			}
			return b
		})
}

// AppendMap appends an object with one member for each item. It appends nothing
// where items is empty.
func AppendMap[T any](b []byte, items []T, name func(*T) string, value func([]byte, *T) []byte) []byte {
	for i := range items {
		if i == 0 {
			b = append(b, '{')
		} else {
			b = append(b, ',')
		}
		b = append(appendString(b, name(&items[i])), ':')
		b = value(b, &items[i])
	}
	if len(items) > 0 {
		b = append(b, '}')
	}
	return b
}

// nameIndex finds the index of a name in a table by a perfect hash: the seed is
// chosen such that no two names have the same slot.
type nameIndex struct {
	names []string
	seed  uint32
	at    [256]uint8 // by slot: the index of the name plus one; 0 means that the slot is empty
}

func newNameIndex(names []string) nameIndex {
	for seed := uint32(1); ; seed += 2 {
		if x := (nameIndex{names: names, seed: seed}); x.fill() {
			return x
		}
	}
}

// fill puts every name into its slot. It returns false where two names have the
// same slot.
func (x *nameIndex) fill() bool {
	for i, name := range x.names {
		p := placeOf(name, x.seed)
		if x.at[p] != 0 {
			return false
		}
		x.at[p] = uint8(i + 1)
	}
	return true
}

func placeOf[S string | []byte](name S, seed uint32) uint8 {
	h := seed
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 0x01000193
	}
	return uint8(h >> 24)
}

// find returns the index of a name, or -1 where the table has no such name.
func (x *nameIndex) find(name []byte) int {
	i := int(x.at[placeOf(name, x.seed)]) - 1
	if i < 0 || string(name) != x.names[i] {
		return -1
	}
	return i
}
