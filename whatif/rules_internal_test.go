package whatif

import (
	"context"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/bench/brute"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/whatif/scenario"
)

// randomRules returns a scenario that changes quotas, dependencies, times, weights or jobs.
func randomRules(r *rand.Rand, inst *hare.Instance) *scenario.Scenario {
	s := &scenario.Scenario{}
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
			s.DropAfter = append(s.DropAfter, scenario.DroppedAfter{Job: j.ID})
		case 3:
			s.ScaleDurations = append(s.ScaleDurations, scenario.Factor{Job: j.ID, Micro: int64(1+r.IntN(4)) * 500_000})
		case 4:
			s.ScaleDurations = append(s.ScaleDurations, scenario.Factor{Micro: 500_000})
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
	seeds := uint64(1200)
	if testing.Short() {
		seeds = 120
	}
	judged, looserThan, tighterThan, bounded, kept := 0, 0, 0, 0, 0
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 53))
		base := brute.RandomMixed(r)
		inst, err := randomRules(r, base).Apply(base)
		if err != nil {
			continue
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
		fit, err := relax.Run(context.Background(), hare.NewModel(base), relax.Config{Workers: 1, Cells: 8, Effort: 0.2})
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
