package wire

import (
	"io"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// arrivingDoc is an arriving job, whose size may be unknown, while it is read.
type arrivingDoc struct {
	*hare.Job
	mix, knowsSync bool
}

var arrivingTable = NewTable("ArrivingJob", "ArrivingJob is a job whose number of rounds is not known.",
	slices.Concat(arrivingFields, placementFields(func(v *arrivingDoc) *hare.Job { return v.Job }),
		[]Field[arrivingDoc]{
			usersField(func(v *arrivingDoc) *[]string { return &v.Users }),
			Object("progress", func(v *arrivingDoc) **hare.Progress { return &v.Progress }, progressTable),
		})...,
).Check(func(v *arrivingDoc, has Members, found *hare.InvalidErrors) {
	if v.GPUsPerTask == 1 {
		v.GPUsPerTask = 0
	}
	if v.Within == hare.LevelAny {
		v.Within = ""
	}
	checkMix(v.Job, has.Has("mix") && v.knowsSync, v.mix, found)
	// The other checks are those of a job of known size and speed.
	known := *v.Job
	known.Rounds, known.On = v.FirstRound()+1, slices.Clone(v.On)
	for i := range known.On {
		known.On[i].ComputeUs = max(1, known.On[i].ComputeUs)
	}
	if !has.Has("on") {
		found.Add("", "missing_field",
			`"on" is missing: give the GPU types that it may run on, with times `+
				`where they are known: {"V100": {"compute_s": 1.2}, "T4": {}}`)
		known.On = []hare.Profile{{Type: "-", ComputeUs: 1}}
	}
	found.CheckJob("", &known)
})

// DecodeArrivingJob strictly reads the job of an event job_arrived. The error is hare.InvalidErrors.
func DecodeArrivingJob(r io.Reader, lim Limits) (*hare.Job, error) {
	j := &hare.Job{WeightMicro: 1e6, Tasks: 1}
	if err := arrivingTable.Decode(NewReader(r, lim), &arrivingDoc{Job: j, knowsSync: true}); err != nil {
		return nil, err
	}
	return j, nil
}

// arrivingFields are the fields of an arriving job that are not about nodes.
var arrivingFields = []Field[arrivingDoc]{
	String("id", func(v *arrivingDoc) *string { return &v.ID }),
	Micros("weight", func(v *arrivingDoc) *int64 { return &v.WeightMicro }, 0),
	Integer("tasks", func(v *arrivingDoc) *int64 { return &v.Tasks }, 1, hare.MaxTasks(hare.Relaxed)),
	NewField("sync", Schema{"type": "string"}, func(r *Reader, v *arrivingDoc) error {
		unknown := false
		err := r.sync(&v.Sync, &unknown)
		v.knowsSync = !unknown
		return err
	}, nil),
	Bool("mix", func(v *arrivingDoc) *bool { return &v.mix }),
	NewField("on", MapOf(Schema{"type": "object"}), readArrivingProfiles, nil).
		About("on are the GPU types that it may run on, each with a Profile, or {} where its times are not known."),
	estimateField(func(v *arrivingDoc) *hare.Job { return v.Job }),
	classField(func(v *arrivingDoc) *hare.Job { return v.Job }),
	refused[arrivingDoc]("rounds", "not_allowed", "the size of an arriving job is not known: leave rounds out, and send "+
		"job_ended after its last round"),
	refused[arrivingDoc]("release_s", "not_allowed", "a job is released when it arrives: leave release_s out, and send "+
		"job_arrived then"),
	refused[arrivingDoc]("after", "not_supported", "sessions do not support dependencies in this version: leave after "+
		"out, and send job_arrived when the jobs before have ended"),
	refused[arrivingDoc]("shapes", "not_supported", "sessions do not support shapes in this version: give the job one, "+
		"as tasks, gpus_per_task and on"),
	refused[arrivingDoc]("reshape_s", "not_supported", "sessions do not support shapes in this version: leave "+
		"reshape_s out"),
	refused[arrivingDoc]("durations", "not_supported", "sessions learn how long jobs take: leave durations out, and "+
		"give your estimate as estimate_s"),
	refused[arrivingDoc]("deadline_s", "not_supported", "sessions do not support deadlines in this version: leave "+
		"deadline_s out, and give urgent jobs more weight"),
	refused[arrivingDoc]("late_weight", "not_supported", "sessions do not support deadlines in this version: leave "+
		"late_weight out, and give urgent jobs more weight"),
}

// refused makes a field that the document must not have, and gives the reason in
// the fault.
func refused[T any](name, code, reason string) Field[T] {
	return NewField(name, nil, func(r *Reader, _ *T) error {
		if err := r.Skip(); err != nil {
			return err
		}
		return r.Fault(code, "%s", reason)
	}, nil).Hidden()
}

// readArrivingProfiles reads profiles, each of which is either complete or empty.
func readArrivingProfiles(r *Reader, v *arrivingDoc) error {
	var doc profileDoc
	err := r.Object(nil, func(kind string) (bool, error) {
		v.On = append(v.On, hare.Profile{Type: kind})
		doc = profileDoc{Profile: &v.On[len(v.On)-1], mayLearn: true}
		return true, profileTable.Read(r, &doc)
	})
	slices.SortFunc(v.On, func(a, b hare.Profile) int { return strings.Compare(a.Type, b.Type) })
	return err
}

// AppendArrivingJob writes the document that DecodeArrivingJob reads.
func AppendArrivingJob(b []byte, j *hare.Job) []byte {
	b = AppendString(append(b, `{"id":`...), j.ID)
	b = hare.AppendMicros(append(b, `,"weight":`...), j.WeightMicro)
	b = appendInt(append(b, `,"tasks":`...), j.Tasks)
	if j.Sync != hare.Relaxed {
		b = append(b, `,"sync":"`...)
		b = append(b, j.Sync.String()...)
		b = append(b, '"')
	}
	if j.Mix {
		b = append(b, `,"mix":true`...)
	}
	b = append(b, `,"on":{`...)
	for i, p := range j.On {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, p.Type), ":{"...)
		if p.ComputeUs != 0 {
			b = hare.AppendMicros(append(b, `"compute_s":`...), p.ComputeUs)
			if p.SyncUs != 0 || p.SyncAt != nil {
				b = appendSyncTime(append(b, `,"sync_s":`...), &p)
			}
		}
		b = append(b, '}')
	}
	b = append(b, '}')
	if h := j.Hints; h != nil && h.EstimateUs != 0 {
		b = hare.AppendMicros(append(b, `,"estimate_s":`...), h.EstimateUs)
	}
	if h := j.Hints; h != nil && len(h.Class) > 0 {
		b = appendClass(append(b, `,"class":`...), h.Class)
	}
	b = appendPlacement(b, j)
	if len(j.Users) > 0 {
		b = appendUsers(append(b, `,"user":`...), j.Users)
	}
	if j.Progress != nil {
		b = progressTable.Append(append(b, `,"progress":`...), j.Progress)
	}
	return append(b, '}')
}
