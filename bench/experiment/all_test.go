package experiment_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/bench/experiment"
)

// tinySet returns settings under which every experiment takes a few seconds.
func tinySet() experiment.Config {
	return experiment.Config{Scale: 20, Repeat: 1, Moves: -1, Parallel: 3}
}

// Each experiment runs, and each of its runs passes the verifier and is no better than
// the bound. The files of some experiments are compared with those of runs that went one
// after another.
func TestAll(t *testing.T) {
	for _, x := range experiment.All() {
		t.Run(x.Name, func(t *testing.T) {
			if testing.Short() && !slices.Contains([]string{"algorithm-1", "faults", "hadare"}, x.Name) {
				t.Skip("takes some seconds; in the long run")
			}
			t.Parallel()
			cfg := tinySet()
			if x.Name == "slowdown" {
				cfg.Scale = 100 // its instances are those of online and sync
			}
			var mu sync.Mutex
			checked, said := 0, 0
			cfg.Check = func(inst *hare.Instance, res *hare.Result) error {
				mu.Lock()
				checked++
				mu.Unlock()
				return check(inst, res)
			}
			cfg.Progress = func(p experiment.Progress) {
				if p.Done != said {
					t.Errorf("%d done after %d", p.Done, said)
				}
				said++
			}
			size, err := x.Size(cfg)
			if err != nil {
				t.Fatal(err)
			}
			r, err := x.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			bounded := 0
			for _, run := range r.Runs {
				if run.Bound > 0 {
					bounded++
				}
				if run.Bound > 0 && !(run.Ratio >= 1) || !(run.Metrics.MeanJCTS > 0) {
					t.Errorf("%s on %s: ratio %g, mean JCT %g", run.Scheme, run.Instance, run.Ratio,
						run.Metrics.MeanJCTS)
				}
			}
			if checked != bounded || said != size || bounded < len(r.Runs) && x.Name != "stragglers" && !x.OfLeases() {
				t.Errorf("%d runs, %d bounded, %d checked, %d of %d said", len(r.Runs), bounded, checked, said, size)
			}
			if err := r.HTML(io.Discard); err != nil {
				t.Error(err)
			}
			if !slices.Contains([]string{"cdf", "sync", "profile-errors"}, x.Name) {
				return
			}
			dir := t.TempDir()
			files, err := r.Write(filepath.Join(dir, "a"))
			if err != nil || len(files) < 5 {
				t.Fatalf("files %v, %v", files, err)
			}
			cfg.Parallel, cfg.Progress, cfg.Check = 1, nil, nil
			again, err := x.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			others, err := again.Write(filepath.Join(dir, "b"))
			if err != nil {
				t.Fatal(err)
			}
			for i := range files {
				a, errA := os.ReadFile(files[i])
				b, errB := os.ReadFile(others[i])
				if errA != nil || errB != nil || len(a) == 0 || !bytes.Equal(a, b) {
					t.Errorf("%s: %v, %v; equal: %v", files[i], errA, errB, bytes.Equal(a, b))
				}
			}
		})
	}
}

// The job has 20 rounds of 8 tasks. A task takes 68.175 s on a K80 and 6.75 s on a V100,
// and then 1.5 s of synchronisation. A gang takes 20 · (68.175 + 1.5) s if one of its GPUs
// is a K80, and 20 · (6.75 + 1.5) s otherwise. If the job is relaxed, one V100 does all 8
// tasks in 54 s, before a K80 has done one task; four V100s do two tasks each.
func TestHeterogeneity(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds; in the long run")
	}
	x, err := experiment.Find("heterogeneity")
	if err != nil {
		t.Fatal(err)
	}
	cfg := tinySet()
	cfg.Policies = []string{"hare_offline"}
	r, err := x.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[float64]float64{
		"gang":       {0: 1393.5, 4: 1393.5, 7: 1393.5, 8: 165},
		"mixed gang": {0: 1393.5, 4: 1393.5, 7: 1393.5, 8: 165},
		"relaxed":    {0: 1393.5, 1: 1110, 4: 300, 7: 300, 8: 165},
	}
	seen := 0
	for _, run := range r.Runs {
		jct, ok := want[run.Variant][run.X]
		if run.Group != "vgg19" || !ok {
			continue
		}
		seen++
		if math.Abs(run.Metrics.MeanJCTS-jct) > 1e-6 || run.Ratio != 1 {
			t.Errorf("%s with %g V100: %g s, %g × bound; want %g", run.Variant, run.X, run.Metrics.MeanJCTS,
				run.Ratio, jct)
		}
	}
	if seen != 13 {
		t.Errorf("%d seen", seen)
	}
}

// Each run is compared with the run of the first scheme on the instance of the same seed.
func TestCompared(t *testing.T) {
	if testing.Short() {
		t.Skip("figures are for the run without the race detector")
	}
	x, err := experiment.Find("cdf")
	if err != nil {
		t.Fatal(err)
	}
	cfg := tinySet()
	cfg.Repeat = 2
	cfg.Policies = []string{"srtf", "gavel_fifo"}
	r, err := x.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(r.Runs); i += 2 {
		a, b := &r.Runs[i], &r.Runs[i+1]
		if a.Lower != 0 || a.MeanOver != 1 || a.ShareThen < 0.905 {
			t.Errorf("the first: %+v", a)
		}
		if want := 100 * (1 - a.Metrics.WeightedJCTS/b.Metrics.WeightedJCTS); math.Abs(b.Lower-want) > 1e-9 {
			t.Errorf("lower by %g, want %g", b.Lower, want)
		}
		if want := b.Metrics.MeanJCTS / a.Metrics.MeanJCTS; math.Abs(b.MeanOver-want) > 1e-9 {
			t.Errorf("mean over the first's %g, want %g", b.MeanOver, want)
		}
		// Of 10 jobs, 90.5 % are done when the tenth job is done.
		if want := b.Metrics.Share(slices.Max(a.Metrics.JCTsS)); b.ShareThen != want {
			t.Errorf("share then %g, want %g", b.ShareThen, want)
		}
	}
	rows := r.Rows()
	if len(rows) != 4 || rows[0].Group != rows[1].Group || rows[1].Group == rows[2].Group ||
		rows[0].WeightedJCTS.Half <= 0 {
		t.Errorf("rows %+v", rows)
	}
	index, err := experiment.WriteIndex(t.TempDir(), experiment.All())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(index)
	for _, x := range experiment.All() {
		if err != nil || !strings.Contains(string(text), `href="`+x.Name+`.html"`) {
			t.Errorf("no link to %s, %v", x.Name, err)
		}
	}
}

// An error in one run ends the experiment, also if runs go on side by side. The end of
// ctx ends the experiment, too.
func TestEnds(t *testing.T) {
	x, err := experiment.Find("gpus")
	if err != nil {
		t.Fatal(err)
	}
	bad := errors.New("refused")
	cfg := tinySet()
	cfg.Check = func(*hare.Instance, *hare.Result) error { return bad }
	if r, err := x.Run(t.Context(), cfg); r != nil || !errors.Is(err, bad) {
		t.Error(r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cfg = tinySet()
	cfg.Progress = func(p experiment.Progress) {
		if p.Done == 3 {
			cancel()
		}
	}
	if r, err := x.Run(ctx, cfg); r != nil || !errors.Is(err, context.Canceled) {
		t.Error(r, err)
	}
	cfg.Repeat = -1
	if _, err := x.Size(cfg); err == nil {
		t.Error("a negative number of seeds")
	}
}
