package store_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

// A log of one session: a row carries a checksum and continues the row before. A row that
// was changed later is found when the session is checked.
func ExampleCheckSession() {
	ctx := context.Background()
	logs := store.NewMemory()
	meta := store.Meta{ID: "a", Created: time.Unix(0, 0).UTC(), Config: []byte("{}")}
	meta.Sum = meta.Checksum()
	if err := logs.Create(ctx, meta); err != nil {
		fmt.Println(err)
		return
	}
	prev := meta.Sum
	for seq := int64(1); seq <= 3; seq++ {
		event := hare.Event{Seq: seq, AtUs: seq * 1e6, Type: hare.EventJobEnded, Job: "bert"}
		line := append(wire.AppendRecord(nil, wire.Record{Event: event}), '\n')
		row := store.Row{Session: "a", First: seq, Last: seq, Data: line, Prev: prev}
		row.Sum = row.Checksum()
		prev = row.Sum
		if seq == 3 {
			row.Data = append([]byte(" "), row.Data...) // damage
		}
		if err := logs.Append(ctx, []store.Row{row}); err != nil {
			fmt.Println(err)
			return
		}
	}
	// A row that does not continue the log is refused.
	err := logs.Append(ctx, []store.Row{{Session: "a", First: 3, Last: 3}})
	fmt.Println(errors.Is(err, store.ErrFence))

	last, err := store.CheckSession(ctx, logs, meta)
	fmt.Println("trusted up to event", last)
	fmt.Println(err)
	// Output:
	// true
	// trusted up to event 2
	// the log of session a is damaged at event 3: the checksum of a row does not fit its content
}
