package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// WhatIf describes a base and scenarios to compare with the base.
type WhatIf struct {
	// Instance is the base; Result, where not nil, its result. SolveID names a
	// solve that the server keeps, in place of both.
	Instance  *hare.Instance
	Result    *hare.Result
	SolveID   string
	Scenarios []Scenario
	Options   Options // of all solves; TimeLimit covers the whole batch
	// PruneBelow is in weight-seconds. Scenarios whose value is proved not to fall by
	// more than PruneBelow are answered from the bound alone; nil solves all scenarios.
	PruneBelow *float64
	Ordered    bool // answers come in the order of the scenarios
}

// Scenario is one change of the base. Its parts apply in the order of the
// fields here.
type Scenario struct {
	ID           string             `json:"id,omitempty"`
	Patch        json.RawMessage    `json:"patch,omitempty"` // RFC 6902
	RemoveJobs   []string           `json:"remove_jobs,omitempty"`
	ScaleWeights map[string]float64 `json:"scale_weights,omitempty"` // factors by job
	// ScaleDurations are factors by job for compute and synchronisation times.
	ScaleDurations map[string]float64 `json:"scale_durations,omitempty"`
	DropAfter      []DropAfter        `json:"drop_after,omitempty"`
	AddJobs        []json.RawMessage  `json:"add_jobs,omitempty"` // as in an instance
	SetQuota       []SetQuota         `json:"set_quota,omitempty"`
	RemoveGPUs     []RemoveGPUs       `json:"remove_gpus,omitempty"`
	Drain          []Drain            `json:"drain,omitempty"`
	AddGPUs        []AddGPUs          `json:"add_gpus,omitempty"`
	AddNodes       []json.RawMessage  `json:"add_nodes,omitempty"` // as in an instance
	// Options differ from those of the batch; the zero value means that they do not.
	Options Options `json:"-"`
}

// MarshalJSON encodes the scenario as requests have it.
func (sc Scenario) MarshalJSON() ([]byte, error) {
	type fields Scenario // without this method
	return json.Marshal(struct {
		fields
		Options map[string]any `json:"options,omitempty"`
	}{fields(sc), sc.Options.json()})
}

// DropAfter lets a job no longer wait for another one, or for any if After is "".
type DropAfter struct {
	Job   string `json:"job"`
	After string `json:"after,omitempty"`
}

// SetQuota takes the place of the quota with the same user and types, or is a new one.
type SetQuota struct {
	User  string   `json:"user"`
	GPUs  int      `json:"gpus"`
	Types []string `json:"types,omitempty"` // nil means all
}

// RemoveGPUs removes GPUs of a node, those of the highest index first.
type RemoveGPUs struct {
	Node  string `json:"node"`
	Type  string `json:"type,omitempty"` // needed where the node has several
	Count int    `json:"count"`
}

// Drain ends the service of a node.
type Drain struct {
	Node string  `json:"node"`
	AtS  float64 `json:"at_s"`
}

// AddGPUs adds a node that is always in service.
type AddGPUs struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
	Name  string `json:"name,omitempty"`
}

// Outcome is one line of the answer. Figures are in weight-seconds, and nil
// where not known.
type Outcome struct {
	Line        string   `json:"line"` // base, scenario or summary
	Index       int      `json:"index"`
	ID          string   `json:"id"`
	Status      string   `json:"status"` // succeeded, or failed: Error says why
	Pruned      bool     `json:"pruned"` // answered from the bound alone
	Value       *float64 `json:"value"`
	Bound       *float64 `json:"bound"`
	Gap         *float64 `json:"gap"`
	ValueChange *float64 `json:"value_change"` // value − value of the base
	// OptimumChange is the interval in which the scenario's optimum less the base's
	// optimum must lie; empty or nil where this is not known.
	OptimumChange []*float64 `json:"optimum_change"`
	Termination   string     `json:"termination"`
	// Notes say which parts of the scenario have no effect, and why.
	Notes []string `json:"notes"`
	// Refined is in the summary: what all answers together prove about scenarios
	// beyond the scenarios' own lines.
	Refined []Refined       `json:"refined"`
	Error   *Problem        `json:"error"`
	Data    json.RawMessage `json:"-"` // the whole line
}

// Refined is what all answers of a batch together prove about one scenario.
type Refined struct {
	Index         int        `json:"index"`
	ID            string     `json:"id"`
	Bound         *float64   `json:"bound"`
	OptimumChange []*float64 `json:"optimum_change"` // as in Outcome
}

func (w *WhatIf) body() ([]byte, error) {
	base := map[string]any{}
	switch {
	case w.SolveID != "":
		base["solve_id"] = w.SolveID
	case w.Instance == nil:
		return nil, errors.New("client: give an Instance or a SolveID")
	default:
		var b bytes.Buffer
		if err := wire.EncodeInstance(&b, w.Instance); err != nil {
			return nil, err
		}
		base["instance"] = json.RawMessage(b.Bytes())
	}
	if w.Result != nil {
		text, err := resultJSON(w.Result)
		if err != nil {
			return nil, err
		}
		base["result"] = text
	}
	m := map[string]any{"base": base, "scenarios": w.Scenarios}
	if o := w.Options.json(); len(o) > 0 {
		m["options"] = o
	}
	if w.PruneBelow != nil {
		m["prune"] = map[string]any{"below_s": *w.PruneBelow}
	}
	if w.Ordered {
		m["ordered"] = true
	}
	return json.Marshal(m)
}

// WhatIf yields the outcome of the base, of each scenario as soon as the server has
// it, and a summary. The call is retried until the first outcome has come; a stream
// that breaks later is an error, and the outcomes until then are valid.
func (c *Client) WhatIf(ctx context.Context, w WhatIf) iter.Seq2[Outcome, error] {
	return func(yield func(Outcome, error) bool) {
		text, err := w.body()
		if err != nil {
			yield(Outcome{}, err)
			return
		}
		err = c.lines(ctx, "/v1/what-if", text, func(line []byte) error {
			o := Outcome{Data: bytes.Clone(line)}
			if err := json.Unmarshal(line, &o); err != nil {
				return malformedLine(err)
			}
			if !yield(o, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(Outcome{}, err)
		}
	}
}
