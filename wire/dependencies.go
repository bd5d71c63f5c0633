package wire

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

var predecessorTable = NewTable("Predecessor", "Predecessor is a job for whose end another job waits.",
	String("job", func(v *hare.Predecessor) *string { return &v.Job }).Needed().
		About("job is the id of the job that must have ended.").Example("prep"),
	Micros("lag_s", func(v *hare.Predecessor) *int64 { return &v.LagUs }, 0).
		About("lag_s is the time between the end and the earliest start.").Default(0),
)

// afterField makes the field after of a job: an array of ids or predecessors with lags. It is
// kept sorted by job.
func afterField[T any](at func(*T) *[]hare.Predecessor) Field[T] {
	return NewField("after", ListOf(Schema{"oneOf": []Schema{{"type": "string"}, RefTo(predecessorTable)}}),
		func(r *Reader, v *T) error { return readAfter(r, at(v)) },
		func(b []byte, v *T) []byte {
			if len(*at(v)) == 0 {
				return b
			}
			return appendList(b, *at(v), func(b []byte, p hare.Predecessor) []byte {
				if p.LagUs == 0 {
					return AppendString(b, p.Job)
				}
				return predecessorTable.Append(b, &p)
			})
		})
}

func readAfter(r *Reader, to *[]hare.Predecessor) error {
	before := r.Faults()
	err := r.Array(func(i int) error {
		var p hare.Predecessor
		var err error
		if r.Is('"') {
			err = r.String(&p.Job)
		} else {
			err = predecessorTable.Read(r, &p)
		}
		*to = append(*to, p)
		return err
	})
	if r.Faults() > before {
		*to = nil // the indices of those that remain would differ from the document's
	}
	slices.SortStableFunc(*to, func(a, b hare.Predecessor) int {
		return cmp.Or(strings.Compare(a.Job, b.Job), cmp.Compare(a.LagUs, b.LagUs))
	})
	return err
}

// appendCanonicalAfter appends the predecessors of a job in the canonical form, in which each
// is an object.
func appendCanonicalAfter(b []byte, after []hare.Predecessor) []byte {
	if len(after) == 0 {
		return b
	}
	sorted := utf16Sorted(after, func(p hare.Predecessor) string { return p.Job })
	return appendList(append(b, `,"after":`...), sorted, func(b []byte, p hare.Predecessor) []byte {
		b = AppendString(append(b, `{"job":`...), p.Job)
		b = appendSet(b, `,"lag_us":`, p.LagUs)
		return append(b, '}')
	})
}
