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
	known       []string // names that faults propose: all but those of hidden fields
	index       nameIndex
	required    uint64 // a bit a field
	open        bool
	check       func(v *T, has Members, found *hare.InvalidErrors)
}

// Field is one row of a Table.
type Field[T any] struct {
	name   string
	read   func(r *Reader, v *T) error
	write  func(b []byte, v *T) []byte // appends nothing where the field is left out
	micros func(v *T) *int64           // of Micros alone
	needed bool
	always bool   // written where it has its zero value too
	hidden bool   // from the specification
	quiet  bool   // the table's check says where the field is missing
	remedy string // said where a needed field is missing
	zero   string // what a needed field has where write appends nothing
	form   fieldForm
}

// writer is what Append needs of a field that is written.
type writer[T any] struct {
	key   [16]byte // as it is written, ,"name":
	short int      // length of key; 0 where long has it
	long  string
	write func(b []byte, v *T) []byte
	zero  string // written where write appends nothing; "" leaves the field out
	// micros is where the number is of a field that is written as millionths, in
	// place of write.
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

// NewTable makes the table of a document, which the specification calls name.
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

// Open makes a table whose documents may have fields that this version does not
// know: they are passed over.
func (t *Table[T]) Open() *Table[T] {
	t.open = true
	return t
}

// Part is the table of a document with some of the fields, in the order of names.
func (t *Table[T]) Part(name, about string, names ...string) *Table[T] {
	var fields []Field[T]
	for _, n := range names {
		fields = append(fields, t.fields[slices.Index(t.names, n)])
	}
	return NewTable(name, about, fields...)
}

// Check adds a check of the whole object. Its pointers are relative to the
// object, and a fault at a pointer at which reading found one is not reported.
func (t *Table[T]) Check(check func(v *T, has Members, found *hare.InvalidErrors)) *Table[T] {
	t.check = check
	return t
}

// Members says which fields of its table an object has.
type Members struct {
	// Sound says that reading the object found no fault.
	Sound bool
	names []string
	bits  uint64
}

// Has says whether the object has the field.
func (m Members) Has(name string) bool {
	for i, x := range m.names {
		if x == name {
			return m.bits>>i&1 != 0
		}
	}
	panic("wire: the table has no field " + name)
}

// Names are the fields that the object has, in the order of the table.
func (m Members) Names() []string {
	var names []string
	for i, x := range m.names {
		if m.bits>>i&1 != 0 {
			names = append(names, x)
		}
	}
	return names
}

// None says that the object has no field of the table.
func (m Members) None() bool { return m.bits == 0 }

// Read reads an object into v. Errors end the pass; faults are kept by r.
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

// checked reports what the whole object lacks.
func (t *Table[T]) checked(r *Reader, v *T, has uint64, before int) error {
	found := &r.found // held by the reader, because a check lets it escape
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

// Append appends the document as JSON. Fields that have their default are left
// out, but for those that are needed.
func (t *Table[T]) Append(b []byte, v *T) []byte {
	begin := len(b)
	for i := range t.rows {
		w := &t.rows[i]
		if w.micros != nil { // most fields of most documents: one call, and not two
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
	b[begin] = '{' // in place of the first comma
	return append(b, '}')
}

// appendFields begins an object with some of its fields.
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

// NewField makes a row for a value of a kind of its own. A parser reads one value,
// or passes over it. An encoder appends the value, or nothing where the field is
// left out; it is nil where the field is never written.
func NewField[T any](name string, kind Schema, read func(r *Reader, v *T) error, write func(b []byte, v *T) []byte) Field[T] {
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

// Required says that the document must have the field, and what to do where the
// field is missing.
func (f Field[T]) Required(remedy string) Field[T] {
	f.needed, f.always, f.remedy = true, true, remedy
	return f
}

// Needed is Required for a field of which the table's check says that it is
// missing.
func (f Field[T]) Needed() Field[T] {
	f.needed, f.always, f.quiet = true, true, true
	return f
}

// MayLack says that a field that is needed is not written where it has its zero
// value: the document is of a caller who does not know it.
func (f Field[T]) MayLack() Field[T] {
	f.always = false
	return f
}

// Reading replaces the parser.
func (f Field[T]) Reading(read func(r *Reader, v *T) error) Field[T] {
	f.read = read
	return f
}

// Writing replaces the encoder.
func (f Field[T]) Writing(write func(b []byte, v *T) []byte) Field[T] {
	f.write, f.micros = write, nil
	return f
}

// Hidden keeps the field out of the specification: an old name, which is read.
func (f Field[T]) Hidden() Field[T] {
	f.hidden = true
	return f
}

// Always says that the field is written where it has its zero value too.
func (f Field[T]) Always() Field[T] {
	f.always = true
	return f
}

// String is a string.
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

// Text is a string, of any length, that is held as bytes; an empty one is left out,
// and is read as nil.
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

// Choice is a string that chooses something, and so is not empty where it is given.
// Readers do not look it up: who chooses refuses names that are not known.
func Choice[T any](name string, at func(*T) *string, known ...string) Field[T] {
	f := String(name, at).With("enum", known)
	f.read = func(r *Reader, v *T) error { return r.Word(at(v)) }
	return f
}

// OneOf is a string that is one of those known.
func OneOf[T any](name string, at func(*T) *string, known ...string) Field[T] {
	f := String(name, at).With("enum", known)
	f.read = func(r *Reader, v *T) error { return r.OneOf(at(v), known...) }
	return f
}

// Bool is true or false; false is left out.
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

// Integer is a whole number from least to most; 0 is left out where the field is
// not needed.
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

// Micros is a decimal that is held in millionths, from least, which is 0 or 1; 0
// is left out.
func Micros[T any](name string, at func(*T) *int64, least int64) Field[T] {
	f := NewField(name, microsSchema(least),
		func(r *Reader, v *T) error { return r.Micros(at(v), least) },
		func(b []byte, v *T) []byte { return hare.AppendMicros(b, *at(v)) })
	f.micros = at
	return f
}

// OptionalMicros is Micros with nil for what is left out, so that 0 can be said.
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

// Object is an object with a table of its own; nil is left out.
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

// Part is an object whose zero value is left out.
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

// Objects is an array of objects; an empty one is left out.
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

// Strings is an array of strings, of which most are read; an empty one is left
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

// StringMap is an object of at most so many strings; an empty one is left out.
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

// TimeLimit is a time in seconds, up to a day; 0 is left out.
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

// maxTimeLimit is a day.
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

// Instance is an instance/v1 document; nil is left out.
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

// Result is a result/v1 document, which is not written.
func Result[T any](name string, at func(*T) **hare.Result) Field[T] {
	return NewField(name, RefTo(resultTable),
		func(r *Reader, v *T) error { return r.resultAt(string(r.d.StackPointer()), at(v)) }, nil)
}

// Cluster is a cluster; nil is left out.
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

// AppendMap appends an object with a value for each of items; an empty one is left
// out.
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

// nameIndex finds a name among those of a table: a hash of which a seed was found
// that gives every name a place of its own.
type nameIndex struct {
	names []string
	seed  uint32
	at    [256]uint8 // index of a name plus one, by place
}

func newNameIndex(names []string) nameIndex {
	for seed := uint32(1); ; seed += 2 {
		if x := (nameIndex{names: names, seed: seed}); x.fill() {
			return x
		}
	}
}

// fill reports false where two names have one place.
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

// find returns the index of a name, or -1.
func (x *nameIndex) find(name []byte) int {
	i := int(x.at[placeOf(name, x.seed)]) - 1
	if i < 0 || string(name) != x.names[i] {
		return -1
	}
	return i
}
