package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// random draws an instance whose jobs can all run on the GPUs that are always in service. With
// windows, other nodes leave and return, and GPUs are busy at first.
func random(r *rand.Rand, windows bool) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B", "C"}[:1+r.IntN(3)]
	always := map[string]int{}
	for i, k := range types {
		n := 1 + r.IntN(4)
		always[k] = n
		inst.Cluster.Nodes = append(inst.Cluster.Nodes,
			hare.Node{Name: fmt.Sprint("n", i), GPUs: []hare.TypeCount{{Type: k, Count: n}}})
	}
	for i := range 3 {
		if !windows {
			break
		}
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
		} else if r.IntN(3) == 0 {
			n.Windows[len(n.Windows)-1].EndUs = hare.Forever
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
	}
	for i := range 1 + r.IntN(9) {
		j := hare.Job{
			ID: fmt.Sprint("j", i), WeightMicro: int64(r.IntN(4)) * 500_000, Rounds: int64(1 + r.IntN(6)),
			Sync: hare.Sync(r.IntN(3)),
		}
		if r.IntN(3) > 0 {
			j.ReleaseUs = int64(r.IntN(20)) * 500_000
		}
		most := 0
		for _, k := range types {
			if r.IntN(3) == 0 && k != types[len(types)-1] || most == 0 && k == types[len(types)-1] || r.IntN(2) == 0 {
				most = max(most, always[k])
				j.On = append(j.On, hare.Profile{Type: k, ComputeUs: int64(1+r.IntN(6)) * 250_000,
					SyncUs: int64(r.IntN(4)) * 250_000})
			}
		}
		if j.Tasks = int64(1 + r.IntN(most)); j.Sync == hare.Relaxed {
			j.Tasks = int64(1 + r.IntN(6))
		}
		j.Mix = j.Sync == hare.Gang && r.IntN(2) == 0
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// seeds returns the number of random instances for a test, which is smaller in short tests.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 10
	}
	return n
}

// onePolicyEach returns one policy of each kind for an instance.
func onePolicyEach(t testing.TB, inst *hare.Instance) map[string]online.Policy {
	t.Helper()
	hlas, err := online.NewHLAS(sim.Cluster(inst),
		online.HLASConfig{Queues: 3, ThresholdsUs: []int64{1_000_000, 4_000_000}, Kappa: 1})
	if err != nil {
		t.Fatal(err)
	}
	fifo, err := online.NewFIFO(sim.Cluster(inst))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]online.Policy{"hlas": hlas, "fifo": fifo}
}

// logged runs a simulation and returns the outcome and the log as text.
func logged(inst *hare.Instance, p online.Policy) (*sim.Outcome, string, error) {
	var text []byte
	out, err := sim.Run(context.Background(), inst, p, sim.Config{Log: func(r wire.Record) error {
		text = append(wire.AppendRecord(text, r), '\n')
		return nil
	}})
	return out, string(text), err
}

