package wire

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

var profileTable = NewTable("Profile", "Profile is the time of one task on one GPU type, in seconds.",
	Micros("compute_s", func(v *profileDoc) *int64 { return &v.ComputeUs }, 1).Needed().
		About("compute_s is more than 0.").Example(1.2),
	syncField().Default(0).Example(0.1),
	Micros("switch_s", func(v *profileDoc) *int64 { return &v.SwitchUs }, 0).
		About("switch_s is the setup of a GPU for the job where the GPU did something else before.").Default(0),
).Check(func(v *profileDoc, has Members, found *hare.InvalidErrors) {
	if v.mayLearn && has.Has("switch_s") {
		found.Add("/switch_s", "not_supported", "sessions do not support setups in this version: leave "+
			"switch_s out")
	}
	switch v.learned = has.None(); {
	case has.Has("compute_s") || v.mayLearn && v.learned:
	case v.mayLearn:
		found.Add("", "missing_field", `"compute_s" is missing: give the seconds of compute of one task on %s, or `+
			`{} where the speed is to be learned`, hare.Clip(v.Type))
	default:
		found.Add("", "missing_field", `"compute_s" is missing: the seconds of compute of one task on %s`,
			hare.Clip(v.Type))
	}
})

// profiles reads the times of a task on each GPU type.
func (d *instanceReader) profiles(to *[]hare.Profile) error {
	d.scratch = d.scratch[:0]
	err := d.Object(nil, func(kind string) (bool, error) {
		// The table overwrites the profile, or a fault is recorded.
		d.scratch = append(d.scratch, hare.Profile{Type: kind, ComputeUs: 1})
		d.profileDoc = profileDoc{Profile: &d.scratch[len(d.scratch)-1], d: d}
		return true, profileTable.Read(d.Reader, &d.profileDoc)
	})
	if len(d.scratch) > 0 {
		*to = slices.Clone(d.scratch)
		slices.SortFunc(*to, func(a, b hare.Profile) int { return strings.Compare(a.Type, b.Type) })
	}
	return err
}

func appendProfiles(b []byte, profiles []hare.Profile, doc *profileDoc) []byte {
	b = append(b, '{')
	for i := range profiles {
		if i > 0 {
			b = append(b, ',')
		}
		doc.Profile = &profiles[i]
		b = append(AppendString(b, doc.Type), ':')
		b = profileTable.Append(b, doc)
	}
	return append(b, '}')
}
