package wire

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// eventTypeNames lists the JSON names of event types; EventType is the index.
var eventTypeNames = func() (names []string) {
	for _, t := range hare.EventTypes() {
		names = append(names, t.String())
	}
	return names
}()

// eventNames are the names of the rows of eventTable. The check of the table reads
// them from here, because a table cannot refer to itself while it is made.
var eventNames []string

func init() { eventNames = eventTable.names }

// fieldSet is a set of fields of eventTable. Bit i stands for row i of the table.
type fieldSet uint16

const (
	fieldSeq fieldSet = 1 << iota
	fieldAt
	fieldType
	fieldJob
	fieldRound
	fieldTask
	fieldGPU
	fieldGPUType
	fieldCompute
	fieldSync
)

const taskFields = fieldJob | fieldRound | fieldTask | fieldGPU

// eventNeeds lists, by event type, the fields that an event needs beside seq, at_s
// and type.
var eventNeeds = [...]fieldSet{
	hare.EventTick: 0, hare.EventJobArrived: fieldJob, hare.EventComputeEnded: taskFields,
	hare.EventTaskEnded:  taskFields | fieldCompute,
	hare.EventTaskFailed: taskFields, hare.EventJobEnded: fieldJob, hare.EventJobCancelled: fieldJob,
	hare.EventGPUJoined: fieldGPU | fieldGPUType, hare.EventGPULeft: fieldGPU,
}

// eventMay returns the fields that an event of type t may have beside those that it
// needs.
func eventMay(t hare.EventType) fieldSet {
	if t == hare.EventTaskEnded {
		return fieldSync
	}
	return 0
}

// fieldRemedies lists, by field, what a fault proposes where the field is missing.
var fieldRemedies = [...]string{
	"count the events from 1 without gaps", "give the seconds since the session began", "say what happened",
	"name the job", "count the rounds from 0", "count the tasks of the round from 0", `name the GPU, as "a/0"`,
	"name the type of the GPU", "give the measured seconds of compute", "",
}

// DecodeEvent strictly reads one event that a client of an online session sent. The
// error is InvalidErrors with every fault of one pass. The event shares no memory
// with line. Where DecodeEvent returns an error, only Seq of the event is set, if
// it could be read.
func DecodeEvent(line []byte) (hare.Event, error) { return decodeEvent(line, true) }

// DecodeUntimedEvent reads an event of a session whose server stamps the time: at_s
// must be left out, and AtUs is 0.
func DecodeUntimedEvent(line []byte) (hare.Event, error) { return decodeEvent(line, false) }

func decodeEvent(line []byte, timed bool) (hare.Event, error) {
	if e, ok := scanEvent(line, timed); ok {
		return e, nil
	}
	return decodeEventStrictly(line, timed)
}

func decodeEventStrictly(line []byte, timed bool) (hare.Event, error) {
	var e hare.Event
	if err := eventTable.Decode(newLineReader(line), &eventDoc{Event: &e, timed: timed}); err != nil {
		return hare.Event{Seq: e.Seq}, err
	}
	return e, nil
}

// eventDoc is an event while it is read.
type eventDoc struct {
	*hare.Event
	timed     bool // the event has at_s
	knowsType bool
	isObject  bool // job is an object
	badJob    bool // a fault was found in job
}

