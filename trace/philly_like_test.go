package trace

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	hare "github.com/hare-sched/hare"
)

func phillyLike(t *testing.T, cfg PhillyConfig) *hare.Instance {
	t.Helper()
	inst, err := PhillyLike(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

func TestPhillyLike(t *testing.T) {
	cfg := PhillyConfig{Jobs: 50_000, Seed: 1}
	a := phillyLike(t, cfg)
	if d := cmp.Diff(a, phillyLike(t, cfg)); d != "" {
		t.Error("same seed, another instance")
	}
	if cmp.Equal(a.Jobs, phillyLike(t, PhillyConfig{Jobs: 50_000, Seed: 2}).Jobs) {
		t.Error("another seed, same jobs")
	}
	var work float64
	wide := map[int64]int{}
	var single []int64
	for i, j := range a.Jobs {
		if i > 0 && j.ReleaseUs < a.Jobs[i-1].ReleaseUs || j.Rounds != 1 || j.Sync != hare.Rigid || len(j.On) != 1 {
			t.Fatalf("job %+v", j)
		}
		work += float64(j.Tasks) * float64(j.On[0].ComputeUs)
		wide[j.Tasks]++
		if j.Tasks == 1 {
			single = append(single, j.On[0].ComputeUs)
		}
	}
	// The load is exact by construction, apart from the rounding of arrivals.
	if load := work / (2490 * float64(a.Jobs[len(a.Jobs)-1].ReleaseUs)); math.Abs(load-0.8) > 1e-6 {
		t.Errorf("load %v", load)
	}
	// Of the 11,386 jobs of the week, 10,823 have one GPU and 15 have 32; the limits are
	// four standard deviations of a binomial.
	for tasks, of := range map[int64]int{1: 10823, 8: 203, 32: 15} {
		p := float64(of) / 11386
		if got, want := float64(wide[tasks]), 50_000*p; math.Abs(got-want) > 4*math.Sqrt(want*(1-p)) {
			t.Errorf("%d jobs of %d GPUs, about %.0f expected", wide[tasks], tasks, want)
		}
	}
	// The median of jobs of one GPU is 1,117 s, with 1,728 s and 600 s at 0.6 and 0.4.
	slices.Sort(single)
	if m := float64(single[len(single)/2]) / 1e6; m < 1050 || m > 1190 {
		t.Errorf("median of single jobs %v s", m)
	}
	decodes(t, phillyLike(t, PhillyConfig{Jobs: 200}))
}

// A gang job is cut into rounds, models make types differ, no job is wider than every
// type, and load is relative to what the types do.
func TestPhillyLikeGangs(t *testing.T) {
	a := phillyLike(t, PhillyConfig{Jobs: 2000, Sync: "gang", Quantum: 10 * time.Minute, Load: 2,
		GPUs: []hare.TypeCount{{Type: "V100", Count: 16}, {Type: "K80", Count: 16}}})
	decodes(t, a)
	var work, rounds float64
	for _, j := range a.Jobs {
		k80, v100 := j.On[0], j.On[1]
		if j.Tasks > 16 || j.Sync != hare.Gang || v100.ComputeUs > 600e6 || j.Rounds > 1 && v100.ComputeUs < 300e6 {
			t.Fatalf("job %+v", j)
		}
		slower := float64(k80.ComputeUs) / float64(v100.ComputeUs)
		if slower < 1.89 || slower > 10.11 {
			t.Fatalf("job %+v", j)
		}
		work += float64(j.Tasks*j.Rounds) * float64(v100.ComputeUs) / (0.5 + 0.5/slower)
		rounds += float64(j.Rounds)
	}
	if load := work / (32 * float64(a.Jobs[len(a.Jobs)-1].ReleaseUs)); math.Abs(load-2) > 1e-3 {
		t.Errorf("load %v", load)
	}
	if rounds < 4000 {
		t.Errorf("%v rounds of 2,000 jobs", rounds)
	}
	for name, cfg := range map[string]PhillyConfig{
		"jobs": {Jobs: -1}, "many": {Jobs: 2e6}, "load": {Load: math.NaN()}, "sync": {Sync: "relaxed"},
		"quantum": {Quantum: 1},
	} {
		if _, err := PhillyLike(cfg); err == nil {
			t.Error(name)
		}
	}
}

// Jobs that are written as a trace are read as the same jobs.
func TestWritePhilly(t *testing.T) {
	want := phillyLike(t, PhillyConfig{Jobs: 500, Seed: 3})
	var b bytes.Buffer
	if err := WritePhilly(&b, want); err != nil {
		t.Fatal(err)
	}
	got, rep, err := Philly(Source{"t", &b}, Config{})
	if err != nil || len(rep.Skipped) > 0 {
		t.Fatal(err, rep)
	}
	if d := cmp.Diff(want.Jobs, got.Jobs); d != "" {
		t.Error(d)
	}
	if err := WritePhilly(&b, phillyLike(t, PhillyConfig{Jobs: 5, GPUs: []hare.TypeCount{{Type: "V100", Count: 8},
		{Type: "K80", Count: 8}}})); err == nil {
		t.Error("two types in a trace that knows one")
	}
}

// The jobs of a million-job Philly trace last longer, one after another, than the times
// of a plan allow; a simulation accepts them.
func TestLongTraces(t *testing.T) {
	text := "arrival_s,duration_s,num_gpus\n" + strings.Repeat("0,5000000000,1\n", 2)
	if _, _, err := Philly(Source{"t", strings.NewReader(text)}, Config{}); err == nil ||
		!strings.Contains(err.Error(), "285 years") {
		t.Error(err)
	}
	inst, _, err := Philly(Source{"t", strings.NewReader(text)}, Config{Long: true})
	if err != nil || len(inst.Jobs) != 2 {
		t.Fatal(err)
	}
	if _, _, err := Philly(Source{"t", strings.NewReader("arrival_s,duration_s,num_gpus\n8000000000,5000000000,1\n")},
		Config{Long: true}); err == nil {
		t.Error("a job that ends after 285 years")
	}
}
