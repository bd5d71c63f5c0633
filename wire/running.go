package wire

import (
	"slices"

	"github.com/hare-sched/hare"
)

// progressTable is the table of what of a job is done and runs at time 0.
var progressTable = NewTable("Progress", "Progress is how far a job is at time 0.",
	Integer("rounds_done", func(v *hare.Progress) *int64 { return &v.RoundsDone }, 0, hare.MaxExact).
		About("rounds_done is the number of rounds that are done.").Default(0),
	Strings("gpus", func(v *hare.Progress) *[]string { return &v.GPUs }, hare.MaxGPUs, "GPUs").
		About("gpus are the GPUs, called node/index, on which a gang or rigid job runs at time 0: as many as all tasks "+
			"of a round hold. Left out: the job does not run.").
		Example([]string{"a-0/0", "a-0/1"}),
	Micros("elapsed_s", func(v *hare.Progress) *int64 { return &v.ElapsedUs }, 0).
		About("elapsed_s says how long ago the running round of a gang job began, or the running rest of a rigid job.").
		Default(0),
	NewField("shape", Schema{"type": "integer", "format": "int64", "minimum": 0},
		func(r *Reader, v *hare.Progress) error {
			n := int64(0)
			err := r.Integer(&n, 0, hare.MaxShapes-1)
			v.Shape = int(n)
			return err
		},
		func(b []byte, v *hare.Progress) []byte {
			if v.Shape == 0 {
				return b
			}
			return appendInt(b, int64(v.Shape))
		}).
		About("shape is the position in shapes of the shape in which the job runs.").Default(0),
)

// usersField makes the field user of a job: a name, or an array of names, in sorted form.
func usersField[T any](at func(*T) *[]string) Field[T] {
	return NewField("user", Schema{"type": []string{"string", "array"}, "items": Schema{"type": "string"}},
		func(r *Reader, v *T) error {
			before := r.Faults()
			err := readLabelValues(r, at(v))
			if r.Faults() > before {
				*at(v) = nil
			}
			return err
		},
		func(b []byte, v *T) []byte { return appendUsers(b, *at(v)) })
}

func appendUsers(b []byte, users []string) []byte {
	switch len(users) {
	case 0:
		return b
	case 1:
		return AppendString(b, users[0])
	}
	return appendList(b, users, AppendString)
}

// reservationDoc is a reservation while it is read or written.
type reservationDoc struct{ hare.Reservation }

var reservationTable = NewTable("Reservation", "Reservation keeps all jobs but some off some nodes for some time.",
	selectorField("nodes", func(v *reservationDoc) *[]hare.LabelValues { return &v.Nodes }).
		About("nodes chooses the nodes as only of a job does. Left out: all nodes.").Example(Schema{"rack": "r1"}),
	Micros("from_s", func(v *reservationDoc) *int64 { return &v.FromUs }, 0).
		About("from_s is when the reservation begins.").Default(0),
	Micros("until_s", func(v *reservationDoc) *int64 { return &v.UntilUs }, 0).
		Required("give the time at which the reservation ends").
		About("until_s is when the reservation ends."),
	Strings("users", func(v *reservationDoc) *[]string { return &v.Users }, hare.MaxNames, "users").
		About("users are names of whose jobs may use the nodes nevertheless, as user of a job has them."),
	Strings("jobs", func(v *reservationDoc) *[]string { return &v.Jobs }, hare.MaxListedJobs, "jobs").
		About("jobs are the ids of jobs that may use the nodes nevertheless."),
).Check(func(v *reservationDoc, has Members, found *hare.InvalidErrors) {
	v.Users, v.Jobs = sortedNames(v.Users), sortedNames(v.Jobs)
	if has.Sound && has.Has("until_s") {
		found.CheckReservation("", &v.Reservation)
	}
})

// quotaDoc is a quota while it is read or written.
type quotaDoc struct{ hare.Quota }

