package service_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/service"
	"github.com/hare-sched/hare/service/sqlite"
	"github.com/hare-sched/hare/wire"
)

// solveStores opens a store of each kind, and what opens it again after its end.
func solveStores(t *testing.T) map[string]func() (service.SolveStore, func()) {
	dir := t.TempDir()
	memory := service.NewMemorySolves()
	return map[string]func() (service.SolveStore, func()){
		"memory": func() (service.SolveStore, func()) { return memory, func() {} },
		"sqlite": func() (service.SolveStore, func()) {
			s, err := sqlite.Open(context.Background(), dir)
			if err != nil {
				t.Fatal(err)
			}
			return s, func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		},
	}
}

func rowOf(num, first, last int64) service.SolveRow {
	return service.SolveRow{Num: num, First: first, Last: last, Data: bytes.Repeat([]byte{byte(first)}, 50), Sum: service.Sum{1, byte(first)}}
}

func TestSolveStoresKeepWhatTheyAreGiven(t *testing.T) {
	ctx := t.Context()
	for name, open := range solveStores(t) {
		t.Run(name, func(t *testing.T) {
			s, shut := open()
			write := func(b service.SolveBatch) {
				t.Helper()
				if err := s.WriteSolves(ctx, &b); err != nil {
					t.Fatal(err)
				}
			}
			if n, err := s.LastBlob(ctx); n != 0 || err != nil {
				t.Error(n, err)
			}
			write(service.SolveBatch{
				Put:    []service.SolveRecord{{Num: 2, ID: "b", Data: []byte("{}"), Sum: service.Sum{2}}, {Num: 1, ID: "a", Data: []byte("[]"), Sum: service.Sum{1}}},
				Events: []service.SolveRow{rowOf(1, 1, 3), rowOf(2, 1, 1)},
				Chunks: []service.SolveChunk{{Blob: 7, Data: []byte("one")}, {Blob: 7, Index: 1, Data: []byte("two")}, {Blob: 8, Data: []byte("x")}},
			})
			write(service.SolveBatch{Put: []service.SolveRecord{{Num: 1, ID: "a", Data: []byte("new"), Sum: service.Sum{9}}}, Events: []service.SolveRow{rowOf(1, 4, 4), rowOf(1, 5, 9)}})
			write(service.SolveBatch{Begin: []int64{9}, Chunks: []service.SolveChunk{{Blob: 9, Data: []byte("begun")}}})
			write(service.SolveBatch{Begin: []int64{10}, Chunks: []service.SolveChunk{{Blob: 10, Data: []byte("held")}}})
			write(service.SolveBatch{Hold: []int64{10}})
			check := func() {
				t.Helper()
				all, err := s.Solves(ctx)
				if err != nil || len(all) != 2 || all[0].Num != 1 || all[0].ID != "a" || string(all[0].Data) != "new" || all[0].Sum != (service.Sum{9}) || all[1].ID != "b" {
					t.Error(all, err)
				}
				for _, c := range []struct {
					seq   int64
					bytes int
					want  []int64
				}{{0, 1 << 20, []int64{1, 4, 5}}, {2, 1, []int64{1}}, {3, 60, []int64{1, 4}}, {4, 1, []int64{4}}, {7, 1 << 20, []int64{5}}, {10, 1, nil}} {
					rows, err := s.SolveEvents(ctx, 1, c.seq, c.bytes)
					var got []int64
					for _, r := range rows {
						if want := rowOf(1, r.First, r.Last); r.Sum != want.Sum || !bytes.Equal(r.Data, want.Data) || r.Num != 1 {
							t.Error(r)
						}
						got = append(got, r.First)
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
			s, shut = open()
			defer func() { shut() }()
			check()
			sweep(true)
			if got, _ := s.Chunk(ctx, 9, 0); got != nil {
				t.Error("what was begun and not held is there")
			}
			check()
			write(service.SolveBatch{Release: []int64{7}, Clear: []int64{1}, Drop: []int64{2}})
			sweep(false)
			a, _ := s.Chunk(ctx, 7, 0)
			b, _ := s.Chunk(ctx, 7, 1)
			rows, _ := s.SolveEvents(ctx, 1, 0, 1<<20)
			all, _ := s.Solves(ctx)
			if a != nil || b != nil || len(rows) != 0 || len(all) != 1 {
				t.Error(a, b, rows, all)
			}
			write(service.SolveBatch{Chunks: []service.SolveChunk{{Blob: 11, Data: bytes.Repeat([]byte("z"), service.ChunkBytes)}}})
			if got, err := s.Chunk(ctx, 11, 0); len(got) != service.ChunkBytes || err != nil {
				t.Error(len(got), err)
			}
		})
	}
}

// A long document goes in and out in pieces, and comes out as it was.
func TestLongResultsAreStreamed(t *testing.T) {
	ctx := t.Context()
	for name, open := range solveStores(t) {
		t.Run(name, func(t *testing.T) {
			store, shut := open()
			defer shut()
			s := openSolves(t, service.SolvesConfig{Store: store})
			inst := jobsOn(12, 3)
			info, _, err := s.Submit(ctx, service.SolveInput{Instance: inst, Run: hugeRun(10 << 20)})
			if err != nil {
				t.Fatal(err)
			}
			if info, err = s.Wait(ctx, "", info.ID); err != nil || info.ResultBytes < 10<<20 {
				t.Fatalf("%+v %v", info, err)
			}
			r, n, err := s.ResultBytes(ctx, "", info.ID)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil || int64(len(text)) != n {
				t.Fatal(len(text), err)
			}
			res, err := s.Result(ctx, "", info.ID)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := wire.EncodeResult(&b, res); err != nil || len(res.Reasons) != 1 || int64(len(res.Reasons[0].Detail)) < 10<<20 {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if _, _, err := s.Submit(ctx, service.SolveInput{Instance: inst}); !errors.Is(err, admission.ErrDraining) {
				t.Error(err)
			}
		})
	}
}
