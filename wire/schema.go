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
		return plainSchemas(v)
	case []any:
		return plainSchemas(v)
	case []Schema:
		return plainSchemas(v)
	}
	return v
}

func plainSchemas[T any](vs []T) []any {
	out := make([]any, len(vs))
	for i, v := range vs {
		out[i] = plainSchema(v)
	}
	return out
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

var (
	numberSchema   = Schema{"type": "number", "format": "double"}
	nullableNumber = Schema{"type": []string{"number", "null"}, "format": "double"}
)

var integers = ListOf(Schema{"type": "integer", "format": "int64"})

func microsSchema(least int64) Schema {
	s := Schema{"type": "number", "format": "double"}
	if least > 0 {
		s["exclusiveMinimum"] = 0
	} else {
		s["minimum"] = 0
	}
	return s
}
