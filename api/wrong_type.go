package api

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
)

// rightForm says what a value of type t looks like, with an example that is made of the value in the document where
// that says what was meant: ["cpu"] and "cpu" become {"cpu": 0} where seconds by GPU type should be.
func rightForm(t reflect.Type, at jsontext.Pointer, value jsontext.Value) string {
	if p := reflect.PointerTo(t); p.Implements(unmarshaler) || p.Implements(textUnmarshaler) {
		return "has another form than it should"
	}
	field := strings.Trim(string(at), "/")
	parent, name, within := strings.Cut(field, "/")
	var texts []string
	if json.Unmarshal(value, &texts) != nil {
		var text string
		if json.Unmarshal(value, &text) == nil {
			texts = []string{text}
		}
	}
	first := func(other string) string {
		if len(texts) > 0 && texts[0] != "" {
			return hare.Clip(texts[0])
		}
		return other
	}
	switch t.Kind() {
	case reflect.String:
		example := `"text"`
		if k := value.Kind(); k == '0' || k == 't' || k == 'f' {
			example = strconv.Quote(hare.Clip(string(value)))
		}
		return "must be a text: " + example
	case reflect.Bool:
		return "must be true or false"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64:
		example := "1"
		if n, err := strconv.Atoi(first("1")); err == nil {
			example = strconv.Itoa(n)
		}
		return "must be a whole number: " + example
	case reflect.Float64:
		if within && parent == "on" {
			return fmt.Sprintf(`must be the seconds on this GPU type, 0 where they are not known: {%q: 0}`, hare.Clip(name))
		}
		example := "1.5"
		if _, err := strconv.ParseFloat(first(""), 64); err == nil {
			example = first("")
		}
		return "must be a number: " + example
	case reflect.Slice:
		switch {
		case field == "command":
			return fmt.Sprintf(`must be a list of the program and its arguments: ["sh", "-c", %q]`, first("echo hi"))
		case t.Elem().Kind() == reflect.String:
			return fmt.Sprintf(`must be a list of texts: [%q]`, first("text"))
		}
		return "must be a list: […]"
	case reflect.Map:
		switch {
		case field == "on":
			return fmt.Sprintf(`must be the seconds by GPU type, 0 where they are not known: {%q: 0}`, first("V100"))
		case t.Elem().Kind() == reflect.String:
			name, text, ok := strings.Cut(first(""), "=")
			if !ok {
				name, text = "NAME", "text"
			}
			return fmt.Sprintf("must be texts by name: {%q: %q}", name, text)
		case t.Elem().Kind() == reflect.Float64:
			return fmt.Sprintf(`must be numbers by name: {%q: 1.5}`, first("V100"))
		case t.Elem().Kind() == reflect.Int:
			return fmt.Sprintf(`must be whole numbers by name: {%q: 1}`, first("V100"))
		}
	}
	if t.Kind() == reflect.Struct || t.Kind() == reflect.Map {
		return "must be a JSON object: {…}"
	}
	return "has another form than it should"
}

// valueAt returns the value to which a pointer leads, and nil where there is none.
func valueAt(value jsontext.Value, at jsontext.Pointer) jsontext.Value {
	for token := range at.Tokens() {
		members := map[string]jsontext.Value{}
		var elements []jsontext.Value
		if json.Unmarshal(value, &members) == nil {
			value = members[token]
		} else if i, err := strconv.Atoi(token); err == nil && json.Unmarshal(value, &elements) == nil &&
			i >= 0 && i < len(elements) {
			value = elements[i]
		} else {
			return nil
		}
	}
	return value
}

// unknownField says which field of t may have been meant.
func unknownField(t reflect.Type, name string) string {
	known := fieldNames(t)
	if guess := hare.Guess(name, known); guess != "" {
		return "is not known here" + guess
	}
	if len(known) == 0 {
		return "is not known here"
	}
	return "is not known here: known are " + strings.Join(known, ", ")
}

// fieldNames are the names of the fields of a struct in JSON.
func fieldNames(t reflect.Type) []string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !f.Anonymous && name != "" && name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
