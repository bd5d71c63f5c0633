package client

import (
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/hare-sched/hare"
)

// checkTexts returns an error for a text in v that is not valid UTF-8. encoding/json would change
// it: a job would run with another argument than it was given.
func checkTexts(v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		if text := v.String(); !utf8.ValidString(text) {
			return &hare.InvalidError{Code: "malformed",
				Detail: fmt.Sprintf("not valid UTF-8, so that no document can have it: %.200q", text)}
		}
	case reflect.Pointer, reflect.Interface:
		return checkTexts(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if err := checkTexts(v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if err := checkTexts(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		for of, to := range v.Seq2() {
			if err := checkTexts(of); err != nil {
				return err
			}
			if err := checkTexts(to); err != nil {
				return err
			}
		}
	}
	return nil
}
