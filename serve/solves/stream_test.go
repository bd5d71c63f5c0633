package solves_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
	"github.com/hare-sched/hare/wire"
)

// solveStores returns functions that open a store of each kind, and open it again after
// its end.
func solveStores(t *testing.T) map[string]func() (store.SolveStore, func()) {
	dir := t.TempDir()
	memory := store.NewMemorySolves()
	return map[string]func() (store.SolveStore, func()){
		"memory": func() (store.SolveStore, func()) { return memory, func() {} },
		"sqlite": func() (store.SolveStore, func()) {
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

// A long document is written and read in pieces and stays unchanged.
func TestLongResultsAreStreamed(t *testing.T) {
	ctx := t.Context()
	for name, open := range solveStores(t) {
		t.Run(name, func(t *testing.T) {
			store, shut := open()
			defer shut()
			s := openSolves(t, solves.Config{Store: store})
			inst := haretest.Gangs(12, 3)
			info, _, err := s.Submit(ctx, solves.Input{Instance: inst, Run: hugeRun(10 << 20)})
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
			if err := wire.EncodeResult(&b, res); err != nil || len(res.Reasons) != 1 ||
				int64(len(res.Reasons[0].Detail)) < 10<<20 {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if _, _, err := s.Submit(ctx, solves.Input{Instance: inst}); !errors.Is(err, admission.ErrDraining) {
				t.Error(err)
			}
		})
	}
}
