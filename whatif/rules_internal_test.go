package whatif

import (
	"context"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/verify"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// randomRules returns a scenario that changes quotas, dependencies, times, weights or jobs.
func randomRules(r *rand.Rand, inst *hare.Instance) *whatifdoc.Scenario {
	s := &whatifdoc.Scenario{}
	for range 1 + r.IntN(2) {
		j := &inst.Jobs[r.IntN(len(inst.Jobs))]
		switch r.IntN(6) {
		case 0, 1:
			q := hare.Quota{User: "ann", GPUs: int64(1 + r.IntN(4))}
			if len(inst.Quota) > 0 {
				q = inst.Quota[0]
				q.GPUs = max(1, q.GPUs+int64(r.IntN(4)-1))
			}
			s.SetQuota = append(s.SetQuota, q)
		case 2:
			s.DropAfter = append(s.DropAfter, whatifdoc.DroppedAfter{Job: j.ID})
		case 3:
			s.ScaleDurations = append(s.ScaleDurations, whatifdoc.Factor{Job: j.ID, Micro: int64(1+r.IntN(4)) * 500_000})
		case 4:
			s.ScaleDurations = append(s.ScaleDurations, whatifdoc.Factor{Micro: 500_000})
		case 5:
			s.RemoveJobs = []string{j.ID}
			s.ScaleDurations, s.DropAfter = nil, nil
		}
	}
	return s
}

// The test compares what is known of a scenario without a solve with optima: the bounds of the
// base's prices, the cost of the base's plan, and which of two instances is looser.
func TestScenariosWithRulesAgainstBruteForce(t *testing.T) {
	againstBruteForce(t, 1200, brute.RandomMixed, nil)
}

func TestScenariosWithLevelsAgainstBruteForce(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, in which the race detector finds nothing")
	}
	againstBruteForce(t, 800, brute.RandomLevels, changedLevels)
}

func TestScenariosWithShapesAgainstBruteForce(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, in which the race detector finds nothing")
	}
	againstBruteForce(t, 800, brute.RandomWithShapes, changedShapes)
}

// changedLevels moves a node to another rack, or changes what a job has of levels, as a patch would.
func changedLevels(r *rand.Rand, inst *hare.Instance) {
	switch inst.Cluster.Nodes = slices.Clone(inst.Cluster.Nodes); r.IntN(5) {
	case 0:
		n := &inst.Cluster.Nodes[r.IntN(len(inst.Cluster.Nodes))]
		n.Labels = slices.Clone(n.Labels)
		for x := range n.Labels {
			if n.Labels[x].Name == "rack" {
				n.Labels[x].Value = []string{"r", "s"}[r.IntN(2)]
			}
		}
	case 1:
		if names := brute.LevelNames(inst); r.IntN(2) == 0 {
			setWithin(r, inst, names[r.IntN(len(names)-1)])
		} else {
			setWithin(r, inst, "")
		}
	case 2:
		inst.Cluster.Topology = nil
	}
}

func setWithin(r *rand.Rand, inst *hare.Instance, level string) {
	inst.Jobs = slices.Clone(inst.Jobs)
	if j := &inst.Jobs[r.IntN(len(inst.Jobs))]; j.Sync != hare.Relaxed {
		j.Within = level
	}
}

// changedShapes changes the setups of a job, or what it costs to change its shape.
func changedShapes(r *rand.Rand, inst *hare.Instance) {
	inst.Jobs = slices.Clone(inst.Jobs)
	j := &inst.Jobs[r.IntN(len(inst.Jobs))]
	j.Shapes, j.On = slices.Clone(j.Shapes), slices.Clone(j.On)
	for x := range j.On {
		j.On[x].SwitchUs = int64(r.IntN(3)) * 500_000
	}
	if j.Reshape && r.IntN(2) == 0 {
		j.ReshapeUs = int64(r.IntN(3)) * 500_000
	} else if j.Sync == hare.Gang && len(j.Shapes) > 1 && r.IntN(2) == 0 {
		j.Reshape = !j.Reshape
		j.ReshapeUs = 0
	}
}

