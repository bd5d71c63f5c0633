package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// explained returns a server that has solved the example with one more job, and the path of the solve.
func explained(t *testing.T, options hare.Options) (h http.Handler, at string) {
	t.Helper()
	text := strings.Replace(example(t), `"jobs": [`, `"jobs": [{"id": "a/b é?", "on": {"T4": {"compute_s": 1}}},`, 1)
	inst, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	svc := service.New(service.Config{Solver: solver.Config{Version: "test"}})
	kept := servetest.Solves(t, svc)
	return api.New(svc, api.Config{Solves: kept}), "/v1/solves/" + solved(t, kept, inst, options)
}

// solved returns the id of a solve that has ended.
func solved(t *testing.T, kept *solves.Solves, inst *hare.Instance, options hare.Options) string {
	t.Helper()
	info, _, err := kept.Submit(t.Context(), solves.Input{Instance: inst, Options: options})
	if err == nil {
		info, err = kept.Wait(t.Context(), "", info.ID)
	}
	if err != nil || info.Status != solves.StatusSucceeded {
		t.Fatalf("%+v %v", info, err)
	}
	return info.ID
}

const (
	oneJob  = "/v1/solves/{id}/jobs/{job}"
	allJobs = "/v1/solves/{id}/jobs"
)

// TestExplanationsFollowTheirSchemas checks answers and refusals against the
// specification.
func TestExplanationsFollowTheirSchemas(t *testing.T) {
	sequential(t)
	doc := specification(t)
	h, at := explained(t, hare.Options{WorkLimit: 300}) // few: the search for changes solves many instances
	for _, c := range []struct {
		name, path, at string
		status         int
		want           string
	}{
		{"a job", oneJob, "/jobs/vgg", 200, `"timeline":[`},
		{"a job of odd name", oneJob, "/jobs/a%2Fb%20%C3%A9%3F", 200, `"job":"a/b é?"`},
		{"changes", oneJob, "/jobs/vgg?earlier_s=1.5&time_limit_s=30", 200, `"finished":true`},
		{"by a time", oneJob, "/jobs/bert?by_s=1", 200, `that is proved`},
		{"no time", oneJob, "/jobs/vgg?earlier_s=0.5&time_limit_s=0.000001", 200, `"finished":false`},
		{"no job", oneJob, "/jobs/vg", 404, `did you mean \"vgg\"?`},
		{"no time at all", oneJob, "/jobs/vgg?by_s=soon", 400, "by_s"},
		{"a time before time", oneJob, "/jobs/vgg?by_s=-1", 400, "by_s"},
		{"too fine a time", oneJob, "/jobs/vgg?by_s=0.0000001", 400, "by_s"},
		{"two times", oneJob, "/jobs/vgg?by_s=3&earlier_s=3", 400, "not both"},
		{"a name unknown", oneJob, "/jobs/vgg?earlier=3", 400, "did you mean ?earlier_s=?"},
		{"jobs", allJobs, "/jobs", 200, `{"count":4,"jobs":[{"job":`},
		{"two jobs", allJobs, "/jobs?sort=end&limit=2", 200, `{"count":4,`},
		{"too many jobs", allJobs, "/jobs?limit=10001", 400, "limit"},
		{"no jobs", allJobs, "/jobs?limit=0", 400, "limit"},
		{"an order unknown", allJobs, "/jobs?sort=colour", 422, "stretch"},
		{"a name unknown in lists", allJobs, "/jobs?order=end", 400, "order"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := request(t, h, "GET", at+c.at, "")
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%d, want %d with %s: %.600s", w.Code, c.status, c.want, w.Body)
			}
			follows(t, doc, "GET", c.path, w.Code, w.Header(), w.Body.String())
		})
	}
}

func TestJobsOfASolve(t *testing.T) {
	h, at := explained(t, hare.Options{WorkLimit: 500})
	var list struct{ Jobs []struct{ Job string } }
	if err := json.Unmarshal(request(t, h, "GET", at+"/jobs", "").Body.Bytes(), &list); err != nil ||
		len(list.Jobs) != 4 {
		t.Errorf("%d jobs, %v", len(list.Jobs), err)
	}
	for _, path := range []string{"/v1/solves/s2/jobs", "/v1/solves/s2/jobs/vgg"} {
		if w := request(t, h, "GET", path, ""); w.Code != http.StatusNotFound ||
			!strings.Contains(w.Body.String(), `"no_solve"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
