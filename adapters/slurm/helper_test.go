package slurm

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/adapters/advice"
)

func testHelper(t testing.TB, f *fakeSlurm, dir string, change func(*Config)) *Helper {
	t.Helper()
	j, err := OpenJournal(filepath.Join(dir, "journal.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	cfg := Config{Write: true, GPUType: TypeConstraints, PlanTime: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	h, err := New(cfg, f, &advice.InProcess{}, j)
	if err != nil {
		t.Fatal(err)
	}
	h.now = func() time.Time { return time.Unix(f.nowS, 0) }
	return h
}

// TestShortJobsFirst checks that the helper turns a queue with long jobs first, writes nothing a
// second time, and that a reset leaves no trace.
func TestShortJobsFirst(t *testing.T) {
	f, dir := newFakeSlurm(), t.TempDir()
	for range 4 {
		f.submit(1000)
	}
	f.schedule()
	long, short := f.submit(500), f.submit(10)
	for range 2 {
		f.submit(100).Features = "v100|t4"
	}
	f.submit(50).Comment = "other"
	h := testHelper(t, f, dir, nil)
	r, err := h.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Jobs != 4 || short.site <= long.site || f.jobs[8].site != 0 || f.jobs[8].Features != "" {
		t.Fatalf("%+v: short has %d, long has %d", r, short.site, long.site)
	}
	before := f.updates
	h = testHelper(t, f, dir, nil) // another process
	if r, err = h.Step(t.Context()); err != nil || len(r.Updates) != 0 || f.updates != before {
		t.Fatalf("again: %+v, %v", r, err)
	}
	if _, err := h.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, j := range f.jobs[4:] {
		want := ""
		if i == 2 || i == 3 {
			want = "v100|t4"
		}
		if j.site != 0 || j.Features != want {
			t.Errorf("job %d after the reset: %d, %q", j.ID, j.site, j.Features)
		}
	}
}

// TestDryRunWritesNothing checks the default.
func TestDryRunWritesNothing(t *testing.T) {
	f := newFakeSlurm()
	for i := range 8 {
		f.submit(100 - i)
	}
	h := testHelper(t, f, t.TempDir(), func(c *Config) { c.Write = false })
	r, err := h.Step(t.Context())
	if err != nil || len(r.Updates) == 0 || f.updates > 0 {
		t.Fatalf("%+v, %v, %d updates", r, err, f.updates)
	}
}

// TestRefuses checks that the helper refuses a Slurm that would ignore it.
func TestRefuses(t *testing.T) {
	var refused *RefusedError
	f := newFakeSlurm()
	f.config = "PriorityType = priority/basic\n"
	if err := testHelper(t, f, t.TempDir(), nil).Check(t.Context()); !errors.As(err, &refused) ||
		!strings.Contains(refused.Remedy, "priority/multifactor") {
		t.Errorf("priority/basic: %v", err)
	}
	f = newFakeSlurm()
	f.config += "PriorityWeightAge = 0\nPriorityWeightTRES = (null)\n"
	h := testHelper(t, f, t.TempDir(), func(c *Config) { c.Order = OrderNiceUser })
	if err := h.Check(t.Context()); !errors.As(err, &refused) {
		t.Errorf("nice values without weights: %v", err)
	}
	f = newFakeSlurm()
	f.nodes[0].gpuType, f.nodes[1].gpuType = "t4", "t4"
	if err := testHelper(t, f, t.TempDir(), nil).Check(t.Context()); err != nil {
		t.Errorf("a good cluster: %v", err)
	}
}

// TestForeignValueIsLeftAlone checks that what an operator sets by hand stays.
func TestForeignValueIsLeftAlone(t *testing.T) {
	f := newFakeSlurm()
	for i := range 8 {
		f.submit(100 - i)
	}
	f.jobs[0].site = 777
	h := testHelper(t, f, t.TempDir(), nil)
	if _, err := h.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.jobs[0].site != 777 {
		t.Errorf("the operator's value became %d", f.jobs[0].site)
	}
}

// brokenAdvisor fails.
type brokenAdvisor struct{ advice.InProcess }

func (*brokenAdvisor) Apply(context.Context, []hare.Event) ([]hare.Answer, error) {
	return nil, errors.New("down")
}

// TestNothingIsWrittenWithoutPlan checks that a failing session or command writes nothing, and
// that the next loop goes on.
func TestNothingIsWrittenWithoutPlan(t *testing.T) {
	f := newFakeSlurm()
	for i := range 8 {
		f.submit(100 - i)
	}
	h := testHelper(t, f, t.TempDir(), nil)
	good := h.session.Advisor
	h.session.Advisor = &brokenAdvisor{}
	if _, err := h.Step(t.Context()); err == nil || f.updates > 0 {
		t.Fatalf("with a broken session: %v, %d updates", err, f.updates)
	}
	h.session.Advisor = good
	f.fail["squeue"] = errors.New("slurmctld does not answer")
	if _, err := h.Step(t.Context()); err == nil || f.updates > 0 {
		t.Fatalf("without squeue: %v, %d updates", err, f.updates)
	}
	delete(f.fail, "squeue")
	if _, err := h.Step(t.Context()); err != nil || f.updates == 0 {
		t.Fatalf("after that: %v, %d updates", err, f.updates)
	}
}

// TestHelperSurvives kills the helper at random points, while an operator drains, cancels and
// renames: every job that was not cancelled runs once, and a reset leaves nothing.
func TestHelperSurvives(t *testing.T) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 2))
		f, dir := newFakeSlurm(), t.TempDir()
		h := testHelper(t, f, dir, nil)
		for step := range 60 {
			f.nowS += 5
			if step < 30 && rng.IntN(2) == 0 {
				f.submit(1 + rng.IntN(40))
			}
			f.schedule()
			switch j := (&fakeJob{}); rng.IntN(8) {
			case 0:
				f.nodes[rng.IntN(2)].drained = step < 40
			case 1:
				f.nodes[0].drained, f.nodes[1].drained = false, false
			case 2:
				if len(f.jobs) > 0 {
					j = f.jobs[rng.IntN(len(f.jobs))]
				}
				if j.State == "PENDING" {
					j.State, j.End = "CANCELLED", f.nowS
				}
			case 3:
				for _, j := range f.jobs {
					j.Name, j.Limit = "renamed", 30
				}
			case 4:
				f.dieAfter = f.updates + 1 + rng.IntN(3)
			}
			if _, err := h.Step(t.Context()); err != nil && (!f.nodes[0].drained || !f.nodes[1].drained) {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			f.dieAfter = 0
			if rng.IntN(3) == 0 { // killed
				h = testHelper(t, f, dir, nil)
			}
		}
		f.nodes[0].drained, f.nodes[1].drained = false, false
		if _, err := h.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, j := range f.jobs {
			if j.State == "PENDING" && (j.site != 0 || j.Features != "") {
				t.Errorf("seed %d: job %d keeps %d, %q", seed, j.ID, j.site, j.Features)
			}
		}
		for range 200 {
			f.nowS += 5
			f.schedule()
		}
		for _, j := range f.jobs {
			if j.State != "CANCELLED" && (j.State != "COMPLETED" || j.starts != 1) {
				t.Errorf("seed %d: job %d is %s after %d starts", seed, j.ID, j.State, j.starts)
			}
		}
	}
}

