package ray

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// oddRay answers as f does, with members that Hare does not know the form of.
func oddRay(t *testing.T, f *fakeRay, odd *bool) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		f.ServeHTTP(answer, r)
		text := answer.Body.String()
		if *odd && r.Method == http.MethodGet {
			switch r.URL.Path {
			case "/api/jobs/":
				var jobs []object
				_ = json.Unmarshal([]byte(text), &jobs)
				for _, j := range jobs {
					j["status"], j["message"] = "HIBERNATING", 7
				}
				list, _ := json.Marshal(append(jobs, object{"submission_id": 5}))
				text = string(list)
			case "/api/v0/nodes":
				text = strings.Replace(text, `"result":[`, `"total":9,"result":[7,{"node_id":{},"state":"ALIVE"},`, 1)
			case "/api/cluster_status":
				text = strings.Replace(text, `"usageByNode":{`, `"usageByNode":{"odd":{"GPU":"all"},"x":{},`, 1)
				text = strings.Replace(text, `{},}`, `{}}`, 1)
			}
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestOddAnswers checks that values that cannot be read stop nothing and are counted: jobs start, and a job whose
// status is of another version goes on.
func TestOddAnswers(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	submitTo(t, f, dir, "a", 1, 10)
	odd := true
	h := newHelper(t, f, dir, nil)
	h.dashboard.URL = oddRay(t, f, &odd)
	if r := step(t, h); len(r.Starts) != 1 {
		t.Errorf("%+v", r)
	}
	f.pass(1)
	step(t, h)
	if got := states(h); got != "a:starting" {
		t.Errorf("a job of an odd status is %s", got)
	}
	// A submission ID, two nodes, the use of one and the message of the job; and its status.
	if h.counted.Unread != 6 || !h.counted.Cut {
		t.Errorf("%+v", h.counted)
	}
	odd = false
	f.pass(30)
	step(t, h)
	if got := states(h); got != "a:succeeded" || f.done["a"] != 1 || h.counted.Unread != 0 || h.counted.Cut {
		t.Errorf("%s, %+v", got, h.counted)
	}
}