func againstBruteForce(t *testing.T, seeds uint64, draw func(*rand.Rand) *hare.Instance,
	change func(*rand.Rand, *hare.Instance)) {
	t.Helper()
	if testing.Short() {
		seeds /= 10
	}
	judged, looserThan, tighterThan, bounded, kept := 0, 0, 0, 0, 0
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 53))
		base := draw(r)
		inst, err := randomRules(r, base).Apply(base)
		if err != nil {
			continue
		}
		if change != nil && len(inst.Jobs) > 0 && r.IntN(2) == 0 {
			if change(r, inst); inst.Validate() != nil {
				continue
			}
		}
		before, plan, done := brute.OptimumOnNodes(base, 20_000)
		if !done || plan == nil {
			continue
		}
		after, found, done := brute.OptimumOnNodes(inst, 20_000)
		if !done {
			continue
		}
		judged++
		w := &whatIf{base: base, result: &hare.Result{Schedule: plan, Value: new(hare.Product(1, before))},
			index: map[string]int{}}
		for i := range base.Jobs {
			w.index[base.Jobs[i].ID] = i
		}
		if v, ok := w.costOfBasePlan(inst); ok {
			kept++
			if found == nil || v.Cmp(hare.Product(1, after)) < 0 {
				t.Fatalf("seed %d: the base's plan costs %s, the optimum is %d", seed, v, after)
			}
		}
		rel := w.relate(inst)
		if rel.looser {
			looserThan++
			if found == nil || hare.Product(1, after).Add(rel.slack).Cmp(hare.Product(1, before)) > 0 {
				t.Fatalf("seed %d: looser with slack %s, and the optimum goes from %d to %d", seed, rel.slack, before, after)
			}
		}
		if rel.tighter && found != nil {
			tighterThan++
			slack := rel.slack
			if rel.looser {
				slack = hare.Amount{}
			}
			if hare.Product(1, before).Add(slack).Cmp(hare.Product(1, after)) > 0 {
				t.Fatalf("seed %d: tighter with slack %s, and the optimum goes from %d to %d", seed, rel.slack, before, after)
			}
		}
		fit, err := relax.Run(context.Background(), model.New(base), relax.Config{Workers: 1, Cells: 8, Effort: 0.2})
		if err != nil || found == nil || fit.Certificate == nil || fit.Certificate.Method != hare.MethodPrice {
			continue
		}
		prices, err := verify.NewPrices(fit.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := prices.Bound(inst); err == nil {
			bounded++
			if b.Cmp(big.NewRat(after, 1e12)) > 0 {
				t.Fatalf("seed %d: the base's prices prove %s, the optimum is %d", seed, b.FloatString(6), after)
			}
		}
	}
	t.Log(judged, looserThan, tighterThan, bounded, kept)
	if !testing.Short() && (judged < 200 || looserThan < 50 || tighterThan < 50 || bounded < 100 || kept < 50) {
		t.Errorf("%d judged, %d looser, %d tighter, %d bounds, %d plans", judged, looserThan, tighterThan, bounded, kept)
	}
}

