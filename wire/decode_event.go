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
	fieldGPUs
	fieldNode
	fieldCPUs
	fieldMemory
	fieldLabels
	fieldQuota
)

// nodeFields describe a node.
const nodeFields = fieldCPUs | fieldMemory | fieldLabels

const taskFields = fieldJob | fieldRound | fieldTask | fieldGPU

// eventNeeds lists, by event type, the fields that an event needs beside seq, at_s
// and type.
var eventNeeds = [...]fieldSet{
	hare.EventTick: 0, hare.EventJobArrived: fieldJob, hare.EventComputeEnded: taskFields,
	hare.EventTaskEnded:  taskFields | fieldCompute,
	hare.EventTaskFailed: taskFields, hare.EventJobEnded: fieldJob, hare.EventJobCancelled: fieldJob,
	hare.EventGPUJoined: fieldGPU | fieldGPUType, hare.EventGPULeft: fieldGPU,
	hare.EventNodeJoined: fieldNode | fieldGPUs, hare.EventNodeLeft: fieldNode,
	hare.EventSetQuota: fieldQuota,
}

// eventMay returns the fields that an event of type t may have beside those that it
// needs.
func eventMay(t hare.EventType) fieldSet {
	switch t {
	case hare.EventTaskEnded:
		return fieldSync
	case hare.EventGPUJoined, hare.EventNodeJoined:
		return nodeFields
	}
	return 0
}

// fieldRemedies lists, by field, what a fault proposes where the field is missing.
var fieldRemedies = [...]string{
	"count the events from 1 without gaps", "give the seconds since the session began", "say what happened",
	"name the job", "count the rounds from 0", "count the tasks of the round from 0", `name the GPU, as "a/0"`,
	"name the type of the GPU", "give the measured seconds of compute", "",
	`give the number of GPUs by type, {"A100": 8}`, "name the node", "", "", "",
	`give the quota, {"user": "ann", "gpus": 16}`,
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
	node      hare.Node
	badGPUs   bool // a fault was found in gpus
	quota     quotaDoc
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
	NewField("type", Schema{"type": "string", "enum": eventTypeNames}, readEventType, nil).Needed().
		About("type says what happened, and which of the other fields the event has."),
	NewField("job", Schema{"type": []string{"string", "object"}}, readEventJob, nil).
		About("job is the id of a job. In job_arrived it is the job itself, an object with id, weight, tasks, sync, mix "+
			"and on, whose profiles may be {}, and with what its user says: estimate_s, for how long the job is expected to "+
			"run alone on its fastest GPU type, which is never a limit, and class, an object of at most 8 strings by which "+
			"jobs are alike, such as user and name. Its gpus_per_task, cpus_per_task, memory_mib_per_task, distinct_nodes, "+
			"only, exclude, within and user are those of a job of an instance, and sync_s may be an object by level. Its "+
			"progress says that so many rounds are done, and with gpus that the next one runs there since elapsed_s, also "+
			"for a rigid job: the session counts it as started."),
	Integer("round", func(v *eventDoc) *int64 { return &v.Round }, 0, hare.MaxExact).
		About("round of a task, from 0."),
	Integer("task", func(v *eventDoc) *int64 { return &v.Task }, 0, hare.MaxExact).
		About("task is the number of a task in its round, from 0."),
	String("gpu", func(v *eventDoc) *string { return &v.GPU }).About("gpu is node/index.").Example("a/0"),
	String("gpu_type", func(v *eventDoc) *string { return &v.GPUType }).
		About("gpu_type is the type of a GPU that joins."),
	Micros("compute_s", func(v *eventDoc) *int64 { return &v.ComputeUs }, 1).
		About("compute_s is the measured compute time of a task that ended."),
	Micros("sync_s", func(v *eventDoc) *int64 { return &v.SyncUs }, 0).
		About("sync_s is the measured synchronisation time of a task that ended."),
	NewField("gpus", MapOf(Schema{"type": "integer", "format": "int64", "minimum": 1}),
		func(r *Reader, v *eventDoc) error {
			before := len(r.faults)
			err := readTypeCounts(r, &v.node)
			v.badGPUs = len(r.faults) > before
			return err
		}, nil).
		About("gpus is the number of GPUs by type of a node that joins. They are named node/index, the index running "+
			"through the types in sorted order."),
	String("node", func(v *eventDoc) *string { return &v.node.Name }).
		About("node is the name of a node that joins or leaves."),
	Millis("cpus", func(v *eventDoc) *int64 { return &v.node.CPUMilli }, 1, hare.MaxPerTask).
		About("cpus is the number of CPUs of the node that joins, or of the node of the GPU that joins. Left out: what "+
			"is known of the node, and no limit otherwise."),
	Integer("memory_mib", func(v *eventDoc) *int64 { return &v.node.MemoryMiB }, 1, hare.MaxPerTask).
		About("memory_mib is the memory of the node, as cpus."),
	NewField("labels", MapOf(Schema{"type": "string"}),
		func(r *Reader, v *eventDoc) error { return readLabels(r, &v.node.Labels) }, nil).
		About("labels are those of the node, as cpus. Where the cluster of the session has a topology, every node that "+
			"joins has its labels."),
	NewField("quota", RefTo(quotaTable),
		func(r *Reader, v *eventDoc) error { return quotaTable.Read(r, &v.quota) }, nil).
		About("quota limits, from now on, the GPUs that the jobs of a user hold together. It replaces a quota of the same "+
			"user and types. Jobs that hold more go on, and nothing else that counts starts until it fits. A quota of "+
			"1048576 GPUs limits nothing."),
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
	if has&(nodeFields|fieldNode|fieldGPUs) != 0 {
		checkEventNode(v, has, found)
	}
	if has&fieldQuota != 0 {
		v.Change = &hare.Change{Quota: &v.quota.Quota}
	}
}

