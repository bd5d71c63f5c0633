package bench

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

var instances = flag.Int("hare.instances", 5_000, "random instances to judge by brute force")

// judgeInstance compares every bound, order and assignment with the optimum of one
// random instance, and returns the solver's result for the second verifier.
func judgeInstance(seed uint64) (inst *hare.Instance, res *hare.Result, judged bool, err error) {
	r := rand.New(rand.NewPCG(seed, 11))
	inst = brute.Random(r)
	if err := inst.Validate(); err != nil {
		return nil, nil, false, fmt.Errorf("random instance: %w", err)
	}
	m := model.New(inst)
	opt, found, done := brute.Optimum(inst, 300_000)
	if !done {
		return nil, nil, false, nil
	}
	ctx := context.Background()
	if reasons := greedy.Infeasible(m); len(reasons) > 0 {
		if found {
			return nil, nil, false, fmt.Errorf("called infeasible, but the optimum is %d", opt)
		}
		return nil, nil, false, nil
	}
	if !found {
		return nil, nil, false, nil
	}
	optimum := hare.Product(1, opt)
	var guide *hare.Relaxation
	for _, method := range []string{hare.MethodCriticalPath, hare.MethodMachine, hare.MethodPrice} {
		rel, err := relax.Run(ctx, m, relax.Config{Method: method, Workers: 1, Cells: 24, Effort: 0.3})
		if err != nil {
			return nil, nil, false, fmt.Errorf("%s: %w", method, err)
		}
		if rel.Bound.Cmp(optimum) > 0 {
			return nil, nil, false, fmt.Errorf("%s bound %v above the optimum %v", method, rel.Bound, optimum)
		}
		guide = rel
	}
	for _, kind := range []string{"relaxation", "wspt", "arrival"} {
		for _, rule := range []greedy.Rule{greedy.EarliestAvailable, greedy.EarliestFinish, greedy.Insertion} {
			plan, err := greedy.Assign(ctx, m, greedy.Order(m, guide, kind), rule)
			if errors.Is(err, greedy.ErrNoPlace) {
				continue // under this order, windows may close before all jobs have run
			}
			if err != nil {
				return nil, nil, false, fmt.Errorf("%s, %s: %w", kind, rule, err)
			}
			if err := accepted(inst, m, plan, guide, optimum); err != nil {
				return nil, nil, false, fmt.Errorf("%s, %s: %w", kind, rule, err)
			}
		}
	}
	work := int64(20)
	if seed%4 == 0 { // prices near the best ones
		work = 600
	}
	res, err = solver.Solve(ctx, inst, hare.Options{WorkLimit: work, Seed: int64(seed)}, solver.Config{Workers: 1})
	if err != nil {
		return nil, nil, false, err
	}
	if res.Value != nil && (res.Value.Cmp(optimum) < 0 || res.Bound.Cmp(optimum) > 0) {
		return nil, nil, false, fmt.Errorf("solve: value %v, bound %v, optimum %v", res.Value, res.Bound, optimum)
	}
	return inst, res, true, nil
}

// accepted runs the verifier on a plan with the certificate of rel.
func accepted(inst *hare.Instance, m *model.Model, plan *greedy.Plan, rel *hare.Relaxation,
	optimum hare.Amount) error {
	sched, err := plan.Schedule(m)
	if err != nil {
		return err
	}
	v := plan.Value(m)
	res := &hare.Result{Objective: hare.ObjectiveWeightedJCT, Value: &v, Schedule: sched, Certificate: rel.Certificate}
	if rep := verify.Check(inst, res); !rep.OK {
		return fmt.Errorf("%s", rep)
	}
	if v.Cmp(optimum) < 0 {
		return fmt.Errorf("value %v below the optimum %v", v, optimum)
	}
	return nil
}

func TestBruteForce(t *testing.T) {
	python := newPythonVerifier(t)
	var next, judged atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				seed := next.Add(1) - 1
				if seed >= int64(*instances) || t.Failed() {
					return
				}
				inst, res, ok, err := judgeInstance(uint64(seed))
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
				if ok {
					judged.Add(1)
					if res.Schedule != nil && seed < 600 {
						python.add(t, seed, inst, res)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := judged.Load(); n < int64(*instances)*7/10 {
		t.Errorf("only %d of %d instances were judged", n, *instances)
	}
	python.run(t)
}

// pythonVerifier collects results for the Python verifier.
type pythonVerifier struct {
	dir string
	n   atomic.Int64
}

func newPythonVerifier(t *testing.T) *pythonVerifier { return &pythonVerifier{dir: t.TempDir()} }

func (pv *pythonVerifier) add(t *testing.T, seed int64, inst *hare.Instance, res *hare.Result) {
	var a, b bytes.Buffer
	if err := errors.Join(wire.EncodeInstance(&a, inst), wire.EncodeResult(&b, res)); err != nil {
		t.Error(err)
		return
	}
	base := filepath.Join(pv.dir, fmt.Sprint(seed))
	if err := errors.Join(os.WriteFile(base+".instance.json", a.Bytes(), 0o600),
		os.WriteFile(base+".result.json", b.Bytes(), 0o600)); err != nil {
		t.Error(err)
	}
	pv.n.Add(1)
}

// all verifies each pair in a directory with the main function of the Python verifier.
const all = `
import glob, io, sys, contextlib
sys.path.insert(0, sys.argv[1])
import hare_verify
n = 0
for inst in sorted(glob.glob(sys.argv[2] + "/*.instance.json")):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = hare_verify.main([inst, inst.replace(".instance.", ".result.")])
    if code != 0:
        sys.exit("%s: %s" % (inst, out.getvalue()))
    n += 1
print(n)
`

func (pv *pythonVerifier) run(t *testing.T) {
	out, err := exec.Command("python3", "-B", "-c", all, "../verify", pv.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("hare_verify.py: %v\n%s", err, out)
	}
	if got := strings.TrimSpace(string(out)); got != fmt.Sprint(pv.n.Load()) {
		t.Errorf("hare_verify.py checked %s results of %d", got, pv.n.Load())
	}
}
