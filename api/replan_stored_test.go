package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/wire"
)

// TestStoredReplan requests a stored plan for the rest of an earlier plan, and
// checks all views of the new plan.
func TestStoredReplan(t *testing.T) {
	sequential(t)
	s := newSolveServer(t, service.Config{})
	doc := specification(t)
	in := `{"instance":` + example(t)
	_, prev, _ := s.call(t, "POST", "/v1/solves", in+`,"options":{"work_limit":300}}`)
	ask := func(at, options string, header ...string) (int, string, http.Header) {
		t.Helper()
		return s.call(t, "POST", "/v1/solves", in+`,"previous":`+prev+`,"at_s":`+at+`,"stability":0.5,"options":`+options+
			`}`, header...)
	}
	once := []string{"Prefer", "respond-async", "Idempotency-Key", "again"}
	var v solveView
	for i := range 2 {
		code, text, h := ask("3", `{"work_limit":300}`, once...)
		follows(t, doc, "POST", "/v1/solves", code, h, text)
		if i == 0 && code != http.StatusAccepted || i == 1 && h.Get("Idempotent-Replayed") != "true" {
			t.Fatalf("%d %v %s", code, h, text)
		}
		if i == 0 {
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatal(err)
			}
		}
		if h.Get("Location") != "/v1/solves/"+v.ID {
			t.Errorf("call %d: %s, not %s", i, h.Get("Location"), v.ID)
		}
		s.look(t, "/v1/solves/"+v.ID+"?wait=20")
	}
	if code, text, _ := ask("4", `{"work_limit":300}`, once...); code != 422 || !strings.Contains(text, "key_reused") {
		t.Errorf("another instant: %d %s", code, text)
	}
	// A fault of the request is reported before the solve is stored.
	if code, text, _ := ask("100000", `{}`, "Prefer", "respond-async"); code != 422 ||
		!strings.Contains(text, `"pointer":"/at_s"`) {
		t.Errorf("nothing left: %d %s", code, text)
	}
	at := "/v1/solves/" + v.ID
	get := func(path string, header ...string) string {
		t.Helper()
		code, text, h := s.call(t, "GET", at+path, "", header...)
		if code != 200 {
			t.Fatalf("%s: %d %s", path, code, text)
		}
		clean, _, _ := strings.Cut(path, "?")
		route := "/v1/solves/{id}" + clean
		if strings.HasPrefix(clean, "/jobs/") {
			route = "/v1/solves/{id}/jobs/{job}"
		}
		follows(t, doc, "GET", route, code, h, text)
		return text
	}
	result := get("/result")
	res, err := wire.DecodeResult(strings.NewReader(result), wire.Limits{})
	if err != nil || res.Replan == nil || res.Replan.Rest == nil || res.Replan.Whole == nil {
		t.Fatalf("%v %+v", err, res)
	}
	rest := res.Replan.Rest
	for what, instance := range map[string]string{"the whole": get("/instance"), "the rest": rawOf(t, rest)} {
		if code, report, _ := s.call(t, "POST", "/v1/verify",
			`{"instance":`+instance+`,"result":`+result+`}`); code != 200 || !strings.Contains(report, `"ok":true`) {
			t.Errorf("verified against %s: %d %s", what, code, report)
		}
	}
	// The schedule is that of the result, on its clock, even where jobs of the
	// whole instance have ended and GPUs have other names.
	whole := struct{ Schedule json.RawMessage }{}
	if err := json.Unmarshal([]byte(result), &whole); err != nil {
		t.Fatal(err)
	}
	same := func(a, b string) bool {
		var x, y any
		return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
	}
	if schedule := get("/schedule"); !same(schedule, string(whole.Schedule)) {
		t.Errorf("%s\n%s", schedule, whole.Schedule)
	}
	for _, lane := range res.Schedule.Lanes {
		if csv := get("/schedule?format=csv&gpu=" + lane.GPU); len(lane.Job) > 0 &&
			!strings.Contains(csv, "\n"+lane.GPU+",") {
			t.Errorf("%s: %s", lane.GPU, csv)
		}
	}
	var list struct {
		Count int
		Jobs  []struct {
			Job   string
			End   float64 `json:"end_s"`
			Start float64 `json:"start_s"`
		}
	}
	if err := json.Unmarshal([]byte(get("/jobs")), &list); err != nil || list.Count != len(rest.Jobs) {
		t.Errorf("%d jobs of %d, %v", list.Count, len(rest.Jobs), err)
	}
	for _, j := range rest.Jobs {
		get("/jobs/" + j.ID)
		svg := get("/gantt.svg")
		if !strings.Contains(svg, "<title>"+j.ID) {
			t.Errorf("%s is not in the picture", j.ID)
		}
	}
	get("/gantt.html")
	get("/prices")
	if x := get("/jobs/" + rest.Jobs[0].ID + "?earlier_s=1&time_limit_s=20"); !strings.Contains(x, `"changes":[`) {
		t.Error(x)
	}
	if cert := get("/certificate"); !strings.Contains(cert, wire.SHA256(rest)) {
		t.Errorf("a certificate of another instance: %.200s", cert)
	}
	lines := get("/result", "Accept", "application/x-ndjson")
	if first, _, _ := strings.Cut(lines, "\n"); !strings.Contains(first, `"replan":`) {
		t.Errorf("%.300s", lines)
	}
	// A what-if compares its scenarios with the rest.
	code, text, _ := s.call(t, "POST", "/v1/what-if", `{"base":{"solve_id":"`+v.ID+`"},"options":{"work_limit":100},`+
		`"scenarios":[{"id":"x","add_gpus":{"type":"V100","count":1}}]}`)
	if code != 200 || !strings.Contains(text, `"instance_sha256":"`+wire.SHA256(rest)+`"`) ||
		strings.Contains(text, `"status":"failed"`) || !strings.Contains(text, `"value":`+res.Value.String()) {
		t.Errorf("%d %s", code, text)
	}
	// A further replan can go on from this plan, given the whole instance or the
	// rest.
	for _, c := range []string{in, `{"instance":` + rawOf(t, rest)} {
		if code, text, _ := s.call(t, "POST", "/v1/solves",
			c+`,"previous":`+result+`,"at_s":5,"options":{"work_limit":100}}`); code != 200 {
			t.Errorf("%d %s", code, text)
		}
	}
	// With less detail the views show less, without an error.
	for detail, want := range map[string]map[string]int{
		"none": {"/schedule": 404, "/gantt.svg": 404, "/jobs": 404, "/jobs/bert": 404, "/prices": 404, "/certificate": 404,
			"/result": 200, "/instance": 200},
		"jobs":  {"/schedule": 404, "/jobs": 200},
		"tasks": {"/schedule": 200, "/jobs": 200, "/result": 200},
	} {
		code, text, h := ask("3", `{"work_limit":300,"detail":"`+detail+`"}`)
		if code != 200 {
			t.Fatalf("%s: %d %s", detail, code, text)
		}
		for path, want := range want {
			if code, text, _ := s.call(t, "GET", h.Get("Location")+path, "", "Accept",
				"application/x-ndjson, */*"); code != want {
				t.Errorf("%s%s: %d, want %d: %.300s", detail, path, code, want, text)
			}
		}
		code, text, _ = s.call(t, "POST", "/v1/what-if",
			`{"base":{"solve_id":"`+strings.TrimPrefix(h.Get("Location"), "/v1/solves/")+`"},"scenarios":[]}`)
		if detail == "none" && (code < 400 || code >= 500) || detail == "tasks" && code != 200 {
			t.Errorf("a what-if of one with detail %s: %d %s", detail, code, text)
		}
	}
}

func rawOf(t *testing.T, inst *hare.Instance) string {
	t.Helper()
	var b strings.Builder
	if err := wire.EncodeInstance(&b, inst); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
