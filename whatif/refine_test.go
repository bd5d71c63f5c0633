package whatif_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/whatif"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// batch runs a batch whose base is inst and whose scenarios are given in JSON.
func batch(t *testing.T, inst *hare.Instance,
	scenarios string) (base *whatif.Line, lines []*whatif.Line, summary *whatif.Line) {
	t.Helper()
	doc := fmt.Sprintf(`{"base": {"solve_id": "x"}, "scenarios": %s}`, scenarios)
	req, err := whatifdoc.Decode(strings.NewReader(doc), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	req.Base = whatifdoc.Base{Instance: inst}
	req.Options = wire.Options{WorkLimit: 200, Gap: new(0.0)}
	req.Ordered = true
	if err := whatif.Check(req, nil); err != nil {
		t.Fatal(err)
	}
	err = whatif.Run(context.Background(), req, whatif.Local{}, func(l *whatif.Line) error {
		switch l.Line {
		case "base":
			base = l
		case "scenario":
			lines = append(lines, l)
		default:
			summary = l
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return base, lines, summary
}

// The printed interval contains the difference of the optima, which the test finds by
// trying all schedules. Added GPUs never raise the value of the best plan, and removed
// GPUs never lower it.
func TestEndsHoldTheOptima(t *testing.T) {
	if testing.Short() {
		t.Skip("random instances are for the run without the race detector")
	}
	judged := 0
	for seed := range uint64(60) {
		inst := brute.Random(rand.New(rand.NewPCG(seed, 31)))
		node := &inst.Cluster.Nodes[0]
		kind := node.GPUs[0].Type
		scenarios := fmt.Sprintf(`[{"add_gpus": {"type": %q, "count": 1}}, {"add_gpus": {"type": %q, "count": 2}}, `+
			`{"scale_weights": 2}, {"drain": {"node": %q, "at_s": 30}}]`, kind, kind, node.Name)
		base, lines, summary := batch(t, inst, scenarios)
		if base.Value == nil {
			continue
		}
		optimum, found, done := brute.Optimum(inst, 20_000)
		if !done || !found {
			continue
		}
		ends := make([][]*hare.Amount, len(lines))
		for i, l := range lines {
			ends[i] = l.OptimumChange
		}
		for _, r := range summary.Refined {
			ends[r.Index] = r.OptimumChange
		}
		for i, sc := range []func(*hare.Instance){
			func(x *hare.Instance) { x.Cluster.Nodes = append(x.Cluster.Nodes, extra(kind, 1)) },
			func(x *hare.Instance) { x.Cluster.Nodes = append(x.Cluster.Nodes, extra(kind, 2)) },
			func(x *hare.Instance) {
				for j := range x.Jobs {
					x.Jobs[j].WeightMicro *= 2
				}
			},
		} {
			other := &hare.Instance{Objective: inst.Objective,
				Cluster: hare.Cluster{Nodes: append([]hare.Node(nil), inst.Cluster.Nodes...)},
				Jobs:    append([]hare.Job(nil), inst.Jobs...)}
			sc(other)
			value, found, done := brute.Optimum(other, 20_000)
			if !done || !found || len(ends[i]) != 2 {
				continue
			}
			judged++
			change := hare.Product(1, value).Sub(hare.Product(1, optimum))
			if low := ends[i][0]; low != nil && low.Cmp(change) > 0 {
				t.Errorf("seed %d, scenario %d: the optima differ by %s, below the lower end %s", seed, i, change, low)
			}
			if high := ends[i][1]; high != nil && high.Cmp(change) < 0 {
				t.Errorf("seed %d, scenario %d: the optima differ by %s, above the upper end %s", seed, i, change,
					high)
			}
			if high := ends[i][1]; i < 2 && (high == nil || high.Sign() > 0) {
				t.Errorf("seed %d, scenario %d: GPUs that are added may raise the best plan by %v", seed, i, high)
			}
			if low := ends[i][0]; i == 2 && (low == nil || low.Sign() < 0) {
				t.Errorf("seed %d: greater weights may lower the best plan by %v", seed, low)
			}
		}
		if low := ends[3]; len(low) == 2 && low[0] != nil && low[0].Sign() < 0 {
			t.Errorf("seed %d: a node that leaves may lower the best plan by %s", seed, low[0])
		}
	}
	if judged < 60 {
		t.Errorf("%d differences judged", judged)
	}
}

func extra(kind string, count int) hare.Node {
	return hare.Node{Name: "added-0", GPUs: []hare.TypeCount{{Type: kind, Count: count}}}
}

func TestNotesSayWhatNoJobCanUse(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1",
		"cluster": {"nodes": [{"name": "a", "gpus": {"V100": 4}}]},
		"jobs": [{"id": "wide", "tasks": 4, "sync": "gang", "on": {"V100": {"compute_s": 1}, "T4": {"compute_s": 2}}},
			{"id": "narrow", "on": {"V100": {"compute_s": 1}, "A100": {"compute_s": 2}}}]}`),
		wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	_, lines, _ := batch(t, inst, `[{"add_gpus": {"type": "K80", "count": 2}}, {"add_gpus": {"type": "T4", "count": `+
		`2}}, {"add_gpus": {"type": "T4", "count": 4}}, {"add_gpus": {"type": "V100", "count": 1}}, `+
		`{"add_nodes": [{"name": "n", "gpus": {"A100": 1}}]}]`)
	for i, want := range []string{`no job can use the added K80: none has times for that type in its "on"`,
		"no job can use the added T4: each that could needs more than 2 of them at once",
		`1 of 2 jobs cannot use the added T4: they have no times for that type in their "on"`, "",
		`1 of 2 jobs cannot use the added A100: they have no times for that type in their "on"`} {
		if got := strings.Join(lines[i].Notes, "; "); got != want {
			t.Errorf("scenario %d: notes %q, want %q", i, got, want)
		}
	}
}

// Scenarios of one batch refine each other: the plan for fewer added GPUs is also a plan for more
// added GPUs, and the bound with more GPUs also holds with fewer.
func TestBatchesRefineEachOther(t *testing.T) {
	inst := brute.Random(rand.New(rand.NewPCG(4, 31)))
	kind := inst.Cluster.Nodes[0].GPUs[0].Type
	var list []string
	for n := 1; n <= 6; n++ {
		list = append(list, fmt.Sprintf(`{"add_gpus": {"type": %q, "count": %d}}`, kind, n))
	}
	_, lines, summary := batch(t, inst, "["+strings.Join(list, ",")+"]")
	ends := make([][]*hare.Amount, len(lines))
	for i, l := range lines {
		ends[i] = l.OptimumChange
	}
	for _, r := range summary.Refined {
		ends[r.Index] = r.OptimumChange
	}
	for i := 1; i < len(ends); i++ {
		if ends[i][1].Cmp(*ends[i-1][1]) > 0 || ends[i][0].Cmp(*ends[i-1][0]) > 0 {
			t.Errorf("%d GPUs more: from %s to %s, and one less: from %s to %s", i+1, ends[i][0], ends[i][1],
				ends[i-1][0],
				ends[i-1][1])
		}
	}
}
