package wire

// Schema is a JSON Schema of the specification. Its values are strings, numbers,
// booleans, arrays and objects of these. A Form as a value stands for a reference
// to the schema of that form.
type Schema map[string]any

// Form describes a document in the specification. Table is the only implementation.
type Form interface {
	// Name returns the name of the component.
	Name() string
	// About returns the description of the component.
	About() string
	// Names returns the names of the fields in order.
	Names() []string
	// Schema returns the component, with a Reference in the place of each other
	// form.
	Schema() map[string]any
	// Parts returns the forms to which this form refers.
	Parts() []Form
}

// Reference is the key under which a schema holds a Form to which it refers.
const Reference = "$ref"

// RefTo returns a schema that refers to a form.
func RefTo(f Form) Schema { return Schema{Reference: f} }

// ListOf returns the schema of an array of items.
func ListOf(item Schema) Schema { return Schema{"type": "array", "items": item} }

// MapOf returns the schema of an object whose members all have the schema value.
func MapOf(value Schema) Schema { return Schema{"type": "object", "additionalProperties": value} }

// fieldForm holds what the specification states about a field.
type fieldForm struct {
	schema Schema
	about  string
	more   []any // pairs of a key and a value
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

// plainSchema returns a copy of a schema in which references are strings.
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

// Parts returns the forms to which the fields refer.
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
	case []Schema:
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

// Forms returns the forms of results and of the requests to solve, bound and
// verify, without the forms to which these refer.
func Forms() []Form {
	return []Form{resultTable, solveForm, boundForm, verifyForm, sessionTable, recordTable, sessionPlanTable, answerTable}
}

// These forms are those to which requests of other packages refer.
var (
	InstanceDocument Form = instanceTable
	JobDocument      Form = jobTable
	NodeDocument     Form = nodeTable
	QuotaDocument    Form = quotaTable
	OptionsDocument  Form = optionsTable
)
