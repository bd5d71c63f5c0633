package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hare-sched/hare/serve/clusters"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// TestChangeJob changes jobs with good and bad documents.
func TestChangeJob(t *testing.T) {
	s := newClusterServer(t, clusters.Config{})
	const jobs = "/v1/clusters/lab/jobs"
	nulls := `{"labels":{"l0":null`
	for i := range 16 {
		nulls += fmt.Sprintf(`,"l%d":null`, i+1)
	}
	const j1 = jobs + "/j1"
	s.ask(t, http.StatusCreated, "POST", jobs, `{"command":["python","train.py"],"labels":{"team":"a","night":""}}`, nil)
	s.ask(t, http.StatusCreated, "POST", jobs, `{"command":["true"]}`, nil)
	s.ask(t, http.StatusAccepted, "POST", jobs+"/j2/cancel", "", nil)
	for _, x := range []struct {
		path, body    string
		status        int
		code, pointer string
	}{
		{j1, `{}`, 422, "missing_field", ""},
		{j1, `{"reason":"because"}`, 422, "missing_field", ""},
		{j1, `{"weight":-1}`, 422, "out_of_range", "/weight"},
		{j1, `{"weight":1e10}`, 422, "out_of_range", "/weight"},
		{j1, `{"weight":"NaN"}`, 422, "wrong_type", "/weight"},
		{j1, `{"weight":NaN}`, 400, "malformed", ""},
		{j1, `{"weight":null}`, 422, "wrong_type", "/weight"},
		{j1, `{"hold":"yes"}`, 422, "wrong_type", "/hold"},
		{j1, `{"labels":{"a=b":"c"}}`, 422, "bad_name", "/labels/a=b"},
		{j1, `{"labels":{"a=b":null}}`, 422, "bad_name", "/labels/a=b"},
		{j1, nulls + `}}`, 422, "too_many", "/labels"},
		{j1, `{"labels":{"a":1}}`, 422, "wrong_type", "/labels/a"},
		{j1, `{"wieght":3}`, 422, "unknown_field", "/wieght"},
		{j1, `{"weight":3,"reason":"two\nlines"}`, 422, "bad_value", "/reason"},
		{jobs + "/j2", `{"weight":3}`, 409, "job_ended", ""},
		{jobs + "/j3", `{"weight":3}`, 404, "no_such_job", ""},
		{"/v1/clusters/other/jobs/j1", `{"weight":3}`, 404, "no_cluster", ""},
	} {
		for _, call := range [][2]string{{"PATCH", x.path}, {"POST", x.path + "/preview"}} {
			status, text, _ := s.call(t, call[0], call[1], x.body)
			if status != x.status || !strings.Contains(text, `"code":"`+x.code+`"`) ||
				x.pointer != "" && !strings.Contains(text, `"pointer":"`+x.pointer+`"`) {
				t.Errorf("%s %s: %d %s", call[0], x.body, status, text)
			}
		}
	}
	var p clusterdoc.ChangePreview
	s.ask(t, http.StatusOK, "POST", j1+"/preview", `{"hold":true}`, &p)
	if p.Before.ReasonCode != "no_service" || p.After.ReasonCode != "held" || p.Delayed != 0 {
		t.Errorf("%+v", p)
	}
	var job clusterdoc.Job
	s.ask(t, http.StatusOK, "GET", j1, "", &job)
	if job.Hold || job.Changes != nil {
		t.Errorf("the preview has changed %+v", job)
	}
	job = clusterdoc.Job{}
	s.ask(t, http.StatusOK, "PATCH", j1,
		`{"weight":0,"labels":{"team":null,"at":"noon"},"hold":true,"reason":"later"}`, &job)
	if *job.Weight != 0 || len(job.Labels) != 2 || job.Labels["at"] != "noon" || !job.Hold || len(job.Changes) != 1 ||
		job.Changes[0].Reason != "later" || job.Reason != "is held: later" {
		t.Errorf("%+v", job)
	}
	s.ask(t, http.StatusCreated, "POST", "/v1/clusters", `{"name":"fifo","policy":"fifo"}`, nil)
	s.ask(t, http.StatusCreated, "POST", "/v1/clusters/fifo/jobs", `{"command":["true"]}`, nil)
	s.ask(t, http.StatusOK, "PATCH", "/v1/clusters/fifo/jobs/j1", `{"weight":2}`, nil)
	s.ask(t, http.StatusNotImplemented, "POST", "/v1/clusters/fifo/jobs/j1/preview", `{"weight":3}`, nil)
}
