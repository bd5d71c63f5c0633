package policies_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/sim/leases"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

// oracle adds the checks that take minutes; make oracle sets it.
var oracle = flag.Bool("hare.oracle", false, "also the checks that take minutes")

// batches is the number of batches of jobs that count. One batch before them, in which the
// queue fills, does not count.
const batches = 20

// play returns the time in the system of each job of a stream, in seconds. stepS is the length
// of rounds or leases; 0 means that the engine needs none.
type play func(t *testing.T, s *stream, stepS float64) []float64

// queueRow is a queue with known times, and the policies that are compared with it.
type queueRow struct {
	law     law
	servers int
	seed    uint64
	rule    string
	// formula returns the known mean time, and exact the known time of each job; exact is nil
	// if no such times are known.
	formula func(l law, servers int, rho float64) float64
	exact   func(*stream) []float64
	engine  string
	plays   map[string]play // by policy
	// stepS is the length of rounds or leases; 0 means that the engine is exact. Otherwise the
	// run is repeated with half the length, and the figure is 2 T(step/2) − T(step), whose error
	// is of the order of step².
	stepS float64
}

func fifoFormula(l law, k int, rho float64) float64 {
	if k == 1 {
		return pollaczek(l, rho)
	}
	return erlangC(k, rho)
}

func fifoExact(s *stream) []float64 { return firstCome(s.arrivals, s.sizes, s.servers) }

func psExact(s *stream) []float64 { return shared(s.arrivals, s.sizes, s.servers) }

// cutS is the service in seconds after which jobs leave the first of two queues.
const cutS = 800

// queueRows returns the rows of the table. The seed of a row is its number, so no seed was
// chosen.
func queueRows() []queueRow {
	fifos := map[string]play{
		"fifo": named("fifo", hare.Relaxed), "fifo (gang)": named("fifo", hare.Gang), "fifo (rigid)": named("fifo",
			hare.Rigid),
		"kueue": named("kueue", hare.Rigid), "kueue_strict": named("kueue_strict", hare.Rigid),
		"gavel_fifo": named("gavel_fifo", hare.Rigid), "easy_backfill": named("easy_backfill", hare.Rigid),
	}
	leases := map[string]play{"gavel:fifo": lent("gavel:fifo"), "gavel:fifo_perf": lent("gavel:fifo_perf")}
	srpt := func(l law, _ int, rho float64) float64 { return schrage(l, rho) }
	srptExact := func(s *stream) []float64 { return shortest(s.arrivals, s.sizes) }
	srtf := map[string]play{"srtf": named("srtf", hare.Gang)}
	ps := func(_ law, k int, rho float64) float64 {
		if k == 1 {
			return processorSharing(rho)
		}
		return erlangC(k, rho) // the number in the system moves as in M/M/k, and the law does not matter
	}
	isolated := map[string]play{"gavel:isolated": lent("gavel:isolated")}
	las := map[string]play{"gavel:max_min_fairness": lent("gavel:max_min_fairness"),
		"gavel:max_min_fairness_perf": lent("gavel:max_min_fairness_perf")}
	levels := map[string]play{"hlas": tasks(hare.Gang, func(i *hare.Instance) (online.Policy, error) {
		return online.NewHLAS(sim.Cluster(i), online.HLASConfig{ThresholdsUs: []int64{cutS*1e6 - 1e3}, Kappa: 1e6})
	}), "tiresias": tasks(hare.Gang, func(i *hare.Instance) (online.Policy, error) {
		return policies.NewTiresias(&i.Cluster, policies.TiresiasConfig{ThresholdsUs: []int64{cutS*1e6 - 1e3}, Knob: -1})
	})}
	two := func(l law, _ int, rho float64) float64 { return feedback(l, rho, cutS) }
	return []queueRow{
		{exponential, 1, 1, "first come", fifoFormula, fifoExact, "tasks", fifos, 0},
		{constant, 1, 2, "first come", fifoFormula, fifoExact, "tasks", fifos, 0},
		{spread, 1, 3, "first come", fifoFormula, fifoExact, "tasks", fifos, 0},
		{exponential, 3, 4, "first come", fifoFormula, fifoExact, "tasks", fifos, 0},
		{exponential, 10, 5, "first come", fifoFormula, fifoExact, "tasks", fifos, 0},
		{exponential, 1, 6, "first come", fifoFormula, fifoExact, "leases", leases, 0},
		{spread, 1, 7, "first come", fifoFormula, fifoExact, "leases", leases, 0},
		{exponential, 3, 8, "first come", fifoFormula, fifoExact, "leases", leases, 50},
		{exponential, 1, 9, "shortest remaining", srpt, srptExact, "tasks", srtf, 200},
		{spread, 1, 10, "shortest remaining", srpt, srptExact, "tasks", srtf, 200},
		{constant, 1, 11, "shortest remaining", fifoFormula, srptExact, "tasks", srtf, 200},
		{exponential, 1, 12, "sharing", ps, psExact, "leases", isolated, 50},
		{spread, 1, 13, "sharing", ps, psExact, "leases", isolated, 50},
		{constant, 1, 14, "sharing", ps, psExact, "leases", isolated, 50},
		{spread, 2, 15, "sharing", ps, psExact, "leases", isolated, 50},
		{exponential, 1, 16, "sharing", ps, psExact, "leases", las, 50},
		{exponential, 1, 17, "two queues", two, nil, "tasks", levels, 100},
		{spread, 1, 18, "two queues", two, nil, "tasks", levels, 100},
	}
}

