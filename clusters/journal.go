package clusters

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/hare-sched/hare/clusters/ledger"
	"github.com/hare-sched/hare/store"
)

// journal is the durable list of the records of a cluster: rows of JSON lines in a store of logs, each row with
// the checksum of the row before.
type journal struct {
	store store.SessionStore
	links store.Chain
}

// openJournal reads a journal from its beginning and returns the state at its end.
func openJournal(ctx context.Context, st store.SessionStore, m *store.Meta) (*journal, *ledger.Ledger, error) {
	j := &journal{store: st, links: store.Chain{Session: m.ID, Sum: m.Sum}}
	l := ledger.New()
	for {
		rows, err := st.Rows(ctx, m.ID, j.links.Last+1, store.ReadBytes)
		if err != nil || len(rows) == 0 {
			return j, l, err
		}
		for i := range rows {
			if err := j.links.Next(&rows[i]); err != nil {
				return nil, nil, err
			}
			if err := replay(l, &rows[i]); err != nil {
				return nil, nil, &store.CorruptError{Session: m.ID, Seq: rows[i].First, What: err.Error()}
			}
		}
	}
}

func replay(l *ledger.Ledger, row *store.Row) error {
	n := row.First
	for line := range bytes.Lines(row.Data) {
		var r ledger.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
		if err := l.Apply(&r); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
		n++
	}
	if n != row.Last+1 {
		return fmt.Errorf("a row has %d records and not %d", n-row.First, row.Last+1-row.First)
	}
	return nil
}

// append makes records durable. After an error the journal must be opened again: the records may be there or not.
func (j *journal) append(ctx context.Context, records []*ledger.Record) error {
	row := store.Row{Session: j.links.Session, First: j.links.Last + 1, Last: j.links.Last + int64(len(records)),
		Prev: j.links.Sum}
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		row.Data = append(append(row.Data, line...), '\n')
	}
	row.Sum = row.Checksum()
	if err := j.store.Append(ctx, []store.Row{row}); err != nil {
		return err
	}
	return j.links.Next(&row)
}
