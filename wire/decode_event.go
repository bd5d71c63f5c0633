package wire

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// The fields of the online forms (docs/design.md, section 6).
var (
	eventFields    = []string{"seq", "at_s", "type", "job", "round", "task", "gpu", "gpu_type", "compute_s", "sync_s"}
	arrivingFields = []string{"id", "weight", "tasks", "sync", "mix", "on"}
	answerFields   = []string{"seq", "decisions"}
	decisionFields = []string{"type", "job", "round", "task", "gpu", "at_s"}
	recordFields   = []string{"event", "decisions"}
)

// eventTypeNames are the JSON names, by EventType.
var eventTypeNames = func() (names []string) {
	for _, t := range hare.EventTypes() {
		names = append(names, t.String())
	}
	return names
}()

// fieldSet is a set of eventFields, a bit each.
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

// eventNeeds are the fields that each type needs beside seq, at_s and type.
var eventNeeds = [...]fieldSet{
	hare.EventTick: 0, hare.EventJobArrived: fieldJob, hare.EventComputeEnded: taskFields, hare.EventTaskEnded: taskFields | fieldCompute,
	hare.EventTaskFailed: taskFields, hare.EventJobEnded: fieldJob, hare.EventJobCancelled: fieldJob,
	hare.EventGPUJoined: fieldGPU | fieldGPUType, hare.EventGPULeft: fieldGPU,
}

// eventMay are the fields that a type may have beside those that it needs.
func eventMay(t hare.EventType) fieldSet {
	if t == hare.EventTaskEnded {
		return fieldSync
	}
	return 0
}

// Remedies of fields that are missing.
var fieldRemedies = [...]string{
	"count the events from 1 without gaps", "give the seconds since the session began", "say what happened",
	"name the job", "count the rounds from 0", "count the tasks of the round from 0", `name the GPU, as "a/0"`,
	"name the type of the GPU", "give the measured seconds of compute", "",
}

// DecodeEvent reads one line of a client of an online session. It is strict as
// DecodeInstance is: the error is InvalidErrors with every fault of one pass.
// Nothing of line is kept. With an error comes an event of which only Seq is
// set, where that could be read.
func DecodeEvent(line []byte) (hare.Event, error) { return decodeEvent(line, true) }

// DecodeUntimedEvent reads an event of a session whose server keeps the time:
// at_s must be left out, and AtUs is 0.
func DecodeUntimedEvent(line []byte) (hare.Event, error) { return decodeEvent(line, false) }

func decodeEvent(line []byte, timed bool) (hare.Event, error) {
	if e, ok := scanEvent(line, timed); ok {
		return e, nil
	}
	return decodeEventStrictly(line, timed)
}

func decodeEventStrictly(line []byte, timed bool) (hare.Event, error) {
	rd := newLineReader(line)
	var e hare.Event
	if err := rd.Finish(newInstanceReader(rd, "").event(&e, "", timed)); err != nil {
		return hare.Event{Seq: e.Seq}, err
	}
	return e, nil
}

