package verify_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// searchSeeds may be raised for a longer search.
var searchSeeds = flag.Uint64("searches", 600, "how many instances TestSearchesProveOptima draws")

// tinySearch is a random instance in half seconds for certificates of the method search, of up to three jobs.
func tinySearch(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B", "C"}[:1+r.IntN(3)]
	for _, t := range types {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes,
			hare.Node{Name: "n" + t, GPUs: []hare.TypeCount{{Type: t, Count: 1 + r.IntN(3)}}})
	}
	for i := range 1 + r.IntN(3) {
		j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 250_000 * r.Int64N(5), Rounds: 1 + r.Int64N(2),
			Tasks: 1 + r.Int64N(3), Sync: hare.Sync(r.IntN(3)), ReleaseUs: 500_000 * max(0, r.Int64N(7)-3)}
		for k, t := range types {
			if k == 0 || r.IntN(4) > 0 {
				j.On = append(j.On, hare.Profile{Type: t, ComputeUs: 500_000 * (1 + r.Int64N(6)),
					SyncUs: 500_000 * r.Int64N(4)})
			}
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// searchCertificate has random prices that mostly fall.
func searchCertificate(r *rand.Rand, inst *hare.Instance, bound hare.Amount) *hare.Certificate {
	c := &hare.Certificate{Method: hare.MethodSearch, Objective: inst.Objective, StepUs: 500_000, GridUs: []int64{0},
		Bound: bound.Bound6()}
	for range 1 + r.IntN(5) {
		c.GridUs = append(c.GridUs, c.GridUs[len(c.GridUs)-1]+c.StepUs*(1+r.Int64N(5)))
	}
	for _, n := range inst.Cluster.Nodes {
		p := hare.TypePrices{Type: n.GPUs[0].Type}
		price := r.Int64N(1_200_000_000)
		for range len(c.GridUs) - 1 {
			p.Nanos = append(p.Nanos, price)
			if price -= r.Int64N(400_000_000); price < 0 || r.IntN(8) == 0 {
				price = r.Int64N(200_000_000)
			}
		}
		if r.IntN(6) > 0 {
			c.Prices = append(c.Prices, p)
		}
	}
	return c
}

// searchCase is an instance with its optimum and certificates that state it and the least decimal above.
func searchCase(seed uint64) (inst *hare.Instance, optimum hare.Amount, plan *hare.Schedule,
	of, above *hare.Certificate) {
	r := rand.New(rand.NewPCG(seed, 67))
	inst = tinySearch(r)
	if inst.Validate() != nil {
		return nil, optimum, nil, nil, nil
	}
	value, plan, done := brute.OptimumOnNodes(inst, 50_000)
	if !done || plan == nil {
		return nil, optimum, nil, nil, nil
	}
	optimum = hare.Product(1, value)
	of = searchCertificate(r, inst, optimum)
	more := *of
	more.Bound = optimum.Add(hare.Product(1e6, 1)).Bound6()
	return inst, optimum, plan, of, &more
}

// At any prices a search proves the optimum, and nothing above it.
func TestSearchesProveOptima(t *testing.T) {
	tried := uint64(0)
	for seed := range *searchSeeds {
		inst, optimum, _, of, above := searchCase(seed)
		if inst == nil {
			continue
		}
		tried++
		if b, err := verify.Bound(inst, of); err != nil || b.FloatString(6) != of.Bound {
			t.Fatalf("seed %d: the optimum %v: %v, %v", seed, optimum, b, err)
		}
		if b, err := verify.Bound(inst, above); err == nil {
			t.Fatalf("seed %d: %v is proved, the optimum is %v", seed, b, optimum)
		}
	}
	if tried < *searchSeeds/2 {
		t.Errorf("only %d instances", tried)
	}
}

// searchDocuments are plans with certificates of the method search, for TestVerifiersAgree.
func searchDocuments(t *testing.T) (out []documents) {
	for seed := range uint64(60) {
		inst, optimum, plan, of, above := searchCase(seed + otherDocuments())
		if inst == nil {
			continue
		}
		for n, cert := range []*hare.Certificate{of, above} {
			stated, err := hare.ParseAmount(cert.Bound)
			if err != nil {
				t.Fatal(err)
			}
			res := &hare.Result{Objective: inst.Objective, Status: hare.StatusSucceeded, Value: &optimum, Bound: &stated,
				Schedule: plan, Certificate: cert, Options: hare.Options{Detail: "lanes"}, InstanceSHA256: wire.SHA256(inst)}
			x := documents{name: fmt.Sprintf("search %d, %d above", seed, n), instance: instanceText(t, inst),
				result: resultText(t, res)}
			if code, said := goVerdict(&x); (code == 0) != (n == 0) {
				t.Errorf("%s: %d, %s", x.name, code, said)
			}
			out = append(out, x)
		}
	}
	return out
}

// wrongSearches are false readings of the method search, as changes of hare_verify.py.
var wrongSearches = map[string][2]string{
	"GPUs that are idle now": {
		"idle = tuple(bisect_left(gpus, next_time)",
		"idle = tuple(bisect_right(gpus, next_time)",
	},
	"a gang started before on one GPU": {
		"ready < now and idle[k] >= least",
		"ready < now and idle[k] >= 1",
	},
	"rounds that begin now could have begun before": {"ready < now and idle[k]", "ready <= now and idle[k]"},
	"a part of a round is a round":                  {"if tasks == self.tasks:", "if True:"},
	"the dearest of equal states":                   {"at[state] = min(done", "at[state] = max(done"},
	"states without their ready rounds":             {"max(ready, next_time - 1)", "next_time - 1"},
	"all tasks on the cheapest type":                {"n = min(left, self.fit(k, d))", "n = left if price else 0"},
	"one start of tasks at a time": {
		"for n in range(least, min(free, tasks) + 1):",
		"for n in range(min(free, tasks), min(free, tasks) + 1):",
	},
	"types of a job once at a time": {
		"if pair <= last or",
		"if i <= last // len(self.kinds) and last >= 0 or",
	},
	"no waiting where tasks can start": {
		"if not later:\n            return\n        next_time",
		"if not later or any(x[0] and x[2] <= now for x in runs) and any(bisect_right(g, now) for g " +
			"in busy):\n            return\n        next_time",
	},
	"GPUs that are busy earn nothing": {
		"for b in gpus)\n        return done +",
		"for b in gpus if b <= now)\n        return done +",
	},
	"a part of a round pays for all tasks": {
		"best = tasks * task + v if",
		"best = self.tasks * task + v if",
	},
	"rounds wait for no cheaper time": {"min([row[x + 1]] + [cost", "min([cost"},
	"free GPUs earn nothing from now": {
		"n * (self.left(k, now) - self.left(k, until))",
		"n * self.left(k, now)",
	},
}

// Each false reading of the method search proves more than an optimum somewhere, and the right one nowhere.
func TestEachWrongSearchDies(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	source, err := os.ReadFile("hare_verify.py")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, v any) {
		text, ok := v.([]byte)
		if !ok {
			if text, err = json.Marshal(v); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var cases [][2]string
	for seed := range uint64(250) {
		if inst, _, _, _, above := searchCase(seed); inst != nil {
			cases = append(cases, [2]string{string(instanceText(t, inst)), string(wire.CertificateJSON(above))})
		}
	}
	write("cases.json", cases)
	write("right.py", source)
	write("wrong.json", wrongSearches)
	for name, change := range wrongSearches {
		if strings.Count(string(source), change[0]) != 1 {
			t.Fatalf("%s: hare_verify.py has %q not once", name, change[0])
		}
	}
	out, err := exec.Command(python, filepath.Join("testdata", "wrong_searches.py"), dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var proved map[string]int
	if err := json.Unmarshal(out, &proved); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Log(proved)
	for name := range wrongSearches {
		if proved[name] == 0 {
			t.Errorf("%s: proves nothing false in %d cases", name, len(cases))
		}
	}
	if proved[""] > 0 || len(proved) != len(wrongSearches)+1 {
		t.Errorf("the right reading proves %d false bounds", proved[""])
	}
}
