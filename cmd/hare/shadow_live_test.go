package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestShadowLive looks at a Ray while two jobs come, run and end, with a log whose last line is cut off
// in between, and makes the report.
func TestShadowLive(t *testing.T) {
	jobs := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/jobs/":
			fmt.Fprintf(w, "[%s]", jobs)
		case "/api/v0/nodes":
			fmt.Fprint(w, `{"result":true,"data":{"result":{"result":[{"node_id":"aa","node_name":"n","state":"ALIVE",`+
				`"resources_total":{"GPU":1,"accelerator_type:V100":1}}]}}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer s.Close()
	path := filepath.Join(t.TempDir(), "shadow.ndjson")
	look := func() {
		t.Helper()
		args := []string{"shadow", "--live", "ray", "--address", s.URL, "--log", path, "--once"}
		if _, errs, code := runHare(t, "", args...); code != 0 {
			t.Fatalf("%d: %s", code, errs)
		}
	}
	job := func(id string, startMs, endMs int64, status string) string {
		return fmt.Sprintf(`{"submission_id":"%s","status":"%s","entrypoint":"x","start_time":%d,"end_time":%d,`+
			`"driver_node_id":"aa","metadata":{"gpus":"1","submitted":"%d"}}`, id, status, startMs, endMs, startMs/1000)
	}
	look()
	now := time.Now().UnixMilli()
	jobs = job("a", now, 0, "RUNNING")
	look()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	look()
	jobs = job("a", now, now+60_000, "SUCCEEDED") + "," + job("b", now+60_000, now+70_000, "SUCCEEDED")
	look()
	out, errs, code := runHare(t, "", "shadow", "report", path, "--splits=false", "--work-limit", "1000")
	if code != 0 || !strings.Contains(out, "jobs: 2 counted") ||
		!strings.Contains(errs, "log of hare shadow --live ray") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	for want, args := range map[string][]string{
		"needs --log":             {"--live", "ray"},
		"takes one of":            {"--live", "history", "--log", path},
		"needs --live":            {"report", path, "--log", path},
		"is a log of ray":         {"--live", "slurm", "--log", path, "--once"},
		"takes one log":           {"report"},
		"--interval must be":      {"--live", "ray", "--log", path, "--interval", "1ms"},
		"is no line of a log":     {"report", filepath.Join("..", "..", "README.md")},
		"--keep must be at least": {"--live", "ray", "--log", path, "--keep", "1s"},
	} {
		_, errs, code := runHare(t, "", append([]string{"shadow"}, args...)...)
		if code != exitUsage || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: %d: %s", args, code, errs)
		}
	}
}