// The run of a policy on a random instance gives a schedule that the verifier accepts and that
// is no better than the bounds. A second run gives the same log.
func TestVerified(t *testing.T) {
	var lost int64
	var counted [3]int
	moved := 0
	for seed := range seeds(1000) {
		r := rand.New(rand.NewPCG(seed, 4))
		inst := random(r, seed%2 == 1)
		if err := inst.Validate(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again := onePolicyEach(t, inst)
		for name, p := range onePolicyEach(t, inst) {
			out, log, err := logged(inst, p)
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, name, err)
			}
			if _, other, _ := logged(inst, again[name]); other != log {
				t.Fatalf("seed %d, %s: another log", seed, name)
			}
			lost += out.Lost
			res, err := out.Result(inst, nil)
			if out.Moved != nil {
				moved++
				if err == nil {
					t.Fatalf("seed %d, %s: a result although %v moved", seed, name, out.Moved)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if rep := verify.Check(inst, res); !rep.OK {
				t.Fatalf("seed %d, %s: %v\n%s", seed, name, rep, log)
			}
			counts(t, inst, out, log)
			for _, j := range inst.Jobs {
				counted[j.Sync]++
			}
			if seed%20 != 0 {
				continue
			}
			rel, err := relax.Run(t.Context(), model.New(inst), relax.Config{Workers: 1, Cells: 12})
			if err != nil {
				t.Fatal(err)
			}
			if res, err = out.Result(inst, rel.Certificate); err != nil {
				t.Fatal(err)
			}
			if rep := verify.Check(inst, res); !rep.OK || rep.Bound == nil {
				t.Fatalf("seed %d, %s: %v", seed, name, rep)
			}
		}
	}
	if lost == 0 || moved == 0 || slices.Contains(counted[:], 0) {
		t.Errorf("the instances show too little: %d tasks lost, %d runs with moved jobs, %v jobs by sync", lost,
			moved, counted)
	}
}

// counts checks the figures of an outcome against the log and the instance.
func counts(t *testing.T, inst *hare.Instance, out *sim.Outcome, log string) {
	t.Helper()
	var tasks int64
	mean := 0.0
	for i, j := range inst.Jobs {
		tasks += j.Rounds * j.Tasks
		mean += float64(out.Jobs[i].EndUs-j.ReleaseUs) / float64(len(inst.Jobs))
	}
	if out.Tasks != tasks || out.Events != int64(strings.Count(log, "\n")) || mean-out.MeanJCTUs > 1 ||
		out.MeanJCTUs-mean > 1 {
		t.Fatalf("%+v, not %d tasks, %d events, mean %g", out, tasks, strings.Count(log, "\n"), mean)
	}
	for _, u := range out.Use {
		if u.Use < 0 || u.Use > 1 {
			t.Fatalf("use %+v", out.Use)
		}
	}
}

// The figures of two small runs are computed by hand.
func TestByHand(t *testing.T) {
	node := func(name string, w ...hare.Window) hare.Node {
		return hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: "A", Count: 1}}, Windows: w}
	}
	on := []hare.Profile{{Type: "A", ComputeUs: 2e6, SyncUs: 1e6}}
	for _, c := range []struct {
		name  string
		inst  hare.Instance
		want  hare.JobResult
		tasks int64
		lost  int64
		use   float64
	}{
		// The tasks start at 0 and 2, and the second has synchronised at 5. The second round ends
		// at 10.
		{"relaxed", hare.Instance{Cluster: hare.Cluster{Nodes: []hare.Node{node("a")}},
			Jobs: []hare.Job{{ID: "j", Rounds: 2, Tasks: 2, On: on}}},
			hare.JobResult{ID: "j", StartUs: 0, EndUs: 10e6}, 4, 0, 0.8},
		// The first round runs from 1 to 4. The second runs from 4 to 5, is lost, and runs again
		// from 6 to 9.
		{"gang that loses a round",
			hare.Instance{Cluster: hare.Cluster{Nodes: []hare.Node{
				node("a", hare.Window{StartUs: 0, EndUs: 5e6}, hare.Window{StartUs: 6e6, EndUs: hare.Forever})}},
				Jobs: []hare.Job{{ID: "j", ReleaseUs: 1e6, Rounds: 2, Tasks: 1, Sync: hare.Gang, On: on}}},
			hare.JobResult{ID: "j", StartUs: 1e6, EndUs: 9e6}, 2, 1, 6.0 / 8},
	} {
		for name, p := range onePolicyEach(t, &c.inst) {
			out, log, err := logged(&c.inst, p)
			if err != nil {
				t.Fatalf("%s, %s: %v", c.name, name, err)
			}
			if out.Jobs[0] != c.want || out.Tasks != c.tasks || out.Lost != c.lost || out.LostUs != c.lost*1e6 ||
				out.Use[0].Use != c.use || out.MakespanUs != c.want.EndUs {
				t.Errorf("%s, %s: %+v\n%s", c.name, name, out, log)
			}
		}
	}
}

