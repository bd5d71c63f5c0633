package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare/adapters/ray"
)

// emptyRay is a dashboard of a Ray with one node and no jobs.
func emptyRay(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "GET /api/version":
			_, _ = w.Write([]byte(`{"session_name":"session_1"}`))
		case "GET /api/jobs/":
			_, _ = w.Write([]byte(`[]`))
		case "GET /api/v0/nodes":
			_, _ = w.Write([]byte(`{"result":true,"data":{"result":{"result":[{"node_id":"aaaaaaaabb","node_name":"n",` +
				`"state":"ALIVE","resources_total":{"GPU":2},"labels":{"ray.io/node-id":"aaaaaaaabb",` +
				`"ray.io/accelerator-type":"V100"}}]}}}`))
		case "GET /api/cluster_status":
			_, _ = w.Write([]byte(`{"data":{"clusterStatus":{"time":1}}}`))
		default:
			t.Errorf("%s %s was asked", r.Method, r.URL.Path)
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestRayCommands checks the way of a job through the commands, without submitting.
func TestRayCommands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	id, errs, code := runHare(t, "", "ray", "submit", "--dir", dir, "--gpus", "2", "--on", "V100=60s,T4=2m",
		"--name", "bert", "--env", "A=b c", "--", "python", "train.py", "it's")
	if code != 0 || !strings.HasPrefix(id, "hare-") {
		t.Fatalf("%d: %s%s", code, id, errs)
	}
	id = strings.TrimSpace(id)
	out, errs, code := runHare(t, "", "ray", "jobs", "--dir", dir, "--json")
	var entries []ray.Entry
	if err := json.Unmarshal([]byte(out), &entries); err != nil || code != 0 || len(entries) != 1 {
		t.Fatalf("%d: %v: %s%s", code, err, out, errs)
	}
	if s := entries[0].Spec; s.Entrypoint != `python train.py 'it'"'"'s'` || s.On[1].Seconds != 120 {
		t.Errorf("%+v", s)
	}
	out, errs, code = runHare(t, "", "ray", "run", "--dir", dir, "--once", "--address", emptyRay(t))
	if code != 0 || !strings.Contains(out, "would submit (--write does) 1 job:") || !strings.Contains(out, id) {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	if out, _, code = runHare(t, "", "ray", "release", "--dir", dir); code != 0 || strings.Count(out, "\n") != 1 {
		t.Errorf("%d: %s", code, out)
	}
	if _, errs, code = runHare(t, "", "ray", "cancel", "--dir", dir, id); code != 0 {
		t.Errorf("%d: %s", code, errs)
	}
	if out, _, _ = runHare(t, "", "ray", "jobs", "--dir", dir); out != "no jobs\n" {
		t.Error(out)
	}
	if out, _, _ = runHare(t, "", "ray", "jobs", "--dir", dir, "--all"); !strings.Contains(out, "cancelled") {
		t.Error(out)
	}
}

// TestRayRefusals checks that wrong use gives one line with the remedy, and exit code 2.
func TestRayRefusals(t *testing.T) {
	dir := t.TempDir()
	env := filepath.Join(dir, "env.json")
	if err := os.WriteFile(env, []byte(`{"working_dir":"."}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no directory":   {[]string{"submit", "--", "x"}, "--dir"},
		"no command":     {[]string{"submit", "--dir", dir}, "after --"},
		"too many GPUs":  {[]string{"submit", "--dir", dir, "--gpus", "100000000", "--", "x"}, "/gpus"},
		"a bad time":     {[]string{"submit", "--dir", dir, "--on", "V100=soon", "--", "x"}, "V100=3600s"},
		"a local folder": {[]string{"submit", "--dir", dir, "--runtime-env", env, "--", "x"}, "/runtime_env/working_dir"},
		"a bad variable": {[]string{"submit", "--dir", dir, "--env", "x", "--", "x"}, "NAME=VALUE"},
		"a bad ID":       {[]string{"submit", "--dir", dir, "--id", "a/b", "--", "x"}, "/id"},
		"unknown job":    {[]string{"cancel", "--dir", dir, "none"}, "hare ray jobs"},
		"no queue":       {[]string{"jobs", "--dir", filepath.Join(dir, "none")}, "none"},
		"an address":     {[]string{"run", "--dir", dir, "--address", "head:8265"}, "--address"},
		"both":           {[]string{"run", "--dir", dir, "--write", "--dry-run"}, "not both"},
		"no subcommand":  {nil, "submit, jobs"},
	} {
		_, errs, code := runHare(t, "", append([]string{"ray"}, c.args...)...)
		if code != exitUsage || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: %d: %s", name, code, errs)
		}
	}
	_, errs, code := runHare(t, "", "ray", "run", "--dir", dir, "--once", "--address", "http://127.0.0.1:1")
	if code != exitInternal || !strings.Contains(errs, "does not answer") {
		t.Errorf("without Ray: %d: %s", code, errs)
	}
}
