package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/hare-sched/hare/internal/words"
)

// hostile is a name that sets the title of a terminal, turns a text around, and begins lines.
const hostile = "\x1b]0;owned\a\u202e\u2028\u2066\u009b2J\x7f\x00\r\nhare: forged\tend\U000e0041"

// Characters may come in parts.
func TestTextWriter(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	w := &textWriter{to: f}
	for _, b := range []byte("é\t訓🐇\u202e\n\xe8\xe8a\xff\n") {
		if n, err := w.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	got, err := os.ReadFile(f.Name())
	if want := "é\t訓🐇\\u202e\n\\xe8\\xe8a\\xff\n"; err != nil || string(got) != want {
		t.Errorf("%q %v, want %q", got, err, want)
	}
}

// TestTextGoesThroughTheFilter looks at the source: what is written to standard output and standard
// error goes through stdout and stderr, but for documents and what a command draws.
func TestTextGoesThroughTheFilter(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	direct := regexp.MustCompile(`os\.Std(out|err)\b|fmt\.Print`)
	allowed := regexp.MustCompile(`newProgressLine\(os\.Stderr|os\.Stdout\.(Fd|Stat)\(\)|` +
		`json\.NewEncoder\(os\.Stdout\)|lp\.WorkerMain\(|nvml\.Serve\(|wire\.Canonical\(|answer\(os\.Stdout\)`)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || name == "output.go" || name == "text.go" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if direct.MatchString(line) && !allowed.MatchString(line) {
				t.Errorf("%s:%d: %s: write texts to stdout or stderr, which escape what steers a terminal", name, i+1,
					strings.TrimSpace(line))
			}
		}
	}
}

// hostileDocuments returns an instance whose names are all hostile, and a server whose every answer is.
func hostileDocuments(t *testing.T) (inst string, server string) {
	t.Helper()
	name, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	fill := func(text string) string { return strings.ReplaceAll(text, `"X`, strings.TrimSuffix(string(name), `"`)) }
	job := fill(`{"id": "j1", "name": "X", "state": "failed", "reason": "X", "submitted": "2026-11-01T00:00:00Z",
		"command": ["X"], "env": {"X": "X"}, "directory": "X", "module": "X", "gpus": 1, "on": {"X": 1}, "class": {"X": "X"},
		"loss": "X", "copy_problem": "X", "attempts": [{"attempt": 1, "result": "failed", "error": "X",
		"began": "2026-11-01T00:00:00Z", "tasks": [{"agent": "X", "gpus": ["X"], "state": "ended", "error": "X",
		"signal": "X"}]}]}`)
	agent := fill(`{"name": "X", "state": "down", "reason": "X", "last_seen": "2026-11-01T00:00:00Z",
		"devices": [{"type": "X", "state": "lost", "reason": "X"}], "labels": {"X": "X"}}`)
	cluster := fill(`{"name": "lab", "policy": "X", "session": "X", "jobs": {"failed": 1}, "agents": 1, "gpus": 1}`)
	problem := fill(`{"type": "about:blank", "title": "X", "status": 422, "code": "X", "detail": "X",
		"errors": [{"pointer": "/X", "code": "X", "detail": "X"}]}`)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, status := problem, http.StatusUnprocessableEntity
		switch at := r.URL.Path; {
		case r.Method == http.MethodGet && strings.HasSuffix(at, "/jobs"):
			answer, status = `{"jobs": [`+job+`]}`, http.StatusOK
		case strings.HasSuffix(at, "/jobs/j1"), strings.HasSuffix(at, "/jobs/j1/cancel"):
			answer, status = job, http.StatusOK
		case r.Method == http.MethodGet && strings.HasSuffix(at, "/agents"), strings.HasSuffix(at, "drain"):
			answer, status = `{"agents": [`+agent+`]}`, http.StatusOK
		case r.Method == http.MethodGet && at == "/v1/clusters":
			answer, status = `{"clusters": [`+cluster+`]}`, http.StatusOK
		case r.Method == http.MethodGet && strings.HasPrefix(at, "/v1/clusters/") && strings.Count(at, "/") == 3:
			answer, status = cluster, http.StatusOK
		case at == "/v1/version":
			answer, status = `{"version": "0.1.0"}`, http.StatusOK
		}
		w.Header().Set("Content-Type", map[bool]string{true: "application/json",
			false: "application/problem+json"}[status == 200])
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(srv.Close)
	return file(t, "hostile.json", fill(`{"hare": "instance/v1", "name": "X", "cluster": {"nodes": [
		{"name": "X", "gpus": {"X": 1}}, {"name": "X b", "gpus": {"X": 1, "X 2": 1}}]}, "jobs": [
		{"id": "X", "user": "X", "rounds": 3, "tasks": 1, "on": {"X": {"compute_s": 1, "sync_s": 0.5}}},
		{"id": "X 2", "rounds": 2, "tasks": 2, "sync": "gang", "on": {"X": {"compute_s": 2, "sync_s": 0.5}}},
		{"id": "X 3", "rounds": 2, "tasks": 1, "sync": "rigid", "on": {"X 2": {"compute_s": 2, "sync_s": 0}}}]}`)), srv.URL
}

