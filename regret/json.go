package regret

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// reportJSON is the JSON form of a Report.
type reportJSON struct {
	Seq         int64           `json:"seq"`
	AtS         json.RawMessage `json:"at_s"`
	Last        bool            `json:"last"`
	Jobs        jobCounts       `json:"jobs"`
	Achieved    hare.Amount     `json:"achieved"`
	Bound       *hare.Amount    `json:"bound"`
	Regret      json.RawMessage `json:"regret"`
	Method      string          `json:"method,omitempty"`
	Holds       string          `json:"holds"`
	Notes       []string        `json:"notes,omitempty"`
	Certificate json.RawMessage `json:"certificate,omitempty"`
	Instance    json.RawMessage `json:"instance,omitempty"`
}

type jobCounts struct {
	Counted   int `json:"counted"`
	Running   int `json:"running"`
	Cancelled int `json:"cancelled"`
	Empty     int `json:"empty"`
}

// EncodeJSON writes r as one line of JSON. full adds the certificate and the
// instance whose bound the certificate proves.
func (r *Report) EncodeJSON(w io.Writer, full bool) error {
	d := reportJSON{
		Seq: r.Seq, AtS: json.RawMessage(hare.FormatMicros(r.AtUs)), Last: r.Last, Achieved: r.Achieved,
		Regret: json.RawMessage("null"),
		Jobs:   jobCounts{r.Counted, r.Running, r.Cancelled, r.Empty}, Method: r.Method, Holds: r.Holds,
		Notes: r.Notes,
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
