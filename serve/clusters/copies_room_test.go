package clusters_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// A part whose size is said otherwise than before neither breaks the server nor passes its limit.
func TestSizeOfPart(t *testing.T) {
	k := newCopier(t, 100)
	ten := "0123456789"
	put := func(bytes int64, offset int, code string) {
		t.Helper()
		at := k.chunk(1, ten, offset)
		at.Bytes = bytes
		_, err := k.s.cluster().PutCheckpoint(t.Context(), k.r.Name, at, strings.NewReader(ten[offset:]))
		var conflict *ledger.Conflict
		if errors.As(err, &conflict); code == "" && err != nil || code != "" && (conflict == nil || conflict.Code != code) {
			t.Errorf("%d bytes from %d: %v and not %q", bytes, offset, err, code)
		}
	}
	k.mustPut(1, ten+ten, 0, 10, 10, false)
	at := k.chunk(1, ten+ten, 5)
	at.Bytes = 5
	_, err := k.s.cluster().PutCheckpoint(t.Context(), k.r.Name, at, strings.NewReader(ten))
	var conflict *ledger.Conflict
	if !errors.As(err, &conflict) || conflict.Code != "damaged_checkpoint" || k.files() != "" {
		t.Error(err, k.files())
	}
	put(20, 0, "")
	put(101, 5, "checkpoint_too_large")
	put(1<<63-1, 5, "checkpoint_too_large")
	put(100, 5, "")
	// What another job brings counts, also when the server has started again.
	c := k.s.cluster()
	next, err := c.Submit(t.Context(), &clusterdoc.NewJob{Module: "line", Directory: "/jobs", Rounds: 9, GPUs: 1}, "")
	if err != nil {
		t.Fatal(err)
	}
	other := &copier{t: t, s: k.s, node: &node{r: registration("b", "V100")}, job: next.ID, attempt: 1}
	other.register(t, c)
	await(t, c, next.ID, clusterdoc.JobRunning, k.node, other.node)
	other.refuse("checkpoint_too_large", 1, ten, 0, 10)
	k.s.close()
	k.s.open()
	other.refuse("checkpoint_too_large", 1, strings.Repeat(ten, 10), 0, 10)
	other.mustPut(1, strings.Repeat(ten, 9), 0, 10, 10, false)
	put(100, 5, "checkpoint_too_large")
	put(10, 5, "") // it has room, and arrives whole
}

// A checkpoint for which no directory can be made takes no room from others.
func TestRoomIsGivenBack(t *testing.T) {
	k := newCopier(t, 100)
	c := k.s.cluster()
	next, err := c.Submit(t.Context(), &clusterdoc.NewJob{Module: "line", Directory: "/jobs", Rounds: 9, GPUs: 1}, "")
	if err != nil {
		t.Fatal(err)
	}
	other := &copier{t: t, s: k.s, node: &node{r: registration("b", "V100")}, job: next.ID, attempt: 1}
	other.register(t, c)
	await(t, c, next.ID, clusterdoc.JobRunning, k.node, other.node)
	k.mustPut(1, "0123456789", 0, 10, 10, true)
	dirs, err := filepath.Glob(filepath.Join(k.s.copyDir, "*"))
	if err != nil || len(dirs) != 1 {
		t.Fatal(dirs, err)
	}
	if err := os.Symlink("x", filepath.Join(dirs[0], other.job)); err != nil {
		t.Fatal(err)
	}
	if _, err := other.put(1, strings.Repeat("x", 80), 0, 10); !errors.Is(err, store.ErrStorage) {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dirs[0], other.job)); err != nil {
		t.Fatal(err)
	}
	k.mustPut(2, strings.Repeat("y", 90), 0, 90, 90, true)
}
