package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestSolvesAndSessions lists, shows and compares what a server keeps, by name and label.
func TestSolvesAndSessions(t *testing.T) {
	t.Setenv("HARE_SERVER", managedServer(t))
	t.Chdir(t.TempDir())
	if err := os.WriteFile("i.json", []byte(tiny), 0o600); err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{} // by the name of a solve
	for _, step := range []struct {
		args           string
		code           int
		stdout, stderr string // parts of what is printed; "" means nothing at all
	}{
		{"solves list", 0, "no solves: hare solve FILE --server URL sends one\n", ""},
		{"solve i.json --name one", exitUsage, "", "--name and --label are for solves that a server keeps"},
		{"solve i.json --server SERVER --name one --label team=vision -q", 0, `"status"`, ""},
		{"solve i.json --server SERVER --name two --label run -q", exitUsage, "", `--label "run": must be NAME=VALUE`},
		{"solve i.json --server SERVER --name two --label run=2 --label run=3", exitUsage, "", "given twice"},
		{"solve i.json --server SERVER --name two --label team=vision --label run=2 -q --bound machine", 0, `"status"`, ""},
		{"solves list --status done", exitUsage, "", `--status "done": must be one of queued, running`},
		{"solves list", 0, "LABELS", ""},
		{"solves list --label run", 0, "run=2 team=vision", ""},
		{"solves list --q ONE --limit 1", 0, "team=vision", ""},
		{"solves list --label team=speech", 0, "no solves", ""},
		{"solves show ID-one", 0, "name      one\nlabels    team=vision\nstate     succeeded (", ""},
		{"solves show CUT-one", 0, "name      one\n", ""},
		{"solves show none", exitUsage, "", "has no solve none: hare solves list shows them\n"},
		{"solves compare ID-one CUT-two", 0, "They are of the same instance. ", ""},
		{"solves cancel ID-one", 0, "", "has ended already"},
		{"solves cancel", exitUsage, "", "takes the IDs of solves"},
		{"solves list --kind simulation", 0, "no simulations\n", ""},
		{"solves list --kind session", exitUsage, "", `must be one of solve, what-if, simulation, capacity`},
		{"solves list --kind what-if --status failed", exitUsage, "", "--status is for solves"},
		{"simulate --instance i.json --policy hlas --name three -q", exitUsage, "", "--name is for simulations"},
		{"simulate --instance i.json --policy hlas --server SERVER --name three --label team=vision -q", 0, "hlas", ""},
		{"solves list --kind simulation --label team=vision --q THREE", 0, "SENT", ""},
		{"solves list --kind what-if", 0, "no what-ifs\n", ""},
		{"solves list --kind capacity", 0, "no plans of capacity\n", ""},
		{"solves show CUT-three --kind simulation", 0, "name        three\nlabels      team=vision\nsent ", ""},
		{"solves show ID-three --kind simulation --json", 0, `"answer_bytes"`, ""},
		{"solves show ID-three --kind what-if", exitUsage, "", "hare solves list --kind what-if shows them\n"},
		{"solves show ID-three", exitUsage, "", "has no solve"},
		{"sessions list", 0, "no sessions", ""},
		{"sessions show none", exitUsage, "", "has no session none: hare sessions list shows them\n"},
		{"sessions delete none", exitUsage, "", "has no session none"},
	} {
		args := strings.Fields(strings.ReplaceAll(step.args, "SERVER", os.Getenv("HARE_SERVER")))
		for i, a := range args {
			if name, ok := strings.CutPrefix(a, "ID-"); ok {
				args[i] = ids[name]
			} else if name, ok := strings.CutPrefix(a, "CUT-"); ok {
				args[i] = ids[name][:10]
			}
		}
		stdout, stderr, code := runHare(t, "", args...)
		if code != step.code || !strings.Contains(stdout, step.stdout) || step.stdout == "" && stdout != "" ||
			!strings.Contains(stderr, step.stderr) || step.stderr == "" && stderr != "" {
			t.Errorf("hare %s: exit %d\n%s%s", step.args, code, stdout, stderr)
		}
		for _, m := range regexp.MustCompile(`(?m)^([a-z0-9]{26})  (one|two|three) `).FindAllStringSubmatch(stdout, -1) {
			ids[m[2]] = m[1]
		}
	}
}
