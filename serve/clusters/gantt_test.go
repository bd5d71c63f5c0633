package clusters_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// TestGantt runs jobs, some of which the archive has, and looks at past, now and plan: the rows are those of the
// attempts, no two spans of a row overlap, and a plan goes on behind what runs.
func TestGantt(t *testing.T) {
	s := newServer(t, time.Hour)
	s.close()
	s.snapshotBytes, s.lease = 1, 2*time.Second
	began := time.Now().Truncate(time.Second).UTC() // the session has the machine's clock
	var clock atomic.Int64                          // microseconds since began
	at := func() time.Time { return began.Add(time.Duration(clock.Load()) * time.Microsecond) }
	s.now = at
	s.open()
	c := s.create("rolling")
	n := &node{r: registration("a", "V100", "V100", "T4")}
	n.register(t, c)
	rng := rand.New(rand.NewPCG(1, 1))
	ended := map[string]bool{}
	var last []string
	for i := range 12 {
		last = append(last, submit(t, c, &clusterdoc.NewJob{GPUs: 1 + i%2, On: map[string]float64{"V100": 600}}))
	}
	for len(ended) < 9 {
		if err := n.sync(c, 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		clock.Store(clock.Load() + 500_000)
		for id := range n.running {
			if rng.IntN(3) == 0 && len(ended) < 9 {
				n.end(id, 0)
				if job, err := c.Job(t.Context(), id.Job); err == nil && (job.GPUs < 2 || id.Task == 1) {
					ended[id.Job] = true
				}
				break
			}
		}
	}
	now := at()
	var g *clusterdoc.Gantt
	planned := func() bool {
		var err error
		if g, err = c.Gantt(t.Context(), began, now.Add(24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		return len(n.running) > 0 && slices.ContainsFunc(g.Spans, func(x *clusterdoc.GanttSpan) bool {
			return x.Kind == "plan"
		})
	}
	for deadline := time.Now().Add(time.Minute); !planned() && time.Now().Before(deadline); {
		if err := n.sync(c, 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(g.Rows) != "[{a/2 T4 a} {a/0 V100 a} {a/1 V100 a}]" {
		t.Error(g.Rows)
	}
	kinds, seen := map[string]int{}, map[string]bool{}
	until := make([]time.Time, len(g.Rows))
	for _, x := range g.Spans {
		kinds[x.Kind]++
		seen[x.Job] = true
		job, err := c.Job(t.Context(), x.Job)
		if err != nil {
			t.Fatal(err)
		}
		if len(x.Rows) != max(1, job.GPUs) {
			t.Errorf("%+v has other rows than %d GPUs", x, job.GPUs)
		}
		for _, row := range x.Rows {
			if g.Rows[row].Type != "V100" || x.From.Before(until[row]) {
				t.Errorf("%+v is on a %s, which is free from %v on", x, g.Rows[row].Type, until[row])
			}
			until[row] = x.To
		}
		switch at := job.Attempts; {
		case x.Kind == "plan":
			if x.From.Before(now) || job.State != clusterdoc.JobWaiting || x.EarliestEnd == nil || !x.To.After(x.From) {
				t.Errorf("%+v", x)
			}
		case !at[0].Ordered.Equal(x.From), x.Kind == "past" && !at[0].Ended.Equal(x.To),
			x.Kind == "now" && at[0].Ended != nil:
			t.Errorf("%+v and %+v", x, at[0])
		}
	}
	if len(seen) < len(last)-1 || kinds["past"] < 8 || kinds["now"] == 0 || kinds["plan"] == 0 {
		t.Errorf("%v, %d jobs", kinds, len(seen))
	}
	if g, err := c.Gantt(t.Context(), now, now.Add(time.Second)); err != nil || len(g.Spans) == 0 ||
		g.Spans[0].Kind == "past" {
		t.Errorf("%+v %v", g, err)
	}
}
