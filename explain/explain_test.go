package explain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

const second = 1_000_000

// smallInstance returns an instance with a few jobs of all modes on a cluster with pauses and busy
// GPUs. All times are whole seconds.
func smallInstance(seed uint64) *hare.Instance {
	rng := rand.New(rand.NewPCG(seed, 11))
	n := func(least, most int64) int64 { return least + rng.Int64N(most-least+1) }
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	for i := range 3 {
		node := hare.Node{Name: fmt.Sprintf("n%d", i)}
		for _, kind := range []string{"K80", "T4", "V100"} {
			if rng.IntN(2) == 0 || i == 0 {
				node.GPUs = append(node.GPUs, hare.TypeCount{Type: kind, Count: int(n(1, 2))})
			}
		}
		if len(node.GPUs) == 0 {
			continue
		}
		if i > 0 && rng.IntN(2) == 0 {
			from := n(0, 9) * second
			node.Windows = []hare.Window{{StartUs: from, EndUs: from + n(8, 30)*second},
				{StartUs: from + 45*second, EndUs: hare.Forever}}
		}
		if rng.IntN(2) == 0 {
			node.Busy = []hare.Busy{{GPU: 0, UntilUs: n(1, 20) * second}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
	}
	for i := range int(n(3, 7)) {
		j := hare.Job{ID: fmt.Sprintf("j%d", i), WeightMicro: n(0, 5) * second, ReleaseUs: n(0, 3) * 4 * second,
			Rounds: n(1, 5), Tasks: n(1, 3), Sync: hare.Sync(rng.IntN(3))}
		j.Mix = j.Sync == hare.Gang && rng.IntN(2) == 0
		for _, kind := range []string{"H100", "K80", "T4", "V100"} {
			if rng.IntN(3) > 0 {
				j.On = append(j.On, hare.Profile{Type: kind, ComputeUs: n(1, 5) * second, SyncUs: n(0, 2) * second})
			}
		}
		if len(j.On) == 0 || len(j.On) == 1 && j.On[0].Type == "H100" {
			j.On = []hare.Profile{{Type: "V100", ComputeUs: 2 * second}}
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

func direct(ctx context.Context, inst *hare.Instance, opt hare.Options) (*hare.Result, error) {
	return solver.Solve(ctx, inst, opt, solver.Config{Version: "test", Workers: 1})
}

// solved returns an instance with a schedule, or false.
func solved(t testing.TB, inst *hare.Instance, opt hare.Options) (*hare.Result, bool) {
	t.Helper()
	if err := inst.Validate(); err != nil {
		t.Fatal(err)
	}
	res, err := direct(context.Background(), inst, opt)
	if err != nil {
		t.Fatal(err)
	}
	return res, res.Schedule != nil
}

// The waits, times and prices of an explanation are true of the schedule.
func TestExplanationsAreTrue(t *testing.T) {
	if testing.Short() {
		t.Skip("random instances are for the run without the race detector")
	}
	seen := map[string]int{}
	jobs := 0
	for seed := range uint64(60) {
		inst := smallInstance(seed)
		opt := hare.Options{WorkLimit: 1500, Seed: 3}
		if seed%3 == 0 {
			opt.Order, opt.Assign = "wspt", []string{"earliest_available", "earliest_finish"}[seed/3%2]
		}
		res, ok := solved(t, inst, opt)
		if !ok {
			continue
		}
		n := newNaive(inst, res.Schedule)
		reduced, share := 0.0, 0.0
		for i := range inst.Jobs {
			j := &inst.Jobs[i]
			x, err := explain.Explain(t.Context(), inst, res, explain.Request{Job: j.ID}, nil)
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, j.ID, err)
			}
			name := fmt.Sprintf("seed %d, %s (%s)", seed, j.ID, j.Sync)
			jobs++
			checkTimeline(t, name, inst, res, i, x, n, seen)
			if x.Price == nil {
				continue
			}
			reduced += x.Price.Reduced
			share += x.Share
			for _, g := range res.GapReport.Jobs {
				if g.ID == j.ID && math.Abs(g.ReducedCost-x.Price.Reduced) > 1e-5*(1+x.Cost.Float()) {
					t.Errorf("%s: reduced cost %g, the report of the gap says %g", name, x.Price.Reduced,
						g.ReducedCost)
				}
			}
			paid := 0.0
			for _, s := range x.Timeline {
				for _, p := range s.Pays {
					paid += p
				}
			}
			if math.Abs(paid-x.Price.Paid) > 1e-5 {
				t.Errorf("%s pays %g, its spans %g", name, x.Price.Paid, paid)
			}
			if least := x.Cost.Float() + x.Price.Paid - x.Price.Least - x.Price.Reduced; math.Abs(least) > 1e-5 {
				t.Errorf("%s: %v + %g is not %g + %g", name, x.Cost, x.Price.Paid, x.Price.Least, x.Price.Reduced)
			}
			if len(x.Elsewhere) != len(j.On) {
				t.Errorf("%s: %d types", name, len(x.Elsewhere))
			}
			for _, e := range x.Elsewhere {
				if e.Least != nil &&
					(*e.Least < x.Price.Least-1e-5 || math.Abs(*e.More-(*e.Least-x.Price.Least)) > 2e-6 ||
						int64(*e.EndS) < j.ReleaseUs) {
					t.Errorf("%s: %+v, the least of all types is %g", name, e, x.Price.Least)
				}
			}
		}
		if g := res.GapReport; g != nil && (math.Abs(reduced-g.ReducedCost) > 1e-4*(1+g.ReducedCost) ||
			res.Value.Sign() > 0 && math.Abs(share-1) > 1e-4) {
			t.Errorf("seed %d: reduced costs add up to %g of %g, shares to %g", seed, reduced, g.ReducedCost, share)
		}
	}
	t.Logf("%d jobs, seconds by cause: %v", jobs, seen)
	for _, cause := range []string{"no_service", "busy", "held", "too_short", "choice"} {
		if seen[cause] == 0 {
			t.Errorf("no wait has the cause %s", cause)
		}
	}
}

// checkTimeline compares a timeline second by second with the schedule.
func checkTimeline(t *testing.T, name string, inst *hare.Instance, res *hare.Result, at int, x *explaindoc.Answer,
	n *naive, seen map[string]int) {
	t.Helper()
	j := &inst.Jobs[at]
	r := res.Jobs[at]
	if int64(x.StartS) != r.StartUs || int64(x.EndS) != r.EndUs || int64(x.WaitS) != r.StartUs-j.ReleaseUs ||
		x.JCTS < x.LeastS {
		t.Errorf("%s: %+v, the result says %d to %d", name, x.Times, r.StartUs, r.EndUs)
	}
	now, rounds := hare.Seconds(j.ReleaseUs), int64(0)
	running := map[int64]bool{} // the seconds between the first start and the last end of a round
	extent := map[int64][2]int64{}
	for _, task := range res.Schedule.Tasks(inst, 1e6) {
		if task.Job == j.ID {
			x, ok := extent[task.Round]
			if !ok {
				x[0] = task.StartUs
			}
			extent[task.Round] = [2]int64{min(x[0], task.StartUs), max(x[1], task.EndUs)}
		}
	}
	for _, x := range extent {
		for s := x[0]; s < x[1]; s += second {
			running[s] = true
		}
	}
	for _, s := range x.Timeline {
		if s.FromS != now || s.ToS <= s.FromS {
			t.Fatalf("%s: a span from %v to %v behind %v", name, s.FromS, s.ToS, now)
		}
		now = s.ToS
		paused := int64(0)
		for u := int64(s.FromS); u < int64(s.ToS); u += second {
			if !running[u] {
				paused += second
			} else if s.State == "waiting" {
				t.Errorf("%s runs at %d, where it is said to wait", name, u)
			}
		}
		if s.State == "running" {
			if paused != int64(s.PausedS) {
				t.Errorf("%s pauses for %d from %v, not %v", name, paused, s.FromS, s.PausedS)
			}
			if s.Round != rounds {
				t.Errorf("%s: round %d follows %d", name, s.Round, rounds)
			}
			rounds += s.Rounds
			continue
		}
		if s.Round != rounds {
			t.Errorf("%s: round %d waits behind %d", name, s.Round, rounds)
		}
		checkWaits(t, name, j, s, n, seen)
	}
	if now != x.EndS || rounds != j.Rounds {
		t.Errorf("%s: the timeline ends at %v with %d rounds", name, now, rounds)
	}
}

func checkWaits(t *testing.T, name string, j *hare.Job, s explaindoc.Span, n *naive, seen map[string]int) {
	t.Helper()
	pools := map[string][]hare.Profile{}
	for _, w := range s.Waits {
		for _, p := range j.On {
			if slices.Contains(strings.Split(w.Type, "+"), p.Type) && !slices.ContainsFunc(pools[w.Type], p.Equal) {
				pools[w.Type] = append(pools[w.Type], p)
			}
		}
	}
	if len(pools) == 0 {
		t.Errorf("%s waits at %v for nothing", name, s.FromS)
	}
	for types, profiles := range pools {
		want, most := map[string]int64{}, map[string]int64{}
		for u := int64(s.FromS); u < int64(s.ToS); u += second {
			// A start that is possible exactly at u may be too late just after u.
			for _, part := range [][2]int64{{u, u + 1}, {u + 1, u + second}} {
				cause, free := n.cause(j, profiles, part[0])
				want[cause] += part[1] - part[0]
				most[cause] = max(most[cause], free)
			}
		}
		for _, w := range s.Waits {
			if w.Type != types {
				continue
			}
			seen[w.Cause] += int(w.ForS / second)
			if want[w.Cause] != int64(w.ForS) || most[w.Cause] != w.Free || w.FromS < s.FromS || w.ToS > s.ToS ||
				w.ForS > w.ToS-w.FromS {
				t.Errorf("%s waits for %s: %s for %v with %d free, not %d with %d", name, types, w.Cause, w.ForS,
					w.Free,
					want[w.Cause], most[w.Cause])
			}
			delete(want, w.Cause)
			for _, h := range w.Jobs {
				gpus, until := map[int]bool{}, int64(0)
				for g := range n.gpus {
					for _, x := range n.gpus[g].held {
						if strings.Contains(types, n.gpus[g].kind) && x.job == h.Job && x.from < int64(w.ToS) &&
							x.to > int64(w.FromS) {
							gpus[g] = true
							until = max(until, x.to)
						}
					}
				}
				if w.Cause != "held" || h.Job == j.ID || h.GPUs < 1 || h.GPUs > int64(len(gpus)) ||
					int64(h.UntilS) > until ||
					w.ForS == w.ToS-w.FromS && (int(h.GPUs) != len(gpus) || int64(h.UntilS) != until) {
					t.Errorf("%s waits for %s of %+v; it holds %v until %d", name, types, h, gpus, until)
				}
			}
			if w.Cause == "held" && len(w.Jobs) == 0 {
				t.Errorf("%s waits for %s that nobody holds", name, types)
			}
		}
		if len(want) > 0 {
			t.Errorf("%s, %v to %v: not told of %s: %v", name, s.FromS, s.ToS, types, want)
		}
	}
}

func encoded(t testing.TB, inst *hare.Instance) string {
	t.Helper()
	var b bytes.Buffer
	if err := wire.EncodeInstance(&b, inst); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestExplainRefuses(t *testing.T) {
	inst := smallInstance(1)
	res, _ := solved(t, inst, hare.Options{WorkLimit: 500})
	var none *explain.NoJobError
	if _, err := explain.Explain(t.Context(), inst, res, explain.Request{Job: "jo"}, nil); !errors.As(err, &none) ||
		err.Error() != `there is no job "jo"; the jobs are "j0", "j1", "j2", "j3", "j4" and 2 more` {
		t.Errorf("%v", err)
	}
	if _, err := explain.Explain(t.Context(), inst, res, explain.Request{Job: "something else"}, nil); !errors.As(err,
		&none) || strings.Contains(err.Error(), "did you mean") {
		t.Errorf("%v", err)
	}
	other := *res
	other.Schedule = nil
	var bad *hare.InvalidError
	for _, c := range []struct {
		res  *hare.Result
		req  explain.Request
		code string
	}{
		{&other, explain.Request{Job: "j0"}, "no_lanes"},
		{res, explain.Request{Job: "j0", ByUs: -1}, "out_of_range"},
		{res, explain.Request{Job: "j0", EarlierUs: -1}, "out_of_range"},
		{res, explain.Request{Job: "j0", ByUs: 1, EarlierUs: 1}, "conflict"},
	} {
		if _, err := explain.Explain(t.Context(), inst, c.res, c.req, nil); !errors.As(err, &bad) ||
			bad.Code != c.code {
			t.Errorf("%+v: %v", c.req, err)
		}
	}
	if _, err := explain.Explain(t.Context(), smallInstance(2), res, explain.Request{Job: "j0"}, nil); !errors.As(err,
		&bad) || bad.Code != "invalid_schedule" {
		t.Errorf("another instance: %v", err)
	}
	forged := *res
	cert := *res.Certificate
	cert.GridUs = []int64{5}
	forged.Certificate = &cert
	if _, err := explain.Explain(t.Context(), inst, &forged, explain.Request{Job: "j0"}, nil); !errors.As(err, &bad) ||
		bad.Code != "invalid_certificate" {
		t.Errorf("a forged certificate: %v", err)
	}
}

// The explanation of a result without a schedule gives the reasons of the result.
func TestExplainWithoutSchedule(t *testing.T) {
	inst := smallInstance(1)
	inst.Jobs[1].Sync, inst.Jobs[1].Mix, inst.Jobs[1].Tasks = hare.Gang, false, 99
	res, _ := solved(t, inst, hare.Options{WorkLimit: 500})
	x, err := explain.Explain(t.Context(), inst, res, explain.Request{Job: "j1", ByUs: 5}, nil)
	if err != nil || x.Outcome != hare.TerminationInfeasible || len(x.Reasons) != 1 ||
		x.Reasons[0].Code != "too_wide" {
		t.Errorf("%+v, %v", x, err)
	}
	x, err = explain.Explain(t.Context(), inst, res, explain.Request{Job: "j0"}, nil)
	if err != nil || len(x.Reasons) != 0 || len(x.Notes) != 1 {
		t.Errorf("%+v, %v", x, err)
	}
}

// A job of a million rounds is explained by its runs of rounds.
func TestExplainManyRounds(t *testing.T) {
	inst := smallInstance(4)
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if j.Rounds = 1e6; j.Sync == hare.Relaxed {
			j.Sync = hare.Gang
		}
	}
	for i := range inst.Cluster.Nodes {
		inst.Cluster.Nodes[i].Windows = nil
	}
	res, ok := solved(t, inst, hare.Options{WorkLimit: 500})
	if !ok {
		t.Fatal(res.Termination)
	}
	for i := range inst.Jobs {
		x, err := explain.Explain(t.Context(), inst, res, explain.Request{Job: inst.Jobs[i].ID}, nil)
		if err != nil {
			t.Fatal(err)
		}
		rounds := int64(0)
		for _, s := range x.Timeline {
			rounds += s.Rounds
		}
		if rounds != 1e6 || len(x.Timeline) > 30 {
			t.Errorf("%d rounds in %d spans", rounds, len(x.Timeline))
		}
	}
}

func TestListJobs(t *testing.T) {
	inst := smallInstance(5)
	res, ok := solved(t, inst, hare.Options{WorkLimit: 500})
	if !ok {
		t.Fatal(res.Termination)
	}
	for _, by := range []string{"", "share", "stretch", "wait", "jct", "start", "end"} {
		list, err := explain.ListJobs(inst, res, by, 100)
		if err != nil || len(list) != len(inst.Jobs) {
			t.Fatalf("%s: %d jobs, %v", by, len(list), err)
		}
		for i := range list {
			x, err := explain.Explain(t.Context(), inst, res, explain.Request{Job: list[i].Job}, nil)
			if err != nil || *x.Times != list[i].Times {
				t.Errorf("%s: %+v, explained as %+v, %v", by, list[i], x.Times, err)
			}
			if i == 0 {
				continue
			}
			a, b := list[i-1], list[i]
			if by == "end" && a.EndS > b.EndS || by == "stretch" && a.Stretch < b.Stretch || by == "" &&
				a.Cost.Cmp(b.Cost) < 0 || by == "wait" && a.WaitS < b.WaitS {
				t.Errorf("by %q: %+v before %+v", by, a, b)
			}
		}
	}
	if list, err := explain.ListJobs(inst, res, "jct", 2); err != nil || len(list) != 2 {
		t.Errorf("%d jobs of 2, %v", len(list), err)
	}
	if _, err := explain.ListJobs(inst, res, "colour", 2); err == nil {
		t.Error("sorted by colour")
	}
}
