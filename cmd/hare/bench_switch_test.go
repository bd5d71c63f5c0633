package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare/bench"
)

func TestBenchSwitchRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--set large":     "--set \"large\": it must be",
		"--device tpu":    "--device \"tpu\": it must be",
		"--device cuda:x": "--device \"cuda:x\"",
		"--set plain":     "--set plain needs --device cpu",
		"--repetitions 0": "--repetitions",
		"--group-mib -1":  "--group-mib must not be negative",
		"--set plain --device cpu --batch-factor 2": "they are for models of PyTorch",
		"--limit 0s":    "--limit",
		"instance.json": "takes no arguments",
	} {
		stdout, stderr, code := runHare(t, "", append([]string{"bench", "switch"}, strings.Fields(args)...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d\n%s%s", args, code, stdout, stderr)
		}
	}
	for args, want := range map[string]string{
		"--python /none/python":                      "/none/python",
		"--set plain --device cpu --limit 1ms":       "--limit 1ms",
		"--set plain --device cpu --svg /none/x.svg": "/none",
	} {
		stdout, stderr, code := runHare(t, "", append([]string{"bench", "switch", "-q"}, strings.Fields(args)...)...)
		if code == 0 || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d\n%s%s", args, code, stdout, stderr)
		}
	}
}

// The models without PyTorch prove the form of the result and the number of measurements.
func TestBenchSwitch(t *testing.T) {
	dir := t.TempDir()
	svg := filepath.Join(dir, "s.svg")
	stdout, stderr, code := runHare(t, "", "bench", "switch", "-q", "--set", "plain", "--device", "cpu", "--repetitions",
		"2", "--json", "--svg", svg, "-o", filepath.Join(dir, "s.json"))
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var got bench.Switches
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Models) != 3 || len(got.Methods) != 10 || got.Repetitions != 2 || !got.Complete {
		t.Errorf("%d models, %d methods, %d repetitions", len(got.Models), len(got.Methods), got.Repetitions)
	}
	for _, m := range got.Methods[:len(got.Methods)-1] { // a new process is measured once for each model
		if len(m.Pairs) != 6 {
			t.Errorf("%s: %d pairs", m.Method, len(m.Pairs))
		}
		for _, p := range m.Pairs {
			if p.Repetitions != 2 {
				t.Errorf("%s, %s to %s: %d repetitions", m.Method, p.From, p.To, p.Repetitions)
			}
		}
	}
	if strings.Contains(stderr, switchProgress) {
		t.Errorf("progress under --quiet: %s", stderr)
	}
	for _, m := range got.Models {
		if !m.SameResult {
			t.Errorf("%s: other losses under switches", m.Name)
		}
	}
	picture, err := os.ReadFile(svg)
	if err != nil || !strings.Contains(string(picture), "PipeSwitch") {
		t.Errorf("picture: %v", err)
	}
	file, err := os.Open(filepath.Join(dir, "s.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if result, err := bench.ReadSwitches(file); err != nil {
		t.Error(err)
	} else if err := result.Write(&strings.Builder{}); err != nil {
		t.Error(err)
	}
}
