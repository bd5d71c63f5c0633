package wire

import (
	"bytes"

	"github.com/hare-sched/hare"
)

// SessionPlan describes the plan that an online session follows. Times are those of the
// session, −1 where they are not known.
type SessionPlan struct {
	Policy   string
	Seq      int64 // the last event
	AtUs     int64 // its time
	MadeUs   int64 // the time of the plan's question
	Due      bool
	Fallback string // "" where the plan is followed
	// Value is nil where there is no plan, and Bound also where nothing was proved.
	Value, Bound *hare.Amount
	Jobs         []SessionPlanJob
}

// SessionPlanJob is a job of a SessionPlan that has not ended.
type SessionPlanJob struct {
	Job                           string
	Running                       bool
	Rounds                        int64
	Types                         []string
	StartUs, EndUs, EarliestEndUs int64
	WaitsFor                      string
}

var sessionPlanTable = NewTable("SessionPlan",
	"SessionPlan is the plan that a session follows, as of its last event. What is expected holds if the jobs are as "+
		"long as is believed and nobody comes.",
	String("policy", func(v *SessionPlan) *string { return &v.Policy }).Required(""),
	Integer("seq", func(v *SessionPlan) *int64 { return &v.Seq }, 0, hare.MaxExact).Required("").
		About("seq is the number of the last event."),
	Micros("at_s", func(v *SessionPlan) *int64 { return &v.AtUs }, 0).Required("").
		About("at_s is the time of the last event."),
	microsOrNull("made_at_s", func(v *SessionPlan) *int64 { return &v.MadeUs }).Required("").
		About("made_at_s is the time of the state that the plan was made of; null where there is no plan yet."),
	Bool("due", func(v *SessionPlan) *bool { return &v.Due }).Required("").
		About("due says that the plan has not seen all arrivals, ends of jobs, and changes of GPUs."),
	NewField("fallback", Schema{"type": []string{"string", "null"}},
		func(r *Reader, v *SessionPlan) error {
			if r.Is('n') {
				return r.Skip()
			}
			return r.String(&v.Fallback)
		},
		func(b []byte, v *SessionPlan) []byte {
			if v.Fallback == "" {
				return append(b, "null"...)
			}
			return AppendString(b, v.Fallback)
		}).Required("").
		About("fallback is the policy that decides because there is no plan, or because the plan is too old; null where "+
			"the plan is followed."),
	NewField("value", nullableNumber,
		func(r *Reader, v *SessionPlan) error { return r.amount(&v.Value) },
		func(b []byte, v *SessionPlan) []byte { return appendAmountOrNull(b, v.Value) }).Required("").
		About("value is the weighted sum of the completion times of the plan's jobs, counted from made_at_s; null where "+
			"there is no plan."),
	NewField("bound", nullableNumber,
		func(r *Reader, v *SessionPlan) error { return r.amount(&v.Bound) },
		func(b []byte, v *SessionPlan) []byte { return appendAmountOrNull(b, v.Bound) }).Required("").
		About("bound is at most the value of every plan for these jobs; null where nothing was proved."),
	NewField("gap", nullableNumber, func(r *Reader, _ *SessionPlan) error { return r.Skip() },
		func(b []byte, v *SessionPlan) []byte {
			return append(b, GapJSON(&hare.Result{Value: v.Value, Bound: v.Bound})...)
		}).Required("").
		About("gap is value/bound − 1, rounded up at six decimals; null where there is no useful bound."),
	Objects("jobs", func(v *SessionPlan) *[]SessionPlanJob { return &v.Jobs }, sessionPlanJobTable).Required("").
		About("jobs that have not ended, by expected start."),
).Open()

var sessionPlanJobTable = NewTable("SessionPlanJob", "SessionPlanJob is what the plan expects of a job.",
	String("job", func(v *SessionPlanJob) *string { return &v.Job }).Required(""),
	Bool("running", func(v *SessionPlanJob) *bool { return &v.Running }).Required(""),
	Integer("rounds_left", func(v *SessionPlanJob) *int64 { return &v.Rounds }, 0, hare.MaxExact).Required("").
		About("rounds_left is how many rounds the job is believed to have left, the running one included."),
	NewField("types", ListOf(Schema{"type": "string"}),
		func(r *Reader, v *SessionPlanJob) error {
			return r.Array(func(int) error {
				var s string
				err := r.String(&s)
				v.Types = append(v.Types, s)
				return err
			})
		},
		func(b []byte, v *SessionPlanJob) []byte {
			if len(v.Types) == 0 {
				return b
			}
			return appendList(b, v.Types, AppendString)
		}).Required("").
		About("types are the GPU types on which the job runs, or is planned to run."),
	microsOrNull("start_s", func(v *SessionPlanJob) *int64 { return &v.StartUs }).Required("").
		About("start_s is when the job is expected to start, or when the round that runs has started; null where the plan "+
			"says nothing."),
	microsOrNull("end_s", func(v *SessionPlanJob) *int64 { return &v.EndUs }).Required("").
		About("end_s is when the job is expected to end; null where the plan says nothing."),
	microsOrNull("earliest_end_s", func(v *SessionPlanJob) *int64 { return &v.EarliestEndUs }).Required("").
		About("earliest_end_s is a time before which the job cannot end under any plan, if it has rounds_left rounds; null "+
			"where some of its speeds are not known."),
	String("waits_for", func(v *SessionPlanJob) *string { return &v.WaitsFor }).
		About("waits_for says what a job that does not run waits for."),
).Open()

// microsOrNull makes a field whose value is a decimal that is held in millionths; −1
// stands for null.
func microsOrNull[T any](name string, at func(*T) *int64) Field[T] {
	return NewField(name, nullableNumber,
		func(r *Reader, v *T) error {
			if r.Is('n') {
				*at(v) = -1
				return r.Skip()
			}
			return r.Micros(at(v), 0)
		},
		func(b []byte, v *T) []byte {
			if *at(v) < 0 {
				return append(b, "null"...)
			}
			return hare.AppendMicros(b, *at(v))
		})
}

// AppendSessionPlan appends the JSON form of a plan, without a newline.
func AppendSessionPlan(b []byte, p *SessionPlan) []byte { return sessionPlanTable.Append(b, p) }

// DecodeSessionPlan decodes a plan. Fields of later versions are skipped.
func DecodeSessionPlan(text []byte) (*SessionPlan, error) {
	var p SessionPlan
	r := NewReader(bytes.NewReader(text), Limits{MaxBytes: int64(len(text)) + 1})
	if err := sessionPlanTable.Decode(r, &p); err != nil {
		return nil, err
	}
	return &p, nil
}
