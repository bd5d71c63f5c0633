package wire

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// hintsOf are the hints of a job, which are made where there are none.
func hintsOf(j *hare.Job) *hare.JobHints {
	if j.Hints == nil {
		j.Hints = &hare.JobHints{}
	}
	return j.Hints
}

// estimateField is the field estimate_s of a document that has a job.
func estimateField[T any](at func(*T) *hare.Job) Field[T] {
	return NewField("estimate_s", microsSchema(1), func(r *Reader, v *T) error {
		us := int64(0)
		err := r.Micros(&us, 1)
		if us != 0 {
			hintsOf(at(v)).EstimateUs = us
		}
		return err
	}, func(b []byte, v *T) []byte {
		if h := at(v).Hints; h != nil && h.EstimateUs != 0 {
			return hare.AppendMicros(b, h.EstimateUs)
		}
		return b
	})
}

// classField is the field class of a document that has a job.
func classField[T any](at func(*T) *hare.Job) Field[T] {
	return NewField("class", MapOf(Schema{"type": "string", "maxLength": hare.MaxClassText}),
		func(r *Reader, v *T) error { return readClass(r, at(v)) },
		func(b []byte, v *T) []byte {
			if h := at(v).Hints; h != nil && len(h.Class) > 0 {
				return appendClass(b, h.Class)
			}
			return b
		})
}

// readClass reads an object of strings, and sorts them by name.
func readClass(r *Reader, j *hare.Job) error {
	before := len(r.faults)
	var class []hare.ClassLabel
	n := 0
	err := r.Object(nil, func(name string) (bool, error) {
		l := hare.ClassLabel{Name: name}
		faults := len(r.faults)
		if err := r.String(&l.Value); err != nil || len(r.faults) > faults {
			return true, err
		}
		if fault := l.Fault(); fault != "" {
			return true, r.Fault("bad_value", "%s", fault)
		}
		if n++; n <= hare.MaxClassLabels {
			class = append(class, l)
		}
		return true, nil
	})
	if err == nil && n > hare.MaxClassLabels {
		err = r.Fault("too_many", "there are %d: at most %d are allowed", n, hare.MaxClassLabels)
	}
	if len(r.faults) > before || n == 0 {
		return err
	}
	slices.SortFunc(class, func(a, b hare.ClassLabel) int { return strings.Compare(a.Name, b.Name) })
	hintsOf(j).Class = class
	return err
}

func appendClass(b []byte, class []hare.ClassLabel) []byte {
	return AppendMap(b, class, func(l *hare.ClassLabel) string { return l.Name },
		func(b []byte, l *hare.ClassLabel) []byte { return AppendString(b, l.Value) })
}
