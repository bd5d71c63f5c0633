package policies_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/verify"
)

// random returns a small instance of all synchronisation rules. With windows, some GPUs leave and
// return, or are busy at first; each job fits on the other GPUs.
func random(r *rand.Rand, windows bool) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B", "C"}[:1+r.IntN(3)]
	always := map[string]int{}
	for i, k := range types {
		always[k] = 1 + r.IntN(4)
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: fmt.Sprint("n", i),
			GPUs: []hare.TypeCount{{Type: k, Count: always[k]}}})
	}
	for i := 0; windows && i < 3; i++ {
		n := hare.Node{Name: fmt.Sprint("w", i), GPUs: []hare.TypeCount{{Type: types[r.IntN(len(types))],
			Count: 1 + r.IntN(2)}}}
		at := int64(r.IntN(5)) * 500_000
		for range r.IntN(4) {
			end := at + int64(1+r.IntN(12))*500_000
			n.Windows = append(n.Windows, hare.Window{StartUs: at, EndUs: end})
			at = end + int64(1+r.IntN(6))*500_000
		}
		if n.Windows == nil {
			n.Busy = []hare.Busy{{GPU: 0, UntilUs: int64(1+r.IntN(8)) * 500_000}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
	}
	for i := range 1 + r.IntN(9) {
		j := hare.Job{
			ID: fmt.Sprint("j", i), WeightMicro: int64(1+r.IntN(4)) * 500_000, Rounds: int64(1 + r.IntN(6)),
			Sync: hare.Sync(r.IntN(3)), ReleaseUs: int64(r.IntN(3)*r.IntN(20)) * 500_000,
		}
		most := 0
		for n, k := range types {
			if last := n == len(types)-1; r.IntN(2) == 0 || last && most == 0 {
				most = max(most, always[k])
				j.On = append(j.On, hare.Profile{Type: k, ComputeUs: int64(1+r.IntN(6)) * 250_000,
					SyncUs: int64(r.IntN(4)) * 250_000})
			}
		}
		if j.Tasks = int64(1 + r.IntN(most)); j.Sync == hare.Relaxed {
			j.Tasks = int64(1 + r.IntN(7))
		}
		j.Mix = j.Sync == hare.Gang && r.IntN(2) == 0
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

func fresh(t testing.TB, p policies.Info, inst *hare.Instance, cfg policies.Config) online.Policy {
	t.Helper()
	made, err := p.New(t.Context(), inst, cfg)
	if err != nil {
		t.Fatalf("%s: %v", p.Name, err)
	}
	return made
}

// The run of each policy on a random instance of all synchronisation rules, with GPUs that leave and
// return, gives a schedule that the verifier accepts. A second run gives the same schedule.
func TestTaskPoliciesVerified(t *testing.T) {
	seeds := uint64(120)
	if testing.Short() {
		seeds = 30
	}
	for _, p := range policies.All() {
		t.Run(p.Name, func(t *testing.T) {
			checked, seeds := 0, seeds
			if p.Name == "rolling" {
				seeds /= 3 // it makes a plan at each event
			}
			for seed := range seeds {
				inst := random(rand.New(rand.NewPCG(seed, 7)), seed%2 == 1)
				if err := inst.Validate(); err != nil {
					t.Fatal(err)
				}
				cfg := policies.Config{ThresholdUs: 3e6, LeaseUs: 1_250_000, Moves: 200}
				out, err := sim.Run(t.Context(), inst, fresh(t, p, inst, cfg), sim.Config{})
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				again, err := sim.Run(t.Context(), inst, fresh(t, p, inst, cfg), sim.Config{})
				if err != nil || again.Value != out.Value || again.Events != out.Events {
					t.Fatalf("seed %d: again gives %v, %v", seed, again, err)
				}
				if out.Moved != nil {
					continue // a rigid job lost a GPU, so what was run is not a schedule of the instance
				}
				if p.Knows() == policies.Future && p.Name != "sched_homo" && out.Lost > 0 {
					t.Errorf("seed %d: a plan lost %d tasks", seed, out.Lost)
				}
				res, err := out.Result(inst, nil)
				if err != nil {
					t.Fatal(err)
				}
				if rep := verify.Check(inst, res); !rep.OK {
					t.Fatalf("seed %d: %v", seed, rep)
				}
				checked++
			}
			if checked < int(seeds)/2 {
				t.Errorf("only %d of %d runs could be checked", checked, seeds)
			}
		})
	}
}

// times returns the starts and ends of jobs in seconds.
func times(t *testing.T, p online.Policy, inst *hare.Instance) string {
	t.Helper()
	out, err := sim.Run(t.Context(), inst, p, sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, j := range out.Jobs {
		fmt.Fprintf(&b, "%s %g-%g ", j.ID, float64(j.StartUs)/1e6, float64(j.EndUs)/1e6)
	}
	return strings.TrimSpace(b.String())
}

// The starts and ends of jobs of small instances are computed by hand.
func TestTaskPoliciesByHand(t *testing.T) {
	cluster := func(counts ...hare.TypeCount) hare.Cluster {
		c := hare.Cluster{}
		for _, k := range counts {
			c.Nodes = append(c.Nodes, hare.Node{Name: strings.ToLower(k.Type), GPUs: []hare.TypeCount{k}})
		}
		return c
	}
	job := func(id string, releaseS, rounds, tasks int64, on ...hare.Profile) hare.Job {
		return hare.Job{ID: id, WeightMicro: 1e6, ReleaseUs: releaseS * 1e6, Rounds: rounds, Tasks: tasks,
			Sync: hare.Gang,
			On:   on}
	}
	on := func(kind string, s int64) hare.Profile { return hare.Profile{Type: kind, ComputeUs: s * 1e6} }
	two := cluster(hare.TypeCount{Type: "A", Count: 2})
	// long holds a GPU for 10 s, and wide needs both. short takes 4 s on the other GPU, and late 20 s.
	backfill := []hare.Job{
		job("long", 0, 10, 1, on("A", 1)), job("wide", 0, 2, 2, on("A", 1)),
		job("late", 0, 20, 1, on("A", 1)), job("short", 0, 4, 1, on("A", 1)),
	}
	// On A the jobs take 2 s and 3 s, on B 3 s and 30 s.
	mixed := []hare.Job{job("x", 0, 1, 1, on("A", 2), on("B", 3)), job("y", 0, 1, 1, on("A", 3), on("B", 30))}
	both := cluster(hare.TypeCount{Type: "A", Count: 1}, hare.TypeCount{Type: "B", Count: 1})
	one := cluster(hare.TypeCount{Type: "A", Count: 1})
	weighty := []hare.Job{job("light", 0, 4, 1, on("A", 1)), job("heavy", 0, 4, 1, on("A", 1))}
	weighty[1].WeightMicro = 9e6
	// Jobs arrive one by one, so the first job would start before the others arrive. Gates are jobs
	// that hold the GPUs for a second, until all jobs have arrived.
	gated := func(jobs []hare.Job, gates ...hare.Job) []hare.Job { return append(gates, jobs...) }
	gate := job("gate", 0, 1, 1, on("A", 1))
	wideGate := job("gate", 0, 1, 2, on("A", 1))
	gateBoth := job("gate", 0, 1, 2, on("A", 1), on("B", 1))
	gateBoth.Mix = true
	relaxed := job("r", 0, 2, 3, on("A", 1))
	relaxed.Sync = hare.Relaxed
	for _, c := range []struct {
		policy, name string
		cluster      hare.Cluster
		jobs         []hare.Job
		want         string
	}{
		{"gavel_fifo", "nobody overtakes", two, backfill, "long 0-10 wide 10-12 late 12-32 short 12-16"},
		{"kueue_strict", "nobody overtakes", two, backfill, "long 0-10 wide 10-12 late 12-32 short 12-16"},
		// late starts at once, so wide waits until late ends.
		{"kueue", "who fits overtakes", two, backfill, "long 0-10 wide 20-22 late 0-20 short 10-14"},
		// Both GPUs are reserved for wide from 10 on. short ends before 10, but late would not.
		{"easy_backfill", "who does not delay overtakes", two, backfill, "long 0-10 wide 10-12 late 12-32 short 0-4"},
		// With equal weights and ages, wide is first as the largest job; the others follow by arrival.
		{"slurm", "the largest first", two, gated(backfill, wideGate),
			"gate 0-1 long 3-13 wide 1-3 late 3-23 short 13-17"},
		{"slurm", "the heaviest first", one, gated(weighty, gate), "gate 0-1 light 5-9 heavy 1-5"},
		// wide has the least remaining time, then short, then long, then late.
		{"srtf", "least time left", two, gated(backfill, wideGate), "gate 0-1 long 3-13 wide 1-3 late 7-27 short 3-7"},
		// y arrives at 1 and is shorter, so x waits after its first round.
		{"srtf", "preemption between rounds", one, []hare.Job{job("x", 0, 3, 1, on("A", 2)), job("y", 1, 1, 1, on("A",
			2))}, "x 0-8 y 2-4"},
		// The first job takes its fastest type: x runs on A and y on B, for 2 + 30 s.
		{"gavel_fifo", "the fastest type", both, mixed, "x 0-2 y 0-30"},
		// The matching compares 3 + 3 s, with x on B and y on A, with 2 + 5 s, with both on A.
		{"sched_allox", "matching", both, gated(mixed, gateBoth), "gate 0-1 x 1-4 y 1-4"},
		// On one GPU the shorter job runs first.
		{"sched_allox", "places", one, []hare.Job{job("x", 0, 5, 1, on("A", 1)), job("y", 0, 2, 1, on("A", 1))},
			"x 0-5 y 5-7"},
		// The average times are 2.5 s and 16.5 s, so x runs first and takes the first type.
		{"sched_homo", "averages", both, mixed, "x 0-2 y 0-30"},
		{"sched_homo", "weights", one, gated(weighty, gate), "gate 0-1 light 5-9 heavy 1-5"},
		// The threshold is 3 GPU-seconds. x leaves the first queue after 3 rounds, then y runs its
		// three rounds. Then x, which arrived first, ends before y.
		{"tiresias", "two queues", one, []hare.Job{job("x", 0, 5, 1, on("A", 1)), job("y", 0, 5, 1, on("A", 1))},
			"x 0-8 y 3-10"},
		{"hare_offline", "the whole plan", both, mixed, "x 0-3 y 0-3"},
		{"hare_offline", "weights", one, weighty, "light 4-8 heavy 0-4"},
		// Three relaxed tasks do not fit on two GPUs as a gang, so they start one by one.
		{"srtf", "a round wider than the cluster", two, []hare.Job{relaxed}, "r 0-4"},
	} {
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: c.cluster, Jobs: slices.Clone(c.jobs)}
		info, ok := policies.Find(c.policy)
		if !ok {
			t.Fatal(c.policy)
		}
		if got := times(t, fresh(t, info, inst, policies.Config{ThresholdUs: 3e6}), inst); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.policy, c.name, got, c.want)
		}
	}
}

// twice starts a task on a GPU that another holds.
type twice struct{ online.Policy }

func (tw twice) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	ds, err := tw.Policy.Step(nowUs, events)
	if ds = slices.Clone(ds); len(ds) > 0 && ds[0].Job == "y" {
		ds[0].GPU = "a/0"
	}
	return ds, err
}

// A policy that allocates a GPU twice is refused. The error names the policy, the time and the GPU.
func TestTwiceAllocatedGPURefused(t *testing.T) {
	long := []hare.Profile{{Type: "A", ComputeUs: 5e6}}
	inst := &hare.Instance{
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 2}}}}},
		Jobs: []hare.Job{{ID: "x", Rounds: 1, Tasks: 1, On: long}, {ID: "y", ReleaseUs: 1_500_000, Rounds: 1, Tasks: 1,
			On: long}},
	}
	for _, p := range policies.All() {
		// Otherwise y waits under asrpt for its turn on the virtual machine until x has ended.
		cfg := policies.Config{ASRPT: policies.ASRPTConfig{Eager: true}}
		out, err := sim.Run(t.Context(), inst, twice{fresh(t, p, inst, cfg)}, sim.Config{Name: p.Name})
		if _, ok := errors.AsType[*sim.DecisionError](err); !ok || out != nil {
			t.Errorf("%s: %v, %v", p.Name, out, err)
			continue
		}
		for _, want := range []string{p.Name, "1.5 s", "a/0", `job "x" holds the GPU`} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v: no %s", p.Name, err, want)
			}
		}
	}
}
