package rolling

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/wire"
)

// madeByAnswer is what a fault proposes where a field is missing.
const madeByAnswer = "give the plan as the answer to its question has it"

// planForm names the version of the document of a plan.
const planForm = "plan/v1"

// maxPlanGrid limits the times of the prices in a plan.
const maxPlanGrid = 1 << 12

// planDoc is the document of a plan. It has no floating-point numbers, since what is
// recorded must not depend on the machine.
type planDoc struct {
	form         string
	number       int64 // the changes that the plan has seen
	atUs         int64 // the time of the question
	arrivals     int64 // the jobs that had arrived by then
	value, bound hare.Amount
	gridUs       []int64
	prices       []typePrices
	jobs         []plannedJobDoc
}

// typePrices are the prices of a GPU type by cell, in 1e-9 weight-seconds per GPU-second.
type typePrices struct {
	gpuType string
	nanos   []int64
}

type plannedJobDoc struct {
	id      string
	arrival int64
	rounds  int64
	rows    []rowDoc
}

type rowDoc struct {
	round, rounds, startUs, periodUs int64
	gpus                             []typeCount
}

type typeCount struct {
	gpuType string
	count   int64
}

var planTable = wire.NewTable("Plan", "Plan is a plan that the policy rolling follows.",
	wire.NewField("hare", wire.Schema{"type": "string", "enum": []string{planForm}},
		func(r *wire.Reader, v *planDoc) error { return r.String(&v.form) },
		func(b []byte, _ *planDoc) []byte { return wire.AppendString(b, planForm) }).Required(madeByAnswer),
	wire.Integer("number", func(v *planDoc) *int64 { return &v.number }, 1, hare.MaxExact).Required(madeByAnswer).
		About("number is how many changes the plan has seen: arrivals, ends of jobs, and GPUs that join or leave."),
	wire.Micros("at_s", func(v *planDoc) *int64 { return &v.atUs }, 0).Required(madeByAnswer).
		About("at_s is the time of the session at which the plan was asked for."),
	wire.Integer("arrivals", func(v *planDoc) *int64 { return &v.arrivals }, 0, hare.MaxExact).Required(madeByAnswer).
		About("arrivals is how many jobs had arrived by then."),
	amount("value", func(v *planDoc) *hare.Amount { return &v.value }).
		About("value is the weighted sum of the completion times of the jobs that have rows, after at_s, if the "+
			"believed rounds are right, nobody comes, and the plan is followed."),
	amount("bound", func(v *planDoc) *hare.Amount { return &v.bound }).
		About("bound is at most the value of every plan of these jobs."),
	wire.NewField("grid_us", wire.ListOf(wire.Schema{"type": "integer", "format": "int64"}),
		func(r *wire.Reader, v *planDoc) error { return readColumn(r, &v.gridUs) },
		func(b []byte, v *planDoc) []byte { return appendColumn(b, v.gridUs) }).
		About("grid_us are the ends of the price cells, from 0, after at_s."),
	wire.NewField("prices", wire.MapOf(wire.ListOf(wire.Schema{"type": "integer", "format": "int64"})), readPrices,
		func(b []byte, v *planDoc) []byte {
			return wire.AppendMap(b, v.prices, func(p *typePrices) string { return p.gpuType },
				func(b []byte, p *typePrices) []byte { return appendColumn(b, p.nanos) })
		}).
		About("prices by GPU type, one a cell, in 1e-9 weight-seconds per GPU-second."),
	wire.Objects("jobs", func(v *planDoc) *[]plannedJobDoc { return &v.jobs }, plannedJobTable).
		About("jobs by arrival. A job that the plan has no place for has no rows."),
).Check(checkPlan)

var plannedJobTable = wire.NewTable("PlannedJob", "PlannedJob is a job of a plan.",
	wire.Choice("id", func(v *plannedJobDoc) *string { return &v.id }).Required(madeByAnswer),
	wire.Integer("arrival", func(v *plannedJobDoc) *int64 { return &v.arrival }, 0,
		hare.MaxExact).Required(madeByAnswer).
		About("arrival is the job's number by arrival, from 0."),
	wire.Integer("rounds", func(v *plannedJobDoc) *int64 { return &v.rounds }, 1, hare.MaxExact).Required(madeByAnswer).
		About("rounds is how many rounds are believed to be left, without one that runs."),
	wire.Objects("rows", func(v *plannedJobDoc) *[]rowDoc { return &v.rows }, rowTable),
)

