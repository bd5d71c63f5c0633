// Package capacity has the documents of plans of capacity: the request, with its one table, and the report. Servers,
// clients and the specification share them; package sim/capacity makes the plans.
package capacity

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// Request asks what a cluster needs. Options and goals are as people write them.
type Request struct {
	// Instance is the history: it has the cluster as it is, and the jobs that it got, each released when it was
	// submitted.
	Instance *hare.Instance
	SolveID  string // of a solve that a server keeps, whose instance is the history
	// Begins is the date of time 0 of the history; the zero time says that the history has no dates.
	Begins time.Time
	// Options are changes of the cluster; the cluster as it is stands beside them.
	Options []string
	// Policies are names of policies of tasks, and Now for the one that Now names.
	Policies []string
	Now      string // the policy that is nearest to what the cluster does today; "" is slurm
	// Prices are those of a GPU for an hour, by type, in any currency.
	Prices map[string]float64
	// Goal is what a week must reach; "" is no goal. Share is the share of weeks that must; zero means 0.9.
	Goal  string
	Share float64
	// Buy are the most GPUs of each type of which a mix may have any number.
	Buy []hare.TypeCount
	// Weeks is how many weeks are drawn, of Days days each; zero means 20 and 7.
	Weeks, Days int64
	// Growth multiplies the jobs; zero means 1.
	Growth float64
	// Grow has factors for the jobs of examples, in place of Growth: a user, an account, a name of jobs, or a pattern for
	// their IDs, such as *-resnet-*.
	Grow map[string]float64
	Seed *int64 // nil means 1
	// TimeLimit covers waiting and working; 0 means the server's.
	TimeLimit time.Duration
	Tags      wire.Tags
	// Source says what the history is, for the report. The document leaves it out.
	Source string
}

// Now stands for the policy of Request.Now.
const Now = "now"

// The limits of a request.
const (
	MaxWeeks    = 1000
	MaxDays     = 400
	MaxOptions  = 100
	maxPolicies = 1000 // keeps the list of a hostile document short
	maxGrowth   = 100e6
)

// Form is the table of requests: every field of the document stands here and in Request, and nowhere else.
var Form = wire.NewTable("CapacityRequest",
	"CapacityRequest asks what a cluster should buy, or which policy it should queue by. One of instance and solve_id "+
		"is the history: the cluster as it is, and the jobs that it got, each released when it was submitted.",
	append(requestFields, wire.TagFields(func(r *Request) *wire.Tags { return &r.Tags })...)...,
).Check(func(r *Request, has wire.Members, found *hare.InvalidErrors) {
	switch {
	case has.Has("instance") && has.Has("solve_id"):
		found.Add("", "not_allowed", "give instance or solve_id, not both")
	case !has.Has("instance") && r.SolveID == "":
		found.Add("", "missing_field", `give "instance", or "solve_id" of a stored solve`)
	}
})

var requestFields = []wire.Field[Request]{
	wire.Instance("instance", func(r *Request) **hare.Instance { return &r.Instance }),
	wire.String("solve_id", func(r *Request) *string { return &r.SolveID }).
		About("solve_id names a stored solve, whose instance is the history."),
	wire.NewField("begins", wire.Schema{"type": "string"}, readBegins, writeBegins).
		About("begins is the date of time 0 of the history, or its date and time as in RFC 3339; left out: days of the " +
			"week are not known.").Example("2026-11-16"),
	wire.Strings("options", func(r *Request) *[]string { return &r.Options }, MaxOptions, "options").
		About("options are changes of the cluster, which is compared with each of them: GPUs to add, such as "+
			"H100=8,T4=32, or an outage, such as drop rack-2 from fri to sat.").
		Example([]string{"H100=8", "drop rack-2 from fri to sat"}).With("maxItems", MaxOptions),
	wire.Strings("policies", func(r *Request) *[]string { return &r.Policies }, maxPolicies, "policies").
		About("policies are names of policies that place tasks, none twice, and now for the one that now names; left "+
			"out: now.").Example([]string{Now, "rolling"}).With("uniqueItems", true),
	wire.String("now", func(r *Request) *string { return &r.Now }).
		About("now is the policy that is nearest to what the cluster does today.").Default("slurm"),
	wire.NewField("prices", wire.MapOf(wire.Schema{"type": "number", "format": "double", "minimum": 0}),
		readNumbers(func(r *Request) *map[string]float64 { return &r.Prices }, hare.MaxExact),
		writeNumbers(func(r *Request) *map[string]float64 { return &r.Prices })).
		About("prices are of an hour of a GPU, by type, in any currency.").Example(wire.Schema{"H100": 2.9}),
	wire.String("goal", func(r *Request) *string { return &r.Goal }).
		About("goal is what a week must reach: mean, median, max or a percentile of wait or completion, or the share of " +
			"deadlines, several joined by and.").Example("p95 wait <= 1h and deadlines >= 95%"),
	decimal("share", func(r *Request) *float64 { return &r.Share }, 1e6).
		About("share is the share of weeks that must reach the goal.").Default(0.9).With("maximum", 1),
	wire.Counts("buy", func(r *Request) *[]hare.TypeCount { return &r.Buy }).
		About("buy asks for the cheapest mix that reaches the goal in the share of weeks, of at most so many GPUs of each "+
			"type.").Example(wire.Schema{"H100": 64}).With("minProperties", 1),
	wire.Integer("weeks", func(r *Request) *int64 { return &r.Weeks }, 1, MaxWeeks).
		About("weeks is how many weeks are drawn.").Default(20).With("maximum", MaxWeeks),
	wire.Integer("days", func(r *Request) *int64 { return &r.Days }, 1, MaxDays).
		About("days is how many days a drawn week has.").Default(7).With("maximum", MaxDays),
	decimal("growth", func(r *Request) *float64 { return &r.Growth }, maxGrowth).
		About("growth multiplies the jobs of the history.").Default(1).With("maximum", 100),
	wire.NewField("grow", wire.MapOf(wire.Schema{"type": "number", "format": "double", "minimum": 0, "maximum": 100}),
		readNumbers(func(r *Request) *map[string]float64 { return &r.Grow }, maxGrowth),
		writeNumbers(func(r *Request) *map[string]float64 { return &r.Grow })).
		About("grow has factors for the jobs of examples, in place of growth: a user, an account, a name of jobs, or a " +
			"pattern for their ids. 3 adds two users like this one, and 0 takes the jobs away.").
		Example(wire.Schema{"ann": 3, "*-resnet-*": 1.5}),
	wire.NewField("seed", wire.Schema{"type": "integer", "format": "int64", "minimum": 0}, readSeed, writeSeed).
		About("seed is of the draws.").Default(1),
	wire.TimeLimit("time_limit_s", func(r *Request) *time.Duration { return &r.TimeLimit }, 1).
		About("time_limit_s covers waiting in the queue too; left out: the server's."),
}

