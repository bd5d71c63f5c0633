package regret

import (
	"context"
	"fmt"
	"iter"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// MaxReports is how many regrets one request may ask for.
const MaxReports = 1000

// Intervals says how many regrets a log gives whose first event is at firstUs
// and whose last one is at lastUs: one for each multiple of everyUs between the
// two, and one for the end.
func Intervals(firstUs, lastUs, everyUs int64) int64 {
	if everyUs <= 0 || lastUs <= firstUs {
		return 1
	}
	return (lastUs-1)/everyUs - firstUs/everyUs + 1
}

// LeastInterval is an interval, in whole seconds, that gives no more than
// MaxReports.
func LeastInterval(firstUs, lastUs int64) int64 {
	const second = 1_000_000
	most := MaxReports - 2 // intervals need not begin with the log
	return max(1, (lastUs-firstUs+second*int64(most)-1)/(second*int64(most))) * second
}

// Series reads a log once and gives its regret at each multiple of everyUs
// after its first event and before its last, as the log stood then, with the
// events at that time; and last the one of its end. Zero everyUs means the end
// alone. Each is computed when it is asked for, as Of does; those between which
// nothing ended and no GPU came or went share one bound. All but the last are the
// same when the log has grown.
//
// An error, of the log or of Of, is the last of the sequence.
func Series(ctx context.Context, cluster *hare.Cluster, log iter.Seq2[wire.Record, error], everyUs int64, bound BoundFunc) iter.Seq2[*Report, error] {
	return func(yield func(*Report, error) bool) {
		h := NewHindsight(cluster)
		var before *Report
		version := 0
		at := func(atUs int64, last bool) bool {
			r, err := since(ctx, h, before, version, bound)
			if err != nil {
				yield(nil, err)
				return false
			}
			before, version = r, h.version
			told := *r
			told.AtUs, told.Last = atUs, last
			return yield(&told, nil)
		}
		var next int64 // the next interval's end
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

// since is Of, with the bound of before where the instance is still of the
// version for which that bound was computed.
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
