package store

import (
	"bytes"
	"fmt"

	"github.com/hare-sched/hare/wire"
)

// ReadBytes is how much of a log a reader takes at a time.
const ReadBytes = 1 << 20

// Chain checks that rows follow each other and what came before.
type Chain struct {
	Session string
	Last    int64 // seq of the last event that was checked
	Sum     Sum   // of its row
	Loose   bool  // sum is not known: reading began inside the log
}

// Next checks one row and moves behind it.
func (c *Chain) Next(r *Row) error {
	bad := func(what string) error {
		return &CorruptError{Session: c.Session, Seq: c.Last + 1, What: what}
	}
	switch {
	case r.Session != c.Session:
		return bad("a row of another session stands there")
	case r.Checksum() != r.Sum:
		return bad("the checksum of a row does not fit its content")
	case c.Loose && r.First <= c.Last+1:
		c.Loose = false
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

// DecodeRow reads the records of a row whose checksum fits.
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