// event reads an event, which stands at a pointer.
func (d *instanceReader) event(e *hare.Event, at string, timed bool) error {
	if !d.Is('{') {
		_, err := d.Want('{')
		return err
	}
	var has, faulty fieldSet
	knowsType, isObject := false, false
	before := len(d.faults)
	err := d.Object(eventFields, func(name string) (bool, error) {
		i := slices.Index(eventFields, name)
		if i < 0 {
			return false, nil
		}
		has |= 1 << i
		from := len(d.faults)
		var err error
		switch fieldSet(1 << i) {
		case fieldSeq:
			err = d.Integer(&e.Seq, 1, hare.MaxExact)
		case fieldAt:
			err = d.Micros(&e.AtUs, 0)
		case fieldType:
			err = d.eventType(&e.Type, &knowsType)
		case fieldJob:
			if isObject = d.Is('{'); isObject {
				e.Arrived, err = d.arrivingJob(at + "/job")
				e.Job = e.Arrived.ID
			} else {
				err = d.String(&e.Job)
			}
		case fieldRound:
			err = d.Integer(&e.Round, 0, hare.MaxExact)
		case fieldTask:
			err = d.Integer(&e.Task, 0, hare.MaxExact)
		case fieldGPU:
			err = d.String(&e.GPU)
		case fieldGPUType:
			err = d.String(&e.GPUType)
		case fieldCompute:
			err = d.Micros(&e.ComputeUs, 1)
		case fieldSync:
			err = d.Micros(&e.SyncUs, 0)
		}
		if len(d.faults) > from {
			faulty |= 1 << i
		}
		return true, err
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	checkEventShape(&found, at, e.Type, has, knowsType, timed)
	sound := has &^ faulty
	if sound&fieldJob != 0 && knowsType {
		switch {
		case e.Type == hare.EventJobArrived && !isObject:
			found.Add(at+"/job", "wrong_type", `must be an object, the job that arrives: {"id": …, "tasks": …, "on": …}`)
		case e.Type != hare.EventJobArrived && isObject && eventNeeds[e.Type]&fieldJob != 0:
			found.Add(at+"/job", "wrong_type", "must be a string, the id of the job: only job_arrived gives the whole job")
		case e.Job == "" && !isObject:
			found.Add(at+"/job", "bad_name", "must not be empty")
		}
	}
	if sound&fieldGPU != 0 && !isGPUName(e.GPU) {
		found.Add(at+"/gpu", "bad_name", `%q is not the name of a GPU: node/index, as "a/0"`, hare.Clip(e.GPU))
	}
	if sound&fieldGPUType != 0 && e.GPUType == "" {
		found.Add(at+"/gpu_type", "bad_name", "a GPU type needs a name")
	}
	return d.Report(before, found)
}

// eventShape finds the fields that are missing and those that are too many.
func checkEventShape(es *hare.InvalidErrors, at string, t hare.EventType, has fieldSet, knowsType, timed bool) {
	needs := fieldSeq | fieldType
	if timed {
		needs |= fieldAt
	}
	if knowsType {
		needs |= eventNeeds[t]
	}
	for i, name := range eventFields {
		bit := fieldSet(1 << i)
		switch {
		case needs&bit != 0 && has&bit == 0 && bit == fieldJob && t == hare.EventJobArrived:
			es.Add(at, "missing_field", `"job" is missing: give the job that arrives, {"id": …, "tasks": …, "on": …}`)
		case needs&bit != 0 && has&bit == 0:
			es.Add(at, "missing_field", "%q is missing: %s", name, fieldRemedies[i])
		case bit == fieldAt && has&bit != 0 && !timed:
			es.Add(at+"/at_s", "not_allowed", "the server keeps the time of this session: leave at_s out")
		case knowsType && has&bit != 0 && bit > fieldType && (needs|eventMay(t))&bit == 0:
			es.Add(at+"/"+name, "not_allowed", "%s has no %q: leave it out", t, name)
		}
	}
}

func (d *instanceReader) eventType(to *hare.EventType, known *bool) error {
	text := ""
	if !d.Is('"') {
		return d.String(&text)
	}
	if err := d.String(&text); err != nil {
		return err
	}
	if i := slices.Index(eventTypeNames, text); i >= 0 {
		*to, *known = hare.EventType(i), true
		return nil
	}
	if best := hare.Nearest(hare.Cut(text, 60), eventTypeNames); best != "" {
		return d.Fault("unknown_value", "type %q: did you mean %q?", hare.Clip(text), best)
	}
	return d.Fault("unknown_value", "type %q: must be one of %s", hare.Clip(text), strings.Join(eventTypeNames, ", "))
}

// isGPUName says that a name has the form node/index.
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

// arrivingJob reads a job of unknown size. It returns one also where it is
// faulty.
func (d *instanceReader) arrivingJob(at string) (*hare.Job, error) {
	j := &hare.Job{WeightMicro: 1e6, Tasks: 1}
	mix, hasMix, knowsSync, hasOn := false, false, true, false
	before := len(d.faults)
	err := d.Object(arrivingFields, func(name string) (bool, error) {
		switch name {
		case "id":
			return true, d.String(&j.ID)
		case "weight":
			return true, d.Micros(&j.WeightMicro, 0)
		case "tasks":
			return true, d.Integer(&j.Tasks, 1, hare.MaxTasks(hare.Relaxed))
		case "sync":
			unknown := false
			err := d.sync(&j.Sync, &unknown)
			knowsSync = !unknown
			return true, err
		case "mix":
			hasMix = true
			return true, d.Bool(&mix)
		case "on":
			hasOn = true
			return true, d.arrivingProfiles(j)
		case "rounds":
			if err := d.Skip(); err != nil {
				return true, err
			}
			return true, d.Fault("not_allowed", "the size of an arriving job is not known: leave rounds out, and send job_ended after its last round")
		case "release_s":
			if err := d.Skip(); err != nil {
				return true, err
			}
			return true, d.Fault("not_allowed", "a job is released when it arrives: leave release_s out, and send job_arrived then")
		}
		return false, nil
	})
	if err != nil {
		return j, err
	}
	var found hare.InvalidErrors
	switch {
	case !hasMix || !knowsSync:
	case j.Sync == hare.Relaxed && !mix:
		found.Add(at+"/mix", "not_allowed", "relaxed jobs always may mix types: leave mix out, or use sync gang")
	case j.Sync == hare.Rigid && mix:
		found.Add(at+"/mix", "not_allowed", "rigid jobs never mix types: leave mix out, or use sync gang")
	}
	j.Mix = mix && j.Sync == hare.Gang
	// The rest is as for a job of known size and speed.
	known := *j
	known.Rounds, known.On = 1, slices.Clone(j.On)
	for i := range known.On {
		known.On[i].ComputeUs = max(1, known.On[i].ComputeUs)
	}
	if !hasOn {
		found.Add(at, "missing_field", `"on" is missing: give the GPU types that it may run on, with times where they are known: {"V100": {"compute_s": 1.2}, "T4": {}}`)
		known.On = []hare.Profile{{Type: "-", ComputeUs: 1}}
	}
	found.CheckJob(at, &known)
	return j, d.Report(before, found)
}

// arrivingProfiles reads profiles of which each is complete or empty.
func (d *instanceReader) arrivingProfiles(j *hare.Job) error {
	err := d.Object(nil, func(kind string) (bool, error) {
		j.On = append(j.On, hare.Profile{Type: kind})
		d.profileDoc = profileDoc{Profile: &j.On[len(j.On)-1], mayLearn: true}
		err := profileTable.Read(d.Reader, &d.profileDoc)
		return true, err
	})
	slices.SortFunc(j.On, func(a, b hare.Profile) int { return strings.Compare(a.Type, b.Type) })
	return err
}

// DecodeAnswer reads the line that answers one event, strictly.
func DecodeAnswer(line []byte) (hare.Answer, error) {
	rd := newLineReader(line)
	var a hare.Answer
	if err := rd.Finish(newInstanceReader(rd, "").answer(&a)); err != nil {
		return hare.Answer{}, err
	}
	return a, nil
}

func (d *instanceReader) answer(a *hare.Answer) error {
	if !d.Is('{') {
		_, err := d.Want('{')
		return err
	}
	hasSeq, hasDecisions, before := false, false, len(d.faults)
	err := d.Object(answerFields, func(name string) (bool, error) {
		switch name {
		case "seq":
			hasSeq = true
			return true, d.Integer(&a.Seq, 1, hare.MaxExact)
		case "decisions":
			hasDecisions = true
			return true, d.decisions(&a.Decisions, "/decisions")
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	if !hasSeq {
		found.Add("", "missing_field", `"seq" is missing: the number of the event that this answers`)
	}
	if !hasDecisions {
		found.Add("", "missing_field", `"decisions" is missing: an array, which may be empty`)
	}
	return d.Report(before, found)
}

func (d *instanceReader) decisions(to *[]hare.Decision, at string) error {
	return d.Array(func(i int) error {
		var x hare.Decision
		err := d.decision(&x, at+"/"+strconv.Itoa(i))
		*to = append(*to, x)
		return err
	})
}

func (d *instanceReader) decision(x *hare.Decision, at string) error {
	if !d.Is('{') {
		_, err := d.Want('{')
		return err
	}
	var has [6]bool // by decisionFields
	before := len(d.faults)
	err := d.Object(decisionFields, func(name string) (bool, error) {
		i := slices.Index(decisionFields, name)
		if i < 0 {
			return false, nil
		}
		has[i] = true
		switch name {
		case "type":
			return true, d.decisionType(&x.Type)
		case "job":
			return true, d.String(&x.Job)
		case "round":
			return true, d.Integer(&x.Round, 0, hare.MaxExact)
		case "task":
			return true, d.Integer(&x.Task, 0, hare.MaxExact)
		case "gpu":
			return true, d.String(&x.GPU)
		default: // at_s
			return true, d.Micros(&x.AtUs, 0)
		}
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	for i, name := range decisionFields {
		if !has[i] {
			found.Add(at, "missing_field", "%q is missing", name)
		}
	}
	if has[1] && x.Job == "" {
		found.Add(at+"/job", "bad_name", "must not be empty")
	}
	if has[4] && !isGPUName(x.GPU) {
		found.Add(at+"/gpu", "bad_name", `%q is not the name of a GPU: node/index, as "a/0"`, hare.Clip(x.GPU))
	}
	return d.Report(before, found)
}

func (d *instanceReader) decisionType(to *hare.DecisionType) error {
	text := ""
	if !d.Is('"') {
		return d.String(&text)
	}
	if err := d.String(&text); err != nil {
		return err
	}
	for _, t := range []hare.DecisionType{hare.DecisionStart, hare.DecisionWithdraw} {
		if text == t.String() {
			*to = t
			return nil
		}
	}
	return d.Fault("unknown_value", "type %q: must be start or withdraw", hare.Clip(text))
}
