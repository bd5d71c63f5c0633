package leases_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/sim/leases"
)

// sharer is a policy whose shares are a function of the job's number.
type sharer struct {
	share func(number int) []float64
	wish  bool
	calls *[]float64 // the times of the calls
}

func (sharer) LeaseTraits() leases.Traits { return leases.Traits{} }

func (sh sharer) Shares(_ context.Context, s *leases.State, out *leases.Shares) error {
	if sh.calls != nil {
		*sh.calls = append(*sh.calls, s.NowS)
	}
	out.Oversubscribed = sh.wish
	for i, j := range s.Jobs {
		copy(out.Share[i*len(s.Types):], sh.share(j.Number))
	}
	return nil
}

// equally returns a policy that gives every job the share x of the only type.
func equally(x float64) sharer {
	return sharer{share: func(int) []float64 { return []float64{x} }}
}

// seeds returns the number of random instances for a test, which is smaller in short tests.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 10
	}
	return n
}

func one(gpus int) leases.Cluster {
	return leases.Cluster{Types: []string{"V100"}, GPUs: []int{gpus}}
}

func leaseJob(id string, arrivalS float64, gpus int, steps int64, rate ...float64) leases.Job {
	return leases.Job{ID: id, ArrivalS: arrivalS, Weight: 1, GPUs: gpus, Steps: steps, Rate: rate}
}