// decimal makes a field whose value is a decimal above 0 and of at most most millionths; 0 is left out.
func decimal(name string, at func(*Request) *float64, most int64) wire.Field[Request] {
	return wire.NewField(name, wire.Schema{"type": "number", "format": "double", "exclusiveMinimum": 0},
		func(r *wire.Reader, req *Request) error {
			var micro int64
			err := r.Micros(&micro, 1)
			if err == nil && micro > most {
				return r.Fault("out_of_range", "must be at most %d", most/1e6)
			}
			*at(req) = float64(micro) / 1e6
			return err
		},
		func(b []byte, req *Request) []byte {
			if *at(req) == 0 {
				return b
			}
			return appendNumber(b, *at(req))
		})
}

func readSeed(r *wire.Reader, req *Request) error {
	req.Seed = new(int64)
	return r.Integer(req.Seed, 0, hare.MaxExact)
}

func writeSeed(b []byte, req *Request) []byte {
	if req.Seed == nil {
		return b
	}
	return strconv.AppendInt(b, *req.Seed, 10)
}

func appendNumber(b []byte, x float64) []byte {
	text, _ := json.Marshal(x) // fails for what is not finite, which no document can have
	return append(b, text...)
}

// readBegins reads a date, which is midnight in UTC, or a time.
func readBegins(r *wire.Reader, req *Request) error {
	var text string
	if err := r.String(&text); err != nil || text == "" {
		return err
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(form, text); err == nil {
			req.Begins = t
			return nil
		}
	}
	return r.Fault("bad_time", "%q is neither a date such as 2026-11-16 nor a time such as 2026-11-16T08:00:00Z",
		hare.Clip(text))
}

func writeBegins(b []byte, req *Request) []byte {
	if req.Begins.IsZero() {
		return b
	}
	return wire.AppendString(b, req.Begins.Format(time.RFC3339Nano))
}

// readNumbers reads decimals from 0 to most millionths, by name.
func readNumbers(at func(*Request) *map[string]float64, most int64) func(*wire.Reader, *Request) error {
	return func(r *wire.Reader, req *Request) error {
		return r.Object(nil, func(name string) (bool, error) {
			if *at(req) == nil {
				*at(req) = map[string]float64{}
			}
			var micro int64
			err := r.Micros(&micro, 0)
			if err == nil && micro > most {
				return true, r.Fault("out_of_range", "must be at most %d", most/1e6)
			}
			(*at(req))[name] = float64(micro) / 1e6
			return true, err
		})
	}
}

func writeNumbers(at func(*Request) *map[string]float64) func([]byte, *Request) []byte {
	return func(b []byte, req *Request) []byte {
		return wire.AppendMap(b, slices.Sorted(maps.Keys(*at(req))),
			func(name *string) string { return *name },
			func(b []byte, name *string) []byte { return appendNumber(b, (*at(req))[*name]) })
	}
}

// Decode reads the document of a request, strictly, every fault with a pointer. Texts of options and goals, and names
// of policies, are read by package sim/capacity.
func Decode(r io.Reader, lim wire.Limits) (*Request, error) {
	req := &Request{}
	if err := Form.Decode(wire.NewReader(r, lim), req); err != nil {
		return nil, err
	}
	return req, nil
}

// EncodeJSON writes the document that Decode reads.
func (r *Request) EncodeJSON(w io.Writer) error {
	if r.SolveID == "" && r.Instance == nil {
		return errors.New("hare: a plan of capacity needs an instance or the id of a solve")
	}
	_, err := w.Write(append(Form.Append(nil, r), '\n'))
	return err
}
