package verify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// Replans by the solver are accepted, with the previous plan and, if there is a schedule
// of the whole, with that schedule alone.
func TestReplansAreAccepted(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(replanSeeds) {
		for n, x := range replansOf(t, seed) {
			p := x.res.Replan
			if rep := verify.CheckReplan(x.inst, x.res, x.previous()); !rep.OK {
				t.Fatalf("seed %d, %d: %s", seed, n, rep)
			}
			if rep := verify.Check(p.Rest, x.res); !rep.OK ||
				!strings.Contains(rep.String(), "its replan object was not checked") {
				t.Fatalf("seed %d, %d, as a plain result: %s", seed, n, rep)
			}
			rep := verify.CheckReplan(x.inst, x.res, nil)
			switch {
			case p.Whole == nil:
				seen["no schedule of the whole"]++
				if rep.OK {
					t.Fatalf("seed %d, %d: accepted, although nothing says what had started", seed, n)
				}
			case !rep.OK:
				t.Fatalf("seed %d, %d, without the plan before: %s", seed, n, rep)
			}
			if strings.Contains(p.WholeMissing, "have changed since") || strings.Contains(p.WholeMissing, "then") {
				seen["other times"]++
			}
			seen["all"]++
			syncs := map[string]hare.Sync{}
			for i := range x.inst.Jobs {
				syncs[x.inst.Jobs[i].ID] = x.inst.Jobs[i].Sync
			}
			for _, s := range p.Started {
				seen["started "+syncs[s.Job].String()]++
			}
			for _, l := range p.Lost {
				seen["lost "+syncs[l.Job].String()]++
			}
			if n > 0 {
				seen["second"]++
			}
			if len(p.Renamed) > 0 {
				seen["split nodes"]++
			}
			if len(p.Added) > 0 {
				seen["added"]++
			}
			if len(p.Removed) > 0 {
				seen["removed"]++
			}
			if x.res.Certificate.Method == hare.MethodPrice {
				seen["price"]++
			}
		}
	}
	for _, what := range []string{"no schedule of the whole", "started relaxed", "started gang", "started rigid",
		"lost relaxed", "lost gang", "lost rigid", "second", "split nodes", "added", "removed"} {
		if seen[what] < 3 {
			t.Errorf("only %d times: %s", seen[what], what)
		}
	}
	t.Log(seen)
}

// replanSeeds is the number of random plans that the tests of this file replan.
const replanSeeds = 150

// forgery changes a decoded plan for a rest; it returns false if there is nothing to
// change.
type forgery struct {
	name   string
	change func(x *replanCase, res *hare.Result) bool
	// past says that only a check against the previous plan finds the forgery.
	past bool
}

// longAfter is a time in µs far beyond the end of every schedule in these tests.
const longAfter = 1_000_000_000_000

// last returns the entry of a schedule that starts last.
func last(s *hare.Schedule) (l *hare.Lane, x int) {
	for i := range s.Lanes {
		for y := range s.Lanes[i].Job {
			if l == nil || s.Lanes[i].StartUs[y] > l.StartUs[x] {
				l, x = &s.Lanes[i], y
			}
		}
	}
	return l, x
}

func plus(a *hare.Amount, b hare.Amount) *hare.Amount {
	if a == nil {
		return nil
	}
	sum := a.Add(b)
	return &sum
}

var one = hare.Product(1, 1)

var otherInstance = &hare.Instance{
	Objective: hare.ObjectiveWeightedJCT,
	Cluster:   hare.Cluster{Nodes: []hare.Node{haretest.Node("other", "A", 1)}},
	Jobs: []hare.Job{{ID: "other", WeightMicro: 1e6, Rounds: 1, Tasks: 1,
		On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}}},
}

// replaceByOther replaces res by an optimal result for another instance and keeps its
// replan.
func replaceByOther(res *hare.Result) {
	value := hare.Product(1e6, 1e6)
	res.InstanceSHA256, res.Value, res.Bound, res.StatedGap, res.Termination = wire.SHA256(otherInstance), &value,
		&value,
		"0", hare.TerminationOptimal
	res.Jobs, res.Schedule = nil, &hare.Schedule{Jobs: []string{"other"},
		Lanes: []hare.Lane{{GPU: "other/0", Job: []int32{0}, StartUs: []int64{0}}}}
	res.Certificate = &hare.Certificate{Method: hare.MethodCriticalPath, Objective: hare.ObjectiveWeightedJCT,
		Bound: "1.000000"}
	res.Replan.Rest = otherInstance
	res.Replan.Stated = &hare.StatedReplan{At: true, Constant: true}
}

