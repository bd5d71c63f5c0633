package api_test

import (
	"net/http"
	"testing"

	"github.com/hare-sched/hare/serve/clusters"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

func TestClusterHistory(t *testing.T) {
	s := newClusterServer(t, clusters.Config{})
	const path = "/v1/clusters/lab/history"
	s.ask(t, http.StatusNotFound, "GET", path, "", nil)
	s.ask(t, http.StatusCreated, "POST", "/v1/clusters/lab/jobs", `{"command":["true"],"gpus":4}`, nil)
	for query, rows := range map[string]int{"": 1, "?step_s=86400": 1,
		"?from=2020-01-31T12:00:00Z&to=2020-01-31T15:00:00%2B01:00": 0} {
		var h clusterdoc.History
		s.ask(t, http.StatusOK, "GET", path+query, "", &h)
		if h.Rows == nil || len(h.Rows) < rows || len(h.Rows) > 2*rows {
			t.Errorf("%s: %+v", query, h)
		}
		for _, r := range h.Rows {
			if r.Waiting != 1 || r.WaitingGPUs != 4 || r.Used == nil || r.InService == nil || r.WaitS != nil {
				t.Errorf("%+v", r)
			}
		}
	}
	for _, query := range []string{"?step_s=0", "?step_s=90", "?step_s=x", "?from=", "?to=", "?from=now",
		"?to=2020-01-31", "?from=2999-01-01T00:00:00Z", "?from=2020-01-01T00:00:00Z", "?from=1066-01-01T00:00:00Z"} {
		s.ask(t, http.StatusBadRequest, "GET", path+query, "", nil)
	}
}