// TestJournalRepairsItsEnd checks that a line that was cut off is left out, and another fault told.
func TestJournalRepairsItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.ndjson")
	line := `{"event":"write","job":1,"submit":2,"field":"SiteFactor","old":"0","new":"16","own":"0"}` + "\n"
	if err := os.WriteFile(path, []byte(line+line[:40]), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if own, ok := j.own(&Record{ID: 1, SubmitS: 2}, "SiteFactor", "16"); !ok || own != "0" {
		t.Errorf("own %q, %v", own, ok)
	}
	_ = j.Close()
	if err := os.WriteFile(path, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(path); err == nil || !strings.Contains(err.Error(), ":1:") {
		t.Errorf("a text that is no journal: %v", err)
	}
}

// TestNodesThatJobsExclude lets a job wait that excludes all nodes of the faster type: no constraint keeps it
// to that type. Two jobs of 6 of 8 CPUs do not start beside each other.
func TestNodesThatJobsExclude(t *testing.T) {
	f := newFakeSlurm()
	f.submit(10).Excluded = "v100-[0-1]"
	for range 2 {
		f.submit(100).TresAlloc = "cpu=6,mem=1G,node=1,billing=6"
	}
	h := testHelper(t, f, t.TempDir(), nil)
	if err := h.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := h.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f.jobs[0].Features != "t4" {
		t.Errorf("the job that excludes v100-0 waits for %q", f.jobs[0].Features)
	}
	now := 0
	for _, p := range r.Plan.Jobs {
		if p.Running && slices.Equal(p.Types, []string{"v100"}) {
			now++
		}
	}
	if now != 1 {
		t.Errorf("two jobs of 6 CPUs start on a node of 8: %+v", r.Plan.Jobs)
	}
}
