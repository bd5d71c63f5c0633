package sessions

import (
	"context"
	"iter"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/store"
	"github.com/hare-sched/hare/wire"
)

// Decisions gives the durable answers behind event after, first those of the
// log, then, until ctx ends, each that is added. A reader that is slow reads
// the log later and holds up nobody. The sequence ends with an error: that of
// ctx, store.ErrNoSession, admission.ErrDraining, or *store.CorruptError where the log is damaged.
func (s *Session) Decisions(ctx context.Context, after int64) iter.Seq2[hare.Answer, error] {
	return func(yield func(hare.Answer, error) bool) {
		for rec, err := range s.read(ctx, after, true) {
			if !yield(hare.Answer{Seq: rec.Event.Seq, Decisions: rec.Decisions}, err) {
				return
			}
		}
	}
}

// Log gives the events behind event after that are durable now, with the
// decisions that were recorded for them. An error is the last of the sequence.
func (s *Session) Log(ctx context.Context, after int64) iter.Seq2[wire.Record, error] {
	return s.read(ctx, after, false)
}

func (s *Session) read(ctx context.Context, after int64, live bool) iter.Seq2[wire.Record, error] {
	return func(yield func(wire.Record, error) bool) {
		after := max(0, after)
		links := store.Chain{Session: s.id, Last: after, Loose: true}
		if after == 0 {
			links.Loose, links.Sum = false, s.meta.Sum
		}
		if s.damage != nil {
			yield(wire.Record{}, s.damage)
			return
		}
		for {
			more, last := s.more(), s.last.Load()
			rows, err := s.parent.cfg.Store.Rows(ctx, s.id, after+1, store.ReadBytes)
			// What the session has not answered yet is not shown either.
			for len(rows) > 0 && rows[len(rows)-1].Last > last {
				rows = rows[:len(rows)-1]
			}
			for i := range rows {
				if err = links.Next(&rows[i]); err != nil {
					break
				}
				records, bad := store.DecodeRow(&rows[i])
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
				err = s.await(ctx, more, after, last)
			}
			if err != nil {
				yield(wire.Record{}, s.noted(err))
				return
			}
		}
	}
}

// await waits for rows behind event after. There should be some already where
// the log went on to event last.
func (s *Session) await(ctx context.Context, more <-chan struct{}, after, last int64) error {
	select {
	case <-s.gone:
		return s.ended
	default:
	}
	if after < last {
		return &store.CorruptError{Session: s.id, Seq: after + 1, What: "the end of the log is missing"}
	}
	select {
	case <-more:
		return nil
	case <-s.gone:
		return s.ended
	case <-ctx.Done():
		return ctx.Err()
	}
}
