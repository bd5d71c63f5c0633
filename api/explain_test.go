package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// solvedOnce is a store that knows exactly one solve.
type solvedOnce struct {
	inst *hare.Instance
	res  *hare.Result
}

var errOther = &hare.InvalidError{Code: "other", Detail: "another solve"}

func (s solvedOnce) Instance(_ context.Context, tenant, id string) (*hare.Instance, error) {
	if tenant != "" || id != "s1" {
		return nil, errOther
	}
	return s.inst, nil
}

func (s solvedOnce) Result(_ context.Context, tenant, id string) (*hare.Result, error) {
	if tenant != "" || id != "s1" {
		return nil, errOther
	}
	return s.res, nil
}

// explained returns a server that has solved the example with one more job.
func explained(t *testing.T, options hare.Options) http.Handler {
	t.Helper()
	text := strings.Replace(example(t), `"jobs": [`, `"jobs": [{"id": "a/b é?", "on": {"T4": {"compute_s": 1}}},`, 1)
	inst, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := solver.Config{Version: "test"}
	res, err := solver.Solve(t.Context(), inst, options, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return api.New(service.New(service.Config{Solver: cfg}), api.Config{Solved: solvedOnce{inst, res}})
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
	h := explained(t, hare.Options{WorkLimit: 300}) // few: the search for changes solves many instances
	for _, c := range []struct {
		name, path, at string
		status         int
		want           string
	}{
		{"a job", oneJob, "s1/jobs/vgg", 200, `"timeline":[`},
		{"a job of odd name", oneJob, "s1/jobs/a%2Fb%20%C3%A9%3F", 200, `"job":"a/b é?"`},
		{"changes", oneJob, "s1/jobs/vgg?earlier_s=1.5&time_limit_s=30", 200, `"finished":true`},
		{"by a time", oneJob, "s1/jobs/bert?by_s=1", 200, `that is proved`},
		{"no time", oneJob, "s1/jobs/vgg?earlier_s=0.5&time_limit_s=0.000001", 200, `"finished":false`},
		{"no job", oneJob, "s1/jobs/vg", 404, `did you mean \"vgg\"?`},
		{"no time at all", oneJob, "s1/jobs/vgg?by_s=soon", 400, "by_s"},
		{"a time before time", oneJob, "s1/jobs/vgg?by_s=-1", 400, "by_s"},
		{"too fine a time", oneJob, "s1/jobs/vgg?by_s=0.0000001", 400, "by_s"},
		{"two times", oneJob, "s1/jobs/vgg?by_s=3&earlier_s=3", 400, "not both"},
		{"a name unknown", oneJob, "s1/jobs/vgg?earlier=3", 400, "did you mean ?earlier_s=?"},
		{"another solve", oneJob, "s2/jobs/vgg", 422, "another solve"},
		{"jobs", allJobs, "s1/jobs", 200, `{"count":4,"jobs":[{"job":`},
		{"two jobs", allJobs, "s1/jobs?sort=end&limit=2", 200, `{"count":4,`},
		{"too many jobs", allJobs, "s1/jobs?limit=10001", 400, "limit"},
		{"no jobs", allJobs, "s1/jobs?limit=0", 400, "limit"},
		{"an order unknown", allJobs, "s1/jobs?sort=colour", 422, "stretch"},
		{"a name unknown in lists", allJobs, "s1/jobs?order=end", 400, "order"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := request(t, h, "GET", "/v1/solves/"+c.at, "")
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%d, want %d with %s: %.600s", w.Code, c.status, c.want, w.Body)
			}
			follows(t, doc, "GET", c.path, w.Code, w.Header(), w.Body.String())
		})
	}
}

func TestJobsOfASolve(t *testing.T) {
	h := explained(t, hare.Options{WorkLimit: 500})
	var list struct{ Jobs []struct{ Job string } }
	if err := json.Unmarshal(request(t, h, "GET", "/v1/solves/s1/jobs", "").Body.Bytes(), &list); err != nil ||
		len(list.Jobs) != 4 {
		t.Errorf("%d jobs, %v", len(list.Jobs), err)
	}
	none := api.New(service.New(service.Config{}), api.Config{})
	for _, path := range []string{"/v1/solves/s1/jobs", "/v1/solves/s1/jobs/vgg"} {
		if w := request(t, none, "GET", path, ""); w.Code != http.StatusNotFound ||
			!strings.Contains(w.Body.String(), "no_solve") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
