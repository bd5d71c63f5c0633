package verify_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// ruledReplansOf returns plans for the rest of the plan of a tiny instance with all rules of
// nodes, users and dependencies, one after another; the second continues from the first.
func ruledReplansOf(t testing.TB, seed uint64) []*replanCase {
	return replansFrom(t, seed, brute.RandomMixed)
}

// levelledReplansOf is ruledReplansOf with levels beside the other rules.
func levelledReplansOf(t testing.TB, seed uint64) []*replanCase {
	return replansFrom(t, seed, brute.RandomLevels)
}

// shapedReplansOf is ruledReplansOf with setups and shapes beside the other rules.
func shapedReplansOf(t testing.TB, seed uint64) []*replanCase {
	return replansFrom(t, seed, brute.RandomWithShapes)
}

func replansFrom(t testing.TB, seed uint64, draw func(*rand.Rand) *hare.Instance) []*replanCase {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 47))
	before := draw(r)
	opt := quickly
	if before.Objective == hare.ObjectiveMakespan || r.IntN(5) == 0 {
		opt.Bound = hare.MethodPrice
	}
	prev, err := solver.Solve(t.Context(), before, opt, solver.Config{Workers: 1})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	var out []*replanCase
	past := prev.Schedule
	for past != nil && len(out) < 2 {
		_, ends, _ := verify.ScheduleValue(before, past)
		at := 1 + r.Int64N(slices.Max(ends))
		if len(out) > 0 {
			at = max(at, out[0].res.Replan.AtUs)
		}
		inst := before
		if r.IntN(3) > 0 {
			inst = changedRules(r, before, at)
		}
		if inst.Validate() != nil {
			return out
		}
		req := hare.ReplanRequest{Previous: prev, Before: before, AtUs: at, HasAt: true,
			StabilityMicro: int64(r.IntN(3)) * 50_000}
		res, err := solver.Replan(t.Context(), inst, req, opt, solver.Config{Workers: 1})
		var bad *hare.InvalidError
		if errors.As(err, &bad) {
			return out // nothing is left, or a started job has changed
		}
		if err != nil {
			t.Fatalf("seed %d at %d: %v", seed, at, err)
		}
		if res.Schedule == nil {
			return out
		}
		out = append(out, &replanCase{inst: inst, before: before, prev: prev, res: decoded(t, res)})
		before, prev, past = inst, out[len(out)-1].res, res.Replan.Whole
	}
	return out
}

// changedRules returns the instance at the instant at, where quotas, reservations, windows,
// deadlines, weights and jobs may have changed.
func changedRules(r *rand.Rand, inst *hare.Instance, at int64) *hare.Instance {
	const half = 500_000
	out := *inst
	out.Jobs, out.Quota = slices.Clone(inst.Jobs), slices.Clone(inst.Quota)
	out.Cluster.Nodes, out.Cluster.Reservations = slices.Clone(inst.Cluster.Nodes),
		slices.Clone(inst.Cluster.Reservations)
	for range 1 + r.IntN(2) {
		j := &out.Jobs[r.IntN(len(out.Jobs))]
		kinds := 8
		if len(inst.Cluster.Topology) > 0 {
			kinds = 10
		}
		switch r.IntN(kinds) {
		case 8:
			n := &out.Cluster.Nodes[r.IntN(len(out.Cluster.Nodes))]
			n.Labels = slices.Clone(n.Labels)
			for x := range n.Labels {
				if n.Labels[x].Name == "rack" {
					n.Labels[x].Value = "new"
				}
			}
		case 9:
			j.Within = ""
		case 0:
			j.WeightMicro += 700_000
		case 1:
			j.DeadlineUs, j.LateWeightMicro = 1+at+int64(r.IntN(8)-4)*half, 2_000_000
			j.DeadlineUs = max(1, j.DeadlineUs)
		case 2:
			out.Quota = append(out.Quota, hare.Quota{User: "ann", GPUs: int64(1 + r.IntN(3))})
		case 3:
			until := at + int64(1+r.IntN(4))*half
			out.Cluster.Reservations = append(out.Cluster.Reservations, hare.Reservation{UntilUs: until,
				FromUs: max(0, until-2_000_000), Users: []string{"bob"}, Jobs: []string{out.Jobs[0].ID}})
		case 4:
			n := &out.Cluster.Nodes[r.IntN(len(out.Cluster.Nodes))]
			until := max(1, at+int64(r.IntN(4)-1)*half)
			n.Windows = []hare.Window{{EndUs: until}, {StartUs: until + half, EndUs: hare.Forever}}
		case 5:
			job := *j
			job.ID, job.Progress, job.After, job.ReleaseUs = fmt.Sprintf("new%d", len(out.Jobs)), nil, nil, at
			if r.IntN(2) == 0 {
				job.After = []hare.Predecessor{{Job: out.Jobs[0].ID, LagUs: half}}
			}
			out.Jobs = append(out.Jobs, job)
		case 6:
			j.Rounds++
		case 7:
			j.Users = []string{"bob"}
		}
	}
	return &out
}

