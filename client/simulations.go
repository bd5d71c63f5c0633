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
		err = c.linesUntil(ctx, "/v1/simulations", text, "summary", func(line []byte) (more bool, err error) {
			l := SimulationLine{Data: line}
			if err := json.Unmarshal(line, &l); err != nil {
				return false, malformedLine(err)
			}
			return yield(l, nil), nil
		})
		if err != nil {
			yield(SimulationLine{}, err)
		}
	}
}

// linesUntil posts a request and calls each with the lines of the answer, of which last is the kind of the last, until
// each wants no more. A line with an error ends the answer with a *Problem.
func (c *Client) linesUntil(ctx context.Context, path string, text []byte, last string,
	each func(line []byte) (more bool, err error)) error {
	whole := false
	var failed *Problem // a failure after the first line, which is not retried
	err := c.lines(ctx, path, text, func(line []byte) error {
		var l struct {
			Line  string   `json:"line"`
			Error *Problem `json:"error"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return malformedLine(err)
		}
		if l.Error != nil {
			failed = l.Error
			return errStopped
		}
		whole = l.Line == last
		more, err := each(bytes.Clone(line))
		if err == nil && !more {
			return errStopped
		}
		return err
	})
	switch {
	case failed != nil:
		return failed
	case err == nil && !whole:
		return errors.New("client: the answer ends before its " + last)
	case errors.Is(err, errStopped):
		return nil
	}
	return err
}

func simulationBody(s *simulatedoc.Request) ([]byte, error) {
	var b bytes.Buffer
	err := s.EncodeJSON(&b)
	return b.Bytes(), err
}
