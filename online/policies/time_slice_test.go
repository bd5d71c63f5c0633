package policies_test

import (
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/verify"
)

// gangs returns an instance of gang jobs on GPUs of type A.
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

// must returns a function that fails the test if a policy could not be made.
func must(t *testing.T) func(*list.Scheduler, error) online.Policy {
	return func(p *list.Scheduler, err error) online.Policy {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

func TestGandivaByHand(t *testing.T) {
	slice := policies.GandivaConfig{SliceUs: 2e6}
	for name, c := range map[string]struct {
		inst *hare.Instance
		want string
	}{
		// The slices are x 0–2, y 2–4, z 4–5, x 5–7, y 7–8 and x 8–9.
		"in turn": {gangs(1, gang("x", 0, 5, 1), gang("y", 0, 3, 1), gang("z", 0, 1, 1)), "x 0-9 y 2-8 z 4-5"},
		// w is first in the queue at 2 and needs both GPUs, so the GPU that x frees waits for y's.
		"a wide one": {gangs(2, gang("x", 0, 4, 1), gang("y", 0, 4, 1), gang("w", 0, 2, 2)), "x 0-6 y 0-6 w 2-4"},
		// A job alone goes on. A job that arrives in the middle of a slice waits until the slice ends.
		"alone":           {gangs(1, gang("x", 0, 6, 1), gang("y", 3, 1, 1)), "x 0-7 y 4-5"},
		"half a slice on": {gangs(1, gang("x", 0, 3, 1), gang("y", 1, 2, 1)), "x 0-5 y 2-4"},
	} {
		if got := times(t, must(t)(policies.NewGandiva(&c.inst.Cluster, slice)), c.inst); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if _, err := policies.NewGandiva(&gangs(1).Cluster, policies.GandivaConfig{SliceUs: -1}); err == nil {
		t.Error("a slice below 0 is taken")
	}
}

// x starts. Its lease of 3 s ends at 3, when ρ is (3 + 7)/30 for x, (3 + 6)/18 for y and
// (1 + 4)/12 for z, so y is the worst. z would gain the most: log 8/5, against log 12/9 for y
// and log 13/10 for x.
//
// With f = 0.8, one of three jobs bids. y runs from 3 to 6. Then ρ is 8/12 for z, 13/30 for x and
// 9/18 for y, so z runs from 6 to 9. Then ρ is 12/18 for y and 8/12 for z, which are equal, and y
// arrived first, so y runs from 9 to 12, z from 12 to 13, and then x.
//
// With f = 0, all jobs bid. z runs from 3 to 6. At 6 the gains are log 8/5 for z, log 15/12 for y
// and log 16/13 for x, so z runs from 6 to 7. Then y runs twice, because its gain of log 16/13 is
// above x's gains of log 17/14 and log 20/17.
func TestThemisByHand(t *testing.T) {
	inst := gangs(1, gang("x", 0, 10, 1), gang("y", 0, 6, 1), gang("z", 2, 4, 1))
	for f, want := range map[float64]string{0: "x 0-20 y 3-12 z 6-13", 0.9: "x 0-20 y 3-12 z 6-13",
		-1: "x 0-20 y 7-13 z 3-7"} {
		p := must(t)(policies.NewThemis(&inst.Cluster, policies.SizesOf(inst),
			policies.ThemisConfig{Fairness: f, LeaseUs: 3e6}))
		if got := times(t, p, inst); got != want {
			t.Errorf("f %v: %s, want %s", f, got, want)
		}
	}
	for _, bad := range []policies.ThemisConfig{{Fairness: 1.5}, {LeaseUs: -1}} {
		if _, err := policies.NewThemis(&inst.Cluster, policies.SizesOf(inst), bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// The sizes are 10, 2 and 2 GPU-seconds, and Δ is 3. Before any service, the index of a job is
// (2/3) / ((2 + 2 + 3)/3) = 2/7. After one second it is (2/3) / ((1 + 1 + 3)/3) = 2/5, so x goes
// on. After two seconds x must be the long job, with index 0. Then y and z run, one after the
// other. Under least attained service, x would go on until it leaves the first queue.
func TestGittinsByHand(t *testing.T) {
	inst := gangs(1, gang("x", 0, 10, 1), gang("y", 0, 2, 1), gang("z", 0, 2, 1))
	cfg := policies.TiresiasConfig{ThresholdsUs: []int64{3e6}}
	if got, want := times(t, must(t)(policies.NewTiresiasGittins(&inst.Cluster, policies.DistributionOf(inst), cfg)),
		inst), "x 0-14 y 2-4 z 4-6"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := times(t, must(t)(policies.NewTiresias(&inst.Cluster, cfg)), inst),
		"x 0-14 y 3-5 z 5-7"; got != want {
		t.Errorf("without the index: %s, want %s", got, want)
	}
}

// If slices are no shorter than a round, each of n jobs starts within n slices, whatever their
// numbers of GPUs.
func TestGandivaLetsNobodyWait(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 11))
		n := 2 + r.IntN(6)
		jobs := make([]hare.Job, n)
		for i := range jobs {
			jobs[i] = gang(string(rune('a'+i)), 0, int64(20+r.IntN(20)), int64(1+r.IntN(4)))
		}
		inst := gangs(4, jobs...)
		out, err := sim.Run(t.Context(), inst, must(t)(policies.NewGandiva(&inst.Cluster,
			policies.GandivaConfig{SliceUs: 2e6})),
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
