package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"

	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// SimulationLine is one line of the answer to FollowSimulation. The member that Kind
// names is not nil.
type SimulationLine struct {
	simulatedoc.Line
	Data json.RawMessage `json:"-"` // the whole line
}

// Simulate simulates jobs under policies, and returns when all runs have ended or
// the time limit has passed. The simulation ends with ctx.
func (c *Client) Simulate(ctx context.Context, s *simulatedoc.Request) (*simulatedoc.Answer, error) {
	text, err := simulationBody(s)
	if err != nil {
		return nil, err
	}
	return fetch[simulatedoc.Answer](ctx, c,
		call{method: http.MethodPost, path: "/v1/simulations", body: text, repeatable: true})
}

// FollowSimulation is Simulate line by line: each run as it ends, lines of progress,
// and a summary last. A run that fails ends the sequence with a *Problem. The call is
// retried until the first line has come; a stream that breaks later is an error.
func (c *Client) FollowSimulation(ctx context.Context, s *simulatedoc.Request) iter.Seq2[SimulationLine, error] {
	return func(yield func(SimulationLine, error) bool) {
		text, err := simulationBody(s)
		if err != nil {
			yield(SimulationLine{}, err)
			return
		}
		whole := false
		var failed *Problem // a failure after the first line, which is not retried
		err = c.lines(ctx, "/v1/simulations", text, func(line []byte) error {
			var l struct {
				SimulationLine
				Error *Problem `json:"error"`
			}
			if err := json.Unmarshal(line, &l); err != nil {
				return malformedLine(err)
			}
			if l.Error != nil {
				failed = l.Error
				return errStopped
			}
			whole = l.Kind == "summary"
			l.Data = bytes.Clone(line)
			if !yield(l.SimulationLine, nil) {
				return errStopped
			}
			return nil
		})
		if failed != nil {
			yield(SimulationLine{}, failed)
			return
		}
		if err == nil && !whole {
			err = errors.New("client: the answer ends before its summary")
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(SimulationLine{}, err)
		}
	}
}

func simulationBody(s *simulatedoc.Request) ([]byte, error) {
	var b bytes.Buffer
	err := s.EncodeJSON(&b)
	return b.Bytes(), err
}
