package task_test

import (
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/policy/task"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/verify"
)

// gangs makes jobs of rounds of a second on GPUs of type A.
func gangs(gpus int, jobs ...hare.Job) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Jobs: jobs}
	inst.Cluster.Nodes = []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: gpus}}}}
	return inst
}

func gang(id string, releaseS, rounds, tasks int64) hare.Job {
	return hare.Job{
		ID: id, WeightMicro: 1e6, ReleaseUs: releaseS * 1e6, Rounds: rounds, Tasks: tasks, Sync: hare.Gang,
		On: []hare.Profile{{Type: "A", ComputeUs: 1e6}},
	}
}

// must is for policies that are made without error.
func must(t *testing.T) func(*task.ListScheduler, error) online.Policy {
	return func(p *task.ListScheduler, err error) online.Policy {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

func TestGandivaByHand(t *testing.T) {
	slice := task.GandivaConfig{SliceUs: 2e6}
	for name, c := range map[string]struct {
		inst *hare.Instance
		want string
	}{
		// x 0–2, y 2–4, z 4–5, x 5–7, y 7–8, x 8–9.
		"in turn": {gangs(1, gang("x", 0, 5, 1), gang("y", 0, 3, 1), gang("z", 0, 1, 1)), "x 0-9 y 2-8 z 4-5"},
		// w is first in line at 2: what x frees waits for what y frees.
		"a wide one": {gangs(2, gang("x", 0, 4, 1), gang("y", 0, 4, 1), gang("w", 0, 2, 2)), "x 0-6 y 0-6 w 2-4"},
		// Alone it goes on; who comes in the middle of its second slice waits for it.
		"alone":           {gangs(1, gang("x", 0, 6, 1), gang("y", 3, 1, 1)), "x 0-7 y 4-5"},
		"half a slice on": {gangs(1, gang("x", 0, 3, 1), gang("y", 1, 2, 1)), "x 0-5 y 2-4"},
	} {
		if got := times(t, must(t)(task.NewGandiva(&c.inst.Cluster, slice)), c.inst); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if _, err := task.NewGandiva(&gangs(1).Cluster, task.GandivaConfig{SliceUs: -1}); err == nil {
		t.Error("a slice below 0 is taken")
	}
}

// x starts. Its lease of 3 s ends at 3, where ρ is (3 + 7)/30 for x, (3 + 6)/18 for
// y and (1 + 4)/12 for z: y is the worst. z could gain the most: log 8/5, y log
// 12/9, x log 13/10.
//
// With f = 0.8 one of three bids. y 3–6; then z has 8/12, x 13/30, y 9/18: z 6–9;
// then y 12/18 and z 8/12 are equal, and y came first: y 9–12, z 12–13, x.
// With f = 0 all bid. z 3–6; at 6 z log 8/5, y log 15/12, x log 16/13: z 6–7; y and
// y again, for log 16/13 twice beats x's log 17/14 and log 20/17.
func TestThemisByHand(t *testing.T) {
	inst := gangs(1, gang("x", 0, 10, 1), gang("y", 0, 6, 1), gang("z", 2, 4, 1))
	for f, want := range map[float64]string{0: "x 0-20 y 3-12 z 6-13", 0.9: "x 0-20 y 3-12 z 6-13",
		-1: "x 0-20 y 7-13 z 3-7"} {
		p := must(t)(task.NewThemis(&inst.Cluster, task.SizesOf(inst), task.ThemisConfig{Fairness: f, LeaseUs: 3e6}))
		if got := times(t, p, inst); got != want {
			t.Errorf("f %v: %s, want %s", f, got, want)
		}
	}
	for _, bad := range []task.ThemisConfig{{Fairness: 1.5}, {LeaseUs: -1}} {
		if _, err := task.NewThemis(&inst.Cluster, task.SizesOf(inst), bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// Sizes are 10, 2 and 2 GPU-seconds, Δ is 3. Before any service the index is
// (2/3) / ((2 + 2 + 3)/3) = 2/7; after one second it is (2/3) / ((1 + 1 + 3)/3) =
// 2/5, so that x goes on; after two it is known to be the long one, index 0. y and
// z take their turns, one after the other. Least attained service would let x go
// on to the end of the first queue.
func TestGittinsByHand(t *testing.T) {
	inst := gangs(1, gang("x", 0, 10, 1), gang("y", 0, 2, 1), gang("z", 0, 2, 1))
	cfg := task.TiresiasConfig{ThresholdsUs: []int64{3e6}}
	if got, want := times(t, must(t)(task.NewTiresiasGittins(&inst.Cluster, task.DistributionOf(inst), cfg)),
		inst), "x 0-14 y 2-4 z 4-6"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := times(t, must(t)(task.NewTiresias(&inst.Cluster, cfg)), inst), "x 0-14 y 3-5 z 5-7"; got != want {
		t.Errorf("without the index: %s, want %s", got, want)
	}
}

// With a single GPU and leases of no less than a round, no job waits for longer
// than the slices of the others, however many and wide they are.
func TestGandivaLetsNobodyWait(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 11))
		n := 2 + r.IntN(6)
		jobs := make([]hare.Job, n)
		for i := range jobs {
			jobs[i] = gang(string(rune('a'+i)), 0, int64(20+r.IntN(20)), int64(1+r.IntN(4)))
		}
		inst := gangs(4, jobs...)
		out, err := sim.Run(t.Context(), inst, must(t)(task.NewGandiva(&inst.Cluster,
			task.GandivaConfig{SliceUs: 2e6})),
			sim.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range out.Jobs {
			if j.StartUs > int64(n)*2e6 {
				t.Errorf("seed %d: of %d jobs %s starts at %d µs", seed, n, j.ID, j.StartUs)
			}
		}
		res, err := out.Result(inst, nil)
		if err != nil {
			t.Fatal(err)
		}
		if rep := verify.Check(inst, res); !rep.OK {
			t.Fatalf("seed %d: %v", seed, rep)
		}
	}
}