// TestHostileNames runs the commands that print names on documents whose names are hostile, and
// looks for a character in the output that steers a terminal, and for a line that a name began.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	inst, server := hostileDocuments(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	name := strings.ReplaceAll(hostile, "\x00", "") // no argument can have it
	text, err := os.ReadFile(inst)
	if err != nil {
		t.Fatal(err)
	}
	bad := file(t, "bad.json", strings.Replace(string(text), `"rounds": 3`, `"rounds": 0`, 1))
	unknown := file(t, "unknown.json", strings.Replace(string(text), `{"compute_s": 1`, `{"\u001b[2J\u202e": 1`, 1))
	never := file(t, "never.json", strings.Replace(string(text), `"tasks": 2`, `"tasks": 9`, 1))
	refused := at("refused.json")
	odd := at("no such \x1b[2J\u202e file")
	events := `{"seq": 1, "at_s": 0, "type": "job_arrived", "job": {"id": "\u001b[2J\u202e\u2028x", "on": {"V100": ` +
		`{"compute_s": 1}}}}`
	log := at("log.ndjson")
	queue := at("queue")
	jobKey := func(args ...string) []string { return append(args, "--cluster", "lab", "--server", server) }
	for _, c := range []struct {
		args  []string
		stdin string
		code  int
	}{
		{args: []string{"solve", inst, "--work-limit", "50", "-o", at("r.json")}},
		{args: []string{"verify", inst, at("r.json")}},
		{args: []string{"solve", bad, "-o", at("x.json")}, code: 2},
		{args: []string{"solve", unknown, "-o", at("x.json")}, code: 2},
		{args: []string{"solve", never, "-o", at("x.json")}, code: 1},
		{args: []string{"solve", odd, "-o", at("x.json")}, code: 2},
		{args: []string{"bound", never, "-o", at("x.json")}, code: 1},
		{args: []string{"verify", inst, refused}, code: 1},
		{args: []string{"explain", inst, at("r.json")}},
		{args: []string{"explain", inst, at("r.json"), name}, code: 2},
		{args: []string{"explain", inst, at("r.json"), "X"}, code: 2},
		{args: []string{"whatif", inst, "--drop-node", name + "@1"}, code: 2},
		{args: []string{"whatif", inst, "--scale-duration", "2", "--remove-job", name}, code: 2},
		{args: []string{"whatif", inst, "--scale-duration", "2"}},
		{args: []string{"plot", inst, at("r.json"), "--title", name, "-o", at("p.svg")}},
		{args: []string{"hash", inst}},
		{args: []string{"online", "--cluster", threeJobs, "--policy", "rolling", "--log", log}, stdin: events + "\n"},
		{args: []string{"online", "plan", log}},
		{args: []string{"online", "replay", log}},
		{args: []string{"online", "policies", name}, code: 2},
		{args: []string{"simulate", "--policy", "hlas", "--instance", inst}},
		{args: []string{"simulate", "--policy", name, "--instance", inst}, code: 2},
		{args: []string{"export", "slurm", inst, at("r.json"), "-o", at("export")}, code: 2},
		{args: []string{"import", "gavel", name}, code: 2},
		{args: []string{"shadow", name}, code: 2},
		{args: []string{"estimate", "-"}, stdin: "arrival_s,duration_s,user\n1,2," + hostile + "\n", code: 2},
		{args: []string{"experiment", name}, code: 2},
		{args: []string{"backup", name, at("b")}, code: 2},
		{args: []string{"doctor", "--data-dir", at(name[:4])}, code: 1},
		{args: []string{"key", "list", "--data-dir", at(name[:4])}, code: 2},
		{args: []string{"ray", "submit", "--dir", queue, "--name", name, "--user", name, "--on", "\x1b[2J\u202e", "--",
			"x"}},
		{args: []string{"ray", "jobs", "--dir", queue}},
		{args: []string{"ray", "jobs", "--dir", queue, name}, code: 2},
		{args: jobKey("jobs")},
		{args: jobKey("jobs", "j1")},
		{args: jobKey("jobs", name), code: 2},
		{args: jobKey("logs", "j1"), code: 2},
		{args: jobKey("cancel", "j1")},
		{args: jobKey("agents")},
		{args: jobKey("submit", "--name", name, "--", name), code: 2},
		{args: []string{"cluster", "list", "--server", server}},
		{args: []string{"cluster", "show", "lab", "--server", server}},
		{args: []string{"cluster", "create", name, "--server", server}, code: 2},
		{args: []string{"solve", inst, "--server", server, "-o", at("x.json")}, code: 2},
		{args: []string{name}, code: 2},
		{args: []string{"solve", "--" + name}, code: 2},
		{args: []string{"generate", "--jobs", name}, code: 2},
	} {
		if len(c.args) == 3 && c.args[2] == refused {
			res, err := os.ReadFile(at("r.json"))
			if err != nil {
				t.Fatal(err)
			}
			broken := strings.Replace(string(res), `"start_us":[`, `"start_us":[7`, 1)
			if err := os.WriteFile(refused, []byte(broken), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, errs, code := runHare(t, c.stdin, c.args...)
		if c.stdin != "" && code == 0 {
			out = "(a document, for programs)"
		}
		if code != c.code || out+errs == "" && c.args[0] != "plot" {
			t.Errorf("%q: exit %d, want %d: %s%s", c.args, code, c.code, out, errs)
		}
		for _, r := range out + errs {
			if r != '\n' && r != '\t' && (words.Plain(string(r)) != string(r) || r == unicode.ReplacementChar) {
				t.Errorf("%q prints %q: %q", c.args, r, out+errs)
				break
			}
		}
		if strings.Contains(out+errs, "\nhare: forged") || code > 1 && strings.Count(errs, "\n") != 1 {
			t.Errorf("%q lets a name begin a line: %q", c.args, out+errs)
		}
	}
}

// TestArgumentsAreUTF8 passes arguments that are not valid UTF-8. Texts, which would end changed in a
// document, are refused by one line that names them; names of files are taken.
func TestArgumentsAreUTF8(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	inst, result := at("instance\xff.json"), at("result\xe9.json")
	deep := at("here\xff")
	if err := os.Mkdir(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string // separated by commas
		want string // in the one line; empty where the command succeeds
	}{
		{"submit,--,caf\xe9", `argument 1, "caf\xe9", is not valid UTF-8`},
		{"submit,--,ls,-l,\xff", `argument 3, "\xff", is not valid UTF-8`},
		{"submit,--env,A=\xff,--,x", "--env is not valid UTF-8"},
		{"submit,--env,HARE_TEST_BYTES,--,x", "--env HARE_TEST_BYTES: the value in your environment is not valid UTF-8"},
		{"submit,--name,\xff,--,x", "--name is not valid UTF-8"},
		{"submit,--class,user=\xff,--,x", "--class is not valid UTF-8"},
		{"submit,--on,\xff,--,x", "--on is not valid UTF-8"},
		{"submit,--seconds,\xff=3,--,x", "--seconds is not valid UTF-8"},
		{"submit,--idempotency-key,\xff,--,x", "--idempotency-key is not valid UTF-8"},
		{"submit,--dir,/a\xff,--,x", "--dir is not valid UTF-8"},
		{"submit,--module,\xff,--directory,d,--rounds,1", "--module is not valid UTF-8"},
		{"submit,--module,m,--directory,d,--rounds,1", "--directory, below this working directory, is not valid UTF-8"},
		{"submit,--module,m,--directory,/\xff,--rounds,1", "--directory is not valid UTF-8"},
		{"ray,submit,--dir,q,--,x\xff", `argument 1, "x\xff", is not valid UTF-8`},
		{"ray,submit,--dir,q,--env,A=\xff,--,x", "--env is not valid UTF-8"},
		{"ray,submit,--dir,q,--name,\xff,--,x", "--name is not valid UTF-8"},
		{"ray,submit,--dir,q\xff,--,x", ""},
		{"cluster,create,\xff", `argument 1, "\xff", is not valid UTF-8`},
		{"cancel,j1,\xff", `argument 2, "\xff", is not valid UTF-8`},
		{"drain,n1,--reason,\xff", "--reason is not valid UTF-8"},
		{"agent,--name,\xff", "--name is not valid UTF-8"},
		{"key,create,--data-dir,k,--tenant,a,--note,\xff", "--note is not valid UTF-8"},
		{"generate,--jobs,2,--gpus,V100=2,--name,\xff", "--name is not valid UTF-8"},
		{"generate,--jobs,2,--gpus,V100=2,-o," + inst, ""},
		{"solve," + inst + ",--work-limit,10,-o," + result, ""},
		{"verify," + inst + "," + result, ""},
		{"explain," + inst + "," + result, ""},
		{"whatif," + inst + ",--remove-job,\xff", "not valid UTF-8"},
		{"whatif," + inst + ",--add-job," + result + "x", `result\xe9.jsonx`},
	} {
		shell := command(strings.Split(c.args, ",")...)
		shell.Dir = deep
		shell.Env = append(shell.Env, "HARE_TEST_BYTES=\xff", "HARE_SERVER=http://127.0.0.1:1")
		out, err := shell.CombinedOutput()
		switch code := shell.ProcessState.ExitCode(); {
		case c.want == "" && err != nil:
			t.Errorf("%q: %v: %s", c.args, err, out)
		case c.want != "" && (code != exitUsage || !strings.Contains(string(out), c.want) ||
			strings.Count(string(out), "\n") != 1):
			t.Errorf("%q: exit %d: %s", c.args, code, out)
		}
	}
}
