package wire

import (
	"errors"
	"io"

	"github.com/hare-sched/hare"
)

// Request is the document of one call: an instance and what to do with it.
type Request struct {
	// Given lists the fields that the document has, in the order of the table.
	Given    []string
	Instance *hare.Instance
	Options  Options
	Method   string
	// Expected asks for a bound on the mean over durations.
	Expected bool
	Result   *hare.Result
	Replan   hare.ReplanRequest
	Tags     Tags
}

var requestTable = NewTable("Request", "Request is what any call takes.", append([]Field[Request]{
	Instance("instance", func(v *Request) **hare.Instance { return &v.Instance }).Needed(),
	OptionsField("options", func(v *Request) *Options { return &v.Options }),
	Choice("method", func(v *Request) *string { return &v.Method }, boundMethods...).Default("price"),
	Bool("expected", func(v *Request) *bool { return &v.Expected }).
		About("expected bounds the mean cost over the durations of jobs, for every policy, by the method price.").
		Default(false),
	Result("result", func(v *Request) **hare.Result { return &v.Result }).Needed(),
	Result("previous", func(v *Request) **hare.Result { return &v.Replan.Previous }),
	Instance("previous_instance", func(v *Request) **hare.Instance { return &v.Replan.Before }),
	Micros("at_s", func(v *Request) *int64 { return &v.Replan.AtUs }, 0).
		Writing(writeReplanTime).
		About("at_s is the planning instant on the clock of the previous schedule; it goes with previous."),
	Micros("stability", func(v *Request) *int64 { return &v.Replan.StabilityMicro }, 0).
		About("stability is what moving planned work must bring, in weight-seconds per GPU-second moved; 0 moves " +
			"freely.").
		Default(0),
}, TagFields(func(v *Request) *Tags { return &v.Tags })...)...).Check(
	func(v *Request, has Members, _ *hare.InvalidErrors) {
		v.Given = has.Names()
		v.Replan.HasAt, v.Replan.HasStability = has.Has("at_s"), has.Has("stability")
	})

func writeReplanTime(b []byte, v *Request) []byte {
	if !v.Replan.HasAt {
		return b
	}
	return hare.AppendMicros(b, v.Replan.AtUs)
}

// These are the forms of requests in the specification.
var (
	solveForm = requestTable.Part("SolveRequest", "SolveRequest asks for a schedule.", "instance", "options",
		"previous", "previous_instance", "at_s", "stability", "name", "labels")
	boundForm = requestTable.Part("BoundRequest", "BoundRequest asks for a lower bound alone.", "instance", "method",
		"expected")
	verifyForm = requestTable.Part("VerifyRequest", "VerifyRequest asks whether a result is right.", "instance",
		"result", "previous", "previous_instance")
)

// DecodeRequest strictly reads the fields instance, options, method, expected, result,
// previous, previous_instance, at_s, stability, name and labels. Every fault has a pointer into
// the whole document.
func DecodeRequest(r io.Reader, lim Limits) (*Request, error) {
	req := &Request{}
	if err := requestTable.Decode(NewReader(r, lim), req); err != nil {
		return nil, err
	}
	return req, nil
}

// EncodeRequest writes the document that DecodeRequest reads.
func EncodeRequest(w io.Writer, req *Request) error {
	if req.Instance == nil {
		return errors.New("hare: a request without an instance")
	}
	for _, res := range []*hare.Result{req.Result, req.Replan.Previous} {
		if res == nil {
			continue
		}
		if err := Encodable(res); err != nil {
			return err
		}
	}
	_, err := w.Write(append(requestTable.Append(nil, req), '\n'))
	return err
}

// Forms returns the forms of results and of the requests to solve, bound and
// verify, without the forms to which these refer.
func Forms() []Form {
	return []Form{resultTable, solveForm, boundForm, verifyForm, sessionTable, recordTable, sessionPlanTable, answerTable,
		arrivingTable}
}

// These forms are those to which requests of other packages refer.
var (
	InstanceDocument Form = instanceTable
	JobDocument      Form = jobTable
	NodeDocument     Form = nodeTable
	QuotaDocument    Form = quotaTable
	OptionsDocument  Form = optionsTable
)
