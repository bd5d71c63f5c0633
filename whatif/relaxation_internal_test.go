package whatif

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
)

// loosened returns a copy of inst in which some constraints are looser and some jobs
// easier or gone.
func loosened(r *rand.Rand, inst *hare.Instance) *hare.Instance {
	out := &hare.Instance{Objective: inst.Objective}
	for _, n := range inst.Cluster.Nodes {
		n.GPUs, n.Busy, n.Windows = slices.Clone(n.GPUs), slices.Clone(n.Busy), slices.Clone(n.Windows)
		switch r.IntN(4) {
		case 0:
			n.Busy = nil
		case 1:
			n.Windows = nil
		case 2:
			if len(n.Windows) > 0 {
				n.Windows[len(n.Windows)-1].EndUs = hare.Forever
			}
		}
		out.Cluster.Nodes = append(out.Cluster.Nodes, n)
	}
	if r.IntN(2) == 0 {
		kind := inst.Cluster.Nodes[0].GPUs[0].Type
		out.Cluster.Nodes = append(out.Cluster.Nodes,
			hare.Node{Name: "more", GPUs: []hare.TypeCount{{Type: kind, Count: 1}}})
	}
	for _, j := range inst.Jobs {
		j.On = slices.Clone(j.On)
		switch r.IntN(6) {
		case 0:
			if len(inst.Jobs) > 1 && len(out.Jobs) > 0 {
				continue
			}
		case 1:
			j.WeightMicro /= 2
		case 2:
			j.Rounds = max(1, j.Rounds-1)
		case 3:
			if j.Sync == hare.Rigid {
				j.Sync = hare.Gang
			} else {
				j.Sync, j.Mix = hare.Relaxed, false
			}
		case 4:
			j.On[0].ComputeUs = max(1, j.On[0].ComputeUs/2)
			j.On[0].SyncUs /= 2
		}
		out.Jobs = append(out.Jobs, j)
	}
	return out
}

// looser reports whether loose is a relaxation of tight, and by how much.
func looser(loose, tight *hare.Instance) (slack hare.Amount, ok bool) {
	l, t := newConstraints(loose), newConstraints(tight)
	if !l.relaxes(t) {
		return slack, false
	}
	return l.slackOver(t), true
}

// The test compares what relaxes claims with the optima of instances that are small
// enough to try all schedules, and checks that relaxes recognises instances that are
// relaxations by construction.
func TestLooserAgainstBruteForce(t *testing.T) {
	if testing.Short() {
		t.Skip("random instances are for the run without the race detector")
	}
	judged, slacks := 0, 0
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 29))
		tight := brute.Random(r)
		loose := loosened(r, tight)
		if loose.Validate() != nil {
			continue
		}
		slack, ok := looser(loose, tight)
		if !ok {
			t.Fatalf("seed %d: a loosened instance does not count as looser", seed)
		}
		most, found, done := brute.Optimum(tight, 20_000)
		if !done || !found {
			continue
		}
		least, found, done := brute.Optimum(loose, 20_000)
		if !done {
			continue
		}
		judged++
		if slack.Sign() > 0 {
			slacks++
		}
		if !found {
			t.Fatalf("seed %d: the looser instance has no schedule", seed)
		}
		if hare.Product(1, least).Add(slack).Cmp(hare.Product(1, most)) > 0 {
			t.Fatalf("seed %d: optimum %d of the looser instance plus slack %s is above %d", seed, least, slack, most)
		}
		// In the other direction, looser may only be claimed if the optima allow it.
		if back, ok := looser(tight, loose); ok && hare.Product(1, most).Add(back).Cmp(hare.Product(1, least)) > 0 {
			t.Fatalf("seed %d: called looser the other way round", seed)
		}
	}
	if judged < 200 || slacks < 20 {
		t.Errorf("%d pairs judged, %d with slack", judged, slacks)
	}
}

// Two instances that are drawn independently are almost never comparable. If relaxes says that
// they are, the optima must agree.
func TestLooserOfUnrelated(t *testing.T) {
	unused := &hare.Instance{Cluster: hare.Cluster{
		Nodes: []hare.Node{{Name: "n", GPUs: []hare.TypeCount{{Type: "A", Count: 2}}}}}}
	if _, ok := looser(&hare.Instance{}, unused); !ok {
		t.Error("GPUs that no job can use make a difference")
	}
	for name, change := range map[string]func(*hare.Instance){
		"an earlier release": func(i *hare.Instance) { i.Jobs[0].ReleaseUs -= 5 },
		"one more round":     func(i *hare.Instance) { i.Jobs[0].Rounds++ },
		"fewer tasks":        func(i *hare.Instance) { i.Jobs[0].Tasks-- },
		"more weight":        func(i *hare.Instance) { i.Jobs[0].WeightMicro++ },
		"a stricter rule":    func(i *hare.Instance) { i.Jobs[0].Sync = hare.Rigid },
		"a type less":        func(i *hare.Instance) { i.Jobs[0].On = i.Jobs[0].On[:1] },
		"a longer time":      func(i *hare.Instance) { i.Jobs[0].On[0].SyncUs++ },
		"a new job":          func(i *hare.Instance) { i.Jobs = append(i.Jobs, hare.Job{ID: "new"}) },
		"a GPU less":         func(i *hare.Instance) { i.Cluster.Nodes[0].GPUs[0].Count-- },
		"another type":       func(i *hare.Instance) { i.Cluster.Nodes[0].GPUs[0].Type = "C" },
		"a later window": func(i *hare.Instance) {
			i.Cluster.Nodes[0].Windows = []hare.Window{{StartUs: 1, EndUs: hare.Forever}}
		},
		"a pause": func(i *hare.Instance) {
			i.Cluster.Nodes[0].Windows = []hare.Window{{StartUs: 0, EndUs: 5}, {StartUs: 6, EndUs: hare.Forever}}
		},
		"a busy GPU": func(i *hare.Instance) { i.Cluster.Nodes[0].Busy = []hare.Busy{{GPU: 1, UntilUs: 3}} },
	} {
		base := func() *hare.Instance {
			return &hare.Instance{
				Objective: hare.ObjectiveWeightedJCT,
				Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "n", GPUs: []hare.TypeCount{{Type: "A", Count: 2}}},
					{Name: "m", GPUs: []hare.TypeCount{{Type: "B", Count: 1}}}}},
				Jobs: []hare.Job{{ID: "j", WeightMicro: 1e6, ReleaseUs: 10, Rounds: 2, Tasks: 2, Sync: hare.Gang,
					On: []hare.Profile{{Type: "A", ComputeUs: 4}, {Type: "B", ComputeUs: 3}}}},
			}
		}
		loose, tight := base(), base()
		if _, ok := looser(loose, tight); !ok {
			t.Fatal("an instance is as loose as itself")
		}
		change(loose)
		if _, ok := looser(loose, tight); ok {
			t.Errorf("%s counts as looser", name)
		}
	}
}
