package policies_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
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
	inst := transcript.Instance("nodes a=2A\njobs x relaxed 1x1 A:5, y relaxed 1x1 A:5 at=1.5")
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