// TestQueues simulates streams at a load of 0.7 and compares the results with the known means.
// The mean of 20 batches must lie within the interval of Student's t that holds for all rows
// at once with 99 % (Bonferroni). If the time of every job is known, an exact engine must give
// that time to a millisecond, and the extrapolated mean of any other engine must agree to 1 %.
// The test prints the table of docs/lab/simulator.md#does-it-agree-with-known-queues.
func TestQueues(t *testing.T) {
	rows := queueRows()
	fmt.Println("| queue | rule | policies | known, s | simulated, s | job by job |\n|---|---|---|---|---|---|")
	jobs, outside, compared := 1000, 0, 0
	if *oracle {
		jobs = 10_000
	}
	one, all := student(0.995, batches-1), student(1-0.005/float64(len(rows)), batches-1)
	for _, r := range rows {
		if testing.Short() && r.stepS > 0 {
			continue
		}
		s := newStream(r.law, r.servers, 0.7, (batches+1)*jobs, r.seed)
		want := r.formula(r.law, r.servers, s.rho)
		var figures []string
		who := map[string][]string{} // the policies by their figures
		for _, name := range sortedKeys(r.plays) {
			t.Run(fmt.Sprintf("%s_%s_%d_%s", r.rule, r.law.name, r.servers, name), func(t *testing.T) {
				got, note := r.run(t, r.plays[name], s)
				mean, half := interval(got[jobs:], jobs)
				compared++
				if math.Abs(mean-want) > one*half {
					outside++
				}
				line := fmt.Sprintf("%.1f | %.1f ± %.1f | %s |", want, mean, one*half, note)
				if who[line] == nil {
					figures = append(figures, line)
				}
				who[line] = append(who[line], name)
				if !(math.Abs(mean-want) <= all*half) {
					t.Errorf("mean time in the system %.2f s, known %.2f s, %.1f standard errors apart, allowed %.1f",
						mean, want,
						math.Abs(mean-want)/half, all)
				}
			})
		}
		for _, line := range figures {
			fmt.Printf("| M/%s/%d | %s | %s | %s\n", r.law.name, r.servers, r.rule, strings.Join(who[line], ", "),
				line)
		}
	}
	t.Logf("%d of %d means lie outside their own interval of 99 %%; intervals that hold together are %.2f times as "+
		"wide", outside, compared, all/one)
}

// run returns the times in the system, extrapolated if the engine has steps, and says how far
// they are from the exact times.
func (row *queueRow) run(t *testing.T, p play, s *stream) ([]float64, string) {
	t.Helper()
	got := p(t, s, row.stepS)
	if row.stepS == 0 {
		exact := row.exact(s)
		worst := 0.0
		for i := range got {
			worst = max(worst, math.Abs(got[i]-exact[i]))
		}
		if worst > 1e-3 {
			t.Errorf("a job's time in the system is %v s off", worst)
		}
		return got, "every job's time as by recursion"
	}
	finer := p(t, s, row.stepS/2)
	at, half := average(got), average(finer)
	for i := range got {
		got[i] = 2*finer[i] - got[i]
	}
	note := fmt.Sprintf("%.1f at %g s, %.1f at %g s", at, row.stepS, half, row.stepS/2)
	if row.exact != nil {
		exact := average(row.exact(s))
		if off := average(got)/exact - 1; math.Abs(off) > 0.01 {
			t.Errorf("extrapolated mean %.2f s, by recursion %.2f s: %+.2f %%", average(got), exact, 100*off)
		}
		note += fmt.Sprintf(", %.1f extrapolated, %.1f by recursion", average(got), exact)
	}
	return got, note
}

// interval returns the mean of batches of n values and its standard error.
func interval(x []float64, n int) (mean, err float64) {
	var of []float64
	for batch := range slices.Chunk(x, n) {
		of = append(of, average(batch))
	}
	mean = average(of)
	for _, m := range of {
		err += (m - mean) * (m - mean)
	}
	return mean, math.Sqrt(err / float64(len(of)-1) / float64(len(of)))
}

func sortedKeys(m map[string]play) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// named simulates the named policy of the task engine.
func named(name string, sync hare.Sync) play {
	return tasks(sync, func(i *hare.Instance) (online.Policy, error) {
		info, err := registry.FindTask(name)
		if err != nil {
			return nil, err
		}
		return info.New(context.Background(), i, policies.Config{})
	})
}