// Events at the same time have a fixed order.
func TestOrderAtOneTime(t *testing.T) {
	on := []hare.Profile{{Type: "A", ComputeUs: 1e6}}
	inst := &hare.Instance{
		Cluster: hare.Cluster{Nodes: []hare.Node{
			{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 1}},
				Windows: []hare.Window{{StartUs: 0, EndUs: 1e6}, {StartUs: 2e6, EndUs: hare.Forever}}},
			{Name: "b", GPUs: []hare.TypeCount{{Type: "A", Count: 1}}, Busy: []hare.Busy{{GPU: 0, UntilUs: 1e6}}},
		}},
		Jobs: []hare.Job{
			{ID: "y", ReleaseUs: 1e6, Rounds: 1, Tasks: 1, On: on},
			{ID: "x", Rounds: 1, Tasks: 1, On: on},
			{ID: "z", ReleaseUs: 1e6, Rounds: 1, Tasks: 1, Sync: hare.Rigid, On: on},
		},
	}
	_, log, err := logged(inst, onePolicyEach(t, inst)["fifo"])
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(log) {
		rec, err := wire.DecodeRecord([]byte(strings.TrimSuffix(line, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(rec.Event.AtUs/1e6, " ", rec.Event.Type, " ", rec.Event.Job, rec.Event.GPU))
	}
	want := []string{
		"0 gpu_joined a/0", "0 job_arrived x",
		"1 task_ended xa/0", "1 job_ended x", "1 gpu_left a/0", "1 gpu_joined b/0", "1 job_arrived y",
		"1 job_arrived z",
		"2 task_ended yb/0", "2 job_ended y", "2 gpu_joined a/0",
		"3 task_ended zb/0", "3 job_ended z",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// meddler changes the decisions of a policy.
type meddler struct {
	online.Policy
	change func([]hare.Decision) []hare.Decision
}

func (md *meddler) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	ds, err := md.Policy.Step(nowUs, events)
	return md.change(slices.Clone(ds)), err
}

// Each impossible decision is refused with its reason.
func TestImpossibleDecisions(t *testing.T) {
	on := []hare.Profile{{Type: "A", ComputeUs: 1e6}}
	inst := &hare.Instance{
		Cluster: hare.Cluster{Nodes: []hare.Node{
			{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 4}}}, {Name: "b",
				GPUs: []hare.TypeCount{{Type: "B", Count: 1}}},
			{Name: "c", GPUs: []hare.TypeCount{{Type: "A", Count: 1}},
				Windows: []hare.Window{{StartUs: 2e6, EndUs: hare.Forever}}},
		}},
		Jobs: []hare.Job{
			{ID: "relaxed", Rounds: 2, Tasks: 1, On: on},
			{ID: "gang", Rounds: 2, Tasks: 2, Sync: hare.Gang,
				On: append(on, hare.Profile{Type: "B", ComputeUs: 1e6})},
			{ID: "rigid", Rounds: 3, Tasks: 1, Sync: hare.Rigid, On: on},
		},
	}
	// An edit changes the decision on a task of a job, which is ds[i].
	type edit func(ds []hare.Decision, i int) []hare.Decision
	for _, c := range []struct {
		name, job   string
		round, task int64
		edit        edit
		want        string
	}{
		{"time", "relaxed", 0, 0, func(ds []hare.Decision, i int) []hare.Decision { ds[i].AtUs++; return ds },
			"it is dated"},
		{"type", "relaxed", 0, 0, func(ds []hare.Decision, i int) []hare.Decision { ds[i].Type = 9; return ds },
			"not a type of decision"},
		{"job", "relaxed", 0, 0, func(ds []hare.Decision, i int) []hare.Decision { ds[i].Job = "none"; return ds },
			"no such job"},
		{"GPU", "relaxed", 0, 0, func(ds []hare.Decision, i int) []hare.Decision { ds[i].GPU = "a/9"; return ds },
			"no such GPU"},
		{"service", "relaxed", 0, 0, func(ds []hare.Decision, i int) []hare.Decision { ds[i].GPU = "c/0"; return ds },
			"not in service"},
		{"profile", "relaxed", 0, 0, func(ds []hare.Decision, i int) []hare.Decision { ds[i].GPU = "b/0"; return ds },
			"no profile"},
		{"round", "relaxed", 0, 0, func(ds []hare.Decision, i int) []hare.Decision { ds[i].Round = 1; return ds },
			"round 0 is the one"},
		{"task", "relaxed", 0, 0, func(ds []hare.Decision, i int) []hare.Decision { ds[i].Task = 1; return ds },
			"a round has 1 tasks"},
		{"twice", "relaxed", 1, 0, func(ds []hare.Decision, i int) []hare.Decision {
			again := ds[i]
			again.GPU = "a/3"
			return append(ds, again)
		}, "holds the GPU"},
		{"two GPUs", "relaxed", 0, 0, func(ds []hare.Decision, i int) []hare.Decision {
			again := ds[i]
			again.GPU = "a/3"
			return append(ds, again)
		}, "runs or has ended"},
		{"held", "gang", 0, 0, func(ds []hare.Decision, i int) []hare.Decision { ds[i].GPU = "a/0"; return ds },
			`job "relaxed" holds the GPU`},
		{"killed", "gang", 0, 0, func(ds []hare.Decision, i int) []hare.Decision {
			return append(ds, hare.Decision{Type: hare.DecisionWithdraw, Job: "relaxed", GPU: "a/0"})
		}, "running tasks are not killed"},
		{"half a gang", "gang", 0, 1, func(ds []hare.Decision, i int) []hare.Decision { return slices.Delete(ds, i, i+1) },
			"start together"},
		{"two types", "gang", 0, 1, func(ds []hare.Decision, i int) []hare.Decision { ds[i].GPU = "b/0"; return ds },
			"mixes GPU types"},
		{"moving", "rigid", 2, 0, func(ds []hare.Decision, i int) []hare.Decision { ds[i].GPU = "a/0"; return ds },
			"stays on its GPUs"},
		{"no withdrawal", "rigid", 3, 0, func(ds []hare.Decision, i int) []hare.Decision {
			if ds[i].Type == hare.DecisionWithdraw {
				return ds[:i]
			}
			return ds
		}, "it is missing"},
	} {
		p := &meddler{onePolicyEach(t, inst)["fifo"], func(ds []hare.Decision) []hare.Decision {
			i := slices.IndexFunc(ds, func(d hare.Decision) bool {
				return d.Job == c.job && d.Round == c.round && d.Task == c.task
			})
			if i < 0 {
				return ds
			}
			return c.edit(ds, i)
		}}
		_, err := sim.Run(t.Context(), inst, p, sim.Config{})
		if d, ok := errors.AsType[*sim.DecisionError](err); !ok || !strings.Contains(d.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// If decisions are garbled, the run ends with an error or with a feasible plan.
func TestGarbledDecisions(t *testing.T) {
	refused, accepted := 0, 0
	for seed := range seeds(1000) {
		r := rand.New(rand.NewPCG(seed, 5))
		inst := random(r, seed%2 == 1)
		chance := 2 + r.IntN(60)
		model := model.New(inst)
		p := &meddler{onePolicyEach(t, inst)["fifo"], func(ds []hare.Decision) []hare.Decision {
			if len(ds) == 0 || r.IntN(chance) > 0 {
				return ds
			}
			i := r.IntN(len(ds))
			switch r.IntN(9) {
			case 0:
				ds = slices.Delete(ds, i, i+1)
			case 1:
				ds = append(ds, ds[i])
			case 2:
				ds[i].GPU = model.GPUs[r.IntN(len(model.GPUs))].ID
			case 3:
				ds[i].Round += int64(r.IntN(3)) - 1
			case 4:
				ds[i].Task += int64(r.IntN(3)) - 1
			case 5:
				ds[i].Job = inst.Jobs[r.IntN(len(inst.Jobs))].ID
			case 6:
				ds[i].Type = hare.DecisionType(r.IntN(3))
			case 7:
				ds[i].AtUs += int64(r.IntN(3)) - 1
			case 8:
				k := r.IntN(len(ds))
				ds[i], ds[k] = ds[k], ds[i]
			}
			return ds
		}}
		out, err := sim.Run(t.Context(), inst, p, sim.Config{})
		if err != nil {
			refused++
			continue
		}
		if out.Moved != nil {
			continue
		}
		accepted++
		res, err := out.Result(inst, nil)
		if err != nil {
			t.Fatal(err)
		}
		if rep := verify.Check(inst, res); !rep.OK {
			t.Fatalf("seed %d: %v", seed, rep)
		}
	}
	if refused < 10 || accepted < 10 {
		t.Errorf("%d refused, %d accepted", refused, accepted)
	}
}

// silent is a policy that makes no decisions.
type silent struct{}

func (silent) Step(int64, []hare.Event) ([]hare.Decision, error) { return nil, nil }

func TestOtherErrors(t *testing.T) {
	inst := random(rand.New(rand.NewPCG(1, 6)), false)
	if _, err := sim.Run(t.Context(), inst, silent{}, sim.Config{}); !errors.Is(err, sim.ErrStalled) {
		t.Error(err)
	}
	stop := errors.New("stop")
	if _, err := sim.Run(t.Context(), inst, silent{},
		sim.Config{Log: func(wire.Record) error { return stop }}); !errors.Is(err, stop) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sim.Run(ctx, inst, silent{}, sim.Config{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// A policy that was made for another cluster does not know its GPUs.
	other, err := online.NewFIFO(nil)
	if err != nil {
		t.Fatal(err)
	}
	inst.Cluster.Nodes[0].Windows = []hare.Window{{StartUs: 0, EndUs: 1}}
	inst.Cluster.Nodes = inst.Cluster.Nodes[:1]
	if _, err := sim.Run(t.Context(), inst, other, sim.Config{}); !errors.Is(err, sim.ErrStalled) {
		t.Error(err)
	}
	inst.Jobs[0].Tasks = 1 << 40
	if _, err := sim.Run(t.Context(), inst, other, sim.Config{}); err == nil {
		t.Error("2^40 tasks a round")
	}
	none := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	if out, err := sim.Run(t.Context(), none, silent{}, sim.Config{}); err != nil || out.Events != 0 ||
		out.MeanJCTUs != 0 {
		t.Error(out, err)
	}
}
