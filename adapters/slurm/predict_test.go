package slurm

import (
	"strings"
	"testing"
	"time"
)

// TestPredict notes predicted starts in comments: of jobs that take part, not of those with a comment of
// their users, nor where scontrol would take a comment for several words. A note stands while the plan
// moves little, and --reset takes all of them out again, also without a journal.
func TestPredict(t *testing.T) {
	f, dir := newFakeSlurm(), t.TempDir()
	for range 4 {
		f.submit(300)
	}
	f.schedule()
	noted, bare, users, words := f.submit(50), f.submit(60), f.submit(70), f.submit(80)
	own := noted.Comment
	bare.Comment, users.Comment, words.Comment = "", "see ticket 7", `hare={"v100": 80}`
	predict := func(c *Config) {
		c.Predict, c.Order, c.GPUType, c.Partitions = true, OrderNone, TypeNone, []string{"gpu"}
	}
	step := func(want int) {
		t.Helper()
		h := testHelper(t, f, dir, predict)
		if r, err := h.Step(t.Context()); err != nil || len(r.Updates) != want {
			t.Fatalf("%+v, %v: %d updates wanted", r, err, want)
		}
	}
	step(2)
	for _, j := range []*fakeJob{noted, bare} {
		stands := commentNote.FindStringSubmatch(j.Comment)
		if stands == nil || stands[2] == "" {
			t.Fatalf("the comment is %q", j.Comment)
		}
		start, _ := time.Parse(time.RFC3339, stands[1])
		end, _ := time.Parse(time.RFC3339, stands[2])
		if start.Unix() < f.nowS+290 || start.Unix() > f.nowS+610 || end.Unix() < f.nowS+30 ||
			strings.Contains(j.Comment, " ") {
			t.Errorf("the comment is %q at %s", j.Comment, stamp(f.nowS))
		}
	}
	if !strings.HasPrefix(noted.Comment, own+"[hare-plan:") || users.Comment != "see ticket 7" ||
		words.Comment != `hare={"v100": 80}` {
		t.Errorf("comments %q, %q, %q", noted.Comment, users.Comment, words.Comment)
	}
	f.nowS += 20
	step(0)
	noted.Comment = own + "[hare-plan:starts=2027-01-15T08:01:00Z,ends-after=2030-01-15T08:01:00Z]" // promises too much
	step(1)
	h := testHelper(t, f, t.TempDir(), predict)
	if _, err := h.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if noted.Comment != own || bare.Comment != "" || users.Comment != "see ticket 7" {
		t.Errorf("comments after the reset: %q, %q, %q", noted.Comment, bare.Comment, users.Comment)
	}
}
