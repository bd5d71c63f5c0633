package sqlite

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// The idempotency keys with which the solves of the fixture were submitted.
const (
	keyDone   = "done"   // succeeded, its result reproducible
	keyCached = "cached" // the same result
	keyGone   = "gone"   // deleted
	keyRan    = "ran"    // ran under a time limit, with a pair saved, when the server was killed
	keyReplan = "replan" // was to plan again then
	keyQueued = "queued" // was queued then
)

// rerun returns the request with which the replan was submitted.
func rerun(t *testing.T, inst *hare.Instance) hare.ReplanRequest {
	t.Helper()
	prev, err := solver.Solve(context.Background(), inst, solver.Defaults(hare.Options{WorkLimit: 1}),
		solver.Config{Version: "test", Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	return hare.ReplanRequest{Previous: prev, AtUs: 5_000_000, HasAt: true}
}

// makeSolves fills a directory as a killed server does, and copies the directory.
func makeSolves(t *testing.T, to string) {
	t.Helper()
	ctx := t.Context()
	dir := t.TempDir()
	db := openStore(t, dir)
	defer db.Close()
	svc := service.New(service.Config{Solver: solver.Config{Version: "test", Workers: 1}, Running: 1})
	s, err := solves.Open(ctx, solves.Config{Service: svc, Store: db, Checkpoint: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	submit := func(key string, jobs int, opt hare.Options, replan bool) string {
		in := solves.Input{Instance: gangs(jobs), Options: opt, Key: key, Digest: store.Sum{1}}
		if replan {
			req := rerun(t, in.Instance)
			in.Replan = &req
		}
		info, _, err := s.Submit(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		if opt.WorkLimit == 1 && key != keyReplan && key != keyQueued {
			if _, err := s.Wait(ctx, "", info.ID); err != nil {
				t.Fatal(err)
			}
		}
		return info.ID
	}
	once := hare.Options{Seed: 1, WorkLimit: 1}
	submit(keyDone, 10, once, false)
	submit(keyCached, 10, once, false)
	if err := s.Delete(ctx, "", submit(keyGone, 4, once, false)); err != nil {
		t.Fatal(err)
	}
	ran := submit(keyRan, 30, hare.Options{Seed: 1, TimeLimit: time.Minute}, false)
	submit(keyReplan, 10, once, true)
	submit(keyQueued, 5, once, false)
	for ev, err := range s.Events(ctx, "", ran, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == solves.EventCheckpoint {
			break
		}
	}
	if err := Backup(ctx, dir, to); err != nil {
		t.Fatal(err)
	}
}

// TestSolveSchemaIsTakenOver opens a database that a killed server of version 2 wrote:
// its solves are there, and those that had not ended go on.
func TestSolveSchemaIsTakenOver(t *testing.T) {
	ctx := t.Context()
	if *update && len(migrations) == 2 {
		_ = os.Remove(solveSchema)
		makeSolves(t, solveSchema)
	}
	dir := copyOf(t, solveSchema)
	db := openStore(t, dir)
	svc := service.New(service.Config{Solver: solver.Config{Version: "test", Workers: 1}, Running: 2})
	s, err := solves.Open(ctx, solves.Config{Service: svc, Store: db, MaxAge: 1 << 62})
	if err != nil {
		t.Fatal(err)
	}
	find := func(key string) (solves.Info, error) {
		info, replayed, err := s.Submit(ctx, solves.Input{Instance: gangs(1), Key: key, Digest: store.Sum{1}})
		if err == nil && !replayed {
			t.Errorf("%s: its key is forgotten", key)
		}
		if err == nil {
			info, err = s.Wait(ctx, "", info.ID)
		}
		return info, err
	}
	text := func(info solves.Info) []byte {
		r, _, err := s.ResultBytes(ctx, "", info.ID)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	results := map[string][]byte{}
	for key, want := range map[string]struct {
		cached, resumed bool
		jobs            int
	}{keyDone: {jobs: 10}, keyCached: {cached: true, jobs: 10}, keyRan: {resumed: true, jobs: 30},
		keyReplan: {resumed: true, jobs: 10}, keyQueued: {resumed: true, jobs: 5}} {
		info, err := find(key)
		if err != nil || info.Status != solves.StatusSucceeded || info.Value == nil || info.Bound == nil ||
			info.Cached != want.cached || info.Resumed != want.resumed || info.Jobs != want.jobs {
			t.Errorf("%s: %+v %v", key, info, err)
			continue
		}
		results[key] = text(info)
		if res, err := s.Result(ctx, "", info.ID); err != nil || (res.Replan != nil) != (key == keyReplan) {
			t.Errorf("%s: %v", key, err)
		}
		if inst, err := s.Instance(ctx, "", info.ID); err != nil ||
			wire.SHA256(inst) != wire.SHA256(gangs(want.jobs)) {
			t.Errorf("%s: its instance: %v", key, err)
		}
		seq := int64(0)
		for ev, err := range s.Events(ctx, "", info.ID, 0) {
			if seq++; err != nil || ev.Seq != seq {
				t.Fatalf("%s: %+v behind %d: %v", key, ev, seq-1, err)
			}
		}
		if seq != info.Events {
			t.Errorf("%s: %d events of %d", key, seq, info.Events)
		}
	}
	if !bytes.Equal(results[keyDone], results[keyCached]) {
		t.Error("one result became two")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	v, err := OpenView(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if damage, err := v.Check(ctx); damage != nil || err != nil {
		t.Error(damage, err)
	}
}
