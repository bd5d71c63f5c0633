package service

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// readBytes is how much of a log a reader takes at a time.
const readBytes = 1 << 20

// Decisions gives the durable answers behind event after, first those of the
// log, then, until ctx ends, each that is added. A reader that is slow reads
// the log later and holds up nobody. The sequence ends with an error: that of
// ctx, ErrNoSession, admission.ErrDraining, or *CorruptError where the log is damaged.
func (e *Session) Decisions(ctx context.Context, after int64) iter.Seq2[hare.Answer, error] {
	return func(yield func(hare.Answer, error) bool) {
		for rec, err := range e.read(ctx, after, true) {
			if !yield(hare.Answer{Seq: rec.Event.Seq, Decisions: rec.Decisions}, err) {
				return
			}
		}
	}
}

// Log gives the events behind event after that are durable now, with the
// decisions that were recorded for them. An error is the last of the sequence.
func (e *Session) Log(ctx context.Context, after int64) iter.Seq2[wire.Record, error] {
	return e.read(ctx, after, false)
}

func (e *Session) read(ctx context.Context, after int64, live bool) iter.Seq2[wire.Record, error] {
	return func(yield func(wire.Record, error) bool) {
		after := max(0, after)
		links := chain{session: e.id, last: after, loose: true}
		if after == 0 {
			links.loose, links.sum = false, e.meta.Sum
		}
		if e.broken != nil {
			yield(wire.Record{}, e.broken)
			return
		}
		for {
			more, last := e.more(), e.last.Load()
			rows, err := e.s.cfg.Store.Rows(ctx, e.id, after+1, readBytes)
			// What the session has not answered yet is not shown either.
			for len(rows) > 0 && rows[len(rows)-1].Last > last {
				rows = rows[:len(rows)-1]
			}
			for i := range rows {
				if err = links.next(&rows[i]); err != nil {
					break
				}
				records, bad := decodeRow(&rows[i])
				if err = bad; err != nil {
					break
				}
				for _, rec := range records {
					if rec.Event.Seq > after && !yield(rec, nil) {
						return
					}
				}
				after = rows[i].Last
			}
			if err == nil && len(rows) == 0 {
				if !live && after >= last {
					return
				}
				err = e.await(ctx, more, after, last)
			}
			if err != nil {
				yield(wire.Record{}, e.noted(err))
				return
			}
		}
	}
}

// await waits for rows behind event after. There should be some already where
// the log went on to event last.
func (e *Session) await(ctx context.Context, more <-chan struct{}, after, last int64) error {
	select {
	case <-e.gone:
		return e.ended
	default:
	}
	if after < last {
		return &CorruptError{Session: e.id, Seq: after + 1, What: "the end of the log is missing"}
	}
	select {
	case <-more:
		return nil
	case <-e.gone:
		return e.ended
	case <-ctx.Done():
		return ctx.Err()
	}
}

// decodeRow reads the records of a row whose checksum fits.
func decodeRow(r *Row) ([]wire.Record, error) {
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
		return nil, &CorruptError{Session: r.Session, Seq: r.First + int64(len(records)), What: "a row has other events than it says"}
	}
	return records, nil
}
