package elastic

import (
	"context"
	"reflect"
	"testing"
)

func pollux(t *testing.T, cfg PolluxConfig, seed uint64) *Pollux {
	t.Helper()
	p, err := NewPollux(cfg, seed)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A job that has measured nothing takes its initial batch on one GPU. With compute of 1 s and 1/8 s
// a sample on one GPU, no time of exchange and gradients that are all noise, it then takes the
// greatest batch that one GPU does in two passes. A policy without co-adaptation keeps the batch of
// the job.
func TestPolluxBatch(t *testing.T) {
	job := elastic(0, 1, nil).Job
	job.Batch = 128
	job.Limits = BatchLimits{Init: 8, Max: 512, MinLocal: 4, MaxLocal: 32}
	p := pollux(t, PolluxConfig{}, 1)
	if local, passes := p.Split(job, 0, []int{1}); local != 8 || passes != 1 {
		t.Errorf("first: %d passes of %d", passes, local)
	}
	for _, local := range []int{8, 32} {
		seen := TrainingStep{Nodes: 1, GPUs: 1, Local: local, StepS: 1 + float64(local)/8, Sqr: 1e-9, Variance: 1}
		if err := p.Observe(job, 0, seen); err != nil {
			t.Fatal(err)
		}
	}
	if local, passes := p.Split(job, 0, []int{1}); local != 32 || passes < 2 {
		t.Errorf("noisy: %d passes of %d", passes, local)
	}
	kept := pollux(t, PolluxConfig{KeepBatch: true}, 1)
	if local, passes := kept.Split(job, 0, []int{2, 2}); local != 32 || passes != 1 {
		t.Errorf("kept: %d passes of %d", passes, local)
	}
}

// A job may have one GPU at first, and then twice the GPUs that it has measured.
func TestPolluxWidths(t *testing.T) {
	p := pollux(t, PolluxConfig{}, 1)
	view := elastic(7, 1, nil)
	view.Limits = BatchLimits{Init: 64, Max: 4096, MinLocal: 8, MaxLocal: 64}
	s := &State{NowS: 600, Nodes: []int{4, 4}, Jobs: []View{view}}
	for _, want := range []int{1, 2, 4, 8, 8} {
		all, err := p.Allocate(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		if got := width(all[0]); got != want {
			t.Fatalf("%d GPUs, by hand %d", got, want)
		}
		s.Jobs[0].Held = all[0]
		if err := p.Observe(view.Job, 7, TrainingStep{Nodes: len(all[0]), GPUs: want, Local: 64, StepS: 1,
			SyncS: .01, Sqr: 1e-9, Variance: 1}); err != nil {
			t.Fatal(err)
		}
		s.NowS += 60
	}
	// The policy forgets jobs that have ended.
	s.Jobs = []View{elastic(8, 1, nil)}
	if _, err := p.Allocate(context.Background(), s); err != nil || len(p.jobs) != 1 || p.jobs[8] == nil {
		t.Errorf("jobs %v, error %v", p.jobs, err)
	}
}

func TestPolluxSeeds(t *testing.T) {
	run := func(seed uint64) (out [][][]NodeGPUs) {
		p, s := decision(t, PolluxConfig{Generations: 5}, seed)
		for range 2 {
			all, err := p.Allocate(context.Background(), s)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, all)
			for i := range s.Jobs {
				s.Jobs[i].Held = all[i]
			}
		}
		return out
	}
	if !reflect.DeepEqual(run(1), run(1)) {
		t.Error("the same seed gives other allocations")
	}
	if reflect.DeepEqual(run(1), run(2)) {
		t.Error("other seeds give the same allocations")
	}
}

func TestPolluxRefuses(t *testing.T) {
	for _, cfg := range []PolluxConfig{{Power: 1000}, {RestartS: 1e12}, {MaxGPUs: -1}, {MaxNodes: -1}, {Population: 1},
		{Generations: -1}} {
		if _, err := NewPollux(cfg, 1); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p, s := decision(t, PolluxConfig{}, 1)
	if _, err := p.Allocate(ctx, s); err == nil {
		t.Error("a cancelled search goes on")
	}
}
