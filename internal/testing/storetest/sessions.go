// Package storetest is the test suite for implementations of store.SessionStore and
// store.SolveStore.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/store"
)

// Sessions tests an empty store of sessions against the promises of store.SessionStore.
// It does not close the store.
func Sessions(t *testing.T, s store.SessionStore) {
	t.Helper()
	ctx := t.Context()
	for i, id := range []string{"a", "b", "c"} {
		m := store.Meta{ID: id, Created: time.UnixMicro(int64(i + 1)).UTC(), Config: []byte("{}")}
		m.Sum = m.Checksum()
		if err := s.Create(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Append(ctx, []store.Row{row("a", 1, 1), row("b", 1, 5), row("b", 6, 6), row("b", 7, 9),
		row("c", 1, 2)}); err != nil {
		t.Fatal(err)
	}
	rows(t, s)
	fence(t, s)
	metas, err := s.Sessions(ctx)
	if err != nil || len(metas) != 3 {
		t.Fatal(metas, err)
	}
	for i, want := range []int64{1, 9, 2} {
		if m := &metas[i]; m.ID != string(rune('a'+i)) || m.Last != want || m.Sum != m.Checksum() {
			t.Errorf("%+v, want the last event %d", m, want)
		}
	}
	if sizes, err := s.Sizes(ctx); err != nil || len(sizes) != 3 || sizes["b"] != 3*rowBytes {
		t.Error(sizes, err)
	}
	snapshots(t, s)
	history(t, s)
	remove(t, s)
}

// rowBytes is the size of each row of the suite.
const rowBytes = 10

func row(id string, first, last int64) store.Row {
	r := store.Row{Session: id, First: first, Last: last, Data: bytes.Repeat([]byte("x"), rowBytes),
		Prev: store.Sum{byte(first)}}
	r.Sum = r.Checksum()
	return r
}

// rows tests reading from any event, with any limit of bytes.
func rows(t *testing.T, s store.SessionStore) {
	t.Helper()
	for _, c := range []struct {
		seq         int64
		bytes       int
		first, last int64
	}{
		{0, 1000, 1, 9}, {1, 1, 1, 5}, {3, 11, 1, 6}, {5, 1000, 1, 9}, {6, 0, 6, 6}, {7, 1000, 7, 9}, {9, 1000, 7, 9},
		{10, 1000, 0, 0}, {1 << 50, 1000, 0, 0},
	} {
		got, err := s.Rows(t.Context(), "b", c.seq, c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		var first, last int64
		for i := range got {
			if r := &got[i]; r.Session != "b" || r.Sum != r.Checksum() {
				t.Errorf("%+v is not as it was written", r)
			}
		}
		if len(got) > 0 {
			first, last = got[0].First, got[len(got)-1].Last
		}
		if first != c.first || last != c.last {
			t.Errorf("from %d, %d bytes: events %d to %d", c.seq, c.bytes, first, last)
		}
	}
}

// fence appends rows that do not continue the log of b. The store must refuse all of
// them.
func fence(t *testing.T, s store.SessionStore) {
	t.Helper()
	ctx := t.Context()
	for name, bad := range map[string][]store.Row{
		"the last row again":   {row("b", 7, 9)},
		"the first row again":  {row("b", 1, 5)},
		"inside a row":         {row("b", 3, 4)},
		"with a gap":           {row("b", 11, 11)},
		"with a gap behind":    {row("b", 10, 10), row("b", 12, 12)},
		"twice":                {row("b", 10, 10), row("b", 10, 10)},
		"in the wrong order":   {row("b", 11, 11), row("b", 10, 10)},
		"a row without events": {row("b", 10, 9)},
	} {
		if err := s.Append(ctx, bad); !errors.Is(err, store.ErrFence) {
			t.Errorf("%s: %v, want ErrFence", name, err)
		}
		if got, err := s.Rows(ctx, "b", 1, 1000); err != nil || len(got) != 3 {
			t.Fatalf("%s: %d rows stand, want 3; %v", name, len(got), err)
		}
	}
}

// snapshots tests that the last two snapshots and the one at seq 0 are kept.
func snapshots(t *testing.T, s store.SessionStore) {
	t.Helper()
	ctx := t.Context()
	for _, seq := range []int64{0, 3, 6, 9} {
		snap := store.Snapshot{Session: "b", Seq: seq, AtUs: seq, Jobs: 1, State: []byte("state")}
		snap.Sum = snap.Checksum()
		if err := s.SaveSnapshot(ctx, snap); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Snapshots(ctx, "b")
	if err != nil || len(got) != 3 || got[0].Seq != 9 || got[1].Seq != 6 || got[2].Seq != 0 {
		t.Fatal(got, err)
	}
	for i := range got {
		if got[i].Sum != got[i].Checksum() {
			t.Errorf("%+v is not as it was written", got[i])
		}
	}
	if err := s.SaveSnapshot(ctx, store.Snapshot{Session: "z", State: []byte("state")}); !errors.Is(err,
		store.ErrNoSession) {
		t.Error("a snapshot of no session:", err)
	}
}

// history tests that rows take the place of those of the same minute, and that old ones are removed.
func history(t *testing.T, s store.SessionStore) {
	t.Helper()
	ctx := t.Context()
	save := func(id, text string, before int64, minutes ...int64) {
		t.Helper()
		var rows []store.HistoryRow
		for _, n := range minutes {
			r := store.HistoryRow{Minute: n, Data: []byte(text)}
			r.Sum = r.Checksum(id)
			rows = append(rows, r)
		}
		if err := s.SaveHistory(ctx, id, rows, before); err != nil {
			t.Fatal(err)
		}
	}
	save("b", "first", 0, 5, 10, 7)
	save("b", "second", 6, 20, 10)
	save("c", "other", 0, 1, 10)
	save("c", "", 100)
	for _, c := range []struct {
		from, to int64
		want     string
	}{{0, math.MaxInt64, "7 first 10 second 20 second "}, {7, 20, "7 first 10 second "}, {8, 9, ""}, {9, 8, ""}} {
		rows, err := s.History(ctx, "b", c.from, c.to)
		got := ""
		for i := range rows {
			r := &rows[i]
			if got += fmt.Sprintf("%d %s ", r.Minute, r.Data); r.Sum != r.Checksum("b") {
				t.Errorf("%+v is not as it was written", r)
			}
		}
		if err != nil || got != c.want {
			t.Errorf("from %d to %d: %q and not %q, %v", c.from, c.to, got, c.want, err)
		}
	}
	if rows, err := s.History(ctx, "c", 0, 100); len(rows) > 0 || err != nil {
		t.Error(rows, err)
	}
	if err := s.SaveHistory(ctx, "z", nil, 0); !errors.Is(err, store.ErrNoSession) {
		t.Error("the history of no session:", err)
	}
}

// remove deletes b. Nothing of b may be left, and nothing can be added to b.
func remove(t *testing.T, s store.SessionStore) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := s.Delete(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, "b"); !errors.Is(err, store.ErrNoSession) {
		t.Error("deleted twice:", err)
	}
	if err := s.Append(ctx, []store.Row{row("b", 10, 10)}); !errors.Is(err, store.ErrNoSession) {
		t.Error("to a deleted session:", err)
	}
	metas, err := s.Sessions(ctx)
	if err != nil || len(metas) != 2 || metas[0].ID != "a" || metas[1].ID != "c" {
		t.Error(metas, err)
	}
	if got, err := s.Rows(ctx, "b", 1, 1000); err != nil || len(got) != 0 {
		t.Error("rows of a deleted session:", got, err)
	}
	if got, err := s.History(ctx, "b", 0, 1000); err != nil || len(got) != 0 {
		t.Error("history of a deleted session:", got, err)
	}
}
