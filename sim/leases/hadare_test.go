package leases

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Two jobs are on three nodes of one GPU. The short job has the greater utility of a GPU and gets the V100; the
// long one gets the P100. The K80 adds 1/3 to the short job's rate of 3, and so 1/40 × 1/3 to its utility of
// 3/120; to the long one's utility of 2/1200 it adds less.
func TestHadarEByHand(t *testing.T) {
	state := func(jobs ...*Job) *State {
		s := &State{Types: []string{"K80", "P100", "V100"}, GPUs: []int{1, 1, 1}, NodeSize: []int{1, 1, 1}}
		for i, j := range jobs {
			s.Jobs = append(s.Jobs, View{Job: j, Number: i, StepsLeft: j.Steps})
		}
		return s
	}
	job := func(id string, steps int64, rates ...float64) *Job {
		return &Job{ID: id, Weight: 1, GPUs: 1, Steps: steps, Rate: rates}
	}
	for _, x := range []struct {
		name  string
		state *State
		cfg   HadarEConfig
		want  string
	}{
		{"the short job gets the third node", state(job("long", 1200, 1, 2, 3), job("short", 120, 1, 2, 3)),
			HadarEConfig{}, "[{0 [1] 0} {1 [2 0] 2}]"},
		{"one job gets all", state(job("a", 1200, 1, 2, 3)), HadarEConfig{}, "[{0 [2 1 0] 3}]"},
		{"two copies at most", state(job("a", 1200, 1, 2, 3)), HadarEConfig{MaxCopies: 2}, "[{0 [2 1] 2}]"},
		{"no copies", state(job("a", 1200, 1, 2, 3)), HadarEConfig{MaxCopies: 1}, "[{0 [2] 0}]"},
		{"merging costs more than the slow copy gains", state(job("a", 1200, 0.1, 0.2, 3)),
			HadarEConfig{MergeShare: 0.1}, "[{0 [2] 0}]"},
		{"the third merges as well as two", state(job("a", 1200, 0.1, 2, 3)), HadarEConfig{MergeShare: 0.1},
			"[{0 [2 1 0] 3}]"},
		{"copies that learn half", state(job("a", 1200, 1, 2, 3)), HadarEConfig{Efficiency: 0.5},
			"[{0 [2 1 0] 3}]"},
		{"copies that hardly learn", state(job("a", 1200, 1, 2, 3)), HadarEConfig{Efficiency: 0.1},
			"[{0 [2] 0}]"},
		{"not where it cannot run", state(job("a", 1200, 0, 2, 3)), HadarEConfig{}, "[{0 [2 1] 2}]"},
	} {
		got, err := newHadarE(x.cfg).Hold(t.Context(), x.state, nil)
		if fmt.Sprint(got) != x.want || err != nil {
			t.Errorf("%s: %v, not %s (%v)", x.name, got, x.want, err)
		}
	}
}

// TestHadarELosesNoStep plays random jobs on random nodes that fail, with copies that restart, merge, learn
// less and are misjudged: each job ends with just its steps, and no GPU is in two copies (the engine refuses).
func TestHadarELosesNoStep(t *testing.T) {
	forked := 0
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 7))
		c := Cluster{Types: []string{"K80", "P100", "V100"}}
		for range c.Types {
			size := 1 + r.IntN(3)
			c.NodeSize = append(c.NodeSize, size)
			c.GPUs = append(c.GPUs, size*(1+r.IntN(3)))
		}
		var jobs []Job
		at := 0.0
		for i := range 1 + r.IntN(8) {
			j := Job{ID: fmt.Sprint(i), ArrivalS: at, Weight: 1, GPUs: 1 + r.IntN(slices.Max(c.NodeSize)),
				Rounds: r.IntN(2) == 0}
			j.Steps = int64(j.GPUs) * (1 + r.Int64N(4000))
			for range c.Types {
				j.Rate = append(j.Rate, float64(j.GPUs)*(0.2+2*r.Float64()))
			}
			jobs = append(jobs, j)
			at += 300 * r.ExpFloat64()
		}
		cfg := RunConfig{RestartS: 10 * r.Float64(), Seed: seed, KeepSteps: r.IntN(2) == 0,
			Fork: Fork{MergeS: 20 * r.Float64()}}
		if r.IntN(2) == 0 {
			cfg.FaultRate = FaultRate{MeanS: 2000, RepairS: 300}
		}
		if r.IntN(2) == 0 {
			cfg.Fork.Efficiency = 0.3 + 0.7*r.Float64()
		}
		if r.IntN(2) == 0 {
			cfg.Fork.Guess = func(j *Job, k int) float64 { return 0.3 + float64((len(j.ID)+k)%3) }
		}
		count := &counted{hadarE: newHadarE(HadarEConfig{MergeShare: cfg.Fork.MergeS / 360,
			Efficiency: cfg.Fork.Efficiency})}
		o, err := Run(t.Context(), "hadare", c, jobs, count, cfg)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		forked += count.copies
		for i := range o.Jobs {
			if j := &o.Jobs[i]; j.EndS < 0 || j.Dropped || j.StepsRun != jobs[i].Steps {
				t.Errorf("seed %d: job %s ended at %v with %d of %d steps, dropped %v", seed, j.ID, j.EndS, j.StepsRun,
					jobs[i].Steps, j.Dropped)
			}
		}
		again, err := Run(t.Context(), "hadare", c, jobs, newHadarE(count.cfg), cfg)
		if err != nil || fmt.Sprint(again.Jobs) != fmt.Sprint(o.Jobs) {
			t.Fatalf("seed %d: the same run gave other jobs (%v)", seed, err)
		}
	}
	if forked < 200 {
		t.Errorf("only %d holds had several copies", forked)
	}
}

// counted counts the holds with several copies.
type counted struct {
	*hadarE
	copies int
}

func (c *counted) Hold(ctx context.Context, s *State, previous []Hold) ([]Hold, error) {
	holds, err := c.hadarE.Hold(ctx, s, previous)
	for _, h := range holds {
		if h.Copies > 1 {
			c.copies++
		}
	}
	return holds, err
}

func TestHadarERefusesSettings(t *testing.T) {
	for _, cfg := range []HadarEConfig{{MaxCopies: -1}, {MergeShare: 1}, {MergeShare: -1}, {Efficiency: 2},
		{Efficiency: -1}, {Hadar: HadarConfig{Beam: -1}}} {
		if cfg.Check() == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}