// eventTable reads events. AppendEvent writes them, and scanEvent reads the form
// that AppendEvent writes, because both are faster than the table.
var eventTable = NewTable("Event",
	"Event is one line that a client of a session sends. Each type has the fields that it needs and no others.",
	Integer("seq", func(v *eventDoc) *int64 { return &v.Seq }, 1, hare.MaxExact).Needed().
		About("seq counts the events from 1 without gaps."),
	Micros("at_s", func(v *eventDoc) *int64 { return &v.AtUs }, 0).
		About("at_s is the time of the event since the session began, which never goes back. An event has no at_s where "+
			"the server keeps the time."),
	NewField("type", Schema{"type": "string", "enum": eventTypeNames}, readEventType, nil).Needed(),
	NewField("job", Schema{"type": []string{"string", "object"}}, readEventJob, nil).
		About("job is the id of a job. In job_arrived it is the job itself, an object with id, weight, tasks, sync, mix "+
			"and on, whose profiles may be {}, and with what its user says: estimate_s, for how long the job is expected to "+
			"run alone on its fastest GPU type, which is never a limit, and class, an object of at most 8 strings by which "+
			"jobs are alike, such as user and name."),
	Integer("round", func(v *eventDoc) *int64 { return &v.Round }, 0, hare.MaxExact),
	Integer("task", func(v *eventDoc) *int64 { return &v.Task }, 0, hare.MaxExact),
	String("gpu", func(v *eventDoc) *string { return &v.GPU }).About("gpu is node/index.").Example("a/0"),
	String("gpu_type", func(v *eventDoc) *string { return &v.GPUType }),
	Micros("compute_s", func(v *eventDoc) *int64 { return &v.ComputeUs }, 1).
		About("compute_s is the measured compute time of a task that ended."),
	Micros("sync_s", func(v *eventDoc) *int64 { return &v.SyncUs }, 0).
		About("sync_s is the measured synchronisation time of a task that ended."),
).Check(checkEvent)

func readEventJob(r *Reader, v *eventDoc) (err error) {
	before := len(r.faults)
	if v.isObject = r.Is('{'); v.isObject {
		v.Arrived = &hare.Job{WeightMicro: 1e6, Tasks: 1}
		err = arrivingTable.Read(r, &arrivingDoc{Job: v.Arrived, knowsSync: true})
		v.Job = v.Arrived.ID
	} else {
		err = r.String(&v.Job)
	}
	v.badJob = len(r.faults) > before
	return err
}

func checkEvent(v *eventDoc, m Members, found *hare.InvalidErrors) {
	has := fieldSet(m.bits)
	checkEventShape(found, v.Type, has, v.knowsType, v.timed)
	if has&fieldJob != 0 && !v.badJob && v.knowsType {
		switch {
		case v.Type == hare.EventJobArrived && !v.isObject:
			found.Add("/job", "wrong_type", `must be an object, the job that arrives: {"id": …, "tasks": …, "on": …}`)
		case v.Type != hare.EventJobArrived && v.isObject && eventNeeds[v.Type]&fieldJob != 0:
			found.Add("/job", "wrong_type", "must be a string, the id of the job: only job_arrived gives the whole "+
				"job")
		case v.Job == "" && !v.isObject:
			found.Add("/job", "bad_name", "must not be empty")
		}
	}
	if has&fieldGPU != 0 && !isGPUName(v.GPU) {
		found.Add("/gpu", "bad_name", `%q is not the name of a GPU: node/index, as "a/0"`, hare.Clip(v.GPU))
	}
	if has&fieldGPUType != 0 && v.GPUType == "" {
		found.Add("/gpu_type", "bad_name", "a GPU type needs a name")
	}
}

// checkEventShape reports the fields that are missing and those that the type of
// event does not have.
func checkEventShape(es *hare.InvalidErrors, t hare.EventType, has fieldSet, knowsType, timed bool) {
	needs := fieldSeq | fieldType
	if timed {
		needs |= fieldAt
	}
	if knowsType {
		needs |= eventNeeds[t]
	}
	for i, name := range eventNames {
		bit := fieldSet(1 << i)
		switch {
		case needs&bit != 0 && has&bit == 0 && bit == fieldJob && t == hare.EventJobArrived:
			es.Add("", "missing_field", `"job" is missing: give the job that arrives, {"id": …, "tasks": …, "on": …}`)
		case needs&bit != 0 && has&bit == 0:
			es.Add("", "missing_field", "%q is missing: %s", name, fieldRemedies[i])
		case bit == fieldAt && has&bit != 0 && !timed:
			es.Add("/at_s", "not_allowed", "the server keeps the time of this session: leave at_s out")
		case knowsType && has&bit != 0 && bit > fieldType && (needs|eventMay(t))&bit == 0:
			es.Add("/"+name, "not_allowed", "%s has no %q: leave it out", t, name)
		}
	}
}

