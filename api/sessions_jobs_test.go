package api_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/wire"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

func (s *sessionServer) listJobs(t *testing.T, at, query string) (jobs []*sessiondoc.Job, total int) {
	t.Helper()
	for after := ""; ; {
		code, text, _ := s.call(t, "GET", at+"/jobs?"+query+after, "")
		var list sessiondoc.JobList
		if err := json.Unmarshal([]byte(text), &list); err != nil || code != 200 {
			t.Fatal(code, text, err)
		}
		if jobs = append(jobs, list.Jobs...); list.Next == "" {
			return jobs, list.Total
		}
		after = "&after=" + list.Next
	}
}

// The jobs of a session are those of its plan, with the same times, in the order of their places.
func TestSessionJobs(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 17))
	for _, policy := range []string{"rolling", "fifo", "hlas", "srtf"} {
		s := newSessionServer(t, sessions.Config{})
		at := s.open(t, `,"policy":"`+policy+`"`)
		const jobs = 30
		for seq := 1; seq <= jobs; seq++ {
			gang := `"sync":"gang","tasks":1,`
			if rng.IntN(3) == 0 {
				gang = `"sync":"relaxed","tasks":2,`
			}
			code, text, _ := s.call(t, "POST", at+"/events", fmt.Sprintf(`{"seq":%d,"at_s":%d,"type":"job_arrived","job":{`+
				`"id":"Job %d","weight":%d,%s"on":{"%s":{"compute_s":%d}}}}`+"\n", seq, seq/5+100*max(0, seq-jobs+2),
				seq, 1+rng.IntN(3), gang,
				[]string{"V100", "T4"}[rng.IntN(2)], 1+rng.IntN(9)))
			if code != 200 || !strings.Contains(text, `"decisions"`) {
				t.Fatal(code, text)
			}
			// The first plan may have been asked for early; the last but one takes it, and asks for another. Where none
			// was asked for, the last one had seen all jobs.
			if policy == "rolling" && (seq == jobs-1 || seq == jobs-2) {
				s.untilPlanned(t, at, `"planning":{"state":"ready",`, `"planning":{"state":"idle",`)
			}
		}
		all, total := s.listJobs(t, at, "")
		if len(all) != jobs || total != jobs {
			t.Fatalf("%s: %d jobs of %d", policy, len(all), total)
		}
		var plan *wire.SessionPlan
		if policy == "rolling" {
			_, text, _ := s.call(t, "GET", at+"/plan", "")
			var err error
			if plan, err = wire.DecodeSessionPlan([]byte(text)); err != nil {
				t.Fatal(err)
			}
			s.previewJob(t, at)
		}
		byPlace, _ := s.listJobs(t, at, "sort=place&limit=7")
		waiting := 0
		for _, j := range byPlace {
			if (j.State == "running") != (j.Place == 0) || (j.State == "running") != (len(j.RunningOn) > 0) {
				t.Errorf("%s: %+v", policy, j)
			}
			if j.State == "running" {
				continue
			}
			words := len(strings.Fields(j.ReasonShort))
			if waiting++; j.Place != waiting || j.ReasonCode == "" || j.Reason == "" || words < 1 || words > 6 {
				t.Errorf("%s: place %d: %+v", policy, waiting, j)
			}
		}
		if waiting < 10 {
			t.Errorf("%s: %d jobs wait", policy, waiting)
		}
		if plan != nil {
			sameAsPlan(t, plan, all)
		}
		running, total := s.listJobs(t, at, "state=running&limit=2")
		if len(running) != jobs-waiting || total != len(running) {
			t.Errorf("%s: %d run of %d", policy, len(running), total)
		}
		heavy, _ := s.listJobs(t, at, "sort=-weight&type=T4&q=JOB+1&limit=3&state=waiting&state=gathering")
		lighter := func(a, b *sessiondoc.Job) int { return int(b.Weight - a.Weight) }
		if len(heavy) == 0 || !slices.IsSortedFunc(heavy, lighter) ||
			slices.ContainsFunc(heavy, func(j *sessiondoc.Job) bool {
				return j.State == "running" || !strings.HasPrefix(j.Job, "Job 1") || j.Types[0] != "T4"
			}) {
			t.Errorf("%s: %v", policy, heavy)
		}
	}
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "")
	for _, query := range []string{"sort=user", "state=done", "limit=0", "after=x", "limit=1001", "name=x"} {
		if code, text, _ := s.call(t, "GET", at+"/jobs?"+query, ""); code != 400 || !strings.Contains(text, "bad_query") {
			t.Errorf("%s: %d %s", query, code, text)
		}
	}
}

// previewJob asks when jobs would start: a heavy one before others, and none that is at fault.
func (s *sessionServer) previewJob(t *testing.T, at string) {
	t.Helper()
	var p clusterdoc.Preview
	code, text, _ := s.call(t, "POST", at+"/jobs:preview", `{"id":"new","weight":1000,"sync":"gang",`+
		`"on":{"V100":{"compute_s":9}}}`)
	if err := json.Unmarshal([]byte(text), &p); err != nil || code != 200 || p.ExpectedInS == nil ||
		p.EarliestEndInS == nil || p.Delayed == 0 || !strings.HasPrefix(p.Delays[0].Job, "Job ") {
		t.Error(code, text, err)
	}
	for _, x := range []struct{ body, want string }{
		{`{"id":"Job 1","on":{"V100":{}}}`, `"pointer":"/id"`}, {`[]`, "must be an object"},
		{`{"id":"new","on":{"V100":{"compute_s":0}}}`, `"/on/V100/compute_s"`},
		{`{"id":"new","on":{"V100":{}},"rounds":3}`, `"/rounds"`}, {`{"on":{"V100":{}}}`, `"pointer":"/id"`},
	} {
		code, text, _ := s.call(t, "POST", at+"/jobs:preview", x.body)
		if code != 422 || !strings.Contains(text, x.want) {
			t.Error(code, text, x.want)
		}
	}
	if all, _ := s.listJobs(t, at, "q=new"); len(all) > 0 {
		t.Error(all)
	}
}

func sameAsPlan(t *testing.T, plan *wire.SessionPlan, jobs []*sessiondoc.Job) {
	t.Helper()
	byID := map[string]*sessiondoc.Job{}
	for _, j := range jobs {
		byID[j.Job] = j
	}
	us := func(s *hare.Seconds) int64 {
		if s == nil {
			return -1
		}
		return int64(*s)
	}
	planned := 0
	for i := range plan.Jobs {
		p := &plan.Jobs[i]
		j := byID[p.Job]
		if !p.Running && us(j.StartS) != p.StartUs || us(j.EndS) != p.EndUs || us(j.EarliestEndS) != p.EarliestEndUs ||
			p.Running != (j.State == "running") || p.WaitsFor != j.Reason {
			t.Errorf("plan %+v, job %+v", p, j)
		}
		if !p.Running && p.StartUs >= 0 {
			planned++
		}
	}
	if planned < 5 {
		t.Errorf("%d jobs are planned", planned)
	}
}
