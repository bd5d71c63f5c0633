package regret_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/regret"
	"github.com/hare-sched/hare/wire"
)

// The series of a longer log begins with the lines of the series of a shorter log, except for the
// last line of the latter. Each line is what Of returns for the log up to that event.
func TestRegretsAreThoseOfTheLogAsItStood(t *testing.T) {
	cluster, records := twoJobs(t, 0)
	lines := func(n int) (out []string) {
		for r, err := range regret.Series(t.Context(), cluster, "", recordsOf(records[:n]), 2_000_000, bound) {
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := r.EncodeJSON(&b, true); err != nil {
				t.Fatal(err)
			}
			out = append(out, b.String())
		}
		return out
	}
	all := lines(len(records))
	for n := range records {
		some := lines(n)
		for i, line := range some[:len(some)-1] {
			if line != all[i] {
				t.Errorf("%d events: line %d is\n%s, not\n%s", n, i, line, all[i])
			}
		}
		if !strings.Contains(some[len(some)-1], `"last":true`) {
			t.Errorf("%d events: no last line", n)
		}
		h := regret.NewHindsight(cluster)
		for _, r := range records[:n] {
			if err := h.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		r, err := regret.Of(t.Context(), h, bound)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := r.EncodeJSON(&b, true); err != nil || b.String() != some[len(some)-1] {
			t.Errorf("%d events: %s, not %s", n, some[len(some)-1], b.String())
		}
	}
	for i, want := range []string{`{"seq":2,"at_s":2,"last":false,`, `{"seq":4,"at_s":4,"last":false,`,
		`{"seq":4,"at_s":6,"last":false,`, `{"seq":6,"at_s":8,"last":true,`} {
		if i >= len(all) || !strings.HasPrefix(all[i], want) {
			t.Fatalf("line %d does not begin with %s:\n%s", i, want, strings.Join(all, ""))
		}
	}
}

// twoJobs returns the log of one GPU from a time on, on which one job ends after 4 s and the other
// after 8 s.
func twoJobs(t *testing.T, fromS int64) (*hare.Cluster, []wire.Record) {
	t.Helper()
	var records []wire.Record
	for i, e := range []struct {
		at    int64
		event string
	}{
		{0, `"type":"job_arrived","job":{"id":"x","on":{"V100":{}}}`},
		{1, `"type":"job_arrived","job":{"id":"y","on":{"V100":{}}}`},
		{4, `"type":"task_ended","job":"x","round":0,"task":0,"gpu":"a/0","compute_s":4`},
		{4, `"type":"job_ended","job":"x"`},
		{8, `"type":"task_ended","job":"y","round":0,"task":0,"gpu":"a/0","compute_s":4`},
		{8, `"type":"job_ended","job":"y"`},
	} {
		event, err := wire.DecodeEvent(fmt.Appendf(nil, `{"seq":%d,"at_s":%d,%s}`, i+1, fromS+e.at, e.event))
		if err != nil {
			t.Fatal(err)
		}
		r := wire.Record{Event: event}
		switch i {
		case 0:
			r.Decisions = []hare.Decision{{Job: "x", GPU: "a/0", AtUs: event.AtUs}}
		case 3:
			r.Decisions = []hare.Decision{{Job: "y", GPU: "a/0", AtUs: event.AtUs}}
		}
		records = append(records, r)
	}
	return &hare.Cluster{Nodes: []hare.Node{v100("a", 1)}}, records
}

// countedBounds counts the bounds that are computed.
type countedBounds struct {
	bounds int
}

func (c *countedBounds) Bound(_ context.Context, _ *hare.Instance, method string) (*hare.Relaxation, error) {
	c.bounds++
	return &hare.Relaxation{Method: method}, nil
}

func TestIntervals(t *testing.T) {
	for _, from := range []int64{0, 1, 3600, 1_700_000_000} {
		cluster, records := twoJobs(t, from)
		first, last := records[0].Event.AtUs, records[5].Event.AtUs
		for _, everyUs := range []int64{0, 1_000_000, 1_500_000, 2_000_000, 8_000_000, 9_000_000, 3600_000_000} {
			engine := &countedBounds{}
			lines, lastUs := int64(0), int64(-1)
			for r, err := range regret.Series(t.Context(), cluster, "", recordsOf(records), everyUs, engine.Bound) {
				if err != nil || r.AtUs <= lastUs || r.Last != (r.AtUs == last) || !r.Last && r.AtUs%everyUs != 0 {
					t.Fatalf("from %d every %d: %+v %v", from, everyUs, r, err)
				}
				lines, lastUs = lines+1, r.AtUs
			}
			if want := regret.Intervals(first, last, everyUs); lines != want || lastUs != last {
				t.Errorf("from %d every %d: %d lines to %d, not %d", from, everyUs, lines, lastUs, want)
			}
			// One bound is for x alone, and one for both jobs.
			if engine.bounds > 2 {
				t.Errorf("every %d: %d bounds computed", everyUs, engine.bounds)
			}
		}
	}
	for range 1000 {
		first := rand.Int64N(1 << 50)
		last := first + rand.Int64N(1<<rand.IntN(50))
		if n := regret.Intervals(first, last, regret.LeastInterval(first, last)); n > regret.MaxReports {
			t.Errorf("%d to %d: %d lines", first, last, n)
		}
	}
}

// The work ends when the caller's context ends. An error of the log is the last element.
func TestRegretsEndEarly(t *testing.T) {
	cluster, records := twoJobs(t, 0)
	for range regret.Series(t.Context(), cluster, "", recordsOf(records), 1_000_000, bound) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var err error
	n := 0
	for _, err = range regret.Series(ctx, cluster, "", recordsOf(records), 1_000_000, bound) {
		if n++; n == 5 {
			cancel()
		}
	}
	if !errors.Is(err, context.Canceled) || n != 6 {
		t.Errorf("%d lines, %v", n, err)
	}
	records[5].Event.Job = "z"
	for _, err = range regret.Series(t.Context(), cluster, "", recordsOf(records), 0, bound) {
	}
	if err == nil || !strings.Contains(err.Error(), "did not arrive") {
		t.Error(err)
	}
}
