package experiment

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
)

// Every policy plays some trace, no run is below its bound, and a measurement that was interrupted goes on to the
// same figures.
func TestEverything(t *testing.T) {
	cfg := Config{Scale: 40, Repeat: 1, Parallel: 2}
	if testing.Short() {
		cfg.Scale = 160 // the same runs, of fewer jobs on fewer GPUs
	}
	cfg.Unfinished = filepath.Join(t.TempDir(), "whole.unfinished")
	text := measuredText(t, everything, cfg)
	variants := []string{boundRow, "asrpt, no prediction", "asrpt, sizes believed"}
	for _, name := range append(registry.Names(), variants...) {
		if !strings.Contains(text, "| "+name+" |") {
			t.Errorf("no row %s", name)
		}
	}
	cfg.Unfinished = filepath.Join(t.TempDir(), "everything.unfinished")
	interruptions := []int{30, 90}
	if testing.Short() {
		interruptions = interruptions[:1]
	}
	for _, after := range interruptions {
		ctx, cancel := context.WithCancel(t.Context())
		cfg.Progress = func(p Progress) {
			if p.Done >= after {
				cancel()
			}
		}
		if _, err := everything.Run(ctx, cfg); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cancel()
		kept, err := os.ReadFile(cfg.Unfinished)
		if err != nil || bytes.Count(kept, []byte("\n")) < after-2 {
			t.Fatalf("after %d runs: %v, %d lines", after, err, bytes.Count(kept, []byte("\n")))
		}
		if err := os.WriteFile(cfg.Unfinished, append(kept, `{"group":"Philly","row"`...), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if testing.Short() {
		return // the race detector has seen whole and cancelled runs beside each other
	}
	begun := 0
	cfg.Progress = func(Progress) { begun++ }
	if other := measuredText(t, everything, cfg); other != text {
		t.Errorf("after interruptions:\n%s\nwant\n%s", other, text)
	}
	if n, err := everything.Size(cfg); err != nil || begun == 0 || begun > n-80 {
		t.Errorf("%d of %d runs began again: %v", begun, n, err)
	}
	cfg.Scale = 39
	if _, err := everything.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("runs of other settings: %v", err)
	}
	if err := RemoveUnfinished(cfg.Unfinished); err != nil {
		t.Fatal(err)
	}
	if err := RemoveUnfinished(cfg.Unfinished); err != nil {
		t.Errorf("without a file: %v", err)
	}
}

func TestUnfinishedRefuses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	cfg := Config{Unfinished: name, Scale: 1, Repeat: 1, FirstSeed: 1}
	runs := []measured{{group: "g", row: "r", seed: 1}}
	u, err := openUnfinished(&cfg, "m", runs)
	if err != nil {
		t.Fatal(err)
	}
	u.close()
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"hello\n":                "other settings",
		string(whole) + "what\n": ":2:",
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := openUnfinished(&cfg, "m", runs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	cfg.Unfinished = filepath.Join(name, "below")
	if _, err := openUnfinished(&cfg, "m", runs); err == nil {
		t.Error("a file below a file")
	}
}

// Draws depend on the seed alone, and keep to the widths and the number of jobs.
func TestDrawnTraces(t *testing.T) {
	for i := range drawnTraces {
		tr := &drawnTraces[i]
		a, err := tr.draw(3, 50)
		if err != nil {
			t.Fatal(err)
		}
		b, err := tr.draw(3, 50)
		if err != nil || !bytes.Equal(a.text, b.text) {
			t.Errorf("%s: another draw of the same seed: %v", tr.name, err)
		}
		if c, err := tr.draw(4, 50); err != nil || bytes.Equal(a.text, c.text) {
			t.Errorf("%s: the same draw of another seed: %v", tr.name, err)
		}
		if len(a.inst.Jobs) != 50 || !slices.IsSortedFunc(a.inst.Jobs,
			func(x, y hare.Job) int { return int(x.ReleaseUs - y.ReleaseUs) }) {
			t.Errorf("%s: %d jobs, or not in the order of arrival", tr.name, len(a.inst.Jobs))
		}
		for _, j := range a.inst.Jobs {
			if j.Tasks > int64(tr.widest) || j.Sync != hare.Gang {
				t.Errorf("%s: job %s has %d tasks", tr.name, j.ID, j.Tasks)
			}
		}
	}
}

// A run below its bound is an error, and a policy that forks jobs has no bound.
func TestEverythingBelowTheBound(t *testing.T) {
	made := func(value float64, name string) *Measured {
		return &Measured{Measurement: everything,
			runs:    []measured{{group: "Philly", row: boundRow, seed: 1}, {group: "Philly", row: name, seed: 1}},
			figures: [][]figure{{{weightedMean, 100, 1}}, {{weightedMean, value, 1}}}, reasons: make([]string, 2)}
	}
	if _, err := everythingTables(made(99.9, "fifo")); err == nil {
		t.Error("a run below the bound passes")
	}
	if _, err := everythingPicture(made(99.9, "hadar")); err == nil {
		t.Error("a run below the bound is drawn")
	}
	rows, bounds, err := everythingRows(made(99.9, "hadare"))
	if err != nil || rows[0].cells[2].ratio.N != 0 || rows[0].cells[2].value.Mean != 99.9 || bounds[2].Mean != 100 {
		t.Errorf("%+v %+v %v", rows, bounds, err)
	}
	rows, _, err = everythingRows(made(150, "fifo"))
	if err != nil || rows[0].cells[2].ratio != (sim.Stat{Mean: 1.5, N: 1}) || rows[0].overall.N != 0 {
		t.Errorf("%+v %v", rows, err)
	}
}
