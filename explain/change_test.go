package explain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/wire"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// The test makes each change that an explanation names and solves the instance. The job
// must end at the named time, other jobs must be delayed by the named times, and a change
// that is called insufficient must be insufficient.
func TestChangesHoldUnderResolve(t *testing.T) {
	if testing.Short() {
		t.Skip("random instances are for the run without the race detector")
	}
	does, cheapest, none := map[string]int{}, 0, 0
	for seed := range uint64(24) {
		inst := smallInstance(seed)
		opt := hare.Options{WorkLimit: 800, Seed: 2, Gap: 0.01}
		res, ok := solved(t, inst, opt)
		if !ok {
			continue
		}
		at := int(seed) % len(inst.Jobs)
		j := inst.Jobs[at]
		before := map[string]int64{}
		for _, r := range res.Jobs {
			before[r.ID] = r.EndUs
		}
		req := explain.Request{Job: j.ID, EarlierUs: (before[j.ID] - j.ReleaseUs) / 4, Recheck: seed%4 == 0}
		if seed%2 == 0 {
			req.ByUs, req.EarlierUs = before[j.ID]-second, 0
		}
		x, err := explain.Explain(t.Context(), inst, res, req, direct)
		if err != nil {
			t.Fatal(err)
		}
		e := x.Earlier
		name := fmt.Sprintf("seed %d, %s by %v instead of %v", seed, j.ID, e.ByS, e.EndS)
		if !e.Finished || e.Already || int64(e.EndS) != before[j.ID] || len(e.Changes) < 3 ||
			!strings.Contains(x.About, "same options, seed and work limit") {
			t.Fatalf("%s: %+v", name, e)
		}
		if req.Recheck != (e.Baseline == "solved_again") {
			t.Errorf("%s: compared with %s", name, e.Baseline)
		}
		least := -1
		for i := range e.Changes {
			c := &e.Changes[i]
			if c.Does {
				does[c.Kind]++
				if least < 0 || c.OthersCost.Cmp(*e.Changes[least].OthersCost) < 0 {
					least = i
				}
			}
			checkChange(t, name, inst, at, int64(e.ByS), c, before, opt)
		}
		switch {
		case least < 0 && e.Cheapest == nil:
			none++
		case e.Cheapest == nil || *e.Cheapest != least:
			t.Errorf("%s: the cheapest is %v, not %d", name, e.Cheapest, least)
		default:
			cheapest++
		}
	}
	t.Logf("changes that do it: %v; a cheapest %d times, none %d times", does, cheapest, none)
	if does["weight"] == 0 || does["add_gpu"] == 0 || does["fewer_rounds"] == 0 {
		t.Errorf("changes that do it: %v", does)
	}
}

