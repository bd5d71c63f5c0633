package regret

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
	regretdoc "github.com/hare-sched/hare/wire/regret"
)

// json is nil throughout where the figures say nothing.
func (f *Figures) json(known bool) regretdoc.Figures {
	if !known {
		return regretdoc.Figures{}
	}
	return regretdoc.Figures{WeightedJCT: &f.WeightedJCT, MeanJCTS: &f.MeanJCTS, P99Slowdown: &f.P99Slowdown}
}

// replay is the form of the replay of a report.
func (r *Report) replay() *regretdoc.Replay {
	rp := r.Replay
	if rp == nil {
		return nil
	}
	f := rp.Figures.json(r.Counted > 0 && rp.Stalled == 0)
	d := &regretdoc.Replay{Policy: rp.Policy, Stalled: rp.Stalled, WeightedJCT: f.WeightedJCT, MeanJCTS: f.MeanJCTS,
		P99Slowdown: f.P99Slowdown, Session: rp.Session.json(r.Counted > 0),
		Holds: replayHolds, Notes: rp.Notes}
	if ratio, ok := r.ratio(rp.Figures.WeightedJCT); ok && rp.Stalled == 0 && !rp.Beyond {
		text := json.Number(ratio.FloatString(6))
		d.Regret = &text
	}
	return d
}

// EncodeJSON writes r as one line of JSON. full adds the certificate and the
// instance whose bound the certificate proves.
func (r *Report) EncodeJSON(w io.Writer, full bool) error {
	d := regretdoc.Regret{
		Seq: r.Seq, AtS: hare.Seconds(r.AtUs), Last: r.Last, Achieved: r.Achieved,
		Jobs:   regretdoc.Jobs{Counted: r.Counted, Running: r.Running, Cancelled: r.Cancelled, Empty: r.Empty},
		Method: r.Method, Holds: r.Holds,
		Notes: r.Notes, Against: r.replay(),
	}
	if r.Objective != hare.ObjectiveWeightedJCT {
		d.Objective = r.Objective
	}
	if r.Instance != nil {
		d.Bound = &r.Bound
		if ratio, ok := r.Ratio(); ok {
			text := json.Number(ratio.FloatString(6))
			d.Regret = &text
		}
		if full {
			var b bytes.Buffer
			_ = wire.EncodeInstance(&b, r.Instance) // writing to a bytes.Buffer cannot fail
			d.Certificate, d.Instance = wire.CertificateJSON(r.Certificate), b.Bytes()
		}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(d)
}
