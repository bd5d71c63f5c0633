package regret

import (
	"context"
	"fmt"
	"iter"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// MaxReports is the greatest number of reports that one request may ask for.
const MaxReports = 1000

// Intervals returns the number of reports for a log whose first event is at
// firstUs and whose last event is at lastUs: one report for each multiple of
// everyUs between the two, and one for the end.
func Intervals(firstUs, lastUs, everyUs int64) int64 {
	if everyUs <= 0 || lastUs <= firstUs {
		return 1
	}
	return (lastUs-1)/everyUs - firstUs/everyUs + 1
}

// LeastInterval returns an interval of whole seconds that gives at most
// MaxReports reports.
func LeastInterval(firstUs, lastUs int64) int64 {
	const second = 1_000_000
	most := MaxReports - 2 // intervals need not begin with the log
	return max(1, (lastUs-firstUs+second*int64(most)-1)/(second*int64(most))) * second
}

// Series reads a log once. Series yields a report for each multiple of everyUs
// between the first and the last event, which covers the events up to and
// including that time, and a last report for the whole log. Zero everyUs means the
// last report alone. A report is computed, as Of does, when the caller asks for
// the next element; reports between which no job ended and no GPU joined or left
// share one bound. When the log grows, all reports but the last stay the same.
//
// An error, of the log or of Of, ends the sequence. objective is Hindsight.Objective.
func Series(ctx context.Context, cluster *hare.Cluster, objective string, log iter.Seq2[wire.Record, error],
	everyUs int64, bound BoundFunc) iter.Seq2[*Report, error] {
	return func(yield func(*Report, error) bool) {
		h := NewHindsight(cluster)
		h.Objective = objective
		var before *Report
		version := 0
		at := func(atUs int64, last bool) bool {
			r, err := since(ctx, h, before, version, bound)
			if err != nil {
				yield(nil, err)
				return false
			}
			before, version = r, h.version
			shown := *r
			shown.AtUs, shown.Last = atUs, last
			return yield(&shown, nil)
		}
		var next int64 // the end of the next interval
		for rec, err := range log {
			if err == nil && h.seq == 0 && everyUs > 0 {
				next = (rec.Event.AtUs/everyUs + 1) * everyUs
			}
			for err == nil && everyUs > 0 && next < rec.Event.AtUs {
				if !at(next, false) {
					return
				}
				next += everyUs
			}
			if err == nil {
				err = h.Add(rec)
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
		at(h.atUs, true)
	}
}

// since is Of, but takes the bound of the report before where the instance still
// has the version for which this bound was computed.
func since(ctx context.Context, h *Hindsight, before *Report, version int, bound BoundFunc) (*Report, error) {
	if before == nil || version != h.version || before.Instance == nil {
		return Of(ctx, h, bound)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("regret: %w", err)
	}
	r, err := h.report()
	if err != nil {
		return nil, err
	}
	r.Bound, r.Method, r.Certificate = before.Bound, before.Method, before.Certificate
	return r, nil
}
