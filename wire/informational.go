package wire

import (
	"math"
	"strconv"
	"time"

	"github.com/hare-sched/hare"
)

// Informational fields are for people and prove nothing: a value of an unexpected
// kind is skipped. Zero values are written only where Needed or Always says so.

func infoString[T any](name string, at func(*T) *string) Field[T] {
	return String(name, at).Reading(func(r *Reader, v *T) error {
		if !r.Is('"') {
			return r.Skip()
		}
		return r.String(at(v))
	})
}

func infoFloat[T any](name string, at func(*T) *float64) Field[T] {
	return NewField(name, numberSchema,
		func(r *Reader, v *T) error { return r.infoFloat(at(v)) },
		func(b []byte, v *T) []byte { return appendFloat(b, *at(v)) })
}

func infoInteger[T any](name string, at func(*T) *int64) Field[T] {
	return Integer(name, at, 0, 0).With("minimum", nil).
		Reading(func(r *Reader, v *T) error { return r.infoDecimal(at(v), 0) })
}

func infoMicros[T any](name string, at func(*T) *int64) Field[T] {
	return Micros(name, at, 0).With("minimum", nil).
		Reading(func(r *Reader, v *T) error { return r.infoDecimal(at(v), 6) })
}

// infoSeconds is a time in seconds, rounded to the nearest microsecond.
func infoSeconds[T any](name string, at func(*T) *time.Duration) Field[T] {
	return NewField(name, numberSchema,
		func(r *Reader, v *T) error {
			var seconds float64
			err := r.infoFloat(&seconds)
			if math.Abs(seconds) < 1e9 {
				*at(v) = time.Duration(math.Round(seconds*1e6)) * time.Microsecond
			}
			return err
		},
		func(b []byte, v *T) []byte { return appendFloat(b, float64(at(v).Microseconds())/1e6) })
}

// infoObject reads an object, or skips a value of another kind.
func infoObject[T any](r *Reader, t *Table[T], v *T) error {
	if !r.Is('{') {
		return r.Skip()
	}
	return t.Read(r, v)
}

// infoPointer is an object; nil is left out.
func infoPointer[T, U any](name string, at func(*T) **U, t *Table[U]) Field[T] {
	return Object(name, at, t).Reading(func(r *Reader, v *T) error {
		if !r.Is('{') {
			return r.Skip()
		}
		*at(v) = new(U)
		return t.Read(r, *at(v))
	})
}

// infoObjects is an array of objects, of which at most most are kept; an empty array
// is left out.
func infoObjects[T, U any](name string, at func(*T) *[]U, most int, t *Table[U]) Field[T] {
	return NewField(name, ListOf(RefTo(t)),
		func(r *Reader, v *T) error {
			if !r.Is('[') {
				return r.Skip()
			}
			return r.Array(func(int) error {
				var u U
				err := infoObject(r, t, &u)
				if to := at(v); len(*to) < most {
					*to = append(*to, u)
				}
				return err
			})
		},
		func(b []byte, v *T) []byte {
			if us := *at(v); len(us) > 0 {
				return appendObjects(b, us, t)
			}
			return b
		})
}

// infoFloats reads an object of numbers.
func (r *Reader) infoFloats(add func(name string, x float64)) error {
	if !r.Is('{') {
		return r.Skip()
	}
	return r.Object(nil, func(name string) (bool, error) {
		var x float64
		err := r.infoFloat(&x)
		add(name, x)
		return true, err
	})
}

func (r *Reader) infoFloat(to *float64) error {
	if !r.Is('0') {
		return r.Skip()
	}
	text, _, err := r.Number()
	if f, bad := strconv.ParseFloat(text, 64); bad == nil {
		*to = f
	}
	return err
}

func (r *Reader) infoDecimal(to *int64, places int) error {
	if !r.Is('0') {
		return r.Skip()
	}
	text, _, err := r.Number()
	if n, bad := hare.ParseDecimal(text, places); bad == nil {
		*to = n
	}
	return err
}
