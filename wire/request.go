package wire

import (
	"encoding/json"
	"io"
	"time"

	"github.com/hare-sched/hare"
)

// Request is the document of one call: an instance and what to do with it.
type Request struct {
	// Given lists the fields that the document has, in the order of the table.
	Given    []string
	Instance *hare.Instance
	Options  hare.Options
	HasGap   bool // options contain a gap
	Method   string
	Result   *hare.Result
	Replan   hare.ReplanRequest
}

var requestTable = NewTable("Request", "Request is what any call takes.",
	Instance("instance", func(v *Request) **hare.Instance { return &v.Instance }).Needed(),
	NewField("options", RefTo(optionsTable),
		func(r *Reader, v *Request) error { return r.Options(&v.Options, &v.HasGap) }, nil),
	Choice("method", func(v *Request) *string { return &v.Method }, boundMethods...).Default("price"),
	Result("result", func(v *Request) **hare.Result { return &v.Result }).Needed(),
	Result("previous", func(v *Request) **hare.Result { return &v.Replan.Previous }),
	Instance("previous_instance", func(v *Request) **hare.Instance { return &v.Replan.Before }),
	Micros("at_s", func(v *Request) *int64 { return &v.Replan.AtUs }, 0).
		About("at_s is the planning instant on the clock of the previous schedule; it goes with previous."),
	Micros("stability", func(v *Request) *int64 { return &v.Replan.StabilityMicro }, 0).
		About("stability is what moving planned work must bring, in weight-seconds per GPU-second moved; 0 moves "+
			"freely.").
		Default(0),
).Check(func(v *Request, has Members, _ *hare.InvalidErrors) {
	v.Given = has.Names()
	v.Replan.HasAt, v.Replan.HasStability = has.Has("at_s"), has.Has("stability")
})

// These are the forms of requests in the specification.
var (
	solveForm = requestTable.Part("SolveRequest", "SolveRequest asks for a schedule.", "instance", "options",
		"previous", "previous_instance", "at_s", "stability")
	boundForm  = requestTable.Part("BoundRequest", "BoundRequest asks for a lower bound alone.", "instance", "method")
	verifyForm = requestTable.Part("VerifyRequest", "VerifyRequest asks whether a result is right.", "instance",
		"result", "previous", "previous_instance")
)

// DecodeRequest strictly reads the fields instance, options, method, result,
// previous, previous_instance, at_s and stability. Every fault has a pointer into
// the whole document.
func DecodeRequest(r io.Reader, lim Limits) (*Request, error) {
	req := &Request{}
	req.Options.Seed = 1
	if err := requestTable.Decode(NewReader(r, lim), req); err != nil {
		return nil, err
	}
	return req, nil
}

// instanceAt reads an instance that stands at pointer in the document.
func (r *Reader) instanceAt(pointer string, to **hare.Instance) error {
	d := newInstanceReader(r, pointer)
	*to = d.inst
	err := d.instance()
	if err == nil && !d.hasJobs {
		err = d.noJobs()
	}
	if err == nil {
		err = d.sums()
	}
	return err
}

// resultAt reads a result that stands at pointer in the document.
func (r *Reader) resultAt(pointer string, to **hare.Result) error {
	d := &resultReader{Reader: r, root: pointer, res: &hare.Result{}}
	*to = d.res
	err := d.result()
	if err == nil {
		err = d.indices()
	}
	return err
}

// optionsDoc is options while they are read or written.
type optionsDoc struct {
	*hare.Options
	hasGap bool
}

// boundMethods lists the relaxations that bound the objective from below.
var boundMethods = []string{"price", "critical_path", "machine", "queyranne", "paper"}

var optionsTable = NewTable("Options", "Options of a solve; each may be left out.",
	TimeLimit("time_limit_s", func(v *optionsDoc) *time.Duration { return &v.TimeLimit }, 0).Always().
		About("time_limit_s covers waiting in the queue too; 0 or left out: a work limit decides, and equal calls "+
			"give equal answers."),
	Integer("work_limit", func(v *optionsDoc) *int64 { return &v.WorkLimit }, 0, hare.MaxExact).Always().
		About("work_limit is in oracle calls and moves of the search; 0 or left out: computed from the instance's "+
			"size."),
	NewField("gap", Schema{"type": "number", "format": "double", "minimum": 0, "maximum": 1}, readGap, writeGap).
		About("gap at which to stop, a fraction; 0: only when proved optimal.").Default(0.01),
	Integer("seed", func(v *optionsDoc) *int64 { return &v.Seed }, -hare.MaxExact, hare.MaxExact).Always().
		Default(1).With("minimum", nil),
	Choice("bound", func(v *optionsDoc) *string { return &v.Bound }, boundMethods...).Always().
		About("bound is the relaxation that bounds the objective from below; paper proves nothing.").Default("price"),
	Choice("order", func(v *optionsDoc) *string { return &v.Order },
		append(boundMethods[:5:5], "wspt", "arrival")...).Always().
		About("order of the first schedule; left out: that of the bound."),
	Choice("assign", func(v *optionsDoc) *string { return &v.Assign }, "insertion", "earliest_finish",
		"earliest_available").Always().
		Default("insertion"),
	Choice("detail", func(v *optionsDoc) *string { return &v.Detail }, "none", "jobs", "lanes", "tasks").Always().
		About("detail of the schedule in the answer; tasks goes up to 10,000 tasks.").Default("lanes"),
	Choice("objective", func(v *optionsDoc) *string { return &v.Objective }, hare.Objectives()...).
		About("objective takes the place of that of the instance; the result is then that of the instance with this "+
			"objective."),
	Bool("degrade", func(v *optionsDoc) *bool { return &v.Degrade }).
		About("degrade allows a server that has too much to do to answer with a greedy schedule and a coarse bound, "+
			"in place of a refusal."),
)

// Options reads options and sets hasGap where they contain a gap.
func (r *Reader) Options(to *hare.Options, hasGap *bool) error {
	doc := optionsDoc{Options: to}
	err := optionsTable.Read(r, &doc)
	*hasGap = *hasGap || doc.hasGap
	return err
}

// OptionsJSON returns the JSON form of options, with every option.
func OptionsJSON(o hare.Options) json.RawMessage {
	return optionsTable.Append(nil, &optionsDoc{Options: &o})
}

func readGap(r *Reader, v *optionsDoc) error {
	var millionths int64
	v.hasGap = true
	err := r.Micros(&millionths, 0)
	if err == nil && millionths > 1e6 {
		return r.Fault("out_of_range", "must be between 0 and 1")
	}
	v.Gap = float64(millionths) / 1e6
	return err
}

func writeGap(b []byte, v *optionsDoc) []byte {
	text, _ := json.Marshal(v.Gap) // cannot fail, because a gap is finite
	return append(b, text...)
}