// Replans of instances with running work, reservations, quotas, dependencies, deadlines, other
// objectives and levels are accepted, and forged ones are refused.
func TestReplansWithRules(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 20
	}
	acceptReplans(t, seeds, ruledReplansOf, []string{"running gang", "running rigid", "held by relaxed", "after",
		"deadline passed", "quota", "reservations", "lost 1", "moved 1", hare.ObjectiveMakespan,
		hare.ObjectiveJCTAndTardiness}, ruledForgeries)
}

func TestReplansWithLevels(t *testing.T) {
	seeds := uint64(120)
	if testing.Short() {
		seeds = 12
	}
	acceptReplans(t, seeds, levelledReplansOf, []string{"running gang", "running rigid", "lost 1", "moved 1",
		"running within", "running apart"}, levelForgeries)
}

func TestReplansWithShapes(t *testing.T) {
	seeds := uint64(90)
	if testing.Short() {
		seeds = 9
	}
	acceptReplans(t, seeds, shapedReplansOf, []string{"running gang", "running rigid", "held by relaxed",
		"one shape left", "running in shape 1", "moved 1"}, shapeForgeries)
}

// acceptReplans checks plans for rests, and that forgeries of half of them are refused. Each of some
// things, and each forgery, must occur.
func acceptReplans(t *testing.T, seeds uint64, of func(testing.TB, uint64) []*replanCase, must []string,
	forged []forgery) {
	t.Helper()
	seen, made := map[string]int{}, map[string]int{}
	for seed := range seeds {
		for n, x := range of(t, seed) {
			p := x.res.Replan
			if rep := verify.CheckReplan(x.inst, x.res, x.previous()); !rep.OK {
				t.Fatalf("seed %d, %d: %s", seed, n, rep)
			}
			if rep := verify.Check(p.Rest, x.res); !rep.OK {
				t.Fatalf("seed %d, %d, as a plain result: %s", seed, n, rep)
			}
			if rep := verify.CheckReplan(x.inst, x.res, nil); rep.OK != (p.Whole != nil) {
				t.Fatalf("seed %d, %d, without the plan before: %s", seed, n, rep)
			}
			countRules(seen, x)
			if p.Whole != nil {
				checkWhole(t, fmt.Sprintf("seed %d, %d", seed, n), x)
			}
			if seed%2 > 0 {
				continue
			}
			for _, f := range slices.Concat(forgeries, forged) {
				res := decoded(t, x.res)
				if !f.change(x, res) {
					continue
				}
				made[f.name]++
				if rep := verify.CheckReplan(x.inst, res, x.previous()); rep.OK {
					t.Errorf("seed %d, %d: %s is accepted with the plan before", seed, n, f.name)
				}
				if rep := verify.CheckReplan(x.inst, res, nil); rep.OK && !f.past {
					t.Errorf("seed %d, %d: %s is accepted", seed, n, f.name)
				}
			}
		}
	}
	t.Log(seen, made)
	if testing.Short() {
		return
	}
	for _, what := range must {
		if seen[what] < 3 {
			t.Errorf("only %d times: %s", seen[what], what)
		}
	}
	for _, f := range forged {
		if made[f.name] < 3 {
			t.Errorf("only %d times: %s", made[f.name], f.name)
		}
	}
}

