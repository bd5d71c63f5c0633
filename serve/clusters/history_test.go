package clusters_test

import (
	"math"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/store/sqlite"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// TestHistory runs a job, kills the server in between, and compares the history with what happened.
func TestHistory(t *testing.T) {
	disk, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = disk.Close() })
	s := newServer(t, 20*time.Millisecond)
	s.close()
	s.journals = &keptStore{disk}
	s.lease = 100 * time.Millisecond // of a clock that this test turns
	began := time.Date(2026, 1, 31, 12, 0, 30, 0, time.UTC)
	now := began
	s.now = func() time.Time { return now }
	s.open()
	s.create("fifo")
	n := &node{r: registration("a", "V100", "V100")}
	n.register(t, s.cluster())
	pass := func(d time.Duration) {
		s.close()
		now = now.Add(d)
		s.open()
	}
	id := submit(t, s.cluster(), &clusterdoc.NewJob{GPUs: 3})
	one := submit(t, s.cluster(), &clusterdoc.NewJob{GPUs: 1})
	sync := func() {
		t.Helper()
		if err := n.sync(s.cluster(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	for len(n.running) == 0 {
		sync()
	}
	pass(90 * time.Second) // 12:02:00
	for task := range n.running {
		n.end(task, 0)
	}
	sync()
	for {
		job, err := s.cluster().Job(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		if job.State == clusterdoc.JobSucceeded {
			break
		}
		sync()
	}
	pass(49 * time.Hour)
	if _, err := s.cluster().Cancel(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	pass(time.Hour)
	metas, err := disk.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		rows, err := disk.History(t.Context(), metas[0].ID, 0, math.MaxInt64)
		if err != nil || time.Now().After(deadline) {
			t.Fatal(err)
		}
		if len(rows) >= 4 {
			break
		}
	}
	h, err := s.cluster().History(t.Context(), began, now, 60)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Rows) != 51 || h.StepS != 3600 || !h.Rows[0].At.Equal(began.Truncate(time.Hour)) {
		t.Fatalf("%d rows, from %v on", len(h.Rows), h.Rows[0].At)
	}
	first, last := h.Rows[0], h.Rows[49]
	hour := 3600.0 - 30
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-4 {
			t.Errorf("%s: %v and not %v", what, got, want)
		}
	}
	near("waiting", first.Waiting, 1)
	near("waiting GPUs", first.WaitingGPUs, 3)
	near("running", first.Running, 90/hour)
	near("used", first.Used["V100"], 90/hour)
	near("in service", first.InService["V100"], 2)
	near("wait", *first.WaitS, 0)
	near("waiting on the last hour", last.Waiting, (2*60.0)/3600)
	if first.Started != 1 || first.Ended != 1 || last.Started != 0 || last.Ended != 1 || last.WaitS != nil {
		t.Errorf("%+v %+v", first, last)
	}
	minutes, err := s.cluster().History(t.Context(), began, began.Add(3*time.Minute), 1)
	if err != nil || len(minutes.Rows) != 4 || minutes.Rows[1].Running != 1 || minutes.Rows[2].Running != 0 {
		t.Errorf("%+v %v", minutes, err)
	}
	pass(89 * 24 * time.Hour) // the row of the first minutes is gone
	if _, err := s.cluster().Cancel(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	later, err := s.cluster().History(t.Context(), began, now, 24*60)
	if err != nil || later.Rows[0].At.Before(now.Add(-91*24*time.Hour)) || len(later.Rows) < 90 {
		t.Errorf("%d rows, from %v on, %v", len(later.Rows), later.Rows[0].At, err)
	}
}
