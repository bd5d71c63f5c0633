package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// MaxRegrets is how many regrets one request may ask for.
const MaxRegrets = 1000

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
// MaxRegrets.
func LeastInterval(firstUs, lastUs int64) int64 {
	const second = 1_000_000
	most := MaxRegrets - 2 // intervals need not begin with the log
	return max(1, (lastUs-firstUs+second*int64(most)-1)/(second*int64(most))) * second
}

// Regrets reads a log once and gives its regret at each multiple of everyUs
// after its first event and before its last, as the log stood then, with the
// events at that time; and last the one of its end. Zero everyUs means the end
// alone. Each is computed when it is asked for, aside from all decisions, as
// Regret does; those between which nothing ended and no GPU came or went share
// one bound. All but the last are the same when the log has grown.
//
// An error, of the log or of Regret, is the last of the sequence.
func (s *Service) Regrets(ctx context.Context, cluster *hare.Cluster, log iter.Seq2[wire.Record, error], everyUs int64) iter.Seq2[*Regret, error] {
	return func(yield func(*Regret, error) bool) {
		h := NewHindsight(cluster)
		var before *Regret
		version := 0
		at := func(atUs int64, last bool) bool {
			r, err := s.regretSince(ctx, h, before, version)
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

// regretSince is Regret, with the bound of before, which was computed at a
// version of the instance, where this has not changed.
func (s *Service) regretSince(ctx context.Context, h *Hindsight, before *Regret, version int) (*Regret, error) {
	if before == nil || version != h.version || before.Instance == nil {
		return s.Regret(ctx, h)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("regret: %w", err)
	}
	r, err := h.regret()
	if err != nil {
		return nil, err
	}
	r.Bound, r.Method, r.Certificate = before.Bound, before.Method, before.Certificate
	return r, nil
}

// regretJSON is the one form of a Regret.
type regretJSON struct {
	Seq         int64           `json:"seq"`
	AtS         json.RawMessage `json:"at_s"`
	Last        bool            `json:"last"`
	Jobs        regretJobs      `json:"jobs"`
	Achieved    hare.Amount     `json:"achieved"`
	Bound       *hare.Amount    `json:"bound"`
	Regret      json.RawMessage `json:"regret"`
	Method      string          `json:"method,omitempty"`
	Holds       string          `json:"holds"`
	Notes       []string        `json:"notes,omitempty"`
	Certificate json.RawMessage `json:"certificate,omitempty"`
	Instance    json.RawMessage `json:"instance,omitempty"`
}

type regretJobs struct {
	Counted   int `json:"counted"`
	Running   int `json:"running"`
	Cancelled int `json:"cancelled"`
	Empty     int `json:"empty"`
}

// EncodeJSON writes r as a line; full adds the certificate and the instance
// that it is for.
func (r *Regret) EncodeJSON(w io.Writer, full bool) error {
	d := regretJSON{
		Seq: r.Seq, AtS: json.RawMessage(hare.FormatMicros(r.AtUs)), Last: r.Last, Achieved: r.Achieved, Regret: json.RawMessage("null"),
		Jobs: regretJobs{r.Counted, r.Running, r.Cancelled, r.Empty}, Method: r.Method, Holds: r.Holds, Notes: r.Notes,
	}
	if r.Instance != nil {
		d.Bound = &r.Bound
		if ratio, ok := r.Ratio(); ok {
			d.Regret = json.RawMessage(ratio.FloatString(6))
		}
		if full {
			var b bytes.Buffer
			_ = wire.EncodeInstance(&b, r.Instance) // a buffer takes everything
			d.Certificate, d.Instance = wire.CertificateJSON(r.Certificate), b.Bytes()
		}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(d)
}
