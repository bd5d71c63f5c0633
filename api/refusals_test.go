package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hare-sched/hare/internal/testing/haretest"
)

// Refused instances are answered with status 422 and a problem that has pointer and remedy.
func TestRefusedInstancesAreProblems(t *testing.T) {
	h, _ := newServer(t)
	for _, c := range haretest.Refusals() {
		w := request(t, h, "POST", "/v1/bounds", `{"instance":`+c.Instance+`}`)
		var p struct {
			Errors []struct{ Pointer, Code, Detail string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || len(p.Errors) != 1 || w.Code != 422 ||
			w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %v %s", c.Name, w.Code, err, w.Body)
			continue
		}
		if e := p.Errors[0]; e.Pointer != "/instance"+c.Pointer || e.Code != c.Code ||
			!strings.Contains(e.Detail, c.Remedy) {
			t.Errorf("%s: got %+v, want %s, %q (%s)", c.Name, e, c.Pointer, c.Remedy, c.Code)
		}
	}
}

// Instances without a schedule are answered with the reasons.
func TestInfeasibleInstancesHaveReasons(t *testing.T) {
	h, _ := newServer(t)
	for _, c := range haretest.Infeasible() {
		w := request(t, h, "POST", "/v1/solves", `{"instance":`+c.Instance+`,"options":{"work_limit":10}}`)
		var res struct {
			Termination string
			Reasons     []struct{ Pointer, Code, Detail string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &res); err != nil || len(res.Reasons) != 1 ||
			res.Termination != "infeasible" {
			t.Errorf("%s: %d %v %s", c.Name, w.Code, err, w.Body)
			continue
		}
		if r := res.Reasons[0]; r.Pointer != c.Pointer || r.Code != c.Code || !strings.Contains(r.Detail, c.Remedy) {
			t.Errorf("%s: got %+v, want %s, %q (%s)", c.Name, r, c.Pointer, c.Remedy, c.Code)
		}
	}
}
