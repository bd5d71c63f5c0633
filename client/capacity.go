package client

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"

	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// CapacityLine is one line of the answer to FollowCapacity. The member that Kind names is not nil.
type CapacityLine struct {
	capacitydoc.PlanLine
	Data json.RawMessage `json:"-"` // the whole line
}

// Capacity makes a plan of capacity, and returns its report when it is made or its time limit has passed. It ends
// with ctx.
func (c *Client) Capacity(ctx context.Context, req *capacitydoc.Request) (*capacitydoc.Report, error) {
	var b bytes.Buffer
	if err := req.EncodeJSON(&b); err != nil {
		return nil, err
	}
	return fetch[capacitydoc.Report](ctx, c,
		call{method: http.MethodPost, path: capacityPath, body: b.Bytes(), repeatable: true})
}

// FollowCapacity is Capacity line by line: lines of progress, the first that is proved, and the report last. It fails
// and is retried as FollowSimulation is.
func (c *Client) FollowCapacity(ctx context.Context, req *capacitydoc.Request) iter.Seq2[CapacityLine, error] {
	return func(yield func(CapacityLine, error) bool) {
		var b bytes.Buffer
		err := req.EncodeJSON(&b)
		if err == nil {
			err = c.linesUntil(ctx, capacityPath, b.Bytes(), capacitydoc.LineReport, func(line []byte) (more bool, err error) {
				l := CapacityLine{Data: line}
				if err := json.Unmarshal(line, &l); err != nil {
					return false, malformedLine(err)
				}
				return yield(l, nil), nil
			})
		}
		if err != nil {
			yield(CapacityLine{}, err)
		}
	}
}