// checkEventNode checks the node of an event and gives it to the event.
func checkEventNode(v *eventDoc, has fieldSet, found *hare.InvalidErrors) {
	n := v.node
	if has&fieldNode == 0 && isGPUName(v.GPU) {
		n.Name = v.GPU[:strings.IndexByte(v.GPU, '/')]
	}
	if has&fieldNode != 0 && (n.Name == "" || strings.Contains(n.Name, "/")) {
		found.Add("/node", "bad_name", `%q is not the name of a node, which has no "/"`, hare.Clip(n.Name))
	}
	known := n
	known.Name = "node" // the name is checked above
	var faults hare.InvalidErrors
	faults.CheckNode("", &known, has&fieldGPUs != 0 && !v.badGPUs)
	*found = append(*found, faults...)
	v.Change = &hare.Change{Node: &n}
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
	if guess := hare.Guess(text, eventTypeNames); guess != "" {
		return r.Fault("unknown_value", "type %q%s", hare.Clip(text), guess)
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
	NewField("on", MapOf(RefTo(profileTable)), readArrivingProfiles, nil),
	estimateField(func(v *arrivingDoc) *hare.Job { return v.Job }),
	classField(func(v *arrivingDoc) *hare.Job { return v.Job }),
	refused[arrivingDoc]("rounds", "not_allowed", "the size of an arriving job is not known: leave rounds out, and send "+
		"job_ended after its last round"),
	refused[arrivingDoc]("release_s", "not_allowed", "a job is released when it arrives: leave release_s out, and send "+
		"job_arrived then"),
	refused[arrivingDoc]("after", "not_supported", "sessions do not know dependencies in this version: leave after out, "+
		"and send job_arrived when the jobs before have ended"),
	refused[arrivingDoc]("shapes", "not_supported", "sessions do not know shapes in this version: give the job one, as "+
		"tasks, gpus_per_task and on"),
	refused[arrivingDoc]("reshape_s", "not_supported", "sessions do not know shapes in this version: leave "+
		"reshape_s out"),
	refused[arrivingDoc]("durations", "not_supported", "sessions learn how long jobs take: leave durations out, and "+
		"give what is believed as estimate_s"),
	refused[arrivingDoc]("deadline_s", "not_supported", "sessions do not know deadlines in this version: leave "+
		"deadline_s out, and give urgent jobs more weight"),
	refused[arrivingDoc]("late_weight", "not_supported", "sessions do not know deadlines in this version: leave "+
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

var decisionTypeNames = []string{hare.DecisionStart.String(), hare.DecisionWithdraw.String()}

var decisionTable = NewTable("Decision", "Decision says which task starts where, or that a start is void.",
	NewField("type", Schema{"type": "string", "enum": decisionTypeNames}, readDecisionType, nil).Required("").
		About("type is start, or withdraw for a start that is void."),
	String("job", func(v *hare.Decision) *string { return &v.Job }).Required("").
		About("job is the id of the job."),
	Integer("round", func(v *hare.Decision) *int64 { return &v.Round }, 0, hare.MaxExact).Required("").
		About("round of the task, from 0."),
	Integer("task", func(v *hare.Decision) *int64 { return &v.Task }, 0, hare.MaxExact).Required("").
		About("task is the number of the task in its round, from 0."),
	String("gpu", func(v *hare.Decision) *string { return &v.GPU }).Required("").
		About("gpu is the GPU of the task, or its first one."),
	NewField("gpus", ListOf(Schema{"type": "string"}), readDecisionGPUs, nil).
		About("gpus are all GPUs of a task of several, which are on one node. Events of the task name the first one."),
	Micros("at_s", func(v *hare.Decision) *int64 { return &v.AtUs }, 0).Required("").
		About("at_s is the time of the decision since the session began."),
).Growing().Check(func(v *hare.Decision, has Members, found *hare.InvalidErrors) {
	if has.Has("job") && v.Job == "" {
		found.Add("/job", "bad_name", "must not be empty")
	}
	switch {
	case has.Has("gpu") && !isGPUName(v.GPU):
		found.Add("/gpu", "bad_name", `%q is not the name of a GPU: node/index, as "a/0"`, hare.Clip(v.GPU))
	case has.Has("gpu") && v.Others != "":
		checkDecisionGPUs(v, found)
	}
})

// readDecisionGPUs reads the GPUs of a task of several. Others has their whole names until
// the decision is checked.
func readDecisionGPUs(r *Reader, v *hare.Decision) error {
	var names []string
	before := len(r.faults)
	err := r.Array(func(int) error {
		var name string
		err := r.String(&name)
		if err == nil && len(r.faults) == before && !isGPUName(name) {
			err = r.Fault("bad_name", `%q is not the name of a GPU: node/index, as "a/0"`, hare.Clip(name))
		}
		names = append(names, name)
		return err
	})
	if len(r.faults) == before {
		v.Others = hare.OtherGPUs(strings.Join(names, ","))
	}
	return err
}

// checkDecisionGPUs turns the names of all GPUs of a task into the others.
func checkDecisionGPUs(v *hare.Decision, found *hare.InvalidErrors) {
	names := strings.Split(string(v.Others), ",")
	v.Others = ""
	node := v.GPU[:strings.IndexByte(v.GPU, '/')+1]
	switch {
	case names[0] != v.GPU || len(names) < 2:
		found.Add("/gpus", "bad_value", `must be all GPUs of a task of several, "gpu" first`)
	case slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(name, node) }):
		found.Add("/gpus", "bad_value", "must be on one node")
	default:
		v.Others = hare.OthersOf(names)
	}
}

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
