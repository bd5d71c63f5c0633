package clusters_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// changedStore shows other snapshots and fewer rows than a store has, and counts the rows that are read.
type changedStore struct {
	store.SessionStore
	change func(all []store.Snapshot) []store.Snapshot
	last   int64 // rows behind it are not shown; 0 means all
	first  int64 // the least row that was asked for
}

func (c *changedStore) Snapshots(ctx context.Context, id string) ([]store.Snapshot, error) {
	all, err := c.SessionStore.Snapshots(ctx, id)
	return c.change(all), err
}

func (c *changedStore) Rows(ctx context.Context, id string, seq int64, n int) ([]store.Row, error) {
	c.first = min(c.first, seq)
	rows, err := c.SessionStore.Rows(ctx, id, seq, n)
	for i := range rows {
		if c.last > 0 && rows[i].Last > c.last {
			return rows[:i], err
		}
	}
	return rows, err
}

// TestOpenBySnapshot opens a cluster by its snapshots, and without some of them.
func TestOpenBySnapshot(t *testing.T) {
	s := newServer(t, time.Minute)
	s.close()
	s.snapshotBytes = 1
	s.open()
	c := s.create("fifo")
	n := &node{r: registration("n", "V100", "V100")}
	n.register(t, c)
	for range 30 {
		submit(t, c, &clusterdoc.NewJob{Command: []string{"true"}, GPUs: 1})
	}
	kept := s.journals.SessionStore
	metas, err := kept.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var snapshots []store.Snapshot
	for ended := 0; ended < 20 || len(snapshots) < 2; { // on a busy machine fewer are saved
		if err := n.sync(c, time.Second); err != nil {
			t.Fatal(err)
		}
		for id := range n.running {
			n.end(id, 0)
			if ended++; ended >= 20 {
				submit(t, c, &clusterdoc.NewJob{Command: []string{"true"}, GPUs: 1})
			}
		}
		if snapshots, err = kept.Snapshots(t.Context(), metas[0].ID); err != nil || ended > 2000 {
			t.Fatal(ended, len(snapshots), err)
		}
	}
	want, err := c.Jobs(t.Context(), &clusters.Query{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	s.close()
	if snapshots, err = kept.Snapshots(t.Context(), metas[0].ID); err != nil || len(snapshots) < 2 {
		t.Fatal(len(snapshots), err)
	}
	flip := func(x *store.Snapshot) {
		x.State = bytes.Clone(x.State)
		x.State[len(x.State)/2] ^= 1
	}
	for _, test := range []struct {
		name   string
		change func(all []store.Snapshot) []store.Snapshot
		last   int64
		first  int64 // the least row that may be read
		bad    bool
	}{
		{"both", func(all []store.Snapshot) []store.Snapshot { return all }, 0, snapshots[0].Seq, false},
		{"the newest is damaged", func(all []store.Snapshot) []store.Snapshot {
			flip(&all[0])
			return all
		}, 0, snapshots[1].Seq, false},
		{"the newest is of another version", func(all []store.Snapshot) []store.Snapshot {
			all[0].State = []byte(`{"Version":99}` + "\n")
			all[0].Sum = all[0].Checksum()
			return all
		}, 0, snapshots[1].Seq, false},
		{"none", func([]store.Snapshot) []store.Snapshot { return nil }, 0, 1, false},
		{"all are damaged", func(all []store.Snapshot) []store.Snapshot {
			for i := range all {
				flip(&all[i])
			}
			return all
		}, 0, 1, false},
		{"the end of the journal is missing", func(all []store.Snapshot) []store.Snapshot { return all },
			snapshots[0].Seq - 1, 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			changed := &changedStore{SessionStore: kept, change: test.change, last: test.last, first: 1 << 60}
			s.journals.SessionStore = changed
			s.open()
			defer s.close()
			got, err := s.cluster().Jobs(t.Context(), &clusters.Query{Limit: 100})
			switch {
			case test.bad:
				if !errors.As(err, new(*store.CorruptError)) {
					t.Errorf("the error is %v", err)
				}
			case err != nil:
				t.Error(err)
			default:
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if changed.first < test.first {
					t.Errorf("row %d was read, and the snapshot is behind row %d", changed.first, test.first)
				}
			}
		})
	}
	s.journals.SessionStore = kept
	s.open()
}
