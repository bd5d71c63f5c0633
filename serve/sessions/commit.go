package sessions

import (
	"context"
	"errors"

	"github.com/hare-sched/hare/serve/store"
)

// commitAll makes the batches of all sessions durable (group commit): the batches that
// arrive during a write are written together by the next one, with one fsync.
func (ss *Sessions) commitAll() {
	defer close(ss.written)
	for b := range ss.commits {
		group := []*batch{b}
	gather:
		for len(group) < cap(ss.commits) {
			select {
			case b, ok := <-ss.commits:
				if !ok {
					break gather
				}
				group = append(group, b)
			default:
				break gather
			}
		}
		ss.commit(group)
	}
}

// commit makes one group durable.
func (ss *Sessions) commit(group []*batch) {
	rows := make([]store.Row, 0, len(group))
	for _, b := range group {
		if len(b.row.Data) > 0 {
			rows = append(rows, b.row)
		}
	}
	var err error
	if len(rows) > 0 {
		err = ss.append(rows)
	}
	// An error in the rows of one session must not fail the other sessions.
	apart := err != nil && !errors.Is(err, store.ErrStorage) && len(rows) > 1
	for _, b := range group {
		alone := len(b.row.Data) == 0
		if !alone {
			if apart {
				err = ss.append([]store.Row{b.row})
			}
			b.done <- err // before the snapshot is saved
		}
		if b.snapshot != nil && (alone || err == nil) {
			// A lost snapshot only makes the next load take longer.
			_ = ss.cfg.Store.SaveSnapshot(context.Background(), *b.snapshot)
		}
		if alone {
			b.done <- nil
		}
	}
}

// append writes rows, and logs when writes begin to fail and when they work again.
func (ss *Sessions) append(rows []store.Row) error {
	err := ss.cfg.Store.Append(context.Background(), rows)
	failing := errors.Is(err, store.ErrStorage)
	switch {
	case failing && !ss.failing:
		ss.cfg.Logger.Error("events are refused: make room on the disk, or see why it fails", "error", err)
	case ss.failing && err == nil:
		ss.cfg.Logger.Info("events are taken again")
	case err != nil && !failing:
		ss.cfg.Logger.Error("events were not recorded", "sessions", len(rows), "error", err)
	}
	if failing || err == nil {
		ss.failing = failing
	}
	return err
}
