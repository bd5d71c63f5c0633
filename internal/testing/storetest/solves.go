package storetest

import (
	"bytes"
	"slices"
	"testing"

	"github.com/hare-sched/hare/serve/store"
)

func rowOf(num, first, last int64) store.SolveRow {
	return store.SolveRow{Num: num, First: first, Last: last, Data: bytes.Repeat([]byte{byte(first)}, 50),
		Sum: store.Sum{1, byte(first)}}
}

// Solves tests a store of solves against the promises of store.SolveStore. open opens the
// store, which must be empty the first time, and shut ends its use. A store that is
// opened again must have the data that it had before.
func Solves(t *testing.T, open func(t *testing.T) (s store.SolveStore, shut func())) {
	t.Helper()
	ctx := t.Context()
	s, shut := open(t)
	write := func(b store.SolveBatch) {
		t.Helper()
		if err := s.WriteSolves(ctx, &b); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.LastBlob(ctx); n != 0 || err != nil {
		t.Error(n, err)
	}
	write(store.SolveBatch{
		Put: []store.SolveRecord{{Num: 2, ID: "b", Data: []byte("{}"), Sum: store.Sum{2}},
			{Num: 1, ID: "a", Data: []byte("[]"), Sum: store.Sum{1}}},
		Events: []store.SolveRow{rowOf(1, 1, 3), rowOf(2, 1, 1)},
		Chunks: []store.SolveChunk{{Blob: 7, Data: []byte("one")}, {Blob: 7, Index: 1, Data: []byte("two")},
			{Blob: 8, Data: []byte("x")}},
	})
	write(store.SolveBatch{Put: []store.SolveRecord{{Num: 1, ID: "a", Data: []byte("new"), Sum: store.Sum{9}}},
		Events: []store.SolveRow{rowOf(1, 4, 4), rowOf(1, 5, 9)}})
	write(store.SolveBatch{Begin: []int64{9}, Chunks: []store.SolveChunk{{Blob: 9, Data: []byte("begun")}}})
	write(store.SolveBatch{Begin: []int64{10}, Chunks: []store.SolveChunk{{Blob: 10, Data: []byte("held")}}})
	write(store.SolveBatch{Hold: []int64{10}})
	check := func() {
		t.Helper()
		all, err := s.Solves(ctx)
		if err != nil || len(all) != 2 || all[0].Num != 1 || all[0].ID != "a" || string(all[0].Data) != "new" ||
			all[0].Sum != (store.Sum{9}) || all[1].ID != "b" {
			t.Error(all, err)
		}
		for _, c := range []struct {
			seq   int64
			bytes int
			want  []int64
		}{{0, 1 << 20, []int64{1, 4, 5}}, {2, 1, []int64{1}}, {3, 60, []int64{1, 4}}, {4, 1, []int64{4}},
			{7, 1 << 20, []int64{5}}, {10, 1, nil}} {
			rows, err := s.SolveEvents(ctx, 1, c.seq, c.bytes)
			var got []int64
			for _, row := range rows {
				if want := rowOf(1, row.First, row.Last); row.Sum != want.Sum || !bytes.Equal(row.Data, want.Data) ||
					row.Num != 1 {
					t.Error(row)
				}
				got = append(got, row.First)
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("from %d: %v %v", c.seq, got, err)
			}
		}
		for _, c := range []struct {
			blob  int64
			index int
			want  string
		}{{7, 0, "one"}, {7, 1, "two"}, {7, 2, ""}, {8, 0, "x"}, {10, 0, "held"}, {11, 0, ""}} {
			if got, err := s.Chunk(ctx, c.blob, c.index); string(got) != c.want || err != nil {
				t.Errorf("%v: %q %v", c, got, err)
			}
		}
	}
	check()
	sweep := func(all bool) {
		t.Helper()
		for more := true; more; all = false {
			var err error
			if more, err = s.SweepSolves(ctx, all); err != nil {
				t.Fatal(err)
			}
		}
	}
	sweep(false)
	if got, _ := s.Chunk(ctx, 9, 0); string(got) != "begun" {
		t.Error("what is being written was removed")
	}
	if n, err := s.LastBlob(ctx); n != 10 || err != nil {
		t.Error(n, err)
	}
	shut()
	s, shut = open(t)
	defer func() { shut() }()
	check()
	sweep(true)
	if got, _ := s.Chunk(ctx, 9, 0); got != nil {
		t.Error("what was begun and not held is there")
	}
	check()
	write(store.SolveBatch{Release: []int64{7}, Clear: []int64{1}, Drop: []int64{2}})
	sweep(false)
	a, _ := s.Chunk(ctx, 7, 0)
	b, _ := s.Chunk(ctx, 7, 1)
	rows, _ := s.SolveEvents(ctx, 1, 0, 1<<20)
	all, _ := s.Solves(ctx)
	if a != nil || b != nil || len(rows) != 0 || len(all) != 1 {
		t.Error(a, b, rows, all)
	}
	write(store.SolveBatch{Chunks: []store.SolveChunk{{Blob: 11, Data: bytes.Repeat([]byte("z"), store.ChunkBytes)}}})
	if got, err := s.Chunk(ctx, 11, 0); len(got) != store.ChunkBytes || err != nil {
		t.Error(len(got), err)
	}
}
