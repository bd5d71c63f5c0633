package wire

import (
	"fmt"
	"slices"

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

// appendFields appends the beginning of an object with the named fields, without the
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

func appendObjects[T any](b []byte, xs []T, t *Table[T]) []byte {
	b = append(b, '[')
	for i := range xs {
		if i > 0 {
			b = append(b, ',')
		}
		b = t.Append(b, &xs[i])
	}
	return append(b, ']')
}

// notNull returns a parser that skips null and passes other values to read.
func notNull[T any](read func(r *Reader, v *T) error) func(r *Reader, v *T) error {
	return func(r *Reader, v *T) error {
		if r.Is('n') {
			return r.Skip()
		}
		return read(r, v)
	}
}

// About sets the description of the field in the specification. A field whose
// schema is a reference does not show a description; the form to which it refers
// has one.
func (f Field[T]) About(text string) Field[T] {
	f.form.about = text
	return f
}

// With sets a keyword of JSON Schema; a nil value removes the keyword.
func (f Field[T]) With(key string, value any) Field[T] {
	f.form.more = append(f.form.more[:len(f.form.more):len(f.form.more)], key, value)
	return f
}

// Default states the value that a field has where it is left out.
func (f Field[T]) Default(value any) Field[T] { return f.With("default", value) }

// Example gives an example of a value.
func (f Field[T]) Example(value any) Field[T] { return f.With("examples", []any{value}) }

// Name returns the name of the document in the specification.
func (t *Table[T]) Name() string { return t.name }

// About returns the description of the document.
func (t *Table[T]) About() string { return t.about }

// Names returns the names of the fields in order.
func (t *Table[T]) Names() []string { return t.names }

// Schema returns the component of the document in the specification.
func (t *Table[T]) Schema() map[string]any {
	properties, required := map[string]any{}, []any{}
	for i := range t.fields {
		f := &t.fields[i]
		if f.hidden {
			continue
		}
		properties[f.name] = f.form.property()
		if f.needed {
			required = append(required, f.name)
		}
	}
	s := map[string]any{"type": "object", "description": t.about, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	if !t.open && !t.growing {
		s["additionalProperties"] = false
	}
	return s
}

// Parts returns the forms to which the fields refer.
func (t *Table[T]) Parts() []Form {
	var parts []Form
	for i := range t.fields {
		parts = append(parts, formsIn(t.fields[i].form.schema)...)
	}
	return parts
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
