package clusters_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare/internal/pages"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/sessions"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// listedCluster has jobs of all states, some of them in the archive, and a plan.
func listedCluster(t *testing.T, rng *rand.Rand, policy string) *clusters.Cluster {
	s := newServer(t, time.Hour)
	s.close()
	s.snapshotBytes = 1000
	clock := atomic.Int64{} // stands while jobs are listed
	s.now = func() time.Time { return time.Unix(1e9+clock.Load(), 0) }
	s.open()
	c := s.create(policy)
	n := &node{r: registration("n", "V100", "V100", "V100", "T4", "T4")}
	n.register(t, c)
	for range 120 {
		clock.Add(2)
		job := &clusterdoc.NewJob{Name: []string{"", "Bert", "bert-large", "vgg 16"}[rng.IntN(4)], GPUs: 1 + rng.IntN(3),
			User: []string{"", "ann", "Ben"}[rng.IntN(3)], Command: []string{"python", fmt.Sprint("train", rng.IntN(3), ".py")}}
		if rng.IntN(2) == 0 {
			job.Labels = map[string]string{"team": []string{"vision", "text"}[rng.IntN(2)]}
		}
		if rng.IntN(3) == 0 {
			job.Labels = map[string]string{"night": "", "team": "Vision 2"}
		}
		if rng.IntN(3) > 0 {
			job.On = map[string]float64{"V100": float64(1 + rng.IntN(50))}
		}
		if job.GPUs < 3 && rng.IntN(3) == 0 {
			job.On = map[string]float64{"T4": float64(1 + rng.IntN(50)), "A100": 3}
		}
		if rng.IntN(2) == 0 {
			weight := float64(rng.IntN(4))
			job.Weight = &weight
		}
		id := submit(t, c, job)
		if rng.IntN(8) == 0 {
			if _, err := c.Cancel(t.Context(), id, "ann"); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.sync(c, 0); err != nil {
			t.Fatal(err)
		}
		for id := range n.running {
			if rng.IntN(4) == 0 {
				n.end(id, rng.IntN(4)/3)
			}
		}
	}
	clock.Add(20) // so that plans may be made at once
	settle(t, s, c)
	return c
}

// allPages lists jobs page by page.
func allPages(t *testing.T, c *clusters.Cluster, q clusterdoc.JobQuery, limit int) (all []*clusterdoc.Job, total int) {
	t.Helper()
	for after := ""; ; {
		list, err := c.Jobs(t.Context(), &clusters.Query{JobQuery: q, After: after, Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, list.Jobs...); list.Next == "" {
			return all, list.Total
		}
		if len(list.Jobs) != limit {
			t.Fatalf("a page of %d jobs and not %d has another one after it", len(list.Jobs), limit)
		}
		after = list.Next
	}
}

// matches reports whether a query matches a job, plainly.
func matches(q *clusterdoc.JobQuery, j *clusterdoc.Job) bool {
	part := func(text, part string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(part)) }
	texts := append(slices.Collect(maps.Values(j.Labels)), j.ID, j.Name, j.User, strings.Join(j.Command, " "))
	onType := len(j.On) == 0 && j.State == clusterdoc.JobWaiting
	if _, named := j.On[q.Type]; named {
		onType = true
	}
	if n := len(j.Attempts); len(j.On) == 0 && n > 0 && j.State != clusterdoc.JobWaiting {
		onType = (q.Type == "V100") == (j.Attempts[n-1].Tasks[0].GPUs[0] < "n/3") && q.Type != "A100"
	}
	for _, l := range q.Labels {
		key, value, whole := strings.Cut(l, "=")
		if v, has := j.Labels[key]; !has || whole && v != value {
			return false
		}
	}
	return (len(q.States) == 0 || slices.Contains(q.States, j.State)) && (q.User == "" || j.User == q.User) &&
		part(j.Name, q.Name) && (q.Type == "" || onType) && (q.Text == "" || slices.ContainsFunc(texts,
		func(text string) bool { return part(text, q.Text) }))
}

// sorted is what a list is sorted by, so that the less comes first, and what is not known last.
func sorted(by string, j *clusterdoc.Job) (key float64, text string) {
	unknown := math.Inf(1)
	orElse := func(at *time.Time, in *float64) float64 {
		switch {
		case at != nil:
			return float64(at.UnixMicro()) / 1e6
		case in != nil:
			return 1e12 + *in
		}
		return unknown
	}
	switch by {
	case "place":
		if key = float64(j.Place); j.Place == 0 {
			key = unknown
		}
	case "start":
		started := j.Started
		if j.State == clusterdoc.JobWaiting {
			started = nil
		}
		key = orElse(started, j.ExpectedInS)
	case "end":
		key = orElse(j.Ended, j.ExpectedEndInS)
	case "weight":
		if key = 1; j.Weight != nil {
			key = *j.Weight
		}
	case "gpus":
		key = float64(max(1, j.GPUs))
	case "user":
		text = j.User
	case "name":
		text = j.Name
	case "state":
		key = float64(slices.Index(clusterdoc.JobStates(), j.State))
	}
	return key, text
}

// TestLists compares lists with all filters, sorts and sizes of pages with plain ones.
func TestLists(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 17))
	for _, policy := range []string{"rolling", "fifo", "srtf"} {
		c := listedCluster(t, rng, policy)
		all, total := allPages(t, c, clusterdoc.JobQuery{}, 1000)
		if total != len(all) || total < 120 {
			t.Fatalf("%d jobs of %d", len(all), total)
		}
		ids := func(jobs []*clusterdoc.Job) (ids []string) {
			for _, j := range jobs {
				ids = append(ids, j.ID)
			}
			return ids
		}
		one := func(texts ...string) string { return texts[rng.IntN(len(texts))] }
		seen := 0
		for range 300 {
			q := clusterdoc.JobQuery{User: one("", "", "", "ann", "Ben", "ben"), Name: one("", "", "BERT", " "),
				Type: one("", "", "", "V100", "T4", "A100"), Text: one("", "", "", "J1", "train1", "python tr", "vision", "zz"),
				Sort: one("", "-") + one(clusterdoc.JobSorts()...)}
			for rng.IntN(3) == 0 {
				q.States = append(q.States, clusterdoc.JobStates()[rng.IntN(7)])
			}
			for rng.IntN(4) == 0 {
				q.Labels = append(q.Labels, one("team", "team=vision", "night", "night=", "tea"))
			}
			got, total := allPages(t, c, q, 1+rng.IntN(200))
			by, down := strings.CutPrefix(q.Sort, "-")
			want := slices.DeleteFunc(slices.Clone(all), func(j *clusterdoc.Job) bool { return !matches(&q, j) })
			slices.SortStableFunc(want, func(a, b *clusterdoc.Job) int {
				x, xText := sorted(by, a)
				y, yText := sorted(by, b)
				order := cmp.Or(cmp.Compare(x, y), cmp.Compare(xText, yText))
				if down && !math.IsInf(x, 1) && !math.IsInf(y, 1) {
					order = -order
				}
				return order
			})
			if by == "submitted" && down {
				slices.Reverse(want)
			}
			if diff := gocmp.Diff(ids(want), ids(got)); diff != "" || total != len(want) {
				t.Fatalf("%s: %+v: %d in all, %d wanted, %s", policy, q, total, len(want), diff)
			}
			seen += len(got)
		}
		if seen < 1000 {
			t.Errorf("%s: the queries matched %d jobs only", policy, seen)
		}
		checkPlaces(t, policy, all)
		for _, j := range all {
			alone, err := c.Job(t.Context(), j.ID)
			if err != nil {
				t.Fatal(err)
			}
			if alone.Place != j.Place || alone.Reason != j.Reason || alone.ReasonCode != j.ReasonCode ||
				(alone.ExpectedEndInS == nil) != (j.ExpectedEndInS == nil) || alone.User != j.User {
				t.Errorf("%s: in the list %+v, and alone %+v", policy, j, alone)
			}
		}
		for _, after := range []string{"x", "j0", "j1x", "-1", "e30"} {
			_, err := c.Jobs(t.Context(), &clusters.Query{JobQuery: clusterdoc.JobQuery{Sort: "name"}, After: after, Limit: 1})
			if !errors.Is(err, pages.ErrCursor) {
				t.Errorf("after %q: %v", after, err)
			}
		}
	}
}

