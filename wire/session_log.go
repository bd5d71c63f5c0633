package wire

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
)

// LogForm names the version of the log of an online session.
const LogForm = "log/v1"

// LogHeader is the first line of a log, which holds the configuration of the
// session. The other lines are records.
type LogHeader struct {
	Policy     string
	Parameters []byte // a JSON object; nil means the defaults
	Clock      string // "events" or "server"
	Cluster    hare.Cluster
}

// AppendLogHeader appends the JSON form of a header, without a newline.
func AppendLogHeader(b []byte, h *LogHeader) []byte {
	b = appendString(append(b, `{"hare":"`+LogForm+`","policy":`...), h.Policy)
	if len(h.Parameters) > 0 {
		b = append(append(b, `,"parameters":`...), h.Parameters...)
	}
	b = appendString(append(b, `,"clock":`...), h.Clock)
	b = AppendCluster(append(b, `,"cluster":`...), &h.Cluster)
	return append(b, '}')
}

// DecodeLogHeader strictly decodes the first line of a log.
func DecodeLogHeader(line []byte) (*LogHeader, error) {
	h, form, err := decodeSession(newLineReader(line), []string{"hare", "policy", "parameters", "clock", "cluster"})
	if err != nil {
		return nil, err
	}
	if form != LogForm {
		return nil, hare.InvalidErrors{{Pointer: "/hare", Code: "unknown_form", Detail: `must be "` + LogForm +
			`": the first line of a log says what its session was made with`}}
	}
	return h, nil
}

// DecodeSession strictly decodes the request for a new session: a cluster, and
// optionally policy, parameters and clock, which are "" or nil where they are left
// out.
func DecodeSession(text []byte) (*LogHeader, error) {
	rd := NewReader(bytes.NewReader(text), Limits{MaxBytes: int64(len(text)) + 1})
	h, _, err := decodeSession(rd, []string{"cluster", "policy", "parameters", "clock"})
	return h, err
}

func decodeSession(rd *Reader, known []string) (h *LogHeader, form string, err error) {
	d := newInstanceReader(rd, "")
	h = &LogHeader{}
	err = rd.Finish(d.session(h, &form, known))
	h.Cluster = d.inst.Cluster
	if err != nil {
		return nil, "", err
	}
	return h, form, nil
}

func (d *instanceReader) session(h *LogHeader, form *string, known []string) error {
	if !d.Is('{') {
		_, err := d.Want('{')
		return err
	}
	hasCluster, before := false, len(d.faults)
	err := d.Object(known, func(name string) (bool, error) {
		switch {
		case name == "hare" && known[0] == name:
			return true, d.String(form)
		case name == "policy":
			return true, d.String(&h.Policy)
		case name == "parameters":
			return true, d.verbatim('{', &h.Parameters)
		case name == "clock":
			from := len(d.faults)
			if err := d.String(&h.Clock); err != nil || len(d.faults) > from {
				return true, err
			}
			if h.Clock != "events" && h.Clock != "server" {
				return true, d.Fault("unknown_value", "clock %q: must be events or server", hare.Clip(h.Clock))
			}
			return true, nil
		case name == "cluster":
			hasCluster = true
			return true, d.cluster()
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	if !hasCluster {
		found.Add("", "missing_field", `"cluster" is missing: give {"nodes": [{"name": "a", "gpus": {"V100": 4}}]}`)
	}
	return d.Report(before, found)
}

// verbatim copies a value as it is written, without white space between its tokens.
func (d *instanceReader) verbatim(kind jsontext.Kind, to *[]byte) error {
	if ok, err := d.Want(kind); !ok {
		return err
	}
	v, err := d.d.ReadValue()
	if err != nil {
		return d.broken(err)
	}
	v = bytes.Clone(v)
	if err := (*jsontext.Value)(&v).Compact(jsontext.AllowDuplicateNames(true)); err != nil {
		return d.Fault(CodeMalformed, "%v", err)
	}
	*to = v
	return nil
}

// Refusal is the reason why an event was not applied. Later events of the stream can
// still be applied.
type Refusal struct {
	Seq      int64 // number of the event; 0 where it could not be read
	Line     int64 // number of the line in the stream, from 1
	Status   int   // the corresponding HTTP status
	Expected int64 // the number that must come next, where the event has another number; otherwise 0
	Errors   hare.InvalidErrors
}

// AppendRefusal appends the JSON form of a refusal, without a newline. Code, pointer
// and detail are those of the first fault; errors holds all faults where there are
// several.
func AppendRefusal(b []byte, r *Refusal) []byte {
	b = append(b, `{"seq":`...)
	if r.Seq > 0 {
		b = strconv.AppendInt(b, r.Seq, 10)
	} else {
		b = append(b, "null"...)
	}
	b = strconv.AppendInt(append(b, `,"error":{"status":`...), int64(r.Status), 10)
	if r.Line > 0 {
		b = strconv.AppendInt(append(b, `,"line":`...), r.Line, 10)
	}
	if len(r.Errors) > 0 {
		b = appendFault(append(b, ','), r.Errors[0])
	}
	if r.Expected > 0 {
		b = strconv.AppendInt(append(b, `,"expected":`...), r.Expected, 10)
	}
	if len(r.Errors) > 1 {
		b = append(b, `,"errors":[`...)
		for i, e := range r.Errors {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendFault(append(b, '{'), e), '}')
		}
		b = append(b, ']')
	}
	return append(b, "}}"...)
}

func appendFault(b []byte, e *hare.InvalidError) []byte {
	b = appendString(append(b, `"pointer":`...), e.Pointer)
	b = appendString(append(b, `,"code":`...), e.Code)
	return appendString(append(b, `,"detail":`...), e.Detail)
}
