package leases_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/sim/leases"
)

// A lease that begins at 360 is lost at 400, when its GPU fails until 500. From 500 on the job
// does its last 360 steps. If each step is saved, the job has 40 steps fewer to do.
func TestLeaseLostToAFault(t *testing.T) {
	jobs := []leases.Job{leaseJob("a", 0, 1, 720, 1)}
	cfg := leases.RunConfig{Faults: []leases.Fault{{GPU: "V100/0", FromS: 400, UntilS: 500}}}
	o := lend(t, one(1), jobs, equally(1), cfg)
	nearly(t, "end", o.Jobs[0].EndS, 860)
	nearly(t, "lost", o.LostS, 40)
	nearly(t, "down", o.DownS, 100)
	nearly(t, "utilization", o.Utilization, 720./760)
	if o.Lost != 1 || o.Cut != 1 || o.Rounds != 4 {
		t.Errorf("%+v", o)
	}
	cfg.KeepSteps = true
	o = lend(t, one(1), jobs, equally(1), cfg)
	nearly(t, "end", o.Jobs[0].EndS, 820)
	nearly(t, "lost", o.LostS, 0)
	nearly(t, "utilization", o.Utilization, 1)
}

// A gang of two GPUs loses its first lease at 100, and its other GPU idles until the round
// ends with b at 360. GPU 0 is still out of service. The gang has received less than b, so it
// gets the other two GPUs and does all its steps until 720. Then b goes on.
func TestGangLosesALeaseToAFault(t *testing.T) {
	jobs := []leases.Job{leaseJob("a", 0, 2, 720, 2), leaseJob("b", 0, 1, 720, 1)}
	cfg := leases.RunConfig{Faults: []leases.Fault{{GPU: "V100/0", FromS: 100, UntilS: 720}}}
	o := lend(t, one(3), jobs, equally(1), cfg)
	nearly(t, "end of a", o.Jobs[0].EndS, 720)
	nearly(t, "end of b", o.Jobs[1].EndS, 1080)
	nearly(t, "lost", o.LostS, 200)
	nearly(t, "down", o.DownS, 620)
}

func TestLeaseFaultsRefused(t *testing.T) {
	c := leases.Cluster{Types: []string{"K80", "V100"}, GPUs: []int{1, 2}}
	jobs := []leases.Job{leaseJob("a", 0, 1, 10, 1, 1)}
	for _, c2 := range []struct {
		faults []leases.Fault
		rate   leases.FaultRate
		want   string
	}{
		{[]leases.Fault{{GPU: "V100/2", FromS: 1, UntilS: 2}}, leases.FaultRate{},
			`/faults/0: GPU "V100/2": is not in the cluster`},
		{[]leases.Fault{{GPU: "V100", FromS: 1, UntilS: 2}}, leases.FaultRate{},
			`/faults/0: GPU "V100": is not in the cluster`},
		{[]leases.Fault{{GPU: "K80/0", FromS: 2, UntilS: 2}}, leases.FaultRate{},
			`GPU "K80/0": the fault from 2 to 2 s`},
		{[]leases.Fault{{GPU: "K80/0", FromS: 2, UntilS: 4}, {GPU: "V100/1", FromS: 3, UntilS: 5},
			{GPU: "K80/0", FromS: 3, UntilS: 5}}, leases.FaultRate{},
			`/faults/2: GPU "K80/0": the fault from 3 to 5 s overlaps the fault from 2 to 4 s`},
		{nil, leases.FaultRate{MeanS: 5}, "/fault_rate: a GPU fails every 5 s for 0 s"},
		{nil, leases.FaultRate{MeanS: math.NaN(), RepairS: 1}, "/fault_rate"},
	} {
		_, err := leases.Run(t.Context(), "x", c, jobs, equally(1),
			leases.RunConfig{Faults: c2.faults, FaultRate: c2.rate})
		if bad, ok := errors.AsType[*hare.InvalidError](err); !ok || !strings.Contains(bad.Error(), c2.want) {
			t.Errorf("%v, want %s", err, c2.want)
		}
	}
	// A policy that lends a GPU that is out of service is refused. The error names the policy,
	// the time and the GPU.
	cfg := leases.RunConfig{Faults: []leases.Fault{{GPU: "V100/1", FromS: 0, UntilS: 9}}}
	_, err := leases.Run(t.Context(), "blind", c, jobs, holder{{Job: 0, GPUs: []int32{2}}}, cfg)
	if refused, ok := errors.AsType[*sim.AllocationError](err); !ok ||
		err.Error() != `sim: policy blind at 0.000 s: GPU V100/1: is out of service and was allocated to job "a"` {
		t.Errorf("%v, %v", refused, err)
	}
	// The GPU never returns.
	cfg.Faults[0] = leases.Fault{GPU: "V100/0", FromS: 3, UntilS: math.Inf(1)}
	if _, err := leases.Run(t.Context(), "x", one(1), []leases.Job{leaseJob("a", 0, 1, 10, 1)}, equally(1),
		cfg); !errors.Is(err, sim.ErrStalled) {
		t.Error(err)
	}
}