func checkChange(t *testing.T, name string, inst *hare.Instance, at int, by int64, c *explaindoc.Change,
	before map[string]int64, opt hare.Options) {
	t.Helper()
	id := inst.Jobs[at].ID
	if !c.Finished {
		t.Errorf("%s: %s is not finished", name, c.Kind)
	}
	ends := func(f func(*hare.Instance)) map[string]int64 {
		changed := *inst
		changed.Jobs = append([]hare.Job(nil), inst.Jobs...)
		changed.Cluster.Nodes = append([]hare.Node(nil), inst.Cluster.Nodes...)
		f(&changed)
		res, ok := solved(t, &changed, opt)
		if !ok {
			t.Fatalf("%s: %s: no schedule", name, c.Kind)
		}
		ends := map[string]int64{}
		for _, r := range res.Jobs {
			ends[r.ID] = r.EndUs
		}
		return ends
	}
	var after, not map[string]int64
	switch c.Kind {
	case "weight":
		if c.Weight != nil {
			after = ends(func(x *hare.Instance) { x.Jobs[at].WeightMicro = int64(*c.Weight) })
		}
		if c.NotWeight != nil {
			not = ends(func(x *hare.Instance) { x.Jobs[at].WeightMicro = int64(*c.NotWeight) })
		}
		if c.Weight != nil && (int64(*c.Weight) <= inst.Jobs[at].WeightMicro || c.NotWeight != nil &&
			*c.NotWeight >= *c.Weight) {
			t.Errorf("%s: weight %v, not %v", name, c.Weight, c.NotWeight)
		}
	case "fewer_rounds":
		if c.Rounds != nil {
			after = ends(func(x *hare.Instance) { x.Jobs[at].Rounds = *c.Rounds })
		}
		if c.NotRounds != nil {
			not = ends(func(x *hare.Instance) { x.Jobs[at].Rounds = *c.NotRounds })
		}
		if c.Rounds != nil && (*c.Rounds >= inst.Jobs[at].Rounds || c.NotRounds != nil && *c.NotRounds <= *c.Rounds) {
			t.Errorf("%s: rounds %v, not %v", name, c.Rounds, c.NotRounds)
		}
	case "add_gpu":
		after = ends(func(x *hare.Instance) {
			x.Cluster.Nodes = append(x.Cluster.Nodes,
				hare.Node{Name: c.Node, GPUs: []hare.TypeCount{{Type: c.Type, Count: 1}}})
		})
	default:
		t.Errorf("%s: a change %s", name, c.Kind)
	}
	if not != nil && not[id] <= by {
		t.Errorf("%s: %s: what is said not to do it does: it ends at %d", name, c.Kind, not[id])
	}
	if after == nil {
		if c.Does || c.EndS != nil {
			t.Errorf("%s: %+v", name, c)
		}
		return
	}
	if int64(*c.EndS) != after[id] || c.Does != (after[id] <= by) {
		t.Errorf("%s: %s ends it at %v, does it: %t; solved again it ends at %d", name, c.Kind, c.EndS, c.Does,
			after[id])
	}
	delayed, sooner, cost := 0, 0, hare.Amount{}
	for i := range inst.Jobs {
		k := &inst.Jobs[i]
		if i == at {
			continue
		}
		if after[k.ID] > before[k.ID] {
			delayed++
			cost = cost.Add(hare.Product(k.WeightMicro, after[k.ID]-before[k.ID]))
		} else if after[k.ID] < before[k.ID] {
			sooner++
			cost = cost.Sub(hare.Product(k.WeightMicro, before[k.ID]-after[k.ID]))
		}
	}
	if delayed != c.Delayed || sooner != c.Sooner || cost.Cmp(*c.OthersCost) != 0 || len(c.Jobs) != min(delayed, 10) {
		t.Errorf("%s: %s delays %d, not %d; sooner %d, not %d; costs %v, not %v", name, c.Kind, c.Delayed, delayed,
			c.Sooner,
			sooner, c.OthersCost, cost)
	}
	for _, m := range c.Jobs {
		if int64(m.EndS) != after[m.Job] || int64(m.ByS) != after[m.Job]-before[m.Job] || m.ByS <= 0 {
			t.Errorf("%s: %+v, it ended at %d and ends at %d", name, m, before[m.Job], after[m.Job])
		}
	}
}

// A question that a proof or the schedule answers needs no further solve.
func TestChangesThatNeedNoSolve(t *testing.T) {
	inst := smallInstance(3)
	res, ok := solved(t, inst, hare.Options{WorkLimit: 500})
	if !ok {
		t.Fatal(res.Termination)
	}
	never := func(context.Context, *hare.Instance, hare.Options) (*hare.Result, error) {
		t.Error("solved")
		return nil, context.Canceled
	}
	x, err := explain.Explain(t.Context(), inst, res, explain.Request{Job: "j0", ByUs: 1000 * second}, never)
	if err != nil || !x.Earlier.Already || !x.Earlier.Finished || len(x.Earlier.Changes) != 0 {
		t.Errorf("%+v, %v", x.Earlier, err)
	}
	x, err = explain.Explain(t.Context(), inst, res, explain.Request{Job: "j0", ByUs: inst.Jobs[0].ReleaseUs + 1},
		direct)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range x.Earlier.Changes {
		if c.Kind == "weight" && (c.Tried != 0 || !c.Finished || c.Does || !strings.Contains(c.Detail, "proved")) {
			t.Errorf("%+v", c)
		}
	}
}

