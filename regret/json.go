package regret

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// reportJSON compares what a session achieved with the best plan in hindsight.
type reportJSON struct {
	// Seq is the number of the last event that the comparison covers.
	Seq int64 `json:"seq"`
	// AtS is the end of the interval; in the last line it is the time of the last event.
	AtS json.RawMessage `json:"at_s" swaggertype:"number"`
	// Last says that the comparison covers the whole log, and that no line follows.
	Last bool      `json:"last"`
	Jobs jobCounts `json:"jobs"`
	// Objective is what achieved and bound are of, where it is not the weighted completion time.
	Objective string `json:"objective,omitempty"`
	// Achieved is the weighted completion time of the jobs that are counted, or their makespan.
	Achieved hare.Amount `json:"achieved"`
	// Bound is a lower bound on what any plan achieves; null where no job is counted.
	Bound *hare.Amount `json:"bound"`
	// Regret is achieved/bound, rounded up at six decimals; null without a useful bound.
	Regret json.RawMessage `json:"regret" swaggertype:"number" extensions:"x-nullable"`
	Method string          `json:"method,omitempty"`
	// Holds says for which plans the bound is true.
	Holds string `json:"holds"`
	// Notes say what was left out or assumed.
	Notes []string `json:"notes,omitempty"`
	// Against is what another policy would have done; it is there where a policy was named.
	Against *replayJSON `json:"against,omitempty"`
	// Certificate proves the bound for the instance. It is there with detail full.
	Certificate certificateText `json:"certificate,omitempty"`
	// Instance is the session as it turned out. It is there with detail full.
	Instance instanceText `json:"instance,omitempty"`
} //	@name	Regret

// replayJSON is what another policy would have done with the jobs and GPUs of a session.
// Its figures are null where no job is counted, or where jobs wait for ever in the replay.
type replayJSON struct {
	Policy string `json:"policy"`
	// Stalled is the number of counted jobs that wait for ever in the replay.
	Stalled int `json:"stalled"`
	// WeightedJCT is what achieved would have been.
	WeightedJCT *hare.Amount `json:"weighted_jct"`
	// MeanJCTS is the mean time from arrival to end of the counted jobs.
	MeanJCTS *float64 `json:"mean_jct_s"`
	// P99Slowdown is the 99th percentile of that time over the job's least time alone.
	P99Slowdown *float64 `json:"p99_slowdown"`
	// Regret is weighted_jct/bound, rounded up at six decimals; null without a bound that holds for the replay.
	Regret json.RawMessage `json:"regret" swaggertype:"number" extensions:"x-nullable"`
	// Session are the same figures of what happened.
	Session figuresJSON `json:"session"`
	// Holds says what the replay assumes.
	Holds string `json:"holds"`
	// Notes say what is special about this replay.
	Notes []string `json:"notes,omitempty"`
} //	@name	RegretReplay

// figuresJSON are the figures of the jobs that are counted; null where there is none.
type figuresJSON struct {
	WeightedJCT *hare.Amount `json:"weighted_jct"`
	MeanJCTS    *float64     `json:"mean_jct_s"`
	P99Slowdown *float64     `json:"p99_slowdown"`
} //	@name	RegretFigures

// json is nil throughout where the figures say nothing.
func (f *Figures) json(known bool) figuresJSON {
	if !known {
		return figuresJSON{}
	}
	return figuresJSON{&f.WeightedJCT, &f.MeanJCTS, &f.P99Slowdown}
}

// replayJSON is the form of the replay of a report.
func (r *Report) replayJSON() *replayJSON {
	rp := r.Replay
	if rp == nil {
		return nil
	}
	f := rp.Figures.json(r.Counted > 0 && rp.Stalled == 0)
	d := &replayJSON{Policy: rp.Policy, Stalled: rp.Stalled, WeightedJCT: f.WeightedJCT, MeanJCTS: f.MeanJCTS,
		P99Slowdown: f.P99Slowdown, Regret: json.RawMessage("null"), Session: rp.Session.json(r.Counted > 0),
		Holds: replayHolds, Notes: rp.Notes}
	if ratio, ok := r.ratio(rp.Figures.WeightedJCT); ok && rp.Stalled == 0 && !rp.Beyond {
		d.Regret = json.RawMessage(ratio.FloatString(6))
	}
	return d
}

// The JSON forms of a certificate and of an instance.
type (
	certificateText = json.RawMessage
	instanceText    = json.RawMessage
)

// jobCounts counts the jobs of a session.
type jobCounts struct {
	// Counted is the number of jobs that have ended and are compared.
	Counted   int `json:"counted"`
	Running   int `json:"running"`
	Cancelled int `json:"cancelled"`
	// Empty is the number of jobs that ended without a whole round, or with a task that took no time at all.
	Empty int `json:"empty"`
} //	@name	RegretJobs

// EncodeJSON writes r as one line of JSON. full adds the certificate and the
// instance whose bound the certificate proves.
func (r *Report) EncodeJSON(w io.Writer, full bool) error {
	d := reportJSON{
		Seq: r.Seq, AtS: json.RawMessage(hare.FormatMicros(r.AtUs)), Last: r.Last, Achieved: r.Achieved,
		Regret: json.RawMessage("null"),
		Jobs:   jobCounts{r.Counted, r.Running, r.Cancelled, r.Empty}, Method: r.Method, Holds: r.Holds,
		Notes: r.Notes, Against: r.replayJSON(),
	}
	if r.Objective != hare.ObjectiveWeightedJCT {
		d.Objective = r.Objective
	}
	if r.Instance != nil {
		d.Bound = &r.Bound
		if ratio, ok := r.Ratio(); ok {
			d.Regret = json.RawMessage(ratio.FloatString(6))
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
