package ray

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRayRestarts checks that jobs that Ray forgot run again, as often as they may.
func TestRayRestarts(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	submitTo(t, f, dir, "a", 1, 100)
	h := newHelper(t, f, dir, nil)
	for attempt := 1; attempt <= 4; attempt++ {
		step(t, h)
		f.pass(5)
		step(t, h)
		if f.starts["a"] != attempt {
			t.Fatalf("began %d times, with Ray restarted %d times: %s", f.starts["a"], attempt-1, states(h))
		}
		f.mu.Lock()
		f.jobs, f.restart = nil, f.restart+1
		f.mu.Unlock()
	}
	step(t, h)
	if got := states(h); got != "a:failed" {
		t.Error(got)
	}
}

// TestRayRefusesAJob checks that a job that Ray in good health never takes ends, and holds up no other.
func TestRayRefusesAJob(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	submitTo(t, f, dir, "bad", 1, 10)
	h := newHelper(t, f, dir, nil)
	f.fail = func(method, path string) (bool, bool) { return method == "POST", false }
	for range maxRefusals {
		f.pass(5)
		step(t, h)
	}
	f.fail = nil
	submitTo(t, f, dir, "good", 1, 10)
	for range 10 {
		f.pass(5)
		step(t, h)
	}
	if got := states(h); got != "bad:refused good:succeeded" {
		t.Error(got)
	}
}

// TestHelperSurvives kills the helper at random points, while Ray fails, before or after it did what was
// asked, others use GPUs and users cancel: each job that was not cancelled runs once to its end.
func TestHelperSurvives(t *testing.T) {
	kills := 0
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 7))
		f, dir := newFakeRay(t), t.TempDir()
		f.fail = func(string, string) (bool, bool) { return rng.IntN(60) == 0, rng.IntN(60) == 0 }
		h := newHelper(t, f, dir, nil)
		cancelled := map[string]bool{}
		for i := range 160 {
			f.pass(5)
			switch rng.IntN(6) {
			case 0:
				if i < 60 {
					submitTo(t, f, dir, fmt.Sprint("j", i), 1+rng.Int64N(4), 1+float64(rng.IntN(60)))
				}
			case 1:
				if i < 60 {
					f.addOthers(fmt.Sprint("other", i), f.nodes[rng.IntN(2)].id, 1, 30)
				}
			case 2:
				if n := len(h.journal.Queue.Entries); n > 0 && rng.IntN(4) == 0 {
					id := h.journal.Queue.Entries[rng.IntN(n)].ID
					if Cancel(t.Context(), h.journal, id, "ann", f.now()) == nil {
						cancelled[id] = true
					}
				}
			}
			if stepUntilKilled(t, h, rng.IntN(12)) {
				kills++
				h.Resign()
				h = newHelper(t, f, dir, nil)
			}
		}
		f.fail = nil
		for i := 0; i < 300 && (i < 3 || h.counted.Waiting+h.counted.Active > 0); i++ {
			f.pass(5)
			step(t, h)
		}
		for _, e := range h.journal.Queue.Entries {
			switch {
			case cancelled[e.ID] && e.State.Ended() && f.starts[e.ID] <= 1:
			case e.State != Succeeded || f.starts[e.ID] != 1 || f.done[e.ID] != 1:
				t.Errorf("seed %d: %s is %s (%s), began %d times and completed %d times", seed, e.ID, e.State, e.Reason,
					f.starts[e.ID], f.done[e.ID])
			}
		}
	}
	if kills < 50 {
		t.Errorf("killed %d times only", kills)
	}
}

// stepUntilKilled makes a loop that is cut off at the so-many-th point at which a kill makes a
// difference; false where the loop passed fewer.
func stepUntilKilled(t *testing.T, h *Helper, points int) (killed bool) {
	defer func() {
		if r := recover(); r != nil {
			if r != "killed" {
				panic(r)
			}
			killed = true
		}
	}()
	h.journal.crash = func(string) {
		if points--; points < 0 {
			panic("killed")
		}
	}
	_, err := h.Step(t.Context())
	h.journal.crash = func(string) {}
	var answer *AnswerError
	if err != nil && !errors.As(err, &answer) {
		t.Fatal(err)
	}
	return false
}

// TestJournal checks that lines that were cut off are left out, that others are refused by name, that
// compacting keeps what matters, and that a submission may be repeated.
func TestJournal(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	path := filepath.Join(dir, journalFile)
	for i := range 20 {
		submitTo(t, f, dir, fmt.Sprint("j", i), 1, 10)
	}
	submitTo(t, f, dir, "j3", 1, 10)
	h := newHelper(t, f, dir, nil)
	if n := len(h.journal.Queue.Entries); n != 20 {
		t.Fatalf("%d jobs", n)
	}
	if _, err := Submit(t.Context(), h.journal, "j3", &Spec{Entrypoint: "other", GPUs: 1}, f.now()); err == nil {
		t.Error("another job has the same ID")
	}
	for range 40 {
		f.pass(5)
		step(t, h)
	}
	submitTo(t, f, dir, "late", 1, 10)
	long, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := OpenJournal(dir) // reads on after the file was replaced
	if err != nil {
		t.Fatal(err)
	}
	h.journal.compact = 0
	if err := h.journal.Compact(t.Context(), h.epoch, f.now().UnixMicro(), f.now()); err != nil {
		t.Fatal(err)
	}
	short, err := os.ReadFile(path)
	if err != nil || len(short) >= len(long)/4 {
		t.Fatalf("%d bytes have become %d: %v", len(long), len(short), err)
	}
	step(t, h)
	if err := other.Refresh(); err != nil || other.Queue.Get("late") == nil || other.Queue.Epoch != h.epoch {
		t.Fatalf("%+v, %v", other.Queue, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(whole, whole[:40]...), 0o600); err != nil {
		t.Fatal(err)
	}
	submitTo(t, f, dir, "later", 1, 10)
	if err := other.Refresh(); err != nil || other.Queue.Get("later") == nil {
		t.Fatalf("after a line that was cut off: %+v, %v", other.Queue, err)
	}
	if err := os.WriteFile(path, append([]byte("hello\n"), whole...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(dir); err == nil || !strings.Contains(err.Error(), ":1:") {
		t.Errorf("a text that is no journal: %v", err)
	}
}
