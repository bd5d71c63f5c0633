package clusters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/store"
)

// journal is the durable list of the records of a cluster: rows of JSON lines in a store of logs, each row with
// the checksum of the row before. Snapshots spare reading all of them; each follows from the rows before it.
type journal struct {
	store store.SessionStore
	links store.Chain
	atUs  int64 // of the last record
	// fresh is how many bytes of rows have no snapshot, and size has the bytes of the last snapshot.
	fresh, size int
}

// openJournal reads the newest snapshot that can be used, and the rows behind it, and returns the state at the end
// of the journal. Where no snapshot can be used, the whole journal gives the same state.
func openJournal(ctx context.Context, st store.SessionStore, m *store.Meta) (*journal, *ledger.Ledger, error) {
	snapshots, err := st.Snapshots(ctx, m.ID)
	if err != nil && !errors.As(err, new(*store.CorruptError)) {
		return nil, nil, err
	}
	last := int64(0) // that is known to have been durable
	for i := range snapshots {
		s := &snapshots[i]
		if s.Session != m.ID || s.Checksum() != s.Sum {
			continue
		}
		last = max(last, s.Seq)
		l, err := ledger.Restore(s.State)
		if err != nil {
			continue // as of another version
		}
		j := &journal{store: st, links: store.Chain{Session: m.ID, Last: s.Seq, Sum: s.Chain}, atUs: s.AtUs,
			size: len(s.State)}
		if err = j.find(ctx); err == nil {
			err = j.read(ctx, l)
		}
		if err == nil && j.links.Last >= last {
			return j, l, nil
		}
		if err != nil && !errors.As(err, new(*store.CorruptError)) {
			return nil, nil, err
		}
	}
	j, l := &journal{store: st, links: store.Chain{Session: m.ID, Sum: m.Sum}}, ledger.New()
	if err := j.read(ctx, l); err != nil {
		return nil, nil, err
	}
	if j.links.Last < last {
		return nil, nil, &store.CorruptError{Session: m.ID, Seq: j.links.Last + 1, What: "the end of the log is missing"}
	}
	return j, l, nil
}

// find checks that the journal has the row that ends where its links do.
func (j *journal) find(ctx context.Context) error {
	rows, err := j.store.Rows(ctx, j.links.Session, j.links.Last, 1)
	if err != nil {
		return err
	}
	if len(rows) == 0 || rows[0].Last != j.links.Last || rows[0].Sum != j.links.Sum ||
		rows[0].Checksum() != rows[0].Sum {
		return &store.CorruptError{Session: j.links.Session, Seq: j.links.Last,
			What: "the log does not lead to the snapshot"}
	}
	return nil
}

// read applies the rows behind the links to a ledger.
func (j *journal) read(ctx context.Context, l *ledger.Ledger) error {
	for {
		rows, err := j.store.Rows(ctx, j.links.Session, j.links.Last+1, store.ReadBytes)
		if err != nil || len(rows) == 0 {
			return err
		}
		for i := range rows {
			if err := j.links.Next(&rows[i]); err != nil {
				return err
			}
			if err := j.replay(l, &rows[i]); err != nil {
				return &store.CorruptError{Session: j.links.Session, Seq: rows[i].First, What: err.Error()}
			}
			j.fresh += len(rows[i].Data)
		}
	}
}

func (j *journal) replay(l *ledger.Ledger, row *store.Row) error {
	n := row.First
	for line := range bytes.Lines(row.Data) {
		var r ledger.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
		if err := l.Apply(&r); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
		j.atUs = r.AtUs
		n++
	}
	if n != row.Last+1 {
		return fmt.Errorf("a row has %d records and not %d", n-row.First, row.Last+1-row.First)
	}
	return nil
}

// append makes records durable, and returns the bytes that the journal has grown by. After an error the journal
// must be opened again: the records may be there or not.
func (j *journal) append(ctx context.Context, records []*ledger.Record) (bytes int, err error) {
	row := store.Row{Session: j.links.Session, First: j.links.Last + 1, Last: j.links.Last + int64(len(records)),
		Prev: j.links.Sum}
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			return 0, err
		}
		row.Data = append(append(row.Data, line...), '\n')
	}
	row.Sum = row.Checksum()
	if err := j.store.Append(ctx, []store.Row{row}); err != nil {
		return 0, err
	}
	j.atUs = records[len(records)-1].AtUs
	j.fresh += len(row.Data)
	return len(row.Data), j.links.Next(&row)
}

// snapshot is a snapshot of the ledger at the end of the journal, without its state and checksum, and a function
// that adds these and may run while the ledger goes on. It is nil where the journal has grown by less than least
// bytes, or by less than the last snapshot, so that writing snapshots never takes longer than writing the journal.
func (j *journal) snapshot(l *ledger.Ledger, least int) (func() store.Snapshot, error) {
	if j.fresh < max(least, j.size) {
		return nil, nil
	}
	state, err := l.Snapshot()
	if err != nil {
		return nil, err
	}
	j.fresh, j.size = 0, state.Size()
	s := store.Snapshot{Session: j.links.Session, Seq: j.links.Last, AtUs: j.atUs, Jobs: int64(l.Unended()),
		Chain: j.links.Sum}
	return func() store.Snapshot {
		s.State = state.Bytes()
		s.Sum = s.Checksum()
		return s
	}, nil
}