// checkPlaces checks the places and reasons of jobs that wait, and that others have no places.
func checkPlaces(t *testing.T, policy string, all []*clusterdoc.Job) {
	t.Helper()
	waiting, planned := 0, 0
	var places []int
	for _, j := range all {
		if j.State != clusterdoc.JobWaiting {
			if j.Place != 0 || j.ExpectedInS != nil {
				t.Errorf("%s: %+v", policy, j)
			}
			continue
		}
		waiting++
		places = append(places, j.Place)
		if j.Reason == "" || j.ReasonCode == "" || j.ReasonShort == "" || len(strings.Fields(j.ReasonShort)) > 6 {
			t.Errorf("%s: %s waits: %q, %q, %q", policy, j.ID, j.ReasonCode, j.ReasonShort, j.Reason)
		}
		if j.ExpectedInS != nil {
			planned++
			earlier := 1
			for _, o := range all {
				if o.ExpectedInS != nil && (*o.ExpectedInS < *j.ExpectedInS-0.01) {
					earlier++
				}
			}
			if j.Place < earlier {
				t.Errorf("%s: %s has place %d, and %d start no later", policy, j.ID, j.Place, earlier)
			}
			if *j.ExpectedEndInS < *j.ExpectedInS || j.EarliestEndInS != nil && *j.ExpectedEndInS < *j.EarliestEndInS-0.01 {
				t.Errorf("%s: %+v", policy, j)
			}
		}
	}
	slices.Sort(places)
	for i, p := range places {
		if p != i+1 {
			t.Fatalf("%s: places %v", policy, places)
		}
	}
	if waiting < 5 || (planned > 0) != (policy == "rolling") {
		t.Errorf("%s: %d wait, of which %d are planned", policy, waiting, planned)
	}
}

