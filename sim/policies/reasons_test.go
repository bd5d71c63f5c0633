package policies_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	registry "github.com/hare-sched/hare/sim/policies"
)

var secondsInText = regexp.MustCompile(`(\d+(?:\.\d+)?) ?s\b`)

var fewInService = regexp.MustCompile("none is in service|No GPU of a type|that many in service")

// TestReasonsOfSessions lets jobs wait for hours under each policy of sessions, and checks what lists say of them: the
// states are those that Explain says, a job that waits has a code and at most six words, and no text for people has a
// time above two minutes in seconds.
func TestReasonsOfSessions(t *testing.T) {
	seen := map[string]bool{}
	names := registry.SessionNames()
	for at, name := range append(names, "rolling", "rolling", "rolling") {
		nodes := at < len(names) // whether some jobs need two GPUs of a node for a task
		rng := rand.New(rand.NewPCG(uint64(at), 17))
		cluster := &hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A100", Count: 4}}},
			{Name: "b", GPUs: []hare.TypeCount{{Type: "A100", Count: 2}, {Type: "T4", Count: 2}}}}}
		p, err := registry.OpenSession(name, cluster, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		nowUs := int64(0)
		for i := range 80 {
			nowUs += rng.Int64N(map[bool]int64{true: 7200e6, false: 10e6}[nodes]) // plans are followed for a minute
			e := hare.Event{Type: hare.EventTick}
			switch n := rng.IntN(10); {
			case n < 4:
				e = hare.Event{Type: hare.EventJobArrived, Job: fmt.Sprint("j", i), Arrived: waitingJob(rng, i, nodes)}
			case n == 4 && i > 40:
				e = hare.Event{Type: hare.EventGPULeft, GPU: "b/" + strconv.Itoa(rng.IntN(4))}
			}
			if n := rng.IntN(3); i > 0 && e.Type == hare.EventTick && n > 0 {
				e = hare.Event{Type: hare.EventJobCancelled, Job: fmt.Sprint("j", rng.IntN(i))}
			}
			if _, err := p.Step(nowUs, []hare.Event{e}); err != nil && !errors.As(err, new(*online.RefusedError)) {
				t.Fatal(name, err)
			}
			if q, ok := p.(online.Planned); ok && rng.IntN(3) == 0 {
				if question := q.Ask(); question != nil {
					plan, err := question.Answer(context.Background())
					if err == nil {
						err = q.Take(plan)
					}
					if err != nil {
						t.Fatal(name, err)
					}
				}
			}
			checkRows(t, name, p.(online.Observable), seen)
		}
	}
	for _, code := range []string{online.NoService, online.Busy, online.Reserved, online.Fragmented,
		online.Gathering} {
		if !seen[code] {
			t.Errorf("no job waits with code %s", code)
		}
	}
}

func waitingJob(rng *rand.Rand, i int, nodes bool) *hare.Job {
	j := &hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 1e6, Tasks: 1 + rng.Int64N(5), Sync: hare.Sync(rng.IntN(3)),
		On: []hare.Profile{{Type: "A100", ComputeUs: 1e6 * (1 + rng.Int64N(20_000))}}}
	switch rng.IntN(5) {
	case 0:
		j.On = append(j.On, hare.Profile{Type: "T4", ComputeUs: 1e6 * (1 + rng.Int64N(90_000))})
	case 1:
		j.On[0].Type = "H100"
	case 2:
		if nodes {
			j.GPUsPerTask = 2
		}
	case 3:
		if nodes && i%4 == 0 {
			j.Tasks, j.GPUsPerTask = 1, 6 // there are as many, but not on one node
		}
	}
	return j
}

func checkRows(t *testing.T, policy string, p online.Observable, seen map[string]bool) {
	t.Helper()
	rows := p.Rows()
	if status := p.Status(); status.Jobs != len(rows) {
		t.Fatalf("%s: %d rows of %d jobs", policy, len(rows), status.Jobs)
	}
	for _, r := range rows {
		s, found := p.Explain(r.Job)
		if !found || s.State != r.State || s.ArrivedUs != r.ArrivedUs || s.StartedUs != r.StartedUs || s.Sync != r.Sync {
			t.Errorf("%s: row %+v, %+v", policy, r, s)
		}
		if (r.State == "running") != (len(r.RunningOn) > 0) || !slices.IsSorted(r.Types) || len(r.Types) == 0 {
			t.Errorf("%s: %+v", policy, r)
		}
		for _, why := range []online.Reason{r.Reason, s.Reason} {
			seen[why.Code] = true
			if words := len(strings.Fields(why.Short)); words > 6 || (words == 0) != (why.Code == "") {
				t.Errorf("%s: %s: %q", policy, r.Job, why.Short)
			}
		}
		if text := s.Why + r.Reason.Text; s.Reason.Code == online.Fragmented &&
			fewInService.MatchString(text) { // there are enough, but not where the job needs them
			t.Errorf("%s: %q", policy, text)
		}
		if r.State != "running" && s.TasksReady > 0 && s.Reason.Code == "" {
			t.Errorf("%s: %+v", policy, s)
		}
		for _, m := range secondsInText.FindAllStringSubmatch(s.Why+" "+r.Reason.Text, -1) {
			if s, _ := strconv.ParseFloat(m[1], 64); s > 120 {
				t.Errorf("%s: %q", policy, m)
			}
		}
	}
}
