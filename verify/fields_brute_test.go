package verify_test

import (
	"context"
	"flag"
	"fmt"
	"math/big"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// fieldsOutcome is what is known of an instance of RandomFields.
type fieldsOutcome struct {
	fields   []string
	tooLarge bool // brute force has given up
	feasible bool
	solved   bool // the solver has found a schedule
	optimal  bool // its value is the optimum
	proved   bool // its bound is the optimum
	docs     []documents
}

var firstFields = flag.Uint64("first-seed", 0, "the seed of the first instance of TestMixedFields")

// priceEvery is how many instances there are for each that is solved with optimised prices.
const priceEvery = 4

// checkFields draws the instance of a seed, and compares brute force, package solver and package
// verify. keepDocuments returns the documents of the result for hare_verify.py.
func checkFields(seed uint64, keepDocuments bool) (out fieldsOutcome, err error) {
	r := rand.New(rand.NewPCG(seed, 51))
	inst, fields := brute.RandomFields(r)
	out.fields = fields
	best, plan, done := brute.OptimumOnNodes(inst, 20_000)
	if !done {
		out.tooLarge = true
		return out, nil
	}
	out.feasible = plan != nil
	optimum := hare.Product(1, best)
	limit := new(big.Rat).SetFrac(optimum.Big(), big.NewInt(1e12))
	if out.feasible {
		res := &hare.Result{Objective: inst.Objective, Value: &optimum, Schedule: plan}
		if hasFixed(inst) {
			constant := hare.Product(1, brute.Fixed(inst))
			res.Constant = &constant
		}
		if rep := verify.Check(inst, res); !rep.OK {
			return out, fmt.Errorf("the optimal schedule of value %v: %s", optimum, rep)
		}
		certificates := []*hare.Certificate{{Method: hare.MethodCriticalPath, Objective: inst.Objective},
			{Method: hare.MethodMachine, Objective: inst.Objective}, randomLevelPools(r, inst, best/1e6)}
		for _, c := range certificates {
			low, err := verify.Bound(inst, c)
			switch {
			case inst.Objective == hare.ObjectiveMakespan && c.Method != hare.MethodCriticalPath && err != nil:
				// There is no such bound, or the prices do not prove the time.
			case err != nil:
				return out, fmt.Errorf("%s: %w", c.Method, err)
			case low.Cmp(limit) > 0:
				return out, fmt.Errorf("%s proves %s, the optimum is %s: %+v", c.Method, low.FloatString(9), optimum, c)
			}
		}
	}
	opt := hare.Options{WorkLimit: 100, Seed: int64(seed), Gap: 1e-9}
	if seed%priceEvery > 0 {
		opt.Bound, opt.Order = hare.MethodCriticalPath, "wspt"
	}
	res, err := solver.Solve(context.Background(), inst, opt, solver.Config{Workers: 1})
	if err != nil {
		return out, fmt.Errorf("solve: %w", err)
	}
	if res.Termination == hare.TerminationInfeasible && out.feasible {
		return out, fmt.Errorf("the solver finds no schedule possible, %v, and the optimum is %v", res.Reasons, optimum)
	}
	if res.Bound != nil && out.feasible && res.Bound.Cmp(optimum) > 0 {
		return out, fmt.Errorf("the solver states the bound %v, the optimum is %v", res.Bound, optimum)
	}
	if res.Schedule == nil {
		return out, nil
	}
	if !out.feasible {
		return out, fmt.Errorf("the solver finds a schedule of value %v, and brute force finds none", res.Value)
	}
	if rep := verify.Check(inst, res); !rep.OK {
		return out, fmt.Errorf("the schedule of the solver: %s", rep)
	}
	if res.Value.Cmp(optimum) < 0 {
		return out, fmt.Errorf("the solver finds %v, less than the optimum %v", res.Value, optimum)
	}
	out.solved, out.optimal = true, res.Value.Cmp(optimum) == 0
	out.proved = res.Bound != nil && res.Bound.Cmp(optimum) == 0
	if keepDocuments {
		out.docs = fieldsDocuments(r, seed, inst, res)
	}
	return out, nil
}

// fieldsDocuments returns a result as it is, with the least decimal more as its bound, and with
// some entries moved.
func fieldsDocuments(r *rand.Rand, seed uint64, inst *hare.Instance, res *hare.Result) (out []documents) {
	add := func(what string, res *hare.Result) {
		var text, instance strings.Builder
		if wire.EncodeInstance(&instance, inst) != nil || wire.EncodeResult(&text, res) != nil {
			panic("a result cannot be encoded")
		}
		out = append(out, documents{name: fmt.Sprintf("fields %d, %s", seed, what), instance: []byte(instance.String()),
			result: []byte(text.String())})
	}
	add("as it is", res)
	if res.Certificate != nil {
		more, cert := *res, *res.Certificate
		bound := res.Bound.Add(hare.Product(1e6, 1))
		cert.Bound = bound.Bound6()
		more.Bound, more.Certificate = &bound, &cert
		add("one more", &more)
	}
	moved := *res
	moved.Schedule = moveEntries(r, inst, res.Schedule)
	add("moved", &moved)
	return out
}

// For random tiny instances with all fields mixed, bound ≤ optimum ≤ value, and both verifiers
// accept the plan and the bound of the solver and the plan of brute force.
//
//	go test ./verify -run MixedFields -v -timeout 10h -args -hare.soak
func TestMixedFields(t *testing.T) {
	instances, sample := uint64(2_500), uint64(25)
	if testing.Short() {
		instances = 400
	}
	if *soak {
		instances, sample = 200_000, 100
	}
	var py *python
	if !testing.Short() {
		py = startPython(t)
	}
	all := make([]fieldsOutcome, instances)
	var next atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < instances; seed = next.Add(1) - 1 {
				var err error
				if all[seed], err = checkFields(*firstFields+seed, py != nil && seed%sample == 0); err != nil {
					t.Errorf("seed %d, %v: %v", *firstFields+seed, all[seed].fields, err)
				}
				if *soak && seed%10_000 == 9_999 {
					t.Logf("%d instances", seed+1)
				}
			}
		})
	}
	wg.Wait()
	counts := map[string]int{}
	met := map[string]int{}
	agreed := 0
	for seed := range instances {
		x := &all[seed]
		for what, is := range map[string]bool{"too large": x.tooLarge, "infeasible": !x.feasible && !x.tooLarge,
			"solved": x.solved, "optimal": x.optimal, "proved": x.proved} {
			if is {
				counts[what]++
			}
		}
		for i, a := range x.fields {
			if x.feasible {
				met[a]++
				for _, b := range x.fields[:i] {
					met[b+", "+a]++
				}
			}
		}
		for i := range x.docs {
			ours, oursSaid := goVerdict(&x.docs[i])
			theirs, theirsSaid, err := py.verdict(&x.docs[i])
			if err != nil || ours != theirs || i == 0 && ours != 0 ||
				strings.HasSuffix(x.docs[i].name, "one more") && ours == 0 {
				t.Errorf("%s: package verify says %d, %s\nhare_verify.py says %d, %s %v", x.docs[i].name, ours, oursSaid, theirs,
					theirsSaid, err)
			}
			agreed++
		}
	}
	for i, b := range brute.Fields {
		for _, a := range brute.Fields[:i] {
			if n := met[a.Name+", "+b.Name]; n == 0 && !testing.Short() && !exclusive(a.Name, b.Name) {
				t.Errorf("no instance has %s and %s", a.Name, b.Name)
			}
		}
	}
	t.Logf("%d instances: %v; %d verdicts of both verifiers", instances, counts, agreed)
	if n := int(instances); counts["solved"] < n*4/5 || counts["optimal"] < counts["solved"]*9/10 ||
		counts["proved"] < counts["solved"]/5 {
		t.Errorf("too few of %d instances: %v", n, counts)
	}
}

// exclusive reports whether fields cannot stand together.
func exclusive(a, b string) bool {
	return a == "jct_and_tardiness" && b == "makespan" || a == "deadline_s" && b == "jct_and_tardiness"
}
