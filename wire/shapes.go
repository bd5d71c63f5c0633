package wire

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
)

// shapeDoc is a shape of a job while it is read or written.
type shapeDoc struct {
	hare.Shape
	d       *instanceReader
	profile profileDoc // the profile that is being written
}

var shapeTable = NewTable("Shape", "Shape is one way in which the rounds of a job may run.",
	Integer("tasks", func(v *shapeDoc) *int64 { return &v.Tasks }, 1, hare.MaxTasks(hare.Relaxed)).Always().
		About("tasks of one round.").Default(1),
	Integer("gpus_per_task", func(v *shapeDoc) *int64 { return &v.GPUsPerTask }, 1, hare.MaxGPUs).
		About("gpus_per_task are the GPUs that one task holds, all of one type and on one node.").Default(1),
	Integer("counts", func(v *shapeDoc) *int64 { return &v.Counts }, 1, hare.MaxExact).
		Writing(func(b []byte, v *shapeDoc) []byte {
			if v.Counts == 1 {
				return b
			}
			return appendInt(b, v.Counts)
		}).
		About("counts is how many of the units, which rounds of the job counts, one round in this shape does.").Default(1),
	NewField("on", MapOf(RefTo(profileTable)),
		func(_ *Reader, v *shapeDoc) error { return v.d.profiles(&v.On) },
		func(b []byte, v *shapeDoc) []byte { return appendProfiles(b, v.On, &v.profile) }).
		Required(`give the times on each GPU type, e.g. {"V100": {"compute_s": 1.2}}`).
		About("on has the times of a task by GPU type.").With("minProperties", 1),
).Check(func(v *shapeDoc, _ Members, _ *hare.InvalidErrors) {
	if v.GPUsPerTask == 1 {
		v.GPUsPerTask = 0
	}
})

// readShapes reads the shapes of a job. Where one of them has faults, all are dropped.
func readShapes(r *Reader, d *instanceReader, to *[]hare.Shape) error {
	before := r.Faults()
	*to = []hare.Shape{}
	err := r.Array(func(int) error {
		doc := shapeDoc{Shape: hare.Shape{Tasks: 1, Counts: 1}, d: d}
		err := shapeTable.Read(r, &doc)
		*to = append(*to, doc.Shape)
		return err
	})
	if r.Faults() > before {
		*to = nil
	}
	return err
}

func appendShapes(b []byte, shapes []hare.Shape) []byte {
	if shapes == nil {
		return b
	}
	return appendList(b, shapes, func(b []byte, s hare.Shape) []byte { return shapeTable.Append(b, &shapeDoc{Shape: s}) })
}

// reshapeField makes the field reshape_s of a job, which may be 0 and then differs from one that
// is left out.
func reshapeField[T any](at func(*T) *hare.Job) Field[T] {
	return NewField("reshape_s", microsSchema(0),
		func(r *Reader, v *T) error {
			at(v).Reshape = true
			return r.Micros(&at(v).ReshapeUs, 0)
		},
		func(b []byte, v *T) []byte {
			if j := at(v); j.Reshape {
				return hare.AppendMicros(b, j.ReshapeUs)
			}
			return b
		})
}

// finishShapes decides what a job has in place of tasks, gpus_per_task and on once it is read,
// and adds the faults that only the document shows.
func finishShapes(j *hare.Job, has Members, found *hare.InvalidErrors) {
	if !has.Has("shapes") {
		return
	}
	if has.Has("tasks") || has.Has("gpus_per_task") || has.Has("on") {
		found.Add("/shapes", "not_allowed", "takes the place of tasks, gpus_per_task and on: give these in each shape, "+
			"or leave out shapes")
		j.Shapes, j.Reshape, j.ReshapeUs = nil, false, 0
		if !has.Has("on") {
			j.On = []hare.Profile{{Type: "-", ComputeUs: 1}}
		}
		return
	}
	if j.Shapes == nil { // a shape has faults
		j.On, j.Reshape, j.ReshapeUs = []hare.Profile{{Type: "-", ComputeUs: 1}}, false, 0
		return
	}
	j.Tasks = 0
}

var durationTable = NewTable("Duration", "Duration is one of the ways in which the times of a job may turn out.",
	Micros("p", func(v *hare.Duration) *int64 { return &v.Micro }, 1).
		Required("give how likely it is").About("p is how likely it is.").Example(0.5),
	Micros("factor", func(v *hare.Duration) *int64 { return &v.FactorMicro }, 1).
		Required("give by how much each time of the job is multiplied").
		About("factor is by how much each time of the job is multiplied.").Example(1.5),
)

// durationsField makes the field durations of a job, which is kept sorted by factor.
func durationsField[T any](at func(*T) *hare.Job) Field[T] {
	return NewField("durations", ListOf(RefTo(durationTable)),
		func(r *Reader, v *T) error {
			before, j := r.Faults(), at(v)
			j.Durations = []hare.Duration{}
			err := r.Array(func(int) error {
				var d hare.Duration
				err := durationTable.Read(r, &d)
				j.Durations = append(j.Durations, d)
				return err
			})
			if r.Faults() > before {
				j.Durations = nil // the indices of those that remain would differ from the document's
			}
			slices.SortFunc(j.Durations, func(a, b hare.Duration) int { return cmp.Compare(a.FactorMicro, b.FactorMicro) })
			return err
		},
		func(b []byte, v *T) []byte {
			if len(at(v).Durations) == 0 {
				return b
			}
			return appendObjects(b, at(v).Durations, durationTable)
		})
}

// appendCanonicalDurations appends how long a job may take in the canonical form.
func appendCanonicalDurations(b []byte, durations []hare.Duration) []byte {
	if len(durations) == 0 {
		return b
	}
	return appendList(append(b, `,"durations":`...), durations, func(b []byte, d hare.Duration) []byte {
		b = appendInt(append(b, `{"factor_micro":`...), d.FactorMicro)
		b = appendInt(append(b, `,"p_micro":`...), d.Micro)
		return append(b, '}')
	})
}

// appendCanonicalShapes appends the shapes of a job in the canonical form.
func appendCanonicalShapes(b []byte, shapes []hare.Shape) []byte {
	if shapes == nil {
		return b
	}
	return appendList(append(b, `,"shapes":`...), shapes, func(b []byte, s hare.Shape) []byte {
		begin := len(b)
		if s.Counts != 1 {
			b = appendSet(b, `,"counts":`, s.Counts)
		}
		if g := s.TaskGPUs(); g > 1 {
			b = appendSet(b, `,"gpus_per_task":`, g)
		}
		b = appendCanonicalProfiles(append(b, `,"on":`...), s.On)
		b = appendSet(b, `,"tasks":`, s.Tasks)
		b[begin] = '{'
		return append(b, '}')
	})
}

// appendCanonicalProfiles appends the times of a task by GPU type in the canonical form.
func appendCanonicalProfiles(b []byte, on []hare.Profile) []byte {
	b = append(b, '{')
	for x, p := range utf16Sorted(on, func(p hare.Profile) string { return p.Type }) {
		if x > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, p.Type)
		b = appendInt(append(b, `:{"compute_us":`...), p.ComputeUs)
		b = appendSet(b, `,"switch_us":`, p.SwitchUs)
		b = appendCanonicalSync(append(b, `,"sync_us":`...), &p)
		b = append(b, '}')
	}
	return append(b, '}')
}
