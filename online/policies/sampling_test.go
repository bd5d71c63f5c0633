package policies_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/market"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
)

// two is a cluster of two GPUs of type A and four of type B, with relaxed jobs of six tasks a round.
func two(jobs ...hare.Job) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{
		{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 2}}},
		{Name: "b", GPUs: []hare.TypeCount{{Type: "B", Count: 4}}}}}}
	for i, j := range jobs {
		j.ID, j.WeightMicro = fmt.Sprint("j", i), 1e6
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

func on(a, b float64) []hare.Profile {
	var p []hare.Profile
	for _, x := range []struct {
		kind string
		s    float64
	}{{"A", a}, {"B", b}} {
		if x.s > 0 {
			p = append(p, hare.Profile{Type: x.kind, ComputeUs: int64(x.s * 1e6)})
		}
	}
	return p
}

// The runs are worked by hand. Left over GPUs idle in all of them.
func TestSamplingByHand(t *testing.T) {
	for _, c := range []struct {
		name string
		inst *hare.Instance
		cfg  policies.SamplingConfig
		want string
	}{
		// Alone, a B takes as long for a task as the two A for all that wait: they get none.
		{"a slow GPU would make the round longer", two(hare.Job{Rounds: 2, Tasks: 6, On: on(1, 3)}),
			policies.SamplingConfig{}, "6"},
		// Four tasks on B and two on A take 2 s a round, where the A alone would need 3 s.
		{"slow GPUs help", two(hare.Job{Rounds: 2, Tasks: 6, On: on(1, 2)}), policies.SamplingConfig{}, "4"},
		// The first job has A and does a round in 3 s. The second has B: its rounds take 3 and 3 s,
		// then the first has ended, and it has all GPUs: 3 s.
		{"two jobs", two(hare.Job{Rounds: 2, Tasks: 6, On: on(1, 3)}, hare.Job{Rounds: 2, Tasks: 6, On: on(2.5, 3)}),
			policies.SamplingConfig{}, "15"},
		// The gang comes at 1 and gets A. It waits until 2 and ends at 3; the other job does its second
		// round on B until 6, and its last two on A until 10.
		{"a gang takes its type", two(hare.Job{Rounds: 4, Tasks: 2, On: on(2, 4)},
			hare.Job{Rounds: 1, Tasks: 2, Sync: hare.Gang, ReleaseUs: 1e6, On: on(1, 0)}), policies.SamplingConfig{}, "12"},
		// With whole rounds the longer job waits, since six GPUs do not hold two rounds of six tasks.
		{"whole rounds", two(hare.Job{Rounds: 1, Tasks: 6, On: on(1, 1)}, hare.Job{Rounds: 1, Tasks: 6, On: on(2, 2)}),
			policies.SamplingConfig{WholeRounds: true}, "4"},
	} {
		c.cfg.OnlyPlaced = true
		info, _ := policies.Find("sampling")
		p := fresh(t, info, c.inst, policies.Config{Sampling: c.cfg})
		out, err := sim.Run(t.Context(), c.inst, p, sim.Config{Name: "sampling"})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := out.Value.String(); got != c.want {
			t.Errorf("%s: weighted JCT %s s, want %s", c.name, got, c.want)
		}
	}
}

// Settings change how jobs are placed, and each setting gives runs that end.
func TestSamplingSettings(t *testing.T) {
	var jobs []hare.Job
	for i := range 12 {
		jobs = append(jobs, hare.Job{Rounds: int64(2 + i%5), Tasks: int64(2 + i%4), ReleaseUs: int64(i) * 700_000,
			On: on(1+float64(i%3), 2+float64(i%5))})
	}
	inst := two(jobs...)
	info, _ := policies.Find("sampling")
	for _, cfg := range []policies.SamplingConfig{
		{}, {OnlyPlaced: true}, {WholeRounds: true}, {Market: market.Config{Drawing: market.Uniform, Draws: 3}},
		{Market: market.Config{Valuation: market.Throughput, Skip: -1}},
	} {
		p := fresh(t, info, inst, policies.Config{Sampling: cfg})
		if _, err := sim.Run(t.Context(), inst, p, sim.Config{}); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	session, _ := info.Session()
	for _, c := range []struct{ parameters, want string }{
		{`{"draws": 8, "skip": 0, "drawing": "uniform", "valuation": "throughput", "only_placed": true}`, ""},
		{`{"draws": 0}`, "/draws: sampling: draws is 0"},
		{`{"skip": 1}`, "/skip: sampling: skip is 1"},
		{`{"drawing": "far"}`, `/drawing: sampling: drawing is "far"`},
		{`{"valuation": "x"}`, `/valuation: sampling: valuation is "x"`},
		{`{"n": 1}`, "/n"},
	} {
		_, err := session.Open(&inst.Cluster, []byte(c.parameters))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.parameters, err, c.want)
		}
	}
}
