package study_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/study"
	"github.com/hare-sched/hare/trace"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// estimatedJobs are generated jobs whose estimates are the sizes times a factor.
func estimatedJobs(factor float64) (*hare.Instance, error) {
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: 60, Arrivals: "uniform:600", Sync: "gang", Seed: 5,
		GPUs: []hare.TypeCount{{Type: "T4", Count: 12}, {Type: "V100", Count: 16}}})
	if err != nil {
		return nil, err
	}
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		least := j.On[0].DurationUs()
		for _, p := range j.On {
			least = min(least, p.DurationUs())
		}
		j.Hints = &hare.JobHints{EstimateUs: int64(factor * float64(least*j.Rounds))}
	}
	return inst, nil
}

// A policy that is told exact sizes may be told the users' estimates instead.
func ExampleSimulate_estimates() {
	inst, err := estimatedJobs(1.1)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, sizes := range []string{simulatedoc.SizesExact, simulatedoc.SizesEstimates} {
		req := &simulatedoc.Request{Policies: []string{"srtf"}, Instance: inst, Sizes: sizes}
		rep, err := study.Simulate(context.Background(), req, study.Config{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("knows %s: mean JCT %.0f s\n", rep.Runs[0].Knows, rep.Runs[0].MeanJCTS)
	}
	// Output:
	// knows sizes: mean JCT 721 s
	// knows estimates: mean JCT 734 s
}

// With estimates no policy of tasks depends on how many rounds the instance gives a job
// beyond what the events show, and every one of them ends all jobs.
func TestSizesAreNotTold(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, in which the race detector finds nothing")
	}
	inst, err := estimatedJobs(1)
	if err != nil {
		t.Fatal(err)
	}
	inst.Jobs = inst.Jobs[:25]
	names := []string{"asrpt", "easy_backfill", "hare_offline", "hare_paper", "rolling", "sampling",
		"sched_allox", "sched_homo", "slurm",
		"srtf", "themis", "tiresias_gittins"}
	req := &simulatedoc.Request{Policies: names, Instance: inst, Sizes: simulatedoc.SizesEstimates}
	rep, err := study.Simulate(t.Context(), req, study.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rep.Runs {
		want := "estimates"
		if names[i] == "rolling" {
			want = "nothing"
		}
		if r.Knows != want || r.Jobs != 25 || !r.Verified {
			t.Errorf("%s knows %s, %d jobs, verified %t", r.Policy, r.Knows, r.Jobs, r.Verified)
		}
	}
	if text := strings.Join(rep.Notes, "\n"); !strings.Contains(text, "25 of 25 jobs carry estimate_s or class") {
		t.Errorf("the notes are %q", text)
	}
	req.Sizes = "some"
	_, err = study.Simulate(t.Context(), req, study.Config{})
	if err == nil || !strings.Contains(err.Error(), "/sizes") {
		t.Errorf("sizes some: %v", err)
	}
}
