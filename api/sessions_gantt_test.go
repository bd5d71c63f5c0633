package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hare-sched/hare/serve/sessions"
)

// TestSessionGantt draws a session in which a job has ended, one runs and one is planned.
func TestSessionGantt(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, `,"policy":"rolling"`)
	c := s.talk(t, t.Context(), at)
	for _, line := range []string{
		`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"past","on":{"V100":{"compute_s":100}}}}`,
		`{"seq":2,"at_s":0,"type":"job_arrived","job":{"id":"runs","on":{"V100":{"compute_s":900}}}}`,
		`{"seq":3,"at_s":0,"type":"node_joined","node":"n","gpus":{"T4":1}}`,
		`{"seq":4,"at_s":100,"type":"task_ended","job":"past","round":0,"task":0,"gpu":"a/0","compute_s":100,"sync_s":0}`,
		`{"seq":5,"at_s":100,"type":"job_ended","job":"past"}`,
		`{"seq":6,"at_s":101,"type":"job_arrived","job":{"id":"later","on":{"V100":{"compute_s":100}}}}`,
	} {
		if got := c.say(line); !strings.Contains(got, "decisions") {
			t.Fatalf("%s: %s", line, got)
		}
	}
	for seq := 7; ; seq++ { // until there is a plan
		var plan struct {
			Jobs []struct {
				Job    string
				StartS *float64 `json:"start_s"`
			}
		}
		s.ask(t, http.StatusOK, "GET", at+"/plan", "", &plan)
		if n := len(plan.Jobs); n == 2 && plan.Jobs[1].StartS != nil {
			break
		}
		c.say(fmt.Sprintf(`{"seq":%d,"at_s":101,"type":"tick"}`, seq))
	}
	c.end()
	for path, more := range map[string][]string{
		"/gantt.svg":             {"3 jobs · 3 GPUs", ">past: ", "planned (lighter)", "runs now", ">now<"},
		"/gantt.svg?from_s=100":  {"2 jobs · 3 GPUs", ">later: in about"},
		"/gantt.svg?width=500":   {`width="500"`},
		"/gantt.html":            {`"now":`, `"later"`},
		"/gantt.html?from_s=100": {`"now":`},
	} {
		code, text, header := s.call(t, "GET", at+path, "")
		if code != http.StatusOK || header.Get("Content-Security-Policy") == "" {
			t.Fatalf("%s: %d %s", path, code, text)
		}
		for _, want := range more {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q", path, want)
			}
		}
	}
	for _, path := range []string{"/gantt.svg?width=1", "/gantt.svg?from_s=9999999", "/gantt.html?from_s=x"} {
		s.ask(t, http.StatusBadRequest, "GET", at+path, "", nil)
	}
	empty := s.open(t, `,"policy":"fifo"`)
	if code, text, _ := s.call(t, "GET", empty+"/gantt.svg", ""); code != http.StatusOK {
		t.Error(code, text)
	}
}
