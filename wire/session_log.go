package wire

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
)

// LogForm names the version of the log of an online session.
const LogForm = "log/v1"

// SessionRequest opens an online session. The header of the log of a session holds the same.
type SessionRequest = LogHeader

// LogHeader is the first line of a log, which holds the configuration of the
// session. The other lines are records.
type LogHeader struct {
	Policy     string
	Parameters []byte // a JSON object; nil means the defaults
	Clock      string // "events" or "server"
	Cluster    hare.Cluster
	Tags       Tags
}

// logHeaderDoc is a header that is read or written.
type logHeaderDoc struct {
	*LogHeader
	form string
}

var logHeaderTable = NewTable("LogHeader", "LogHeader is the first line of the log of a session.",
	append([]Field[logHeaderDoc]{
		NewField("hare", Schema{"type": "string", "enum": []string{LogForm}},
			func(r *Reader, v *logHeaderDoc) error { return r.String(&v.form) },
			func(b []byte, _ *logHeaderDoc) []byte { return AppendString(b, LogForm) }),
		String("policy", func(v *logHeaderDoc) *string { return &v.Policy }).Always().Default("rolling"),
		NewField("parameters", Schema{"type": "object", "additionalProperties": Schema{}},
			func(r *Reader, v *logHeaderDoc) error { return r.Verbatim('{', &v.Parameters) },
			func(b []byte, v *logHeaderDoc) []byte { return append(b, v.Parameters...) }).
			About("parameters are those of the policy; what is left out has its default. docs/use/online.md names " +
				"those of each policy."),
		String("clock", func(v *logHeaderDoc) *string { return &v.Clock }).Reading(readClock).Always().
			About("clock says who gives the time of an event: the event itself in at_s, or the server when the event "+
				"arrives.").With("enum", clocks).Default(clocks[0]),
		NewField("cluster", RefTo(clusterTable), readSessionCluster,
			func(b []byte, v *logHeaderDoc) []byte { return AppendCluster(b, &v.Cluster) }).
			Required(`give {"nodes": [{"name": "a", "gpus": {"V100": 4}}]}`),
	}, TagFields(func(v *logHeaderDoc) *Tags { return &v.Tags })...)...)

// sessionTable is the request for a new session.
var sessionTable = logHeaderTable.Part("SessionRequest",
	"SessionRequest opens an online session. Its cluster is the one at the beginning of the session: in_service_s and "+
		"busy are refused, because GPUs join and leave by events.",
	"cluster", "policy", "parameters", "clock", "name", "labels")

// clocks are the values of LogHeader.Clock; the first is the default.
var clocks = []string{"events", "server"}

func readClock(r *Reader, v *logHeaderDoc) error {
	from := len(r.faults)
	if err := r.String(&v.Clock); err != nil || len(r.faults) > from {
		return err
	}
	if !slices.Contains(clocks, v.Clock) {
		return r.Fault("unknown_value", "clock %q: must be events or server", hare.Clip(v.Clock))
	}
	return nil
}

func readSessionCluster(r *Reader, v *logHeaderDoc) error {
	d := newInstanceReader(r, "")
	// The session of a managed cluster begins without GPUs, and its log says so.
	d.mayBeEmpty = v.form == LogForm
	err := d.cluster()
	v.Cluster = d.inst.Cluster
	return err
}

// AppendLogHeader appends the JSON form of a header, without a newline.
func AppendLogHeader(b []byte, h *LogHeader) []byte {
	return logHeaderTable.Append(b, &logHeaderDoc{LogHeader: h})
}

// DecodeLogHeader strictly decodes the first line of a log.
func DecodeLogHeader(line []byte) (*LogHeader, error) {
	doc := logHeaderDoc{LogHeader: &LogHeader{}}
	if err := logHeaderTable.Decode(newLineReader(line), &doc); err != nil {
		return nil, err
	}
	if doc.form != LogForm {
		return nil, hare.InvalidErrors{{Pointer: "/hare", Code: "unknown_form",
			Detail: `must be "` + LogForm + `": the first line of a log says what its session was made with`}}
	}
	return doc.LogHeader, nil
}

// DecodeSession strictly decodes the request for a new session: a cluster, and
// optionally policy, parameters, clock, name and labels, which are "" or nil where they are left
// out.
func DecodeSession(text []byte, lim Limits) (*SessionRequest, error) {
	doc := logHeaderDoc{LogHeader: &LogHeader{}}
	lim.MaxBytes = int64(len(text)) + 1
	r := NewReader(bytes.NewReader(text), lim)
	if err := sessionTable.Decode(r, &doc); err != nil {
		return nil, err
	}
	return doc.LogHeader, nil
}

