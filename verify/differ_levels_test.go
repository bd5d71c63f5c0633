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

// levelSeeds may be raised for a longer search.
var levelSeeds = flag.Uint64("levels", 60, "how many instances with levels TestVerifiersAgree draws")

// levelDocuments returns optimal plans of tiny instances with levels, with certificates that
// state what they prove and with ones that state the least decimal above, and plans some of
// whose entries have moved.
func levelDocuments(t *testing.T) (out []documents) {
	for seed := range *levelSeeds {
		r := rand.New(rand.NewPCG(seed+otherDocuments(), 44))
		inst := brute.RandomLevels(r)
		value, plan, done := brute.OptimumOnNodes(inst, 20_000)
		if !done || plan == nil {
			continue
		}
		optimum := hare.Product(1, value)
		cert := randomLevelPools(r, inst, value/1e6)
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
		result := func(plan *hare.Schedule) *hare.Result {
			res := &hare.Result{Objective: inst.Objective, Status: hare.StatusSucceeded, Value: &optimum, Schedule: plan,
				Options: hare.Options{Detail: "lanes"}, InstanceSHA256: wire.SHA256(inst)}
			if hasFixed(inst) {
				constant := hare.Product(1, brute.Fixed(inst))
				res.Constant = &constant
			}
			return res
		}
		for _, more := range []int64{0, 1} {
			stated := bound.Add(hare.Product(1e6, more))
			one := *cert
			one.Bound = stated.Bound6()
			res := result(plan)
			res.Bound, res.Certificate = &stated, &one
			x := documents{name: fmt.Sprintf("levels %d, %d above", seed, more), instance: instanceText(t, inst),
				result: resultText(t, res)}
			if code, said := goVerdict(&x); (code == 0) != (more == 0) {
				t.Errorf("%s: %d, %s", x.name, code, said)
			}
			out = append(out, x)
		}
		out = append(out, documents{name: fmt.Sprintf("levels %d, moved", seed), instance: instanceText(t, inst),
			result: resultText(t, result(moveEntries(r, inst, plan)))})
	}
	if len(out) < 30 {
		t.Errorf("only %d results with levels", len(out))
	}
	return out
}