var forgeries = []forgery{
	{name: "at_s", change: func(_ *replanCase, res *hare.Result) bool {
		res.Replan.AtUs++
		return len(res.Replan.Rest.Jobs) > 0
	}},
	{name: "no at_s", change: func(_ *replanCase, res *hare.Result) bool { res.Replan.Stated.At = false; return true }},
	{name: "constant", change: func(_ *replanCase, res *hare.Result) bool {
		p := res.Replan
		p.Constant = p.Constant.Add(one)
		p.Stated.WholeValue, p.Stated.WholeBound = plus(p.Stated.WholeValue, one), plus(p.Stated.WholeBound, one)
		return true
	}},
	{name: "no constant", change: func(_ *replanCase,
		res *hare.Result) bool {
		res.Replan.Stated.Constant = false
		return true
	}},
	{name: "whole_value", change: func(_ *replanCase, res *hare.Result) bool {
		res.Replan.Stated.WholeValue = plus(res.Replan.Stated.WholeValue, one)
		return true
	}},
	{name: "whole_bound", change: func(_ *replanCase, res *hare.Result) bool {
		res.Replan.Stated.WholeBound = plus(res.Replan.Stated.WholeBound, one)
		return res.Replan.Stated.WholeBound != nil
	}},
	{name: "gain", change: func(_ *replanCase, res *hare.Result) bool {
		res.Replan.Stated.Gain = plus(res.Replan.Stated.Gain, one)
		return res.Replan.Stated.Gain != nil
	}},
	{name: "kept_value", change: func(_ *replanCase, res *hare.Result) bool {
		res.Replan.KeptValue = plus(res.Replan.KeptValue, one)
		return res.Replan.Stated.Gain != nil
	}},
	{name: "another whole", change: func(_ *replanCase, res *hare.Result) bool {
		res.Replan.InstanceSHA256 = wire.SHA256(otherInstance)
		return true
	}},
	{name: "no whole", change: func(_ *replanCase,
		res *hare.Result) bool {
		res.Replan.InstanceSHA256 = ""
		return true
	}},
	{name: "another rest", change: func(_ *replanCase, res *hare.Result) bool {
		res.InstanceSHA256 = wire.SHA256(otherInstance)
		return true
	}},
	{name: "no rest", change: func(_ *replanCase, res *hare.Result) bool { res.InstanceSHA256 = ""; return true }},
	{name: "instance", change: func(_ *replanCase, res *hare.Result) bool {
		res.Replan.Rest = otherInstance
		return true
	}},
	{name: "a weight of instance", change: func(_ *replanCase, res *hare.Result) bool {
		rest := *res.Replan.Rest
		if rest.Jobs = slices.Clone(rest.Jobs); len(rest.Jobs) == 0 {
			return false
		}
		rest.Jobs[0].WeightMicro++
		res.Replan.Rest, res.InstanceSHA256 = &rest, wire.SHA256(&rest)
		return true
	}},
	{name: "another instance", change: func(_ *replanCase, res *hare.Result) bool { replaceByOther(res); return true }},
	{name: "another instance without schedule", change: func(_ *replanCase, res *hare.Result) bool {
		replaceByOther(res)
		res.Replan.Whole = nil
		return true
	}},
	{name: "another instance from 0 on", change: func(_ *replanCase, res *hare.Result) bool {
		replaceByOther(res)
		res.Replan.AtUs, res.Replan.Constant, res.Replan.Whole = 0, hare.Amount{}, nil
		return true
	}},
	{name: "no schedule of the rest", change: func(_ *replanCase,
		res *hare.Result) bool {
		res.Schedule = nil
		return true
	}},
	{name: "the last entry of the rest", change: func(_ *replanCase, res *hare.Result) bool {
		l, x := last(res.Schedule)
		if l == nil || res.Replan.Whole == nil {
			return false
		}
		l.StartUs[x] += longAfter
		return true
	}},
	{name: "the last entry of the whole, and a constant that allows for it",
		change: func(x *replanCase, res *hare.Result) bool {
			p := res.Replan
			if p.Whole == nil {
				return false
			}
			l, y := last(p.Whole)
			if l == nil {
				return false
			}
			l.StartUs[y] += longAfter
			value, _, faults := verify.ScheduleValue(x.inst, p.Whole)
			if len(faults) > 0 {
				return false
			}
			more := value.Sub(res.Value.Add(p.Constant))
			p.Constant = p.Constant.Add(more)
			p.Stated.WholeValue, p.Stated.WholeBound = plus(p.Stated.WholeValue, more), plus(p.Stated.WholeBound, more)
			return true
		}},
	{name: "the last entry of the whole alone", change: func(_ *replanCase, res *hare.Result) bool {
		if res.Replan.Whole == nil {
			return false
		}
		l, y := last(res.Replan.Whole)
		if l == nil {
			return false
		}
		l.StartUs[y] += longAfter
		return true
	}},
	{name: "another past", past: true, change: func(x *replanCase, res *hare.Result) bool {
		p := res.Replan
		if p.Whole == nil {
			return false
		}
		for i := range p.Whole.Lanes {
			l := &p.Whole.Lanes[i]
			if len(l.Job) > 0 && l.StartUs[0] > 0 && l.StartUs[0] < p.AtUs {
				l.StartUs[0]--
				return true
			}
		}
		return false
	}},
	{name: "started left out", change: func(_ *replanCase, res *hare.Result) bool {
		p := res.Replan
		if len(p.Started) == 0 {
			return false
		}
		p.Started = p.Started[1:]
		return true
	}},
	{name: "started longer", change: func(_ *replanCase, res *hare.Result) bool {
		if len(res.Replan.Started) == 0 {
			return false
		}
		res.Replan.Started[0].UntilUs++
		return true
	}},
	{name: "started more", change: func(_ *replanCase, res *hare.Result) bool {
		if len(res.Replan.Started) == 0 {
			return false
		}
		res.Replan.Started[0].Rounds++
		return true
	}},
	{name: "gpus", change: func(_ *replanCase, res *hare.Result) bool {
		if len(res.Replan.Renamed) == 0 {
			res.Replan.Stated.Renamed = true
			res.Replan.Renamed = []hare.RenamedGPU{{Rest: "n.0/0", Whole: "n/0"}}
			return true
		}
		res.Replan.Renamed[0].Whole += "0"
		return true
	}},
	{name: "added", past: true, change: func(_ *replanCase, res *hare.Result) bool {
		res.Replan.Added = append(res.Replan.Added, "j0")
		return true
	}},
	{name: "removed", past: true, change: func(_ *replanCase, res *hare.Result) bool {
		res.Replan.Removed = append(res.Replan.Removed, "j0")
		return true
	}},
	{name: "lost", past: true, change: func(_ *replanCase, res *hare.Result) bool {
		res.Replan.Lost = append(res.Replan.Lost, hare.LostWork{Job: "j0", GPU: "n/0"})
		return true
	}},
	{name: "value", change: func(_ *replanCase, res *hare.Result) bool { res.Value = plus(res.Value, one); return true }},
	{name: "bound", change: func(_ *replanCase, res *hare.Result) bool {
		more := hare.Product(1e6, 1e9)
		res.Bound = plus(res.Bound, more)
		res.Replan.Stated.WholeBound = plus(res.Replan.Stated.WholeBound, more)
		return res.Bound != nil
	}},
	{name: "optimal", change: func(_ *replanCase, res *hare.Result) bool {
		res.Termination = hare.TerminationOptimal
		return res.Bound == nil || res.Value.Cmp(*res.Bound) != 0
	}},
}

// A result whose replan object states something false is refused.
func TestForgedReplansAreRefused(t *testing.T) {
	made := map[string]int{}
	for seed := range uint64(replanSeeds) {
		for n, x := range replansOf(t, seed) {
			for _, f := range forgeries {
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
	for _, f := range forgeries {
		if made[f.name] < 3 {
			t.Errorf("only %d times: %s", made[f.name], f.name)
		}
	}
}
