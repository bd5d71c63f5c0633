package wire

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/hare-sched/hare"
)

// Options are the options of a solve as a request gives them. Options that are zero or nil are
// left out of the document; the server chooses them.
type Options struct {
	TimeLimit time.Duration // covers waiting in the queue; 0: a work limit decides
	WorkLimit int64         // oracle calls and moves; 0: computed from the size
	Gap       *float64      // stop at this gap, a fraction of at most six decimals; nil: 0.01
	Seed      *int64        // nil: 1
	Bound     string        // price, critical_path, machine, queyranne or paper
	Order     string
	Assign    string // insertion, earliest_finish or earliest_available
	Detail    string // lanes, jobs, none or tasks
	Objective string // weighted_jct, jct_and_tardiness or makespan; empty: that of the instance
	Method    string // makes the plan in place of the search, one of PlanMethods; empty: the search
	// Degrade allows a busy server to answer with a greedy schedule and a coarse bound
	// instead of refusing the solve.
	Degrade bool
	// Given lists the options that a document has, in the order of the table. Those of them
	// that are zero are written too: in a scenario they take the place of the options of the
	// batch.
	Given []string
}

// Over returns options in which the given ones take the place of those of defaults.
func (o *Options) Over(defaults hare.Options) hare.Options {
	out := defaults
	given := func(name string) bool { return slices.Contains(o.Given, name) }
	if o.TimeLimit != 0 || given("time_limit_s") {
		out.TimeLimit = o.TimeLimit
	}
	if o.WorkLimit != 0 || given("work_limit") {
		out.WorkLimit = o.WorkLimit
	}
	if o.Gap != nil {
		out.Gap = *o.Gap
	}
	if o.Seed != nil {
		out.Seed = *o.Seed
	}
	if o.Degrade || given("degrade") {
		out.Degrade = o.Degrade
	}
	out.Bound, out.Order = cmp.Or(o.Bound, out.Bound), cmp.Or(o.Order, out.Order)
	out.Assign, out.Detail = cmp.Or(o.Assign, out.Assign), cmp.Or(o.Detail, out.Detail)
	out.Objective, out.Method = cmp.Or(o.Objective, out.Objective), cmp.Or(o.Method, out.Method)
	return out
}

// boundMethods lists the relaxations that bound the objective from below.
var boundMethods = []string{"price", "critical_path", "machine", "queyranne", "paper"}

var optionsTable = NewTable("Options", "Options of a solve; each may be left out.",
	orGiven(TimeLimit("time_limit_s", func(o *Options) *time.Duration { return &o.TimeLimit }, 0)).
		About("time_limit_s covers waiting in the queue too; 0 or left out: a work limit decides, and equal calls "+
			"give equal answers."),
	orGiven(Integer("work_limit", func(o *Options) *int64 { return &o.WorkLimit }, 0, hare.MaxExact)).
		About("work_limit is in oracle calls and moves of the search; 0 or left out: computed from the instance's "+
			"size."),
	NewField("gap", Schema{"type": "number", "format": "double", "minimum": 0, "maximum": 1}, readGap, writeGap).
		About("gap at which to stop, a fraction; 0: only when proved optimal.").Default(0.01),
	NewField("seed", Schema{"type": "integer", "format": "int64"}, readSeed, writeSeed).
		About("seed of the search.").Default(1),
	orGiven(Choice("bound", func(o *Options) *string { return &o.Bound }, boundMethods...)).
		About("bound is the relaxation that bounds the objective from below; paper proves nothing.").Default("price"),
	orGiven(Choice("order", func(o *Options) *string { return &o.Order },
		append(boundMethods[:5:5], "wspt", "arrival")...)).
		About("order of the first schedule; left out: that of the bound."),
	orGiven(Choice("assign", func(o *Options) *string { return &o.Assign }, "insertion", "earliest_finish",
		"earliest_available")).
		About("assign is the rule by which the first schedule places tasks; insertion also uses idle gaps.").
		Default("insertion"),
	orGiven(Choice("detail", func(o *Options) *string { return &o.Detail }, "none", "jobs", "lanes", "tasks")).
		About("detail of the schedule in the answer; tasks goes up to 10,000 tasks.").Default("lanes"),
	Choice("objective", func(o *Options) *string { return &o.Objective }, hare.Objectives()...).
		About("objective takes the place of that of the instance; the result is then that of the instance with this "+
			"objective."),
	Choice("method", func(o *Options) *string { return &o.Method }, PlanMethods()...).
		About("method makes the plan in place of the search: a policy, which decides as the jobs come, or another "+
			"paper's scheduler. The bound is the same as without."),
	orGiven(Bool("degrade", func(o *Options) *bool { return &o.Degrade })).
		About("degrade allows a server that has too much to do to answer with a greedy schedule and a coarse bound, "+
			"in place of a refusal."),
).Check(func(o *Options, has Members, _ *hare.InvalidErrors) { o.Given = has.Names() })

// orGiven writes an option also where it is zero and given.
func orGiven(f Field[Options]) Field[Options] {
	write, name, zero := f.write, f.name, f.zero
	return f.Writing(func(b []byte, o *Options) []byte {
		before := len(b)
		if b = write(b, o); len(b) == before && slices.Contains(o.Given, name) {
			b = append(b, zero...)
		}
		return b
	})
}

// OptionsField makes a field whose value is the options of a solve. Where none is given, the field
// is left out.
func OptionsField[T any](name string, at func(*T) *Options) Field[T] {
	return NewField(name, RefTo(optionsTable),
		func(r *Reader, v *T) error { return optionsTable.Read(r, at(v)) },
		func(b []byte, v *T) []byte {
			before := len(b)
			if b = optionsTable.Append(b, at(v)); string(b[before:]) == "{}" {
				return b[:before]
			}
			return b
		})
}

// alwaysWritten are the options that results have even where they are zero.
var alwaysWritten = []string{"time_limit_s", "work_limit", "seed", "bound", "order", "assign", "detail"}

// OptionsJSON returns the JSON form of options, with every option.
func OptionsJSON(o hare.Options) json.RawMessage {
	return optionsTable.Append(nil, &Options{TimeLimit: o.TimeLimit, WorkLimit: o.WorkLimit, Gap: &o.Gap, Seed: &o.Seed,
		Bound: o.Bound, Order: o.Order, Assign: o.Assign, Detail: o.Detail, Objective: o.Objective, Method: o.Method,
		Degrade: o.Degrade, Given: alwaysWritten})
}

func readGap(r *Reader, o *Options) error {
	var millionths int64
	o.Gap = new(float64)
	err := r.Micros(&millionths, 0)
	if err == nil && millionths > 1e6 {
		return r.Fault("out_of_range", "must be between 0 and 1")
	}
	*o.Gap = float64(millionths) / 1e6
	return err
}

func writeGap(b []byte, o *Options) []byte {
	if o.Gap == nil {
		return b
	}
	text, _ := json.Marshal(*o.Gap) // cannot fail, because a gap is finite
	return append(b, text...)
}

func readSeed(r *Reader, o *Options) error {
	o.Seed = new(int64)
	return r.Integer(o.Seed, -hare.MaxExact, hare.MaxExact)
}

func writeSeed(b []byte, o *Options) []byte {
	if o.Seed == nil {
		return b
	}
	return appendInt(b, *o.Seed)
}