// Each change makes an instance with rules that is not looser.
func TestNotLooserWithRules(t *testing.T) {
	base := func() *hare.Instance {
		on := []hare.Profile{{Type: "A", ComputeUs: 4}}
		return &hare.Instance{
			Objective: hare.ObjectiveJCTAndTardiness,
			Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "n", GPUs: []hare.TypeCount{{Type: "A", Count: 4}}}},
				Reservations: []hare.Reservation{{FromUs: 4, UntilUs: 8, Users: []string{"ops"}, Jobs: []string{"j"}}}},
			Quota: []hare.Quota{{User: "ann", GPUs: 2}, {User: "ann", GPUs: 1, Types: []string{"A"}}},
			Jobs: []hare.Job{
				{ID: "i", WeightMicro: 1e6, Rounds: 2, Tasks: 1, Sync: hare.Gang, On: on,
					Progress: &hare.Progress{GPUs: []string{"n/0"}, ElapsedUs: 1}},
				{ID: "j", WeightMicro: 1e6, Rounds: 2, Tasks: 1, Sync: hare.Gang, On: on, Users: []string{"ann"},
					DeadlineUs: 9, LateWeightMicro: 2e6, After: []hare.Predecessor{{Job: "i", LagUs: 3}}}},
		}
	}
	if _, ok := looser(base(), base()); !ok {
		t.Fatal("an instance is as loose as itself")
	}
	for name, change := range map[string]func(*hare.Instance){
		"a smaller quota":       func(i *hare.Instance) { i.Quota[0].GPUs-- },
		"a quota of more types": func(i *hare.Instance) { i.Quota[1].Types = nil },
		"another quota":         func(i *hare.Instance) { i.Quota = append(i.Quota, hare.Quota{User: "bob", GPUs: 9}) },
		"a longer reservation":  func(i *hare.Instance) { i.Cluster.Reservations[0].UntilUs++ },
		"an earlier one":        func(i *hare.Instance) { i.Cluster.Reservations[0].FromUs-- },
		"without a user":        func(i *hare.Instance) { i.Cluster.Reservations[0].Users = nil },
		"without a job":         func(i *hare.Instance) { i.Cluster.Reservations[0].Jobs = nil },
		"on other nodes": func(i *hare.Instance) {
			i.Cluster.Reservations[0].Nodes = []hare.LabelValues{{Label: "node", Values: []string{"n"}}}
		},
		"a sooner deadline":  func(i *hare.Instance) { i.Jobs[1].DeadlineUs-- },
		"a dearer deadline":  func(i *hare.Instance) { i.Jobs[1].LateWeightMicro++ },
		"a longer lag":       func(i *hare.Instance) { i.Jobs[1].After[0].LagUs++ },
		"another user":       func(i *hare.Instance) { i.Jobs[1].Users = []string{"ann", "bob"} },
		"other running work": func(i *hare.Instance) { i.Jobs[0].Progress.ElapsedUs = 2 },
		"no running work":    func(i *hare.Instance) { i.Jobs[0].Progress = nil },
		"another GPU":        func(i *hare.Instance) { i.Jobs[0].Progress.GPUs = []string{"n/1"} },
		"another objective":  func(i *hare.Instance) { i.Objective = hare.ObjectiveWeightedJCT },
	} {
		loose := base()
		change(loose)
		if _, ok := looser(loose, base()); ok {
			t.Errorf("%s counts as looser", name)
		}
	}
	for name, change := range map[string]func(*hare.Instance){
		"a raised quota":       func(i *hare.Instance) { i.Quota[1].GPUs++ },
		"no quota":             func(i *hare.Instance) { i.Quota = slices.Delete(i.Quota, 0, 1) },
		"no dependency":        func(i *hare.Instance) { i.Jobs[1].After = nil },
		"a later deadline":     func(i *hare.Instance) { i.Jobs[1].DeadlineUs++ },
		"another user admits":  func(i *hare.Instance) { i.Cluster.Reservations[0].Users = []string{"ann", "ops"} },
		"a shorter time":       func(i *hare.Instance) { i.Jobs[0].On = []hare.Profile{{Type: "A", ComputeUs: 3}} },
		"a later reservation":  func(i *hare.Instance) { i.Cluster.Reservations[0].FromUs++ },
		"fewer jobs that wait": func(i *hare.Instance) { i.Jobs = i.Jobs[:1]; i.Cluster.Reservations[0].Jobs = nil },
	} {
		loose := base()
		change(loose)
		if _, ok := looser(loose, base()); !ok {
			t.Errorf("%s does not count as looser", name)
		}
	}
}

