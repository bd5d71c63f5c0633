package api

import (
	"encoding"
	stdjson "encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
)

// checkForm checks what decoding a JSON value into type t does not: that each field of
// an object is there whose tag does not say omitempty or omitzero, and that nothing is
// null, which decoding takes for the zero value. The specification says the same, because
// it is made from the same tags. What at points to is decoded already; what types decode
// by themselves, such as json.RawMessage, is theirs.
func checkForm(value jsontext.Value, t reflect.Type, at jsontext.Pointer) error {
	if value.Kind() == 'n' {
		return &hare.InvalidError{Pointer: string(at), Code: "wrong_type", Detail: "is null: leave it out"}
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if p := reflect.PointerTo(t); p.Implements(unmarshaler) || p.Implements(textUnmarshaler) {
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return checkFields(value, t, at)
	case reflect.Map:
		members := map[string]jsontext.Value{}
		if err := json.Unmarshal(value, &members); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if members[name].Kind() == 'n' && t.Elem().Kind() == reflect.Pointer {
				continue // it removes what has the name
			}
			if err := checkForm(members[name], t.Elem(), at.AppendToken(name)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		var elements []jsontext.Value
		if err := json.Unmarshal(value, &elements); err != nil {
			return err
		}
		for i, element := range elements {
			if err := checkForm(element, t.Elem(), at.AppendToken(strconv.Itoa(i))); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	unmarshaler     = reflect.TypeFor[stdjson.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func checkFields(value jsontext.Value, t reflect.Type, at jsontext.Pointer) error {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(value, &members); err != nil {
		return err
	}
	for _, field := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous || name == "-" {
			continue
		}
		member, ok := members[name]
		switch {
		case ok:
			if err := checkForm(member, field.Type, at.AppendToken(name)); err != nil {
				return err
			}
		case !strings.Contains(options, "omit"):
			return &hare.InvalidError{Pointer: string(at), Code: "missing_field", Detail: `"` + name + `" is missing`}
		}
	}
	return nil
}
