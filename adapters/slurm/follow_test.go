package slurm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/adapters/advice"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

// TestFollowed lets a server follow the directory of a helper, from before its first loop until another process goes
// on, and reads everything that the server shows of it.
func TestFollowed(t *testing.T) {
	f, dir := newFakeSlurm(), filepath.Join(t.TempDir(), "later")
	ss, err := sessions.Open(t.Context(), sessions.Config{Store: store.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ss.Close() })
	ss.Follow(t.Context(), "slurm", "slurm", dir)
	server := httptest.NewServer(servetest.New(t, service.New(service.Config{Solver: solver.Config{Version: "test"}}),
		api.Config{Sessions: ss, MaxBodyBytes: 1 << 20}))
	t.Cleanup(server.Close)
	call := func(method, path, body string) (int, string) {
		t.Helper()
		r, _ := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	if code, text := call("GET", "/v1/sessions?label=helper=slurm", ""); code != 200 || strings.Contains(text, `"at"`) ||
		!strings.Contains(text, `session.json is not there: hare slurm writes it`) {
		t.Fatal(code, text)
	}
	if code, text := call("GET", "/v1/sessions/slurm/jobs", ""); code != 503 || !strings.Contains(text, `"no_state"`) {
		t.Fatal(code, text)
	}

	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	begin := func() *Helper {
		h := testHelper(t, f, dir, nil)
		h.session.Advisor = &advice.InProcess{Dir: dir, Helper: "slurm", Every: time.Minute}
		return h
	}
	h := begin()
	for range 4 {
		f.submit(1000)
	}
	f.schedule()
	f.submit(500).Name = "<script>"
	f.submit(10).User = "bob"
	// loop is a loop of the helper; it returns when the server shows what it wrote.
	loop := func(h *Helper) {
		t.Helper()
		text, _ := os.ReadFile(filepath.Join(dir, sessiondoc.HelperFile))
		var before, after sessiondoc.HelperState
		_ = json.Unmarshal(text, &before)
		if _, err := h.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, sessiondoc.HelperFile))
		if err != nil || json.Unmarshal(text, &after) != nil || after.Seq == before.Seq {
			t.Fatal(string(text), err)
		}
		for {
			s, err := ss.Session(t.Context(), "any tenant", "slurm")
			if err != nil {
				t.Fatal(err)
			}
			if at := s.Info().Followed.At; at != nil && at.Equal(after.Written) {
				return
			}
			for c, err := range s.Changes(t.Context(), before.Seq) {
				if err != nil || c.Seq == after.Seq {
					break
				}
			}
		}
	}
	loop(h)
	c, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	jobs := func() (all []*sessiondoc.Job) {
		t.Helper()
		for j, err := range c.SessionJobs(t.Context(), "slurm", nil) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, j)
		}
		return all
	}
	byID := func(id string) *sessiondoc.Job {
		all := jobs()
		i := slices.IndexFunc(all, func(j *sessiondoc.Job) bool { return j.Job == id })
		if i < 0 {
			return &sessiondoc.Job{}
		}
		return all[i]
	}
	if one, five, six := byID("1"), byID("5"), byID("6"); one.State != "running" || five.Name != "<script>" ||
		six.User != "bob" || six.Place == 0 || six.StartS == nil || six.EndS == nil || six.EarliestEndS == nil ||
		six.ReasonCode == "" || six.ReasonShort == "" {
		t.Fatalf("%+v %+v %+v", one, five, six)
	}
	if _, text := call("GET", "/v1/sessions/slurm/jobs?q=BOB", ""); !strings.Contains(text, `"total":1`) {
		t.Error(text)
	}

	// When would a job start that is submitted to Slurm now?
	asked := &hare.Job{ID: "asked", WeightMicro: 1e6, Tasks: 1, Sync: hare.Rigid, On: []hare.Profile{{Type: "t4"},
		{Type: "v100"}}, Hints: &hare.JobHints{EstimateUs: 60e6}}
	if p, err := c.PreviewSessionJob(t.Context(), "slurm", asked); err != nil || p.ExpectedInS == nil || p.Place == 0 {
		t.Errorf("%+v %v", p, err)
	}
	if p, err := c.PreviewSessionJob(t.Context(), "slurm", &hare.Job{ID: "5", WeightMicro: 1, Tasks: 1,
		On: asked.On}); err == nil {
		t.Errorf("%+v", p)
	}

	// The plan starts a job that Slurm has not started yet: it waits.
	f.nowS += 30
	f.jobs[0].State, f.jobs[0].End = "COMPLETED", f.nowS
	loop(h)
	next := ""
	for _, j := range jobs() {
		if j.ReasonCode == "handed_over" && j.State == "waiting" && j.Place == 1 && j.RunningOn == nil {
			next = j.Job
		}
	}
	if next == "" {
		t.Fatalf("%+v", jobs())
	}
	for path, want := range map[string]string{
		"":              `"followed":{"helper":"slurm","at":`,
		"/jobs/" + next: `"state":"waiting"`,
		"/plan":         `{"job":"` + next + `","running":false,`,
		"/gantt.svg":    "<title>1: 30 s ago to now</title>",
		"/gantt.html":   "Session slurm",
		"/log":          `"type":"job_arrived","job":{"id":"6"`,
		"/decisions":    `"type":"start"`,
		"/regret":       `"running":`,
		"/schedule":     `"seq":`,
	} {
		if code, text := call("GET", "/v1/sessions/slurm"+path, ""); code != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d, no %s in %s", path, code, want, text)
		}
	}
	for _, x := range [][3]string{{"DELETE", "", ""}, {"POST", "/events", `{"seq":99,"at_s":1,"type":"tick"}`}} {
		if code, text := call(x[0], "/v1/sessions/slurm"+x[1], x[2]); code != 409 ||
			!strings.Contains(text, "the session is that of hare slurm, which alone changes it") {
			t.Error(x, code, text)
		}
	}
	if code, text := call("PATCH", "/v1/sessions/slurm/jobs/5", "{}"); code != 405 {
		t.Error(code, text)
	}

	// Slurm starts another job: what the plan had started leaves no trace in the picture.
	at := slices.IndexFunc(f.jobs, func(j *fakeJob) bool {
		return j.State == "PENDING" && fmt.Sprint(j.ID) != next
	})
	f.jobs[at].State, f.jobs[at].Nodes, f.jobs[at].Start = "RUNNING", "v100-0", f.nowS
	f.nowS += 30
	loop(h)
	if id := fmt.Sprint(f.jobs[at].ID); byID(id).State != "running" || byID(next).State != "waiting" {
		t.Errorf("%+v", jobs())
	} else if _, text := call("GET", "/v1/sessions/slurm/gantt.svg", ""); strings.Contains(text,
		"<title>"+next+": 30 s ago") || !strings.Contains(text, "<title>"+id+": 30 s ago") {
		t.Error(text)
	}

	// Streams of the session end where another process of the helper begins another one.
	old, err := ss.Session(t.Context(), "", "slurm")
	if err != nil {
		t.Fatal(err)
	}
	loop(begin())
	for _, err = range old.Changes(t.Context(), -1) {
		if err != nil {
			break
		}
	}
	if err != store.ErrNoSession {
		t.Error(err)
	}
	if len(jobs()) != 5 {
		t.Errorf("%+v", jobs())
	}
}
