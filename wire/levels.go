package wire

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// syncField makes the field sync_s of a profile: a time, or an object of times by level.
func syncField() Field[profileDoc] {
	seconds := Schema{"type": []string{"number", "object"}, "format": "double", "minimum": 0,
		"additionalProperties": microsSchema(0)}
	return NewField("sync_s", seconds, readSyncTime,
		func(b []byte, v *profileDoc) []byte { return appendSyncTime(b, v.Profile) }).
		About("sync_s is the time of synchronisation after the compute of a round. For gang and rigid jobs it may be an " +
			"object by level, never less for a coarser level: the time of a round is that of the finest level that has " +
			"all of its tasks in one domain, or of the next coarser one in the object.")
}

// appendSyncTime appends a time, or times by level; nothing where the time is 0.
func appendSyncTime(b []byte, p *hare.Profile) []byte {
	switch {
	case p.SyncAt != nil:
		return AppendMap(b, p.SyncAt, func(s *hare.LevelSync) string { return s.Level },
			func(b []byte, s *hare.LevelSync) []byte { return hare.AppendMicros(b, s.SyncUs) })
	case p.SyncUs != 0:
		return hare.AppendMicros(b, p.SyncUs)
	}
	return b
}

// withinField makes the field within of a job.
func withinField[T any](at func(*T) *hare.Job) Field[T] {
	return NewField("within", Schema{"type": "string"},
		func(r *Reader, v *T) error { return r.Word(&at(v).Within) },
		func(b []byte, v *T) []byte {
			if at(v).Within == "" {
				return b
			}
			return AppendString(b, at(v).Within)
		})
}

// readSyncTime reads a time, or times by level.
func readSyncTime(r *Reader, v *profileDoc) error {
	if !r.Is('{') {
		return r.Micros(&v.SyncUs, 0)
	}
	before := r.Faults()
	v.SyncAt = []hare.LevelSync{}
	err := r.Object(nil, func(level string) (bool, error) {
		s := hare.LevelSync{Level: level}
		err := r.Micros(&s.SyncUs, 0)
		v.SyncAt = append(v.SyncAt, s)
		v.SyncUs = max(v.SyncUs, s.SyncUs)
		return true, err
	})
	if r.Faults() > before {
		v.SyncAt = nil
	}
	slices.SortFunc(v.SyncAt, func(a, b hare.LevelSync) int { return strings.Compare(a.Level, b.Level) })
	if v.d != nil {
		v.d.bySpread = true
	}
	return err
}

// appendCanonicalSync appends the time of synchronisation in the canonical form.
func appendCanonicalSync(b []byte, p *hare.Profile) []byte {
	if p.SyncAt == nil {
		return appendInt(b, p.SyncUs)
	}
	return AppendMap(b, utf16Sorted(p.SyncAt, func(s hare.LevelSync) string { return s.Level }),
		func(s *hare.LevelSync) string { return s.Level },
		func(b []byte, s *hare.LevelSync) []byte { return appendInt(b, s.SyncUs) })
}