// Each change makes an instance with levels, setups and shapes that is not looser.
func TestNotLooserWithLevelsAndShapes(t *testing.T) {
	base := func() *hare.Instance {
		node := func(name, rack string) hare.Node {
			return hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: "A", Count: 4}},
				Labels: []hare.Label{{Name: "rack", Value: rack}}}
		}
		sync := []hare.LevelSync{{Level: "any", SyncUs: 3}, {Level: "node", SyncUs: 1}}
		one := []hare.Profile{{Type: "A", ComputeUs: 4, SwitchUs: 2}}
		return &hare.Instance{
			Objective: hare.ObjectiveWeightedJCT,
			Cluster:   hare.Cluster{Topology: []string{"rack"}, Nodes: []hare.Node{node("n", "r"), node("m", "s")}},
			Jobs: []hare.Job{
				{ID: "i", WeightMicro: 1e6, Rounds: 2, Tasks: 6, Sync: hare.Gang,
					On: []hare.Profile{{Type: "A", ComputeUs: 4, SyncUs: 3, SyncAt: sync}}},
				{ID: "j", WeightMicro: 1e6, Rounds: 2, Tasks: 2, Sync: hare.Gang, Within: "rack", On: one},
				{ID: "k", WeightMicro: 1e6, Rounds: 5, Sync: hare.Gang, Reshape: true, ReshapeUs: 3,
					Shapes: []hare.Shape{{Tasks: 1, Counts: 1, On: one}, {Tasks: 2, Counts: 2, On: slices.Clone(one)}}}},
		}
	}
	if _, ok := looser(base(), base()); !ok {
		t.Fatal("an instance is as loose as itself")
	}
	profile := func(change func(p *hare.Profile)) func(*hare.Instance) {
		return func(i *hare.Instance) { change(&i.Jobs[0].On[0]) }
	}
	shape := func(change func(s *hare.Shape)) func(*hare.Instance) {
		return func(i *hare.Instance) { change(&i.Jobs[2].Shapes[1]) }
	}
	for _, x := range []struct {
		name   string
		looser bool
		change func(*hare.Instance)
	}{
		{"another rack", false, func(i *hare.Instance) { i.Cluster.Nodes[0].Labels[0].Value = "s" }},
		{"no topology", false, func(i *hare.Instance) { i.Cluster.Topology, i.Jobs[1].Within = nil, "" }},
		{"nearer together", false, func(i *hare.Instance) { i.Jobs[1].Within = "node" }},
		{"kept together", false, func(i *hare.Instance) { i.Jobs[0].Within = "rack" }},
		{"farther apart", true, func(i *hare.Instance) { i.Jobs[1].Within = "" }},
		{"longer on one node", false, profile(func(p *hare.Profile) { p.SyncAt[1].SyncUs++ })},
		{"longer where spread", false, profile(func(p *hare.Profile) { p.SyncAt[0].SyncUs, p.SyncUs = 4, 4 })},
		{"the longest time for all", false, profile(func(p *hare.Profile) { p.SyncAt = nil })},
		{"the shortest time for all", true, profile(func(p *hare.Profile) { p.SyncAt, p.SyncUs = nil, 1 })},
		{"a longer setup", false, func(i *hare.Instance) { i.Jobs[1].On[0].SwitchUs++ }},
		{"no setup", true, func(i *hare.Instance) { i.Jobs[1].On[0].SwitchUs = 0 }},
		{"one shape less", false, func(i *hare.Instance) {
			i.Jobs[2].Shapes, i.Jobs[2].Reshape, i.Jobs[2].ReshapeUs = i.Jobs[2].Shapes[1:], false, 0
		}},
		{"another width", false, shape(func(s *hare.Shape) { s.Tasks = 1 })},
		{"other units", false, shape(func(s *hare.Shape) { s.Counts = 3 })},
		{"a slower shape", false, shape(func(s *hare.Shape) { s.On[0].ComputeUs++ })},
		{"a faster shape", true, shape(func(s *hare.Shape) { s.On[0].ComputeUs-- })},
		{"a longer pause", false, func(i *hare.Instance) { i.Jobs[2].ReshapeUs++ }},
		{"no change of the shape", false, func(i *hare.Instance) { i.Jobs[2].Reshape, i.Jobs[2].ReshapeUs = false, 0 }},
		{"a shorter pause", true, func(i *hare.Instance) { i.Jobs[2].ReshapeUs-- }},
	} {
		loose := base()
		x.change(loose)
		if _, ok := looser(loose, base()); ok != x.looser {
			t.Errorf("%s counts as looser: %v", x.name, ok)
		}
	}
}