var quotaTable = NewTable("UserQuota", "UserQuota limits the GPUs that the jobs of a user hold together at any time.",
	String("user", func(v *quotaDoc) *string { return &v.User }).
		Required("give the name of a user, an account or a queue").With("minLength", 1).Example("ann").
		About("user is the name that user of a job has: of a user, an account, a queue."),
	Integer("gpus", func(v *quotaDoc) *int64 { return &v.GPUs }, 0, hare.MaxGPUs).
		Required("give how many GPUs the user's jobs hold together at most").
		About("gpus is how many GPUs they hold at most.").Example(16),
	Strings("types", func(v *quotaDoc) *[]string { return &v.Types }, hare.MaxNames, "types").
		About("types are the GPU types that count. Left out: all.").Example([]string{"A100"}),
).Check(func(v *quotaDoc, has Members, found *hare.InvalidErrors) {
	v.Types = sortedNames(v.Types)
	if has.Has("types") && v.Types == nil {
		v.Types = []string{}
	}
	if has.Sound && has.Has("user") && has.Has("gpus") {
		found.CheckQuota("", &v.Quota)
	}
})

// Quota reads a quota as in an instance.
func (r *Reader) Quota() (hare.Quota, error) {
	var doc quotaDoc
	err := quotaTable.Read(r, &doc)
	return doc.Quota, err
}

func sortedNames(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// readReservations reads the reservations of a cluster; those with faults are kept empty, so
// that indices are those of the document.
func readReservations(r *Reader, to *[]hare.Reservation) error {
	return r.Array(func(int) error {
		var doc reservationDoc
		err := reservationTable.Read(r, &doc)
		*to = append(*to, doc.Reservation)
		return err
	})
}

func appendReservations(b []byte, reservations []hare.Reservation) []byte {
	if len(reservations) == 0 {
		return b
	}
	return appendList(b, reservations, func(b []byte, v hare.Reservation) []byte {
		return reservationTable.Append(b, &reservationDoc{v})
	})
}

func readQuota(r *Reader, to *[]hare.Quota) error {
	return r.Array(func(int) error {
		var doc quotaDoc
		err := quotaTable.Read(r, &doc)
		*to = append(*to, doc.Quota)
		return err
	})
}

func AppendQuota(b []byte, quota []hare.Quota) []byte {
	if len(quota) == 0 {
		return b
	}
	return appendList(b, quota, func(b []byte, v hare.Quota) []byte { return quotaTable.Append(b, &quotaDoc{v}) })
}

// appendCanonicalNames appends a key and its sorted names where there are any.
func appendCanonicalNames(b []byte, key string, names []string) []byte {
	if len(names) == 0 {
		return b
	}
	return appendList(append(b, key...), utf16Sorted(names, func(s string) string { return s }), AppendString)
}

// appendCanonicalReservations appends the reservations of a cluster in the canonical form.
func appendCanonicalReservations(b []byte, reservations []hare.Reservation) []byte {
	if len(reservations) == 0 {
		return b
	}
	return appendList(append(b, `,"reservations":`...), reservations, func(b []byte, v hare.Reservation) []byte {
		begin := len(b)
		b = appendSet(b, `,"from_us":`, v.FromUs)
		b = appendCanonicalNames(b, `,"jobs":`, v.Jobs)
		if len(v.Nodes) > 0 {
			b = appendCanonicalSelector(append(b, `,"nodes":`...), v.Nodes)
		}
		b = appendSet(b, `,"until_us":`, v.UntilUs)
		b = appendCanonicalNames(b, `,"users":`, v.Users)
		b[begin] = '{'
		return append(b, '}')
	})
}

// appendCanonicalQuota appends the quotas of an instance in the canonical form.
func appendCanonicalQuota(b []byte, quota []hare.Quota) []byte {
	if len(quota) == 0 {
		return b
	}
	return appendList(append(b, `,"quota":`...), quota, func(b []byte, v hare.Quota) []byte {
		b = appendInt(append(b, `{"gpus":`...), v.GPUs)
		b = appendCanonicalNames(b, `,"types":`, v.Types)
		b = AppendString(append(b, `,"user":`...), v.User)
		return append(b, '}')
	})
}

// appendCanonicalProgress appends the progress of a job in the canonical form; progress that
// says nothing is left out.
func appendCanonicalProgress(b []byte, p *hare.Progress) []byte {
	if p == nil || p.RoundsDone == 0 && len(p.GPUs) == 0 {
		return b
	}
	b = append(b, `,"progress":`...)
	begin := len(b)
	b = appendSet(b, `,"elapsed_us":`, p.ElapsedUs)
	if len(p.GPUs) > 0 {
		b = appendList(append(b, `,"gpus":`...), p.GPUs, AppendString)
	}
	b = appendSet(b, `,"rounds_done":`, p.RoundsDone)
	b = appendSet(b, `,"shape":`, int64(p.Shape))
	b[begin] = '{'
	return append(b, '}')
}
