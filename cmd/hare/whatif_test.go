package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// whatIfChanging matches what differs from run to run on the page.
var whatIfChanging = regexp.MustCompile(`"(total|wait)_s":[0-9.e-]+|; \d+\.\d+ ` +
	`s\b|"request_id":"[0-9a-f]+"`)

func TestWhatIfPage(t *testing.T) { checkPage(t, "../../docs/use/whatif.md", whatIfChanging, 5) }

func TestWhatIfCommand(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	base := put("base.json", tiny)
	job := put("job.json", `{"id": "new", "on": {"V100": {"compute_s": 2}}}`)
	more := put("more.json", `[{"id": "both", "add_gpus": {"type": "V100", "count": 1}, "remove_jobs": ["x"]}, `+
		`{"scale_weights": 3}]`)
	patch := put("patch.json", `[{"op": "replace", "path": "/jobs/0/rounds", "value": 1}]`)
	lines, picture := filepath.Join(dir, "lines.ndjson"), filepath.Join(dir, "whatif.svg")
	out, errs, code := runHare(t, "", "whatif", base, "--add", "v100=2", "--remove-gpus", "a:V100=1", "--drop-node",
		"a@3", "--add-job", job,
		"--scale-weight", "x=2", "--patch", patch, "--scenario", more, "--work-limit", "100", "-o", lines, "--ordered",
		"--plot", picture)
	if code != exitDone {
		t.Fatalf("%d: %s", code, errs)
	}
	for _, want := range []string{"base: value 4.50", "add v100=2", "drop-node a@3", "no_schedule", "both",
		"8 scenarios: 8 solved, 0 pruned", "gain  lose"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	text, err := os.ReadFile(lines)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	var ids []string
	for _, line := range all[1 : len(all)-1] {
		var l struct{ ID string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, l.ID)
	}
	want := []string{"add v100=2", "remove-gpus a:V100=1", "drop-node a@3", "add-job " + job, "scale-weight x=2",
		"patch " + patch, "both", "7"}
	if strings.Join(ids, ",") != strings.Join(want, ",") {
		t.Errorf("scenarios %q", ids)
	}
	if drawn, err := os.ReadFile(picture); err != nil || !strings.HasPrefix(string(drawn), "<svg") {
		t.Errorf("%v: %.50s", err, drawn)
	}
	// With --result the base is not solved again; with --together all flags are one
	// scenario.
	result := filepath.Join(dir, "result.json")
	if _, errs, code := runHare(t, "", "solve", base, "-q", "-o", result); code != exitDone {
		t.Fatal(errs)
	}
	out, errs, code = runHare(t, "", "whatif", base, "--result", result, "--add", "V100=2", "--remove-job", "x",
		"--add-job", job, "--together", "--prune-below", "100", "-o", "-")
	if code != exitDone || strings.Count(out, "\n") != 3 || !strings.Contains(out, `"id":"add V100=2, remove-job x`) ||
		!strings.Contains(out, `"pruned":true`) {
		t.Errorf("%d, %s: %s", code, errs, out)
	}
}

func TestWhatIfCommandFaults(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "base.json")
	if err := os.WriteFile(base, []byte(tiny), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "there is no scenario"},
		{[]string{"--add", "V100"}, "V100=8"},
		{[]string{"--add", "V100=0"}, "--add V100=0: /scenarios/0/add_gpus"},
		{[]string{"--remove-gpus", "q=1"}, `--remove-gpus q=1: /scenarios/0/remove_gpus/0/node: there is no node "q"`},
		{[]string{"--add", "V100=1", "--drop-node", "z"}, `--drop-node z: /scenarios/1/drain/0/node: there is no node "z"`},
		{[]string{"--drop-node", "a@soon"}, "n3@3600"},
		{[]string{"--remove-job", "y"}, `there is no job "y"`},
		{[]string{"--add-job", filepath.Join(dir, "none.json")}, "none.json"},
		{[]string{"--add-job", base}, "is an instance: give a job"},
		{[]string{"--scale-weight", "x=0.0000001"}, "bert=2"},
		{[]string{"--scale-weight", "2", "--scale-weight", "x=3", "--together"}, "not both"},
		{[]string{"--remove-job", "x", "--plot", "x.gif"}, "x.gif"},
		{[]string{"--remove-job", "x", "--prune-below", "much"}, "--prune-below"},
		{[]string{"--remove-job", "x", "--prune-below", "-1"}, "--prune-below -1: it must not be negative"},
		{[]string{"--remove-job", "x", "--result", base}, "is an instance: give a result"},
		{[]string{"--remove-job", "x", "--gap", "7"}, "for 7 % give 0.07"},
	} {
		_, errs, code := runHare(t, "", append([]string{"whatif", base}, c.args...)...)
		if code != exitUsage || !strings.Contains(errs, c.want) || strings.Count(strings.TrimSpace(errs), "\n") != 0 {
			t.Errorf("%v: %d: %s", c.args, code, errs)
		}
	}
}
