package wire

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hare-sched/hare"
)

// String makes a field whose value is a string.
func String[T any](name string, at func(*T) *string) Field[T] {
	return NewField(name, Schema{"type": "string"},
		func(r *Reader, v *T) error { return r.String(at(v)) },
		func(b []byte, v *T) []byte {
			if s := *at(v); s != "" {
				return AppendString(b, s)
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
				return AppendString(b, string(text))
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

// Millis makes a field whose value is a decimal with at most three places that is held in
// thousandths, from least to most. 0 is left out.
func Millis[T any](name string, at func(*T) *int64, least, most int64) Field[T] {
	f := Micros(name, at, least).
		Reading(func(r *Reader, v *T) error { return r.Millis(at(v), least, most) })
	f.micros = nil
	f.write = func(b []byte, v *T) []byte {
		if n := *at(v); n != 0 {
			return hare.AppendMicros(b, n*1000)
		}
		return b
	}
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
				return appendList(b, ss, AppendString)
			}
			return b
		})
}

// Counts makes a field whose value is an object of numbers of GPUs by type, at least one and together at most
// hare.MaxGPUs. They are held by type; where there are none the field is left out.
func Counts[T any](name string, at func(*T) *[]hare.TypeCount) Field[T] {
	return NewField(name, MapOf(Schema{"type": "integer", "format": "int64", "minimum": 1}),
		func(r *Reader, v *T) error { return r.counts(at(v)) },
		func(b []byte, v *T) []byte {
			return AppendMap(b, *at(v),
				func(c *hare.TypeCount) string { return c.Type },
				func(b []byte, c *hare.TypeCount) []byte { return appendInt(b, int64(c.Count)) })
		})
}

func (r *Reader) counts(to *[]hare.TypeCount) error {
	counts, total := []hare.TypeCount{}, int64(0)
	before, isObject := len(r.faults), r.Is('{')
	err := r.Object(nil, func(name string) (bool, error) {
		c := int64(1) // replaced, or a fault
		err := r.Integer(&c, 1, hare.MaxGPUs)
		total += c
		counts = append(counts, hare.TypeCount{Type: name, Count: int(c)})
		return true, err
	})
	if *to = counts; err != nil || !isObject {
		return err
	}
	slices.SortFunc(counts, func(a, b hare.TypeCount) int { return strings.Compare(a.Type, b.Type) })
	switch {
	case len(counts) == 0 && len(r.faults) == before:
		return r.Fault("no_gpus", `give counts by type, e.g. {"V100": 36, "K80": 36}`)
	case total > hare.MaxGPUs:
		return r.Fault("too_large", "there are more than %d GPUs", hare.MaxGPUs)
	}
	return nil
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
				func(b []byte, key *string) []byte { return AppendString(b, m[*key]) })
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