var rowTable = wire.NewTable("PlanRow", "PlanRow says where some rounds of a job run.",
	wire.Integer("round", func(v *rowDoc) *int64 { return &v.round }, 0, hare.MaxExact).Required(madeByAnswer),
	wire.Integer("rounds", func(v *rowDoc) *int64 { return &v.rounds }, 1, hare.MaxExact).Required(madeByAnswer),
	wire.Micros("start_s", func(v *rowDoc) *int64 { return &v.startUs }, 0).Required(madeByAnswer),
	wire.Micros("period_s", func(v *rowDoc) *int64 { return &v.periodUs }, 0).Required(madeByAnswer).
		About("period_s is the time from the start of a round to that of the next."),
	wire.NewField("gpus", wire.MapOf(wire.Schema{"type": "integer", "format": "int64", "minimum": 1}),
		func(r *wire.Reader, v *rowDoc) error {
			return r.Object(nil, func(name string) (bool, error) {
				if len(v.gpus) == list.MaxTypes {
					return true, errors.Join(r.Skip(), r.Fault("too_many", "there are at most %d types", list.MaxTypes))
				}
				c := typeCount{gpuType: name}
				err := r.Integer(&c.count, 1, hare.MaxTasks(hare.Gang))
				v.gpus = append(v.gpus, c)
				return true, err
			})
		},
		func(b []byte, v *rowDoc) []byte {
			return wire.AppendMap(b, v.gpus, func(c *typeCount) string { return c.gpuType },
				func(b []byte, c *typeCount) []byte { return strconv.AppendInt(b, c.count, 10) })
		}).Required(madeByAnswer),
)

// amount makes a field with an exact amount.
func amount(name string, at func(*planDoc) *hare.Amount) wire.Field[planDoc] {
	return wire.NewField(name, wire.Schema{"type": "number", "format": "double", "minimum": 0},
		func(r *wire.Reader, v *planDoc) error {
			text, ok, err := r.Number()
			if !ok {
				return err
			}
			a, bad := hare.ParseAmount(text)
			if bad != nil || a.Sign() < 0 {
				return r.Fault("bad_amount", "%s is not an amount: give a decimal of at most twelve places, not negative",
					hare.Clip(text))
			}
			*at(v) = a
			return nil
		},
		func(b []byte, v *planDoc) []byte { return append(b, at(v).String()...) }).Required(madeByAnswer)
}

func readColumn(r *wire.Reader, to *[]int64) error {
	return r.Array(func(i int) error {
		if i >= maxPlanGrid {
			err := r.Skip()
			if err == nil && i == maxPlanGrid {
				err = r.Fault("too_many", "there are at most %d", maxPlanGrid)
			}
			return err
		}
		var n int64
		err := r.Integer(&n, 0, hare.MaxExact)
		*to = append(*to, n)
		return err
	})
}

func appendColumn(b []byte, column []int64) []byte {
	if len(column) == 0 {
		return b
	}
	for i, n := range column {
		if i == 0 {
			b = append(b, '[')
		} else {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return append(b, ']')
}

func readPrices(r *wire.Reader, v *planDoc) error {
	return r.Object(nil, func(name string) (bool, error) {
		if len(v.prices) == list.MaxTypes {
			return true, errors.Join(r.Skip(), r.Fault("too_many", "there are at most %d types", list.MaxTypes))
		}
		p := typePrices{gpuType: name}
		err := readColumn(r, &p.nanos)
		v.prices = append(v.prices, p)
		return true, err
	})
}

// checkPlan finds what is wrong in a plan whatever the state of the session.
func checkPlan(v *planDoc, _ wire.Members, found *hare.InvalidErrors) {
	if v.form != planForm {
		found.Add("/hare", "unknown_form", "must be %q", planForm)
	}
	for i, at := range v.gridUs {
		if i == 0 && at != 0 || i > 0 && at <= v.gridUs[i-1] {
			found.Add("/grid_us", "contradiction", "must rise from 0")
			break
		}
	}
	for _, p := range v.prices {
		if len(p.nanos) != len(v.gridUs)-1 {
			found.Add("/prices", "contradiction", "must have one price for each of %d cells", max(0, len(v.gridUs)-1))
			break
		}
	}
	seen := make(map[int64]bool, len(v.jobs))
	for i := range v.jobs {
		if seen[v.jobs[i].arrival] {
			found.Add("/jobs", "duplicate_id", "two jobs have the arrival %d", v.jobs[i].arrival)
			break
		}
		seen[v.jobs[i].arrival] = true
	}
}

// decodePlan strictly decodes a plan. Its memory is proportional to the size of the
// document, which is limited.
func decodePlan(text []byte) (*planDoc, *hare.InvalidError) {
	doc := &planDoc{}
	err := planTable.Decode(wire.NewReader(bytes.NewReader(text), wire.Limits{MaxBytes: wire.MaxPlanBytes}), doc)
	if err == nil {
		return doc, nil
	}
	if faults, ok := errors.AsType[hare.InvalidErrors](err); ok && len(faults) > 0 {
		return nil, faults[0]
	}
	return nil, online.Invalid("", wire.CodeMalformed, "%v", err)
}