// tasks simulates a policy of the task engine. A job is one round, or equal rounds of at most
// stepS. From the events, tasks counts the jobs in the system and the jobs that run. The counts
// must agree with Little's law, and no GPU may idle while a job waits.
func tasks(sync hare.Sync, make func(*hare.Instance) (online.Policy, error)) play {
	return func(t *testing.T, s *stream, stepS float64) []float64 {
		t.Helper()
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
			Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a",
				GPUs: []hare.TypeCount{{Type: "GPU", Count: s.servers}}}}}}
		var workUs int64
		roundingS := 1e-3 // the greatest rounding error of equal rounds
		for i, size := range s.sizes {
			rounds := int64(1)
			if stepS > 0 {
				rounds = int64(math.Ceil(size / stepS))
			}
			us := max(1, int64(math.Round(size*1e6/float64(rounds))))
			roundingS += float64(rounds) * 0.5e-6
			workUs += us * rounds
			inst.Jobs = append(inst.Jobs, hare.Job{
				ID: strconv.Itoa(i), WeightMicro: 1e6, ReleaseUs: int64(math.Round(s.arrivals[i] * 1e6)),
				Rounds: rounds, Tasks: 1, Sync: sync,
				On: []hare.Profile{{Type: "GPU", ComputeUs: us}},
			})
		}
		p, err := make(inst)
		if err != nil {
			t.Fatal(err)
		}
		w := watcher{servers: s.servers}
		o, err := sim.Run(context.Background(), inst, p, sim.Config{Log: w.see})
		if err != nil {
			t.Fatal(err)
		}
		var sumUs int64
		out := []float64{}
		for i := range o.Jobs {
			us := o.Jobs[i].EndUs - inst.Jobs[i].ReleaseUs
			sumUs += us
			out = append(out, float64(us)/1e6)
		}
		if w.jobsUs != sumUs {
			t.Errorf("Little's law: jobs in the system integrate to %d µs, times in the system sum to %d", w.jobsUs,
				sumUs)
		}
		if w.busyUs != workUs {
			t.Errorf("GPUs computed for %d µs, the work is %d", w.busyUs, workUs)
		}
		if s.servers == 1 && math.Abs(float64(o.MakespanUs)/1e6-s.lastEnd()) > roundingS {
			t.Errorf("the last job ends at %d µs, and %f s of a server that never idles with work", o.MakespanUs,
				s.lastEnd())
		}
		return out
	}
}

// watcher follows jobs of one task through the events of a run.
type watcher struct {
	servers        int
	lastUs         int64
	there, running int
	jobsUs, busyUs int64 // the integrals over time of there and running
}

func (w *watcher) see(r wire.Record) error {
	if span := r.Event.AtUs - w.lastUs; span > 0 {
		w.lastUs = r.Event.AtUs
		w.jobsUs += span * int64(w.there)
		w.busyUs += span * int64(w.running)
		if w.running != min(w.there, w.servers) {
			return fmt.Errorf("before %d µs %d GPUs of %d computed while %d jobs were there", r.Event.AtUs, w.running,
				w.servers, w.there)
		}
	}
	switch r.Event.Type {
	case hare.EventJobArrived:
		w.there++
	case hare.EventTaskEnded:
		w.running--
	case hare.EventJobEnded:
		w.there--
	}
	for i := range r.Decisions {
		if r.Decisions[i].Type == hare.DecisionStart {
			w.running++
		} else {
			w.running--
		}
	}
	return nil
}

// lent simulates a policy with leases of stepS, or with leases longer than any job. Shares are
// computed again whenever a job has arrived or ended. A step takes a millisecond.
func lent(name string) play {
	return func(t *testing.T, s *stream, stepS float64) []float64 {
		t.Helper()
		info, err := registry.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if stepS == 0 {
			stepS = 1e6
		}
		jobs := make([]leases.Job, len(s.sizes))
		for i, size := range s.sizes {
			steps := int64(math.Round(size * 1000))
			jobs[i] = leases.Job{ID: strconv.Itoa(i), ArrivalS: s.arrivals[i], Weight: 1, GPUs: 1, Steps: steps,
				Rate: []float64{1000}}
		}
		o, err := leases.Run(context.Background(), name, leases.Cluster{Types: []string{"GPU"},
			GPUs: []int{s.servers}}, jobs, info.New(leases.Config{}), leases.RunConfig{LeaseS: stepS, ResetS: -1})
		if err != nil {
			t.Fatal(err)
		}
		out := []float64{}
		for _, j := range o.Jobs {
			out = append(out, j.EndS-j.ArrivalS)
		}
		if s.servers == 1 && math.Abs(o.TotalS-s.lastEnd()) > 1e-3 {
			t.Errorf("the last job ends at %f s, and %f s of a server that never idles with work", o.TotalS,
				s.lastEnd())
		}
		if o.Dropped > 0 || math.Abs(average(out)-o.MeanJCTS) > 1e-6 {
			t.Errorf("%d dropped, mean %f and %f", o.Dropped, average(out), o.MeanJCTS)
		}
		return out
	}
}
