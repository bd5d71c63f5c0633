package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"

	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// Outcome is one line of the answer to WhatIf.
type Outcome struct {
	whatifdoc.Outcome
	Error *Problem        `json:"error"` // why the scenario failed
	Data  json.RawMessage `json:"-"`     // the whole line
}

// WhatIf yields the outcome of the base, of each scenario as soon as the server has
// it, and a summary. The call is retried until the first outcome has come; a stream
// that breaks later is an error, and the outcomes until then are valid.
func (c *Client) WhatIf(ctx context.Context, req *whatifdoc.Request) iter.Seq2[Outcome, error] {
	return func(yield func(Outcome, error) bool) {
		var text bytes.Buffer
		if err := req.EncodeJSON(&text); err != nil {
			yield(Outcome{}, err)
			return
		}
		err := c.lines(ctx, "/v1/what-if", text.Bytes(), func(line []byte) error {
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
