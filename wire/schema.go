package wire

// Schema is a JSON Schema, as the specification has it. Its values are strings,
// numbers, booleans, arrays, and objects of these; a Form stands for a reference.
type Schema map[string]any

// Form is what the specification says of a document: Table is the only one.
type Form interface {
	// Name is that of the component.
	Name() string
	// About describes the component.
	About() string
	// Names are the fields in order.
	Names() []string
	// Schema is the component, with a Reference for each other form.
	Schema() map[string]any
	// Parts are the forms that this one refers to.
	Parts() []Form
}

// Reference is the key under which a schema holds the Form that it refers to.
const Reference = "$ref"

// RefTo refers to a form.
func RefTo(f Form) Schema { return Schema{Reference: f} }

// ListOf is an array.
func ListOf(item Schema) Schema { return Schema{"type": "array", "items": item} }

// MapOf is an object with a value of one kind for each name.
func MapOf(value Schema) Schema { return Schema{"type": "object", "additionalProperties": value} }

// fieldForm is what the specification says of a field.
type fieldForm struct {
	schema Schema
	about  string
	more   []any // keys and values
}

// About describes the field in the specification. A reference to a form stands
// alone there, and is described by its form.
func (f Field[T]) About(text string) Field[T] {
	f.form.about = text
	return f
}

// With adds a keyword of JSON Schema, or removes one where value is nil.
func (f Field[T]) With(key string, value any) Field[T] {
	f.form.more = append(f.form.more[:len(f.form.more):len(f.form.more)], key, value)
	return f
}

// Default says what a field that is left out means.
func (f Field[T]) Default(value any) Field[T] { return f.With("default", value) }

// Example shows a value.
func (f Field[T]) Example(value any) Field[T] { return f.With("examples", []any{value}) }

// Name is the name of the document in the specification.
func (t *Table[T]) Name() string { return t.name }

// About describes the document.
func (t *Table[T]) About() string { return t.about }

// Names are the fields in order.
func (t *Table[T]) Names() []string { return t.names }

// Schema is the document's component of the specification.
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
	if !t.open {
		s["additionalProperties"] = false
	}
	return s
}

func (f *fieldForm) property() map[string]any {
	s := plainSchema(f.schema).(map[string]any)
	if s[Reference] != nil {
		return s
	}
	if f.about != "" {
		s["description"] = f.about
	}
	for i := 0; i < len(f.more); i += 2 {
		key, value := f.more[i].(string), f.more[i+1]
		if value == nil {
			delete(s, key)
		} else {
			s[key] = plainSchema(value)
		}
	}
	return s
}

// plainSchema copies a schema with references as text.
func plainSchema(v any) any {
	switch v := v.(type) {
	case Schema:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = plainSchema(value)
		}
		return out
	case Form:
		return "#/components/schemas/" + v.Name()
	case []string:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = x
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plainSchema(x)
		}
		return out
	case []Schema:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plainSchema(x)
		}
		return out
	}
	return v
}

// Parts are the forms that fields refer to.
func (t *Table[T]) Parts() []Form {
	var parts []Form
	for i := range t.fields {
		parts = append(parts, formsIn(t.fields[i].form.schema)...)
	}
	return parts
}

func formsIn(v any) []Form {
	switch v := v.(type) {
	case Schema:
		var forms []Form
		for _, value := range v {
			forms = append(forms, formsIn(value)...)
		}
		return forms
	case Form:
		return []Form{v}
	}
	return nil
}

// Forms are those of the documents of the domain that have tables, without their
// parts.
func Forms() []Form {
	return []Form{resultTable, solveForm, boundForm, verifyForm}
}

// Forms that those of requests refer to.
var (
	InstanceDocument Form = instanceTable
	JobDocument      Form = jobTable
	OptionsDocument  Form = optionsTable
)