func lend(t *testing.T, c leases.Cluster, jobs []leases.Job, policy any, cfg leases.RunConfig) *leases.Outcome {
	t.Helper()
	o, err := leases.Run(context.Background(), "test", c, jobs, policy, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func nearly(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
		t.Errorf("%s %v, by hand %v", what, got, want)
	}
}

// Two jobs with 400 and 100 steps, each of which takes a second, take turns on a GPU. In round
// 1 the priorities are equal, so the first job runs and does 360 steps. In round 2 the first
// job has 180 + 360 s of counted time and the other 180 s, so the other job runs, and its 100
// steps end the round at 460. In round 3 the first job does its other 40 steps, until 500.
func TestLeasesTakeTurns(t *testing.T) {
	jobs := []leases.Job{leaseJob("a", 0, 1, 400, 1), leaseJob("b", 0, 1, 100, 1)}
	o := lend(t, one(1), jobs, equally(0.5), leases.RunConfig{})
	nearly(t, "end of b", o.Jobs[1].EndS, 460)
	nearly(t, "end of a", o.Jobs[0].EndS, 500)
	nearly(t, "mean JCT", o.MeanJCTS, 480)
	nearly(t, "mean wait", o.Metrics(one(1), jobs).MeanWaitS, 180)
	nearly(t, "total", o.TotalS, 500)
	nearly(t, "utilization", o.Utilization, 1)
	if o.Rounds != 3 || o.Leases != 3 || o.Preemptions != 1 || o.Jobs[0].Preemptions != 1 {
		t.Errorf("%d rounds, %d leases, %d preemptions", o.Rounds, o.Leases, o.Preemptions)
	}
	// If each start on other GPUs takes 60 s, a does 300 steps until 360, b its 100 steps until
	// 520, and a its other 100 steps until 680.
	o = lend(t, one(1), jobs, equally(0.5), leases.RunConfig{RestartS: 60})
	nearly(t, "end of b", o.Jobs[1].EndS, 520)
	nearly(t, "end of a", o.Jobs[0].EndS, 680)
}

// A round lasts as long as its longest lease. Job b ends at 100, and its GPU idles until 360,
// when c, which arrived at 50, starts.
func TestARoundEndsWithItsLatestGang(t *testing.T) {
	jobs := []leases.Job{leaseJob("a", 0, 1, 720, 1), leaseJob("b", 0, 1, 100, 1), leaseJob("c", 50, 1, 10, 1)}
	o := lend(t, one(2), jobs, equally(0.6), leases.RunConfig{ResetS: -1})
	nearly(t, "end of b", o.Jobs[1].EndS, 100)
	nearly(t, "start of c", o.Jobs[2].StartS, 360)
	nearly(t, "end of c", o.Jobs[2].EndS, 370)
	nearly(t, "end of a", o.Jobs[0].EndS, 720)
	nearly(t, "utilization", o.Utilization, (720.+100+10)/(2*720))
	if o.Preemptions != 0 || o.Extended != 1 {
		t.Errorf("%d preemptions, %v extended", o.Preemptions, o.Extended)
	}
	// In this run only c counts, and the run ends with the round in which c ends.
	o = lend(t, one(2), jobs, equally(0.6), leases.RunConfig{ResetS: -1, First: 2, Last: 2})
	nearly(t, "mean JCT of c", o.MeanJCTS, 320)
	nearly(t, "total", o.TotalS, 720)
	if o.Counted != 1 {
		t.Errorf("%d jobs counted", o.Counted)
	}
}

// Shares are computed when something has changed, but not twice within ResetS. A job that
// arrives in between waits, although a GPU is free. (If the last computation was at time 0,
// Gavel computes them at once.)
func TestJobsWaitForShares(t *testing.T) {
	var calls []float64
	p := equally(0.5)
	p.calls = &calls
	jobs := []leases.Job{leaseJob("a", 10, 1, 4000, 1), leaseJob("b", 300, 1, 10, 1)}
	o := lend(t, one(2), jobs, p, leases.RunConfig{})
	// Rounds end at 10 + 360 n, and the sixth is the first to end after 10 + 1,920.
	nearly(t, "start of b", o.Jobs[1].StartS, 10+6*360)
	if want := []float64{10, 2170}; !slices.Equal(calls, want) {
		t.Errorf("shares computed at %v, by hand %v", calls, want)
	}
}

// As in Gavel, a job whose last steps are fewer than its GPUs is dropped after five tries.
func TestLeasesWithoutAStepForEachGPU(t *testing.T) {
	jobs := []leases.Job{leaseJob("a", 0, 2, 721, 2), leaseJob("b", 0, 1, 360, 1)}
	o := lend(t, one(3), jobs, equally(0.5), leases.RunConfig{})
	if o.Dropped != 1 || !o.Jobs[0].Dropped || o.Lost != 5 || o.Jobs[0].StepsRun != 720 {
		t.Errorf("%+v", o)
	}
	nearly(t, "mean JCT of those not dropped", o.MeanJCTS, 360)
}

// holder is a policy that always returns the same holds.
type holder []leases.Hold

func (h holder) Hold(context.Context, *leases.State, []leases.Hold) ([]leases.Hold, error) {
	return h, nil
}

func TestAllocationsThatAreNotThere(t *testing.T) {
	c := leases.Cluster{Types: []string{"K80", "V100"}, GPUs: []int{2, 2}}
	jobs := []leases.Job{leaseJob("a", 5, 1, 10, 0, 1), leaseJob("b", 5, 2, 10, 1, 1), leaseJob("c", 5, 2, 10, 1, 1)}
	shares := func(x ...float64) sharer { return sharer{share: func(int) []float64 { return x }} }
	for name, f := range map[string]struct {
		policy any
		want   string
	}{
		"more than there is": {shares(0.1, 0.9), "GPU V100: the shares need 4.5 GPUs, there are 2"},
		"negative":           {shares(-0.1, 0), `GPU K80: the share of job "a" is -0.1`},
		"not a number":       {shares(math.NaN(), 0), `GPU K80: the share of job "a" is NaN`},
		"more than all time": {shares(0.6, 0.6), `the shares of job "a" sum to 1.2`},
		"GPU twice": {holder{{Job: 1, GPUs: []int32{2, 3}}, {Job: 0, GPUs: []int32{3}}},
			`GPU V100/1: allocated twice, the second time to job "a"`},
		"GPU twice in one": {holder{{Job: 1, GPUs: []int32{2, 2}}}, `GPU V100/0: allocated twice`},
		"no such GPU":      {holder{{Job: 0, GPUs: []int32{4}}}, "GPU 4: there are 4"},
		"two types":        {holder{{Job: 1, GPUs: []int32{1, 2}}}, `GPU V100/0: job "b" holds K80 GPUs`},
		"no rate":          {holder{{Job: 0, GPUs: []int32{0}}}, `GPU K80/0: job "a" cannot run`},
		"too few":          {holder{{Job: 1, GPUs: []int32{0}}}, `job "b" got 1 and needs 2 at once`},
		"job twice": {holder{{Job: 0, GPUs: []int32{2}}, {Job: 0, GPUs: []int32{3}}},
			`GPU V100/1: job "a" holds GPUs already`},
		"no such job": {holder{{Job: 3}}, "job 3 is not there"},
	} {
		o, err := leases.Run(context.Background(), "greedy", c, jobs, f.policy, leases.RunConfig{})
		var refused *sim.AllocationError
		if o != nil || !errors.As(err, &refused) || refused.Policy != "greedy" || refused.NowS != 5 ||
			!strings.Contains(err.Error(), f.want) {
			t.Errorf("%s: %v, %v", name, o, err)
		}
	}
	for name, p := range map[string]any{"nothing held": holder{}} {
		if _, err := leases.Run(context.Background(), "idle", c, jobs, p, leases.RunConfig{}); !errors.Is(err,
			sim.ErrStalled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := leases.Run(context.Background(), "x", c, jobs, 7, leases.RunConfig{}); err == nil {
		t.Error("a number was taken for a policy")
	}
}

// A policy may choose the GPUs itself. Here b runs first, and then both other jobs.
func TestHoldPolicy(t *testing.T) {
	jobs := []leases.Job{leaseJob("a", 0, 1, 100, 1), leaseJob("b", 0, 2, 720, 2)}
	o := lend(t, one(2), jobs, longestFirst{}, leases.RunConfig{})
	nearly(t, "end of b", o.Jobs[1].EndS, 360)
	nearly(t, "end of a", o.Jobs[0].EndS, 460)
}

type longestFirst struct{}

func (longestFirst) Hold(_ context.Context, s *leases.State, _ []leases.Hold) ([]leases.Hold, error) {
	best := 0
	for i := range s.Jobs {
		if s.Jobs[i].StepsLeft > s.Jobs[best].StepsLeft {
			best = i
		}
	}
	h := leases.Hold{Job: best}
	for g := range s.Jobs[best].GPUs {
		h.GPUs = append(h.GPUs, int32(g))
	}
	return []leases.Hold{h}, nil
}

func TestBadLeaseInput(t *testing.T) {
	good := leaseJob("a", 0, 1, 10, 1)
	for name, f := range map[string]struct {
		change func(c *leases.Cluster, j *leases.Job, cfg *leases.RunConfig)
		want   string
	}{
		"lease": {func(_ *leases.Cluster, _ *leases.Job, cfg *leases.RunConfig) { cfg.LeaseS = math.NaN() },
			"a lease must be longer"},
		"restart": {func(_ *leases.Cluster, _ *leases.Job, cfg *leases.RunConfig) { cfg.RestartS = 360 },
			"less than a lease"},
		"window": {func(_ *leases.Cluster, _ *leases.Job, cfg *leases.RunConfig) { cfg.Last = 1 },
			"not a window of 1 jobs"},
		"types": {func(c *leases.Cluster, _ *leases.Job, _ *leases.RunConfig) { c.GPUs = nil },
			"a number of GPUs for each"},
		"no GPUs": {func(c *leases.Cluster, _ *leases.Job, _ *leases.RunConfig) { c.GPUs = []int{0} },
			"types must rise"},
		"arrival": {func(_ *leases.Cluster, j *leases.Job, _ *leases.RunConfig) { j.ArrivalS = -1 }, "arrivals"},
		"steps": {func(_ *leases.Cluster, j *leases.Job, _ *leases.RunConfig) { j.Steps = 0 },
			"must be positive"},
		"rate": {func(_ *leases.Cluster, j *leases.Job, _ *leases.RunConfig) {
			j.Rate = []float64{math.Inf(1)}
		},
			"is not a number"},
		"too wide": {func(_ *leases.Cluster, j *leases.Job, _ *leases.RunConfig) { j.GPUs = 3 },
			"needs 3 GPUs of one type"},
	} {
		c, j, cfg := one(2), good, leases.RunConfig{}
		f.change(&c, &j, &cfg)
		if _, err := leases.Run(context.Background(), "test", c, []leases.Job{j}, equally(1), cfg); err == nil ||
			!strings.Contains(err.Error(), f.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A simulation of ten times the time takes no more memory.
func TestLeaseMemoryIsFlatInTime(t *testing.T) {
	allocated := func(steps int64) uint64 {
		jobs := []leases.Job{leaseJob("a", 0, 1, steps, 1), leaseJob("b", 0, 1, steps, 1),
			leaseJob("c", 0, 2, steps, 1)}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		o := lend(t, one(2), jobs, equally(0.4), leases.RunConfig{})
		runtime.ReadMemStats(&after)
		if o.Rounds < steps/360 {
			t.Fatal(o.Rounds)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	short, long := allocated(360_000), allocated(3_600_000)
	if long > short+4096 {
		t.Errorf("%d bytes for 1,000 leases a job, %d for 10,000", short, long)
	}
}

func ExampleRun() {
	jobs := []leases.Job{
		{ID: "long", Weight: 1, GPUs: 1, Steps: 400, Rate: []float64{1}},
		{ID: "short", Weight: 1, GPUs: 1, Steps: 100, Rate: []float64{1}},
	}
	cluster := leases.Cluster{Types: []string{"V100"}, GPUs: []int{1}}
	o, err := leases.Run(context.Background(), "equal", cluster, jobs, equally(0.5), leases.RunConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, j := range o.Jobs {
		fmt.Printf("%s ends at %.0f s\n", j.ID, j.EndS)
	}
	// Output:
	// long ends at 500 s
	// short ends at 460 s
}