// TestPreview asks before jobs are submitted: nothing changes, and what was said is what the list says then.
func TestPreview(t *testing.T) {
	s := newServer(t, time.Hour)
	clock := atomic.Int64{}
	s.close()
	s.now = func() time.Time { return time.Unix(1e9+clock.Load(), 0) }
	s.open()
	c := s.create("")
	job := func(gpus int, seconds, weight float64) *clusterdoc.NewJob {
		return &clusterdoc.NewJob{Command: []string{"true"}, GPUs: gpus, On: map[string]float64{"V100": seconds},
			Weight: &weight, Name: "bert", User: "ann"}
	}
	preview := func(n *clusterdoc.NewJob) *clusterdoc.Preview {
		t.Helper()
		p, err := c.Preview(t.Context(), n, true)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := preview(job(1, 60, 1)); p.ReasonCode != "no_service" || p.ReasonShort != "no agent has registered" {
		t.Errorf("%+v", p)
	}
	n := &node{r: registration("n", "V100", "V100")}
	n.register(t, c)
	settle(t, s, c)
	// Nothing has been learned of lengths, but the job says its own.
	if p := preview(job(2, 600, 1)); *p.EarliestEndInS != 600 || *p.ExpectedEndInS != 600 {
		t.Errorf("%s", toJSON(p))
	}
	first := submit(t, c, job(1, 600, 1))
	await(t, c, first, clusterdoc.JobRunning, n)
	n.end(clusterdoc.TaskID{Job: first, Attempt: 1}, 0)
	await(t, c, first, clusterdoc.JobSucceeded, n)
	settle(t, s, c)
	p := preview(job(2, 600, 1))
	if p.ExpectedInS == nil || *p.ExpectedInS != 0 || *p.ExpectedEndInS != 600 ||
		p.Place != 0 || p.Delayed != 0 {
		t.Errorf("%s", toJSON(p))
	}
	await(t, c, submit(t, c, job(2, 600, 1)), clusterdoc.JobRunning, n)
	waiting := submit(t, c, job(2, 6000, 1))
	clock.Add(100) // so that plans may be made at once
	settle(t, s, c)
	before, err := c.Jobs(t.Context(), &clusters.Query{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	p = preview(job(1, 300, 100))
	if p.ExpectedInS == nil || *p.ExpectedInS < 500 || *p.ExpectedEndInS < *p.ExpectedInS+300 ||
		*p.EarliestEndInS != 300 || p.Place != 1 || p.ReasonCode != "busy" || p.ReasonShort != "1 V100 busy" ||
		p.Delayed != 1 ||
		p.Delays[0].Job != waiting || p.Delays[0].ByS != *p.ExpectedEndInS-*p.ExpectedInS ||
		p.Delays[0].User != "ann" {
		t.Errorf("%s", toJSON(p))
	}
	// No job can have three GPUs; one of four may have two, or one.
	if p := preview(job(3, 300, 1)); p.ReasonCode != "no_service" || p.ExpectedInS != nil || p.Sooner != nil {
		t.Errorf("%+v", p)
	}
	if p := preview(job(4, 300, 100)); p.ExpectedInS != nil || p.Sooner == nil || p.Sooner.GPUs != 2 ||
		*p.Sooner.ExpectedEndInS < *p.Sooner.ExpectedInS+600 {
		t.Errorf("%s", toJSON(p))
	}
	list, err := c.Jobs(t.Context(), &clusters.Query{Limit: 10})
	if err != nil || list.Total != before.Total {
		t.Error(toJSON(list), err)
	}
	id := submit(t, c, job(1, 300, 100))
	settle(t, s, c)
	for i := 0; ; i++ { // what is said of jobs may be of a little earlier
		got, err := c.Job(t.Context(), id)
		if err == nil && got.ExpectedInS != nil && *got.ExpectedInS == *p.ExpectedInS &&
			*got.ExpectedEndInS == *p.ExpectedEndInS && got.Place == p.Place && got.ReasonCode == p.ReasonCode {
			break
		}
		if err != nil || i == 5000 {
			t.Fatalf("%+v %v", got, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// settle lets the session of a cluster make a plan of all jobs, and take it.
func settle(t *testing.T, s *server, c *clusters.Cluster) {
	t.Helper()
	session := sessionOf(t, s, c)
	event := func() {
		id := submit(t, c, &clusterdoc.NewJob{On: map[string]float64{"none": 1}})
		for told := false; !told; { // the preview of a change waits until the session has answered all events
			_, err := c.PreviewChange(t.Context(), id, &clusterdoc.JobPatch{Weight: new(2.0)})
			unsettled := (*ledger.Conflict)(nil)
			told = !errors.As(err, &unsettled)
		}
		if _, err := c.Cancel(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
	}
	event() // after which a plan is asked for
	taken := int64(-1)
	for range 10_000 {
		report, err := session.PlanReport(t.Context())
		switch {
		case err != nil:
			t.Fatal(err)
		case report == nil:
			return // the policy makes no plans
		case taken < 0:
			taken = report.Counts.Taken
		case report.Counts.Taken >= taken+2: // the second one has seen all jobs
			return
		case report.State == "ready":
			event() // with which the session takes the plan
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the session makes no plan")
}

// sessionOf is the session that decides for a cluster.
func sessionOf(t *testing.T, s *server, c *clusters.Cluster) *sessions.Session {
	t.Helper()
	d, err := c.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	session, err := s.sessions.Session(t.Context(), "", d.Session)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func toJSON(v any) string { b, _ := json.Marshal(v); return string(b) }