func readEventType(r *Reader, v *eventDoc) error {
	text := ""
	if !r.Is('"') {
		return r.String(&text)
	}
	if err := r.String(&text); err != nil {
		return err
	}
	if i := slices.Index(eventTypeNames, text); i >= 0 {
		v.Type, v.knowsType = hare.EventType(i), true
		return nil
	}
	if best := hare.Nearest(hare.Cut(text, 60), eventTypeNames); best != "" {
		return r.Fault("unknown_value", "type %q: did you mean %q?", hare.Clip(text), best)
	}
	return r.Fault("unknown_value", "type %q: must be one of %s", hare.Clip(text), strings.Join(eventTypeNames, ", "))
}

// isGPUName reports whether a name has the form node/index.
func isGPUName(s string) bool {
	i := strings.IndexByte(s, '/')
	if i < 1 {
		return false
	}
	index := s[i+1:]
	if index == "" || len(index) > 7 || index != "0" && index[0] == '0' {
		return false
	}
	for i := range len(index) {
		if index[i] < '0' || index[i] > '9' {
			return false
		}
	}
	return true
}

// arrivingDoc is an arriving job, whose size may be unknown, while it is read.
type arrivingDoc struct {
	*hare.Job
	mix, knowsSync bool
}

var arrivingTable = NewTable("ArrivingJob", "ArrivingJob is a job whose number of rounds is not known.",
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
	NewField("on", MapOf(RefTo(profileTable)), readArrivingProfiles, nil),
	estimateField(func(v *arrivingDoc) *hare.Job { return v.Job }),
	classField(func(v *arrivingDoc) *hare.Job { return v.Job }),
	refused[arrivingDoc]("rounds", "the size of an arriving job is not known: leave rounds out, and send "+
		"job_ended after its last round"),
	refused[arrivingDoc]("release_s", "a job is released when it arrives: leave release_s out, and send "+
		"job_arrived then"),
).Check(func(v *arrivingDoc, has Members, found *hare.InvalidErrors) {
	checkMix(v.Job, has.Has("mix") && v.knowsSync, v.mix, found)
	// The other checks are those of a job of known size and speed.
	known := *v.Job
	known.Rounds, known.On = 1, slices.Clone(v.On)
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

// refused makes a field that the document must not have, and gives the reason in
// the fault.
func refused[T any](name, reason string) Field[T] {
	return NewField(name, nil, func(r *Reader, _ *T) error {
		if err := r.Skip(); err != nil {
			return err
		}
		return r.Fault("not_allowed", "%s", reason)
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

var decisionTypeNames = []string{hare.DecisionStart.String(), hare.DecisionWithdraw.String()}

var decisionTable = NewTable("Decision", "Decision says which task starts where, or that a start is void.",
	NewField("type", Schema{"type": "string", "enum": decisionTypeNames}, readDecisionType, nil).Required(""),
	String("job", func(v *hare.Decision) *string { return &v.Job }).Required(""),
	Integer("round", func(v *hare.Decision) *int64 { return &v.Round }, 0, hare.MaxExact).Required(""),
	Integer("task", func(v *hare.Decision) *int64 { return &v.Task }, 0, hare.MaxExact).Required(""),
	String("gpu", func(v *hare.Decision) *string { return &v.GPU }).Required(""),
	Micros("at_s", func(v *hare.Decision) *int64 { return &v.AtUs }, 0).Required(""),
).Growing().Check(func(v *hare.Decision, has Members, found *hare.InvalidErrors) {
	if has.Has("job") && v.Job == "" {
		found.Add("/job", "bad_name", "must not be empty")
	}
	if has.Has("gpu") && !isGPUName(v.GPU) {
		found.Add("/gpu", "bad_name", `%q is not the name of a GPU: node/index, as "a/0"`, hare.Clip(v.GPU))
	}
})

func readDecisionType(r *Reader, v *hare.Decision) error {
	text := ""
	if !r.Is('"') {
		return r.String(&text)
	}
	if err := r.String(&text); err != nil {
		return err
	}
	for _, t := range []hare.DecisionType{hare.DecisionStart, hare.DecisionWithdraw} {
		if text == t.String() {
			v.Type = t
			return nil
		}
	}
	return r.Fault("unknown_value", "type %q: must be start or withdraw", hare.Clip(text))
}