// levelForgeries replace what is left by a rest with other levels.
var levelForgeries = []forgery{
	{name: "a node in another rack", change: func(_ *replanCase, res *hare.Result) bool {
		return forgeRest(res, func(rest *hare.Instance) bool {
			if len(rest.Cluster.Topology) == 0 || len(rest.Cluster.Nodes) < 2 {
				return false
			}
			rest.Cluster.Nodes = slices.Clone(rest.Cluster.Nodes)
			n := &rest.Cluster.Nodes[0]
			n.Labels = slices.Clone(n.Labels)
			for x := range n.Labels {
				n.Labels[x].Value = "elsewhere"
			}
			return true
		})
	}},
	{name: "no topology", change: func(_ *replanCase, res *hare.Result) bool {
		return forgeRest(res, func(rest *hare.Instance) bool {
			some := len(rest.Cluster.Topology) > 0
			rest.Cluster.Topology = nil
			return some
		})
	}},
	{name: "a job that may be apart", change: func(_ *replanCase, res *hare.Result) bool {
		return forgeRest(res, func(rest *hare.Instance) bool {
			for i := range rest.Jobs {
				if rest.Jobs[i].Within != "" {
					rest.Jobs[i].Within = ""
					return true
				}
			}
			return false
		})
	}},
	{name: "one time for all levels", change: func(_ *replanCase, res *hare.Result) bool {
		return forgeRest(res, func(rest *hare.Instance) bool {
			for i := range rest.Jobs {
				j := &rest.Jobs[i]
				for x := range j.On {
					if j.On[x].SyncAt != nil {
						j.On = slices.Clone(j.On)
						j.On[x].SyncAt = nil
						return true
					}
				}
			}
			return false
		})
	}},
}

// ruledForgeries replace what is left by another rest, with its hash.
var ruledForgeries = []forgery{
	{name: "running work that began later", change: func(_ *replanCase, res *hare.Result) bool {
		return forgeRest(res, func(rest *hare.Instance) bool {
			for i := range rest.Jobs {
				if p := rest.Jobs[i].Progress; p != nil && p.ElapsedUs > 0 {
					less := *p
					less.ElapsedUs--
					rest.Jobs[i].Progress = &less
					return true
				}
			}
			return false
		})
	}},
	{name: "running work left out", change: func(_ *replanCase, res *hare.Result) bool {
		return forgeRest(res, func(rest *hare.Instance) bool {
			for i := range rest.Jobs {
				if j := &rest.Jobs[i]; j.Running() {
					j.Progress = &hare.Progress{RoundsDone: max(1, j.Rounds-1)}
					return j.Rounds > 1
				}
			}
			return false
		})
	}},
	{name: "a quota left out", change: func(_ *replanCase, res *hare.Result) bool {
		return forgeRest(res, func(rest *hare.Instance) bool {
			some := len(rest.Quota) > 0
			rest.Quota = nil
			return some
		})
	}},
	{name: "a reservation that ends sooner", change: func(_ *replanCase, res *hare.Result) bool {
		return forgeRest(res, func(rest *hare.Instance) bool {
			if len(rest.Cluster.Reservations) == 0 || rest.Cluster.Reservations[0].UntilUs < 2 {
				return false
			}
			rest.Cluster.Reservations = slices.Clone(rest.Cluster.Reservations)
			rest.Cluster.Reservations[0].UntilUs--
			return rest.Cluster.Reservations[0].UntilUs > rest.Cluster.Reservations[0].FromUs
		})
	}},
	{name: "a dependency left out", change: func(_ *replanCase, res *hare.Result) bool {
		return forgeRest(res, func(rest *hare.Instance) bool {
			for i := range rest.Jobs {
				if len(rest.Jobs[i].After) > 0 {
					rest.Jobs[i].After = nil
					return true
				}
			}
			return false
		})
	}},
	{name: "a later deadline", change: func(_ *replanCase, res *hare.Result) bool {
		return forgeRest(res, func(rest *hare.Instance) bool {
			for i := range rest.Jobs {
				if rest.Jobs[i].DeadlineUs > 0 {
					rest.Jobs[i].DeadlineUs++
					return true
				}
			}
			return false
		})
	}},
}

