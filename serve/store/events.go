package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/hare-sched/hare"
)

// SolveEvent is something that happened to a solve.
type SolveEvent struct {
	Seq  int64 // from 1, without gaps
	AtUs int64 // since submission; never decreases
	Type string
	// The other fields are set where the type has them.
	Status, Phase, Termination string
	Value, Bound               *hare.Amount
	QueuePosition              int
	Error                      string
}

// eventLine is the stored form of an event.
type eventLine struct {
	Seq    int64           `json:"seq"`
	AtUs   int64           `json:"at_us"`
	Type   string          `json:"type"`
	Status string          `json:"status,omitempty"`
	Phase  string          `json:"phase,omitempty"`
	Term   string          `json:"termination,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
	Bound  json.RawMessage `json:"bound,omitempty"`
	Place  int             `json:"queue_position,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// AppendSolveEvent appends the stored line of an event.
func AppendSolveEvent(b []byte, e *SolveEvent) []byte {
	// Marshal cannot fail: the line has only strings and numbers.
	line, _ := json.Marshal(eventLine{Seq: e.Seq, AtUs: e.AtUs, Type: e.Type, Status: e.Status, Phase: e.Phase,
		Term:  e.Termination,
		Value: StoredAmount(e.Value), Bound: StoredAmount(e.Bound), Place: e.QueuePosition, Error: e.Error})
	return append(append(b, line...), '\n')
}

func decodeSolveEvent(line []byte) (e SolveEvent, err error) {
	var l eventLine
	if err = json.Unmarshal(line, &l); err != nil {
		return e, err
	}
	e = SolveEvent{Seq: l.Seq, AtUs: l.AtUs, Type: l.Type, Status: l.Status, Phase: l.Phase, Termination: l.Term,
		QueuePosition: l.Place, Error: l.Error}
	if e.Value, err = ReadAmount(l.Value); err == nil {
		e.Bound, err = ReadAmount(l.Bound)
	}
	return e, err
}

// StoredAmount returns the stored form of an amount; nil stays nil.
func StoredAmount(a *hare.Amount) json.RawMessage {
	if a == nil {
		return nil
	}
	return json.RawMessage(a.String())
}

// ReadAmount reads what StoredAmount returned.
func ReadAmount(text json.RawMessage) (*hare.Amount, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	a, err := hare.ParseAmount(string(text))
	return &a, err
}

// DecodeSolveRow checks a row and reads its events.
func DecodeSolveRow(id string, row *SolveRow) ([]SolveEvent, error) {
	bad := func(what string) error {
		return &CorruptError{Solve: id, What: fmt.Sprintf("event %d: %s", row.First, what)}
	}
	if row.Checksum() != row.Sum {
		return nil, bad("the checksum of a row does not fit its content")
	}
	var events []SolveEvent
	for rest := row.Data; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte{'\n'})
		e, err := decodeSolveEvent(line)
		if err != nil {
			return nil, bad(err.Error())
		}
		if e.Seq != row.First+int64(len(events)) {
			return nil, bad("another event stands there")
		}
		events = append(events, e)
		rest = after
	}
	if int64(len(events)) != row.Last-row.First+1 {
		return nil, bad("a row has other events than it says")
	}
	return events, nil
}
