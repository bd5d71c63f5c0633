package experiment

import (
	"errors"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
)

// Every scheme runs on every group that has it, no run is below its bound, and again the figures are the same. Runs
// on traces pass the verifier.
func TestASRPTMeasurement(t *testing.T) {
	checked := 0
	cfg := Config{Scale: 20, Repeat: 1, Check: func(inst *hare.Instance, res *hare.Result) error {
		checked++
		if rep := verify.Check(inst, res); !rep.OK {
			return errors.New(rep.String())
		}
		return nil
	}}
	text := measuredText(t, asrptMeasurement, cfg)
	for _, v := range asrptVariants() {
		want := 4
		switch {
		case v.graphs:
			want = 1
		case strings.HasPrefix(v.policy, "gavel:"):
			want = 3
		}
		if got := strings.Count(text, "\n| "+v.name()+" |"); got != want {
			t.Errorf("%s stands %d times, want %d", v.name(), got, want)
		}
	}
	if checked == 0 {
		t.Error("no run was checked")
	}
	cfg.Parallel = 2
	cfg.Check = nil
	if again := measuredText(t, asrptMeasurement, cfg); again != text {
		t.Error("two runs side by side give other figures")
	}
}

// The jobs of a seed are valid instances of the same work, whose least times are at most those by spread.
func TestGraphJobs(t *testing.T) {
	d, err := drawGraphs(3, 60, 8)
	if err != nil {
		t.Fatal(err)
	}
	for _, inst := range []*hare.Instance{d.inst, d.least} {
		if err := inst.Validate(); err != nil {
			t.Error(err)
		}
	}
	recurring := 0
	for i := range d.inst.Jobs {
		a, b := &d.inst.Jobs[i], &d.least.Jobs[i]
		g := d.graphs[a.ID]
		if a.Rounds != b.Rounds || int64(g.Graph.GPUs()) != a.Tasks {
			t.Errorf("job %s: %d and %d rounds, %d tasks", a.ID, a.Rounds, b.Rounds, a.Tasks)
		}
		if us := b.On[0].DurationUs(); us != g.Graph.LeastUs("V100", d.net)*g.Iterations || us > a.On[0].DurationUs() ||
			us > 120e6 {
			t.Errorf("job %s: a round takes %d µs, by spread at most %d", a.ID, us, a.On[0].DurationUs())
		}
		if strings.HasPrefix(a.Hints.Class[1].Value, "job-") {
			recurring++
		}
	}
	if recurring < 40 || recurring == 60 {
		t.Errorf("%d of 60 jobs recur", recurring)
	}
}
