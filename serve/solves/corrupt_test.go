package solves_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
)

// A damaged solve is reported by the server and by the check of the whole store. The
// other solves can be read, and repair keeps them.
func TestDamagedSolvesAreFound(t *testing.T) {
	ctx := context.Background()
	for name, alter := range map[string]string{
		"result":  "UPDATE solve_chunk SET data = zeroblob(length(data)) WHERE key = 2 << 24",
		"missing": "DELETE FROM solve_chunk WHERE key = 2 << 24",
		"events":  "UPDATE solve_event SET data = zeroblob(length(data)) WHERE key = 1 << 40 | 1",
		"record":  "UPDATE solve SET data = replace(data, 'succeeded', 'cancelled') WHERE num = 1",
		"cut":     "DELETE FROM solve_event WHERE key > 1 << 40 | 1 AND key < 2 << 40",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open := func(dir string) (*solves.Solves, *sqlite.Store) {
				disk, err := sqlite.Open(ctx, dir)
				if err != nil {
					t.Fatal(err)
				}
				return openSolves(t, solves.Config{Store: disk}), disk
			}
			s, disk := open(dir)
			var ids []string
			for i := range 3 {
				info, _, err := s.Submit(ctx,
					solves.Input{Instance: haretest.Gangs(5, int64(i)), Options: hare.Options{WorkLimit: 1}})
				if err == nil {
					_, err = s.Wait(ctx, "", info.ID)
				}
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, info.ID)
			}
			want := resultText(t, s, ids[2])
			if err := errors.Join(s.Close(), disk.Close()); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("sqlite", filepath.Join(dir, "hare.db"))
			if err == nil {
				_, err = db.Exec(alter)
			}
			if err = errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			var bad *store.CorruptError
			if err := sqlite.Backup(ctx, dir, filepath.Join(t.TempDir(), "backup")); !errors.As(err, &bad) ||
				bad.Solve != ids[0] {
				t.Errorf("backup: %v", err)
			}
			s, disk = open(dir)
			read := func() error {
				r, _, err := s.ResultBytes(ctx, "", ids[0])
				if err == nil {
					_, err = io.ReadAll(r)
				}
				for _, bad := range s.Events(ctx, "", ids[0], 0) {
					err = errors.Join(err, bad)
				}
				return err
			}
			if err := read(); !errors.As(err, &bad) || bad.Solve != ids[0] {
				t.Errorf("served: %v", err)
			}
			if resultText(t, s, ids[2]) != want {
				t.Error("another solve is not as it was")
			}
			if err := errors.Join(s.Close(), disk.Close()); err != nil {
				t.Fatal(err)
			}
			mended := filepath.Join(t.TempDir(), "mended")
			rep, err := sqlite.Salvage(ctx, dir, mended)
			all := rep.Solves
			if err != nil || len(all) != 3 || all[0].ID != ids[0] || all[0].Damage == nil || all[1].Damage != nil ||
				all[2].Damage != nil {
				t.Fatal(all, err)
			}
			s, disk = open(mended)
			if list, _, _ := s.List(ctx, "", solves.Filter{}); len(list) != 2 || resultText(t, s, ids[2]) != want {
				t.Errorf("after repair: %v", list)
			}
			if err := errors.Join(s.Close(), disk.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
