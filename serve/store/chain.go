package store

import (
	"bytes"
	"fmt"

	"github.com/hare-sched/hare/wire"
)

// ReadBytes is how many bytes of a log are read at a time.
const ReadBytes = 1 << 20

// Chain checks that each row continues the row before.
type Chain struct {
	Session    string
	Last       int64 // number of the last event that was checked
	Sum        Sum   // checksum of the last row
	SumUnknown bool  // Sum is unknown because reading began inside the log
}

// Next checks one row and moves on to it.
func (c *Chain) Next(r *Row) error {
	bad := func(what string) error {
		return &CorruptError{Session: c.Session, Seq: c.Last + 1, What: what}
	}
	switch {
	case r.Session != c.Session:
		return bad("a row of another session stands there")
	case r.Checksum() != r.Sum:
		return bad("the checksum of a row does not fit its content")
	case c.SumUnknown && r.First <= c.Last+1:
		c.SumUnknown = false
	case r.First != c.Last+1:
		return bad(fmt.Sprintf("the next row begins with event %d: rows are missing or out of order", r.First))
	case r.Prev != c.Sum:
		return bad("a row does not continue the one before it")
	}
	if r.Last < r.First {
		return bad("a row without events")
	}
	c.Last, c.Sum = r.Last, r.Sum
	return nil
}

// DecodeRow reads the records of a row whose checksum was checked.
func DecodeRow(r *Row) ([]wire.Record, error) {
	records := make([]wire.Record, 0, r.Last-r.First+1)
	for rest := r.Data; len(rest) > 0; {
		line, after, ok := bytes.Cut(rest, []byte{'\n'})
		seq := r.First + int64(len(records))
		if !ok || seq > r.Last {
			return nil, &CorruptError{Session: r.Session, Seq: seq, What: "a row has other events than it says"}
		}
		rec, err := wire.DecodeRecord(line)
		if err == nil && rec.Event.Seq != seq {
			err = fmt.Errorf("event %d stands there", rec.Event.Seq)
		}
		if err != nil {
			return nil, &CorruptError{Session: r.Session, Seq: seq, What: err.Error()}
		}
		records = append(records, rec)
		rest = after
	}
	if int64(len(records)) != r.Last-r.First+1 {
		return nil, &CorruptError{Session: r.Session, Seq: r.First + int64(len(records)),
			What: "a row has other events than it says"}
	}
	return records, nil
}
