package sessions

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"path/filepath"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

// Decisions gives the durable answers after event after: first those of the log, then,
// until ctx ends, each new answer. A slow reader reads the log later and holds up nobody.
// The sequence ends with an error: that of ctx, store.ErrNoSession,
// admission.ErrDraining, or *store.CorruptError where the log is damaged.
func (s *Session) Decisions(ctx context.Context, after int64) iter.Seq2[hare.Answer, error] {
	return func(yield func(hare.Answer, error) bool) {
		for rec, err := range s.read(ctx, after, true) {
			if !yield(hare.Answer{Seq: rec.Event.Seq, Decisions: rec.Decisions}, err) {
				return
			}
		}
	}
}

// Log gives the events after event after that are durable now, with their recorded
// decisions. An error is the last element of the sequence.
func (s *Session) Log(ctx context.Context, after int64) iter.Seq2[wire.Record, error] {
	return s.read(ctx, after, false)
}

func (s *Session) read(ctx context.Context, after int64, live bool) iter.Seq2[wire.Record, error] {
	if s.followed != nil {
		return s.followed.records(ctx, s, after, live)
	}
	return func(yield func(wire.Record, error) bool) {
		after := min(max(0, after), math.MaxInt64-1) // there is a next one
		links := store.Chain{Session: s.id, Last: after, SumUnknown: true}
		if after == 0 {
			links.SumUnknown, links.Sum = false, s.meta.Sum
		}
		if s.damage != nil {
			yield(wire.Record{}, s.damage)
			return
		}
		for {
			added, last := s.rowsAdded(), s.last.Load()
			rows, err := s.parent.cfg.Store.Rows(ctx, s.id, after+1, store.ReadBytes)
			// Events that the session has not answered yet are not shown either.
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
				err = s.await(ctx, added, after, last)
			}
			if err != nil {
				yield(wire.Record{}, s.logDamage(err))
				return
			}
		}
	}
}

// records yields the records of the log of a helper's session after event after, and where live is set, later ones as
// they come. The log is complete up to the last state, whatever the helper is writing.
func (f *followed) records(ctx context.Context, s *Session, after int64, live bool) iter.Seq2[wire.Record, error] {
	return func(yield func(wire.Record, error) bool) {
		f.mu.Lock()
		name, fault := f.state.Log, f.fault
		f.mu.Unlock()
		if name == "" {
			yield(wire.Record{}, &UnreadError{fault})
			return
		}
		log, err := openRegular(filepath.Join(f.dir, name))
		if err != nil {
			yield(wire.Record{}, &UnreadError{err.Error()})
			return
		}
		defer func() { _ = log.Close() }()
		in := bufio.NewReaderSize(log, 1<<16)
		_, err = in.ReadBytes('\n') // the header
		for seq := int64(1); ; {
			added, last := s.rowsAdded(), s.last.Load()
			for ; seq <= last && err == nil; seq++ {
				var line []byte
				if line, err = in.ReadBytes('\n'); err != nil {
					break
				}
				if seq <= after {
					continue
				}
				var rec wire.Record
				if rec, err = wire.DecodeRecord(line); err == nil && rec.Event.Seq != seq {
					err = fmt.Errorf("event %d is in its place", rec.Event.Seq)
				}
				if err != nil {
					break
				}
				if !yield(rec, nil) {
					return
				}
			}
			switch {
			case errors.Is(err, io.EOF):
				err = &store.CorruptError{Session: s.id, Seq: seq, What: "the end of the log is missing"}
			case err != nil:
				err = &store.CorruptError{Session: s.id, Seq: seq, What: strings.TrimSpace(err.Error())}
			case !live:
				return
			default:
				err = s.await(ctx, added, last, last)
			}
			if err != nil {
				yield(wire.Record{}, err)
				return
			}
		}
	}
}

// await waits for rows after event after. Where the log is known to go on to event last,
// such rows should be there already, and their lack is damage.
func (s *Session) await(ctx context.Context, added <-chan struct{}, after, last int64) error {
	select {
	case <-s.gone:
		return s.ended
	default:
	}
	if after < last {
		return &store.CorruptError{Session: s.id, Seq: after + 1, What: "the end of the log is missing"}
	}
	select {
	case <-added:
		return nil
	case <-s.gone:
		return s.ended
	case <-ctx.Done():
		return ctx.Err()
	}
}