// shapeForgeries replace what is left by a rest with other setups and shapes.
var shapeForgeries = []forgery{
	{name: "no setup", change: func(_ *replanCase, res *hare.Result) bool {
		return forgeRest(res, func(rest *hare.Instance) bool {
			for i := range rest.Jobs {
				j := &rest.Jobs[i]
				for x := range j.On {
					if j.On[x].SwitchUs > 0 {
						j.On = slices.Clone(j.On)
						j.On[x].SwitchUs = 0
						return true
					}
				}
			}
			return false
		})
	}},
	{name: "a bound of the whole", change: func(ca *replanCase, res *hare.Result) bool {
		if res.Replan.Stated.WholeBound != nil || res.Bound == nil {
			return false
		}
		b := res.Replan.WholeCost(ca.inst.Objective, *res.Bound)
		res.Replan.Stated.WholeBound = &b
		return true
	}},
}

// forgeRest changes the rest in a result and gives the result the hash of the changed rest.
func forgeRest(res *hare.Result, change func(*hare.Instance) bool) bool {
	rest := *res.Replan.Rest
	rest.Jobs = slices.Clone(rest.Jobs)
	if !change(&rest) || rest.Validate() != nil {
		return false
	}
	res.Replan.Rest, res.InstanceSHA256 = &rest, wire.SHA256(&rest)
	return true
}

// checkWhole checks that the whole schedule costs what the result says of the whole.
func checkWhole(t *testing.T, name string, x *replanCase) {
	t.Helper()
	p := x.res.Replan
	value, ends, faults := verify.ScheduleValue(x.inst, p.Whole)
	if len(faults) > 0 {
		t.Fatalf("%s: %v", name, faults)
	}
	for i := range x.inst.Jobs {
		j := &x.inst.Jobs[i]
		if x.inst.Objective == hare.ObjectiveMakespan || !hasFixedJob(x.inst, i) {
			continue
		}
		value = value.Add(hare.Product(j.WeightMicro, ends[i]-j.ReleaseUs))
		if x.inst.Objective == hare.ObjectiveJCTAndTardiness && j.DeadlineUs > 0 {
			value = value.Add(hare.Product(j.LateWeightMicro, max(0, ends[i]-j.DeadlineUs)))
		}
	}
	if got := p.WholeCost(x.inst.Objective, *x.res.Value); got.Cmp(value) != 0 {
		t.Errorf("%s: the whole costs %s, and the replan says %s", name, value, got)
	}
}

// hasFixedJob reports whether a job ends with the work that runs at time 0.
func hasFixedJob(inst *hare.Instance, i int) bool {
	j := &inst.Jobs[i]
	return j.Running() && (j.Sync == hare.Rigid || j.FirstRound()+j.Shape(j.Progress.Shape).Counts >= j.Rounds)
}

func countRules(seen map[string]int, x *replanCase) {
	rest := x.res.Replan.Rest
	seen["all"]++
	for i := range rest.Jobs {
		j := &rest.Jobs[i]
		if j.Running() {
			seen["running "+j.Sync.String()]++
			if j.Within != "" {
				seen["running within"]++
			}
			apart := slices.ContainsFunc(j.Progress.GPUs, func(gpu string) bool {
				return strings.Split(gpu, "/")[0] != strings.Split(j.Progress.GPUs[0], "/")[0]
			})
			if apart && slices.ContainsFunc(j.On, func(p hare.Profile) bool { return p.SyncAt != nil }) {
				seen["running apart"]++
			}
			if j.WeightMicro == 0 && len(j.ID) > 8 && j.ID[len(j.ID)-8:] == ".started" {
				seen["held by relaxed"]++
			}
		}
		whole := slices.IndexFunc(x.inst.Jobs, func(w hare.Job) bool { return w.ID == j.ID })
		if whole >= 0 && j.ShapeCount() < x.inst.Jobs[whole].ShapeCount() {
			seen["one shape left"]++
		}
		if j.Running() && j.Progress.Shape > 0 {
			seen["running in shape 1"]++
		}
		if len(j.After) > 0 {
			seen["after"]++
		}
		if j.DeadlineUs == 1 {
			seen["deadline passed"]++
		}
	}
	if len(rest.Quota) > 0 {
		seen["quota"]++
	}
	if len(rest.Cluster.Reservations) > 0 {
		seen["reservations"]++
	}
	if _, placed := x.inst.Placed(); !placed {
		seen["not placed"]++
	}
	seen[rest.Objective]++
	seen[fmt.Sprint("lost ", min(1, len(x.res.Replan.Lost)))]++
	seen[fmt.Sprint("moved ", min(1, len(x.res.Replan.Moved)))]++
}
