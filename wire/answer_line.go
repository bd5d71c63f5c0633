package wire

import (
	"github.com/hare-sched/hare"
)

// AnswerLine is one line of the answers to a stream of events: the answer to an event, or the
// reason why the event was refused.
type AnswerLine struct {
	Answer  hare.Answer // of a refusal it has the number alone, which is 0 where it could not be read
	Refusal *Refusal    // nil where the event was applied
}

// Refusal is the reason why an event was not applied. Later events of the stream can
// still be applied.
type Refusal struct {
	Seq      int64 // number of the event; 0 where it could not be read
	Line     int64 // number of the line in the stream, from 1
	Status   int64 // the corresponding HTTP status
	Expected int64 // the number that must come next, where the event has another number; otherwise 0
	Errors   hare.InvalidErrors
}

// first is the fault whose fields are those of the refusal.
func (r *Refusal) first() *hare.InvalidError {
	if len(r.Errors) == 0 {
		r.Errors = hare.InvalidErrors{{}}
	}
	return r.Errors[0]
}

// AppendRefusal appends the JSON form of a refusal, without a newline. Code, pointer
// and detail are those of the first fault; errors holds all faults where there are
// several.
func AppendRefusal(b []byte, r *Refusal) []byte {
	return answerTable.Append(b, &AnswerLine{Answer: hare.Answer{Seq: r.Seq}, Refusal: r})
}

// DecodeAnswerLine reads the line that answers one event.
func DecodeAnswerLine(line []byte) (AnswerLine, error) {
	var a AnswerLine
	if err := answerTable.Decode(newLineReader(line), &a); err != nil {
		return AnswerLine{}, err
	}
	if a.Refusal != nil {
		a.Refusal.Seq = a.Answer.Seq
	}
	return a, nil
}

// DecodeAnswer reads the line that answers an event which was applied.
func DecodeAnswer(line []byte) (hare.Answer, error) {
	a, err := DecodeAnswerLine(line)
	if err == nil && a.Refusal != nil {
		err = &hare.InvalidError{Pointer: "/error", Code: "refused", Detail: "the event was refused: " +
			a.Refusal.first().Detail}
	}
	if err != nil {
		return hare.Answer{}, err
	}
	return a.Answer, nil
}

const decisionsRemedy = "an array, which may be empty"

var answerTable = NewTable("Answer", "Answer is the line that answers an event: decisions, or an error.",
	NewField("seq", Schema{"type": []string{"integer", "null"}, "format": "int64"},
		func(r *Reader, v *AnswerLine) error {
			if r.Is('n') {
				return r.Skip()
			}
			return r.Integer(&v.Answer.Seq, 1, hare.MaxExact)
		},
		func(b []byte, v *AnswerLine) []byte {
			if v.Answer.Seq == 0 {
				return append(b, "null"...)
			}
			return appendInt(b, v.Answer.Seq)
		}).
		Required("the number of the event that this answers").
		About("seq is the number of the event; null where the line could not be read."),
	Objects("decisions", func(v *AnswerLine) *[]hare.Decision { return &v.Answer.Decisions }, decisionTable),
	Object("error", func(v *AnswerLine) **Refusal { return &v.Refusal }, refusalTable),
).Growing().Check(func(v *AnswerLine, has Members, found *hare.InvalidErrors) {
	switch {
	case has.Has("error"):
		if has.Has("decisions") {
			found.Add("/decisions", "not_allowed", "a refused event has no decisions")
		}
	case !has.Has("decisions"):
		found.Add("", "missing_field", "%q is missing: %s", "decisions", decisionsRemedy)
	case has.Sound && v.Answer.Seq == 0:
		found.Add("/seq", "wrong_type", "an event that was applied has a number")
	}
})

var refusalTable = NewTable("EventError", "EventError says why a line of events was refused. A refused line changes "+
	"nothing.",
	Integer("status", func(r *Refusal) *int64 { return &r.Status }, 0, 999).Required("").
		About("status is the status of a request that is refused for the same reason."),
	Integer("line", func(r *Refusal) *int64 { return &r.Line }, 1, hare.MaxExact).
		About("line counts the lines of the request from 1."),
	String("pointer", func(r *Refusal) *string { return &r.first().Pointer }).Required("").
		About("pointer is a JSON pointer (RFC 6901) into the line."),
	String("code", func(r *Refusal) *string { return &r.first().Code }).Required(""),
	String("detail", func(r *Refusal) *string { return &r.first().Detail }).Required(""),
	Integer("expected", func(r *Refusal) *int64 { return &r.Expected }, 1, hare.MaxExact).
		About("expected is the number of the event that must come next."),
	NewField("errors", ListOf(RefTo(faultTable)), readFaults, appendFaults).
		About("errors has all faults where there are several."),
).Open()

// faultTable is one fault of a request or of a line.
var faultTable = NewTable("ProblemError", "ProblemError is one fault of the request.",
	String("pointer", func(e *hare.InvalidError) *string { return &e.Pointer }).Required("").
		About("pointer is a JSON pointer (RFC 6901) into the request."),
	String("code", func(e *hare.InvalidError) *string { return &e.Code }).Required(""),
	String("detail", func(e *hare.InvalidError) *string { return &e.Detail }).Required(""),
	NewField("line", Schema{"type": "integer", "format": "int64"},
		func(r *Reader, _ *hare.InvalidError) error { return r.Skip() }, nil), // a refusal has one line
).Open()

func readFaults(r *Reader, v *Refusal) error {
	v.Errors = nil
	return r.Array(func(int) error {
		fault := &hare.InvalidError{}
		v.Errors = append(v.Errors, fault)
		return faultTable.Read(r, fault)
	})
}

func appendFaults(b []byte, v *Refusal) []byte {
	if len(v.Errors) < 2 {
		return b
	}
	b = append(b, '[')
	for i, fault := range v.Errors {
		if i > 0 {
			b = append(b, ',')
		}
		b = faultTable.Append(b, fault)
	}
	return append(b, ']')
}

// AppendAnswer appends the JSON form of an answer, without a newline.
func AppendAnswer(b []byte, a hare.Answer) []byte {
	b = append(b, `{"seq":`...)
	b = appendInt(b, a.Seq)
	b = AppendDecisions(append(b, `,"decisions":`...), a.Decisions)
	return append(b, '}')
}
