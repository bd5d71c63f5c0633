package verify_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// mixedSeeds may be raised for a longer search.
var mixedSeeds = flag.Uint64("mixed", 100, "how many instances with all rules TestVerifiersAgree draws")

// mixedDocuments returns optimal plans of tiny instances with all rules, with certificates of
// random prices: one that states just what they prove, which is to be accepted, and one that
// states the least decimal above, which is to be refused. In further documents some entries of
// these plans have moved.
func mixedDocuments(t *testing.T) (out []documents) {
	for seed := range *mixedSeeds * 2 {
		r := rand.New(rand.NewPCG(seed+otherDocuments(), 43))
		draw, certify := brute.RandomMixed, randomMixed
		switch {
		case seed >= *mixedSeeds*3/2:
			draw = randomLate
		case seed >= *mixedSeeds:
			draw = brute.RandomWithShapes
		case seed%2 == 1:
			draw, certify = brute.RandomLevels, randomLevelPools
		}
		inst := draw(r)
		value, plan, done := brute.OptimumOnNodes(inst, 20_000)
		if !done || plan == nil {
			continue
		}
		optimum := hare.Product(1, value)
		cert := certify(r, inst, value/1e6-500_000*r.Int64N(3))
		if r.IntN(3) == 0 {
			cert.StepUs = 500_000
		}
		if seed >= *mixedSeeds*3/2 {
			cert = &hare.Certificate{Method: hare.MethodPrice, Objective: inst.Objective, StepUs: 500_000,
				GridUs: []int64{0, 500_000 * (1 + r.Int64N(12))}, Path: r.IntN(2) == 0}
		}
		switch r.IntN(6) {
		case 0:
			cert = &hare.Certificate{Method: hare.MethodCriticalPath, Objective: inst.Objective}
		case 1:
			cert = &hare.Certificate{Method: hare.MethodMachine, Objective: inst.Objective}
		}
		low, err := verify.Bound(inst, cert)
		if err != nil {
			continue // a makespan that is not proved
		}
		bound, ok := hare.FloorAmount(low)
		if !ok {
			t.Fatalf("seed %d proves %v", seed, low)
		}
		for _, more := range []int64{0, 1} {
			stated := bound.Add(hare.Product(1e6, more))
			one := *cert
			one.Bound = stated.Bound6()
			res := &hare.Result{Objective: inst.Objective, Status: hare.StatusSucceeded, Value: &optimum, Bound: &stated,
				Schedule: plan, Certificate: &one, Options: hare.Options{Detail: "lanes"},
				InstanceSHA256: wire.SHA256(inst)}
			if hasFixed(inst) {
				constant := hare.Product(1, brute.Fixed(inst))
				res.Constant = &constant
			}
			x := documents{name: fmt.Sprintf("mixed %d, %d above", seed, more), instance: instanceText(t, inst),
				result: resultText(t, res)}
			if code, said := goVerdict(&x); (code == 0) != (more == 0) {
				t.Errorf("%s: %d, %s", x.name, code, said)
			}
			out = append(out, x)
		}
		moved := &hare.Result{Objective: inst.Objective, Status: hare.StatusSucceeded, Value: &optimum,
			Schedule: moveEntries(r, inst, plan), Options: hare.Options{Detail: "lanes"}}
		if hasFixed(inst) {
			constant := hare.Product(1, brute.Fixed(inst))
			moved.Constant = &constant
		}
		_, ends, _ := verify.ScheduleValue(inst, plan)
		for i, end := range ends {
			moved.Jobs = append(moved.Jobs, hare.JobResult{ID: inst.Jobs[i].ID, StartUs: firstStart(inst, plan, i),
				EndUs: end})
		}
		out = append(out, documents{name: fmt.Sprintf("mixed %d, moved", seed), instance: instanceText(t, inst),
			result: resultText(t, moved)})
	}
	if len(out) < 40 {
		t.Errorf("only %d results with all rules", len(out))
	}
	return out
}

// randomLate makes two relaxed jobs with deadlines, of which the second may wait for the first, on a node that pauses.
// Without prices their bounds round by round go by when the node has room.
func randomLate(r *rand.Rand) *hare.Instance {
	open := 1_000_000 * r.Int64N(4)
	inst := &hare.Instance{Objective: hare.ObjectiveJCTAndTardiness, Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "n",
		GPUs: []hare.TypeCount{{Type: "A", Count: 1 + r.IntN(2)}}, Windows: []hare.Window{{StartUs: 0, EndUs: open + 1},
			{StartUs: open + 1_000_000*(1+r.Int64N(3)), EndUs: hare.Forever}}}}}}
	if open == 0 {
		inst.Cluster.Nodes[0].Windows = inst.Cluster.Nodes[0].Windows[1:]
	}
	for i := range 2 {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 1_000_000 * r.Int64N(3),
			Sync: hare.Relaxed, ReleaseUs: 1_000_000 * r.Int64N(2), Rounds: 1 + r.Int64N(3), Tasks: 1 + r.Int64N(2),
			On:         []hare.Profile{{Type: "A", ComputeUs: 1_000_000, SyncUs: 500_000 * r.Int64N(2)}},
			Only:       []hare.LabelValues{{Label: "node", Values: []string{"n"}}},
			DeadlineUs: 1_000_000 * (1 + r.Int64N(6)), LateWeightMicro: 1_000_000 * (1 + r.Int64N(3))})
	}
	if r.IntN(2) == 0 {
		inst.Jobs[1].After = []hare.Predecessor{{Job: "j0"}}
	}
	return inst
}

// firstStart returns the start of a job: 0 if it runs then, and otherwise its first in the plan.
func firstStart(inst *hare.Instance, plan *hare.Schedule, job int) int64 {
	if inst.Jobs[job].Running() {
		return 0
	}
	first := int64(hare.MaxExact)
	for x := range plan.Lanes {
		for y, j := range plan.Lanes[x].Job {
			if int(j) == job {
				first = min(first, plan.Lanes[x].StartUs[y])
			}
		}
	}
	return first
}
