package experiment

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
)

func measuredText(t *testing.T, m Measurement, cfg Config) string {
	t.Helper()
	r, err := m.Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	if err := r.CSV(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The result does not depend on how many runs go on side by side. Guaranteed jobs are not slowed by
// managed sharing, and wait less than with GPUs of their own.
func TestAntmanMeasurement(t *testing.T) {
	m, ok := FindMeasurement("antman")
	if !ok {
		t.Fatal("no antman")
	}
	text := measuredText(t, m, Config{Scale: 8, Repeat: 2})
	if other := measuredText(t, m, Config{Scale: 8, Repeat: 2, Parallel: 3}); other != text {
		t.Errorf("side by side:\n%s\nwant\n%s", other, text)
	}
	r, err := m.Run(context.Background(), Config{Scale: 4, Repeat: 1})
	if err != nil {
		t.Fatal(err)
	}
	of := func(row, name string) float64 {
		for i := range r.runs {
			for _, f := range r.figures[i] {
				if strings.HasPrefix(r.runs[i].row, row) && f.name == name {
					return f.value
				}
			}
		}
		t.Fatalf("no %q of %q", name, row)
		return 0
	}
	if slow := of("managed", "slowdown of guaranteed jobs"); slow > 1+1e-9 {
		t.Errorf("guaranteed jobs are slowed by %v", slow)
	}
	if own, managed := of("exclusive", "their wait s"), of("managed", "their wait s"); managed >= own {
		t.Errorf("guaranteed jobs wait %v s, with GPUs of their own %v s", managed, own)
	}
	files, err := r.Write(t.TempDir() + "/new")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if text, err := os.ReadFile(name); err != nil || len(text) == 0 {
			t.Error(name, err)
		}
	}
}

// One run of Pollux's measurement with a small search, on four jobs.
func TestPolluxMeasurement(t *testing.T) {
	m, ok := FindMeasurement("pollux")
	if !ok {
		t.Fatal("no pollux")
	}
	cfg := Config{Scale: 40, Repeat: 1, FirstSeed: 3}
	runs, err := m.prepare(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if r.row == "10 generations" {
			figures, err := r.run(context.Background())
			if err != nil || len(figures) != 6 || !(figures[0].value > 0) || r.seed != 3 {
				t.Errorf("seed %d: %v, %v", r.seed, figures, err)
			}
			return
		}
	}
	t.Errorf("no run in %v", runs)
}

func TestMeasurementRefuses(t *testing.T) {
	for _, m := range Measurements() {
		for _, cfg := range []Config{{Policies: []string{"hlas"}}, {Scale: -1}, {Repeat: 1e6}, {PlanLatencyUs: 1}} {
			if _, err := m.Size(cfg); err == nil {
				t.Errorf("%s: %+v is not refused", m.Name, cfg)
			}
			if _, err := m.Run(context.Background(), cfg); err == nil {
				t.Errorf("%s: %+v runs", m.Name, cfg)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := m.Run(ctx, Config{Scale: 40, Repeat: 1}); err == nil {
			t.Errorf("%s: a cancelled measurement ends without an error", m.Name)
		}
	}
}