// Whatever fails, each step is done once: the time of the leases that were not lost equals the
// time of all steps. A second run gives the same outcome.
func TestLeaseFaultsAtRandom(t *testing.T) {
	cuts := int64(0)
	for seed := range seeds(100) {
		r := rand.New(rand.NewPCG(seed, 11))
		c := leases.Cluster{Types: []string{"K80", "V100"}, GPUs: []int{1 + r.IntN(4), 2 + r.IntN(4)}}
		cfg := leases.RunConfig{Seed: seed, KeepSteps: seed%2 == 1,
			FaultRate: leases.FaultRate{MeanS: 5000, RepairS: 500}, ResetS: -1}
		var jobs []leases.Job
		var work float64
		for i := range 1 + r.IntN(8) {
			// Each GPU of either type does two steps a second.
			j := leaseJob(fmt.Sprint("j", i), 0, 1+r.IntN(2), int64(1+r.IntN(4000))*4, 0, 0)
			j.Rate[0], j.Rate[1] = 2*float64(j.GPUs), 2*float64(j.GPUs)
			jobs = append(jobs, j)
			work += float64(j.Steps) / 2
		}
		share := sharer{share: func(int) []float64 { return []float64{0.5, 0.5} }, wish: true}
		var last string
		for range 2 {
			o, err := leases.Run(context.Background(), "x", c, jobs, share, cfg)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			cuts += o.Cut
			if o.Dropped > 0 {
				continue
			}
			m := o.Metrics(c, jobs)
			held := m.Utilization * (float64(c.GPUs[0]+c.GPUs[1])*o.TotalS - m.DownS)
			if d := held - work; d < -1e-3 || !cfg.KeepSteps && d > 1e-3 || d > float64(2*o.Cut)+1e-3 {
				t.Fatalf("seed %d: %v GPU-seconds in leases, %v of work, %d cut", seed, held, work, o.Cut)
			}
			if text := fmt.Sprintf("%+v", o); last != "" && text != last {
				t.Fatalf("seed %d: %s, then %s", seed, last, text)
			} else {
				last = text
			}
			if m.MeanSlowdown < 1-1e-9 || m.Jain <= 0 || m.Jain > 1+1e-9 || m.WorstRho < m.MeanRho-1e-9 ||
				m.Jobs != len(jobs) || m.LostTasks < o.Cut {
				t.Fatalf("seed %d: %+v", seed, m)
			}
		}
	}
	if cuts == 0 {
		t.Error("nothing failed")
	}
}

// The figures are those of the two jobs that take turns (TestLeasesTakeTurns). Job a takes
// 400 s alone and ends at 500; job b takes 100 s alone and ends at 460. Both jobs are in the
// system until 460, so rho is 500 / max(400, (2·460 + 40)/500 · 400) for a and
// 460 / max(100, 2·100) for b.
func TestLeaseMetricsByHand(t *testing.T) {
	jobs := []leases.Job{leaseJob("a", 0, 1, 400, 1), leaseJob("b", 0, 1, 100, 1)}
	m := lend(t, one(1), jobs, equally(0.5), leases.RunConfig{}).Metrics(one(1), jobs)
	nearly(t, "mean JCT", m.MeanJCTS, 480)
	nearly(t, "weighted JCT", m.WeightedJCTS, 960)
	nearly(t, "weighted mean", m.WeightedMeanJCTS, 480)
	nearly(t, "mean wait", m.MeanWaitS, 180)
	nearly(t, "p99 wait", m.P99WaitS, 360)
	nearly(t, "mean slowdown", m.MeanSlowdown, (1.25+4.6)/2)
	nearly(t, "p99 slowdown", m.P99Slowdown, 4.6)
	nearly(t, "Jain", m.Jain, 5.85*5.85/(2*(1.25*1.25+4.6*4.6)))
	nearly(t, "mean rho", m.MeanRho, (500./768+460./200)/2)
	nearly(t, "worst rho", m.WorstRho, 2.3)
	nearly(t, "makespan", m.MakespanS, 500)
	nearly(t, "use", m.Use[0].Use, 1)
	if m.Switches != 2 || m.Preemptions != 1 || m.LostTasks != 0 || m.Jobs != 2 || m.Share(470) != 0.5 {
		t.Errorf("%+v", m)
	}
	// In this run only b counts.
	m = lend(t, one(1), jobs, equally(0.5), leases.RunConfig{First: 1, Last: 1}).Metrics(one(1), jobs)
	if m.Jobs != 1 || m.MeanJCTS != 460 || math.Abs(m.MeanRho-2.3) > 1e-9 {
		t.Errorf("window: %+v", m)
	}
}

// A run in which GPUs fail more often than a step ends says what to change.
func TestFruitlessLeases(t *testing.T) {
	cfg := leases.RunConfig{LeaseS: 360, FaultRate: leases.FaultRate{MeanS: 0.001, RepairS: 1}}
	_, err := leases.Run(t.Context(), "equal", one(1), []leases.Job{leaseJob("a", 0, 1, 10, 1)}, equally(1),
		cfg)
	if !errors.Is(err, sim.ErrStalled) || !strings.Contains(err.Error(), "let GPUs fail more rarely") {
		t.Error(err)
	}
}
