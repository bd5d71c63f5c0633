package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/policy"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/trace"
)

// builtIn names the engine where HiGHS does not run.
const builtIn = "built-in simplex"

// simulateLeases plays a trace to a policy that lends GPUs.
func simulateLeases(ctx context.Context, f *simulateFlags, info policy.Info, rated *trace.Rated, live *live) (*simulated, error) {
	cfg := sim.LeaseConfig{LeaseS: f.lease.Seconds(), ResetS: f.reset.Seconds(), RestartS: f.restart.Seconds(), Seed: f.seed, First: f.first, Last: f.last}
	if f.reset == 0 {
		cfg.ResetS = -1
	}
	if info.Needs.PairRates {
		if !rated.HasPairs() {
			return nil, usageError{fmt.Errorf("%s needs the rates of jobs that share GPUs: give a --table with other_job_type and other_steps_per_second, or leave --table out", info.Name)}
		}
		cfg.PairRates = func(a, b *online.LeaseJob, k int) (float64, float64) {
			return rated.PairRates(a.Kind, b.Kind, a.GPUs, k)
		}
	}
	jobs := make([]online.LeaseJob, len(rated.Jobs))
	for i, j := range rated.Jobs {
		jobs[i] = online.LeaseJob{ID: j.ID, ArrivalS: j.ArrivalS, Weight: j.Weight, GPUs: j.GPUs, Steps: j.Steps, Rate: j.Rate, Kind: j.Kind}
		if info.Needs.OneGPU && j.GPUs > 1 {
			return nil, usageError{fmt.Errorf("%s places jobs of one GPU, and job %.60q of the trace needs %d", info.Name, j.ID, j.GPUs)}
		}
	}
	with := policy.Config{Seed: f.seed}
	engine := ""
	solver := lp.OrSimplex{}
	if info.Needs.LP {
		engine = builtIn
		if pool, err := newPool(); err == nil {
			defer func() { _ = pool.Close() }()
			if v, err := pool.Ready(ctx); err == nil {
				engine = "HiGHS " + v
			}
			solver.First = pool
			with.Solver = &solver
		}
	}
	start := time.Now()
	cfg.Progress = func(p sim.LeaseProgress) {
		if p.Done == 0 || !live.on {
			return
		}
		took := time.Since(start).Seconds()
		live.text("%s  %d of %d jobs  %.1f days  %.0f rounds/s  %.0f s left", info.Name, p.Done, p.Jobs, p.NowS/86400,
			float64(p.Rounds)/took, took*float64(p.Jobs-p.Done)/float64(p.Done))
	}
	o, err := sim.RunLeases(ctx, info.Name, sim.LeaseCluster{Types: rated.Types, GPUs: rated.GPUs}, jobs, info.New(with), cfg)
	if err != nil {
		return nil, err
	}
	took := time.Since(start).Seconds()
	if solver.Second > 0 {
		engine = builtIn
	}
	run := &simulated{
		Policy: info.Name, Engine: info.Engine, Jobs: o.Counted, Dropped: o.Dropped, MeanJCTS: o.MeanJCTS, WeightedJCTS: o.WeightedJCTS,
		P50JCTS: o.P50S, P90JCTS: o.P90S, P99JCTS: o.P99S, MeanWaitS: o.MeanWaitS, TotalS: o.TotalS, Utilization: o.Utilization,
		UtilizationByType: map[string]float64{}, Rounds: o.Rounds, Leases: o.Leases, Preemptions: o.Preemptions, Seed: f.seed,
		LP: engine, WallS: took, JobsPerS: float64(len(o.Jobs)) / took,
	}
	for k, t := range rated.Types {
		run.UtilizationByType[t] = o.UtilizationByType[k]
	}
	for _, r := range o.Jobs {
		rec := jobRecord{id: r.ID, arrivalS: r.ArrivalS, startS: r.StartS, endS: r.EndS, steps: r.StepsRun, preemptions: r.Preemptions, state: "ended"}
		switch {
		case r.Dropped:
			rec.state = "dropped"
		case r.EndS < 0:
			rec.state = "unfinished"
		}
		run.records = append(run.records, rec)
	}
	return run, nil
}