// A result that depends on the clock is compared with a new solve under a work limit.
func TestChangesOfATimedResult(t *testing.T) {
	inst := smallInstance(3)
	res, ok := solved(t, inst, hare.Options{WorkLimit: 500})
	if !ok {
		t.Fatal(res.Termination)
	}
	res.Reproducible, res.Options.TimeLimit = false, time.Second
	var opts []hare.Options
	x, err := explain.Explain(t.Context(), inst, res, explain.Request{Job: "j0", EarlierUs: second},
		func(ctx context.Context, inst *hare.Instance, opt hare.Options) (*hare.Result, error) {
			opts = append(opts, opt)
			opt.WorkLimit = 500
			return direct(ctx, inst, opt)
		})
	if err != nil || x.Earlier.Baseline != "solved_again" || len(x.Notes) != 1 ||
		!strings.Contains(x.Notes[0], "may differ") {
		t.Errorf("%+v %q, %v", x.Earlier, x.Notes, err)
	}
	for _, o := range opts {
		if o.TimeLimit != 0 || o.WorkLimit != 0 || o.Detail != "jobs" {
			t.Errorf("solved with %+v", o)
		}
	}
	if len(opts) != x.Earlier.Solves || len(opts) < 3 {
		t.Errorf("%d solves, said to be %d", len(opts), x.Earlier.Solves)
	}
}

// An answer that the deadline or the queue cuts off says so and keeps the changes that
// were found.
func TestChangesUnfinished(t *testing.T) {
	inst := smallInstance(3)
	res, ok := solved(t, inst, hare.Options{WorkLimit: 500})
	if !ok {
		t.Fatal(res.Termination)
	}
	for solves := range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		x, err := explain.Explain(ctx, inst, res, explain.Request{Job: "j0", EarlierUs: second},
			func(ctx context.Context, inst *hare.Instance, opt hare.Options) (*hare.Result, error) {
				if n++; n > solves {
					cancel()
				}
				return direct(ctx, inst, opt)
			})
		cancel()
		if err != nil || x.Earlier.Finished || x.Earlier.Unfinished == "" || x.Earlier.Solves != solves+1 {
			t.Errorf("%+v, %v", x.Earlier, err)
		}
		finished := 0
		for _, c := range x.Earlier.Changes {
			if c.Finished {
				finished++
			}
		}
		if finished > solves || len(x.Timeline) == 0 {
			t.Errorf("%d changes are finished after %d solves", finished, solves)
		}
	}
	for _, refusal := range []error{admission.ErrBusy, admission.ErrLate, admission.ErrDraining} {
		x, err := explain.Explain(t.Context(), inst, res, explain.Request{Job: "j0", EarlierUs: second},
			func(context.Context, *hare.Instance, hare.Options) (*hare.Result, error) {
				return nil, refusal
			})
		if err != nil || x.Earlier.Finished || x.Earlier.Unfinished != refusal.Error() || x.Earlier.Solves != 1 {
			t.Errorf("%+v, %v", x.Earlier, err)
		}
	}
}

// No document that decodes makes an explanation panic, or wait for long.
func FuzzExplain(f *testing.F) {
	for seed := range uint64(6) {
		inst := smallInstance(seed)
		res, _ := solved(f, inst, hare.Options{WorkLimit: 200})
		var b strings.Builder
		if err := wire.EncodeResult(&b, res); err != nil {
			f.Fatal(err)
		}
		f.Add(encoded(f, inst), b.String(), "j1", int64(5*second), int64(0))
		f.Add(encoded(f, inst), b.String(), "x", int64(0), int64(second))
	}
	f.Fuzz(func(t *testing.T, instance, result, job string, by, earlier int64) {
		inst, err := wire.DecodeInstance(strings.NewReader(instance), wire.Limits{MaxBytes: 1 << 16})
		if err != nil || len(inst.Jobs) > 50 {
			return
		}
		res, err := wire.DecodeResult(strings.NewReader(result), wire.Limits{MaxBytes: 1 << 18})
		if err != nil {
			return
		}
		if len(inst.Jobs) > 0 && job != "x" {
			job = inst.Jobs[0].ID
		}
		x, err := explain.Explain(t.Context(), inst, res, explain.Request{Job: job, ByUs: by, EarlierUs: earlier},
			func(context.Context, *hare.Instance, hare.Options) (*hare.Result, error) {
				return &hare.Result{Reproducible: true, Jobs: res.Jobs}, nil
			})
		if err == nil && x.Outcome == "scheduled" && len(x.Timeline) == 0 {
			t.Errorf("%+v", x)
		}
	})
}
