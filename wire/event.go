package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
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
		found.Add("/gpu", "bad_name", `%q is not the name of a GPU: use node/index, such as "a/0"`, hare.Clip(v.GPU))
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

// AppendEvent appends the JSON form of an event, without a newline. DecodeEvent is
// the inverse.
func AppendEvent(b []byte, e hare.Event) []byte { return appendEvent(b, e, true) }

// AppendUntimedEvent appends an event without its time, for a session whose server keeps
// the time. DecodeUntimedEvent is the inverse.
func AppendUntimedEvent(b []byte, e hare.Event) []byte { return appendEvent(b, e, false) }

func appendEvent(b []byte, e hare.Event, timed bool) []byte {
	b = append(b, `{"seq":`...)
	b = appendInt(b, e.Seq)
	if timed {
		b = append(b, `,"at_s":`...)
		b = hare.AppendMicros(b, e.AtUs)
	}
	b = append(b, `,"type":"`...)
	b = append(b, e.Type.String()...)
	b = append(b, '"')
	if int(e.Type) >= len(eventNeeds) {
		return append(b, '}')
	}
	fields := eventNeeds[e.Type]
	switch {
	case e.Type == hare.EventJobArrived && e.Arrived != nil:
		b = AppendArrivingJob(append(b, `,"job":`...), e.Arrived)
	case fields&fieldJob != 0:
		b = AppendString(append(b, `,"job":`...), e.Job)
	}
	if fields&fieldRound != 0 {
		b = appendInt(append(b, `,"round":`...), e.Round)
		b = appendInt(append(b, `,"task":`...), e.Task)
	}
	if fields&fieldGPU != 0 {
		b = AppendString(append(b, `,"gpu":`...), e.GPU)
	}
	if fields&fieldGPUType != 0 {
		b = AppendString(append(b, `,"gpu_type":`...), e.GPUType)
	}
	if e.Change != nil {
		b = appendChange(b, e.Change, fields)
	}
	if fields&fieldCompute != 0 {
		b = hare.AppendMicros(append(b, `,"compute_s":`...), e.ComputeUs)
		if e.SyncUs != 0 {
			b = hare.AppendMicros(append(b, `,"sync_s":`...), e.SyncUs)
		}
	}
	return append(b, '}')
}

// appendChange appends what an event of its type's fields says of a node or a quota.
func appendChange(b []byte, c *hare.Change, fields fieldSet) []byte {
	if c.Node != nil && fields&(fieldNode|fieldGPUType) != 0 {
		b = appendEventNode(b, c.Node, fields)
	}
	if c.Quota != nil && fields&fieldQuota != 0 {
		b = quotaTable.Append(append(b, `,"quota":`...), &quotaDoc{*c.Quota})
	}
	return b
}

// appendEventNode appends the node of an event of its type's fields.
func appendEventNode(b []byte, n *hare.Node, fields fieldSet) []byte {
	if fields&fieldGPUs != 0 {
		b = appendCounts(append(b, `,"gpus":`...), n.GPUs)
	}
	if fields&fieldNode != 0 {
		b = AppendString(append(b, `,"node":`...), n.Name)
	}
	if n.CPUMilli > 0 {
		b = append(append(b, `,"cpus":`...), hare.FormatMillis(n.CPUMilli)...)
	}
	if n.MemoryMiB > 0 {
		b = appendInt(append(b, `,"memory_mib":`...), n.MemoryMiB)
	}
	if len(n.Labels) > 0 {
		b = appendLabels(append(b, `,"labels":`...), n.Labels)
	}
	return b
}

// scanEvent decodes an event in the form that programs write: a flat object with
// plain ASCII strings and plain decimals. It returns false for everything else,
// which the strict decoder then reads or refuses. scanEvent accepts only events that
// the strict decoder accepts, with the same result.
func scanEvent(line []byte, timed bool) (hare.Event, bool) {
	s := scanner{b: line}
	if !s.next('{') {
		return hare.Event{}, false
	}
	var e hare.Event
	var has fieldSet
	var job, gpu []byte
	for {
		name, ok := s.text()
		if !ok || !s.next(':') {
			return hare.Event{}, false
		}
		var bit fieldSet
		switch string(name) {
		case "seq":
			bit = fieldSeq
			e.Seq, ok = s.decimal(0)
			ok = ok && e.Seq > 0
		case "at_s":
			bit = fieldAt
			e.AtUs, ok = s.decimal(6)
		case "type":
			bit = fieldType
			e.Type, ok = s.eventType()
		case "job":
			bit = fieldJob
			job, ok = s.text()
			ok = ok && len(job) > 0
		case "round":
			bit = fieldRound
			e.Round, ok = s.decimal(0)
		case "task":
			bit = fieldTask
			e.Task, ok = s.decimal(0)
		case "gpu":
			bit = fieldGPU
			gpu, ok = s.text()
		case "compute_s":
			bit = fieldCompute
			e.ComputeUs, ok = s.decimal(6)
			ok = ok && e.ComputeUs > 0
		case "sync_s":
			bit = fieldSync
			e.SyncUs, ok = s.decimal(6)
		default:
			return hare.Event{}, false
		}
		if !ok || has&bit != 0 {
			return hare.Event{}, false
		}
		has |= bit
		if s.next(',') {
			continue
		}
		if !s.next('}') {
			return hare.Event{}, false
		}
		if s.space(); s.i != len(line) {
			return hare.Event{}, false
		}
		break
	}
	needs := fieldSeq | fieldType | eventNeeds[e.Type]
	if timed {
		needs |= fieldAt
	}
	if has|eventMay(e.Type) != needs|eventMay(e.Type) || e.Type == hare.EventJobArrived ||
		e.Type == hare.EventGPUJoined {
		return hare.Event{}, false
	}
	if len(job) > 0 {
		e.Job = string(job)
	}
	if has&fieldGPU != 0 {
		if e.GPU = string(gpu); !isGPUName(e.GPU) {
			return hare.Event{}, false
		}
	}
	return e, true
}

func (s *scanner) eventType() (hare.EventType, bool) {
	t, ok := s.text()
	if !ok {
		return 0, false
	}
	for i, name := range eventTypeNames {
		if string(t) == name {
			return hare.EventType(i), true
		}
	}
	return 0, false
}

// MaxEventBytes limits the length of a line of events.
const MaxEventBytes = 1 << 20

// ErrLongEvent is returned for a line that is longer than MaxEventBytes; the line is
// skipped.
var ErrLongEvent = fmt.Errorf("the line is longer than %d bytes", MaxEventBytes)

// ReadEventLine returns the next line of events, which is valid until the next call.
// The last line may lack its newline. Errors are ErrLongEvent, after which the next
// line can be read, io.EOF, and errors of the reader.
func ReadEventLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		if err != nil && (err != io.EOF || len(line) == 0) {
			return nil, err
		}
		return line, nil
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		if line, err = in.ReadSlice('\n'); len(long) <= MaxEventBytes {
			long = append(long, line...)
		}
	}
	switch {
	case err != nil && err != io.EOF:
		return nil, err
	case len(long) > MaxEventBytes:
		return nil, ErrLongEvent
	}
	return long, nil
}