// AppendSession appends the JSON form of the request for a new session. Members that are "" or
// nil are left out, so that they have their defaults.
func AppendSession(b []byte, req *SessionRequest) []byte {
	names := []string{"cluster"}
	if req.Policy != "" {
		names = append(names, "policy")
	}
	if req.Parameters != nil {
		names = append(names, "parameters")
	}
	if req.Clock != "" {
		names = append(names, "clock")
	}
	if req.Tags.Name != "" {
		names = append(names, "name")
	}
	if len(req.Tags.Labels) > 0 {
		names = append(names, "labels")
	}
	b = sessionTable.appendFields(b, &logHeaderDoc{LogHeader: req}, names...)
	return append(b, '}')
}

// Verbatim copies a value of a kind as it is written, without white space between its tokens.
func (r *Reader) Verbatim(kind jsontext.Kind, to *[]byte) error {
	if ok, err := r.Want(kind); !ok {
		return err
	}
	v, err := r.d.ReadValue()
	if err != nil {
		return r.broken(err)
	}
	v = bytes.Clone(v)
	if err := (*jsontext.Value)(&v).Compact(jsontext.AllowDuplicateNames(true)); err != nil {
		return r.Fault(CodeMalformed, "%v", err)
	}
	*to = v
	return nil
}

// MaxPlanBytes limits the length of a plan in a log.
const MaxPlanBytes = 4 << 20

// Record is one line of the log of a session: an accepted event and the decisions
// that answered it.
type Record struct {
	Event hare.Event
	// Plan is the plan that the policy took just before the event, a JSON object on one
	// line for which CheckPlan returns nil, byte for byte as the policy was given it; nil
	// where the policy took none.
	Plan      []byte
	Decisions []hare.Decision
}

// AppendRecord appends the JSON form of a record, without a newline.
func AppendRecord(b []byte, r Record) []byte {
	b = AppendEvent(append(b, `{"event":`...), r.Event)
	if len(r.Plan) > 0 {
		b = append(append(b, `,"plan":`...), r.Plan...)
	}
	b = AppendDecisions(append(b, `,"decisions":`...), r.Decisions)
	return append(b, '}')
}

// CheckPlan says why a plan cannot stand in a log; nil where it can.
func CheckPlan(plan []byte) error {
	switch {
	case len(plan) > MaxPlanBytes:
		return fmt.Errorf("the plan has %d bytes: at most %d are allowed", len(plan), MaxPlanBytes)
	case len(plan) == 0 || plan[0] != '{' || plan[len(plan)-1] != '}' ||
		!jsontext.Value(plan).IsValid(jsontext.AllowDuplicateNames(true)):
		return errors.New("the plan is not a JSON object")
	case bytes.ContainsAny(plan, "\n\r"):
		return errors.New("the plan is not on one line")
	}
	return nil
}

// DecodeRecord strictly decodes one line of a log.
func DecodeRecord(line []byte) (Record, error) {
	var r Record
	if err := recordTable.Decode(newLineReader(line), &r); err != nil {
		return Record{}, err
	}
	return r, nil
}

var recordTable = NewTable("Record", "Record is a line of a session's log after the first line.",
	NewField("event", RefTo(eventTable), func(r *Reader, v *Record) error {
		return eventTable.Read(r, &eventDoc{Event: &v.Event, timed: true})
	}, nil).Required(""),
	NewField("plan", Schema{"type": "object", "additionalProperties": Schema{}}, readPlan, nil).
		About("plan is the plan that the policy began to follow just before the event, in a form of the policy's own. "+
			"It is left out where there was no new plan."),
	Objects("decisions", func(v *Record) *[]hare.Decision { return &v.Decisions }, decisionTable).
		Required(decisionsRemedy),
).Growing()

// readPlan reads a plan and keeps the bytes as they are written.
func readPlan(r *Reader, v *Record) error {
	if ok, err := r.Want('{'); !ok {
		return err
	}
	plan, err := r.d.ReadValue()
	if err != nil {
		return r.broken(err)
	}
	if err := CheckPlan(plan); err != nil {
		return r.Fault(CodeMalformed, "%v", err)
	}
	v.Plan = bytes.Clone(plan)
	return nil
}
