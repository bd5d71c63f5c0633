package verify_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/verify"
)

// The examples of docs/reference/model.md have optima, completions and bounds that were found by other programs.
func TestExamplesOfRules(t *testing.T) {
	for _, name := range []string{"placement", "running", "quota", "after", "deadlines", "makespan", "switch", "shapes",
		"return", "spread", "together"} {
		x, inst, res := readNodeExample(t, "real/"+name)
		if r := verify.Check(inst, res); !r.OK {
			t.Errorf("%s: %s", name, r)
		}
		bounds := map[string]string{hare.MethodCriticalPath: x.CriticalPath.String() + ".000000",
			hare.MethodMachine: x.Machine}
		if x.Machine == "" {
			delete(bounds, hare.MethodMachine)
		}
		for method, want := range bounds {
			cert := &hare.Certificate{Method: method, Objective: inst.Objective}
			if name == "shapes" && method == hare.MethodCriticalPath {
				want = "30.000000" // the example rounds a path of 7.5 s up to whole seconds
			}
			if low, err := verify.Bound(inst, cert); err != nil || low.FloatString(6) != want {
				t.Errorf("%s: %s proves %v, %v, want %s", name, method, low, err, want)
			}
		}
		cert := nodeCertificate(t, x.Certificate)
		low, err := verify.Bound(inst, cert)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if stated, ok := new(big.Rat).SetString(x.Price); !ok || low.Cmp(stated) < 0 ||
			low.Cmp(stated.Add(stated, big.NewRat(1, 1_000_000))) >= 0 {
			t.Errorf("%s: the prices prove %v, want %s", name, low.FloatString(9), x.Price)
		}
		prices, err := verify.NewPrices(cert)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if again, err := prices.Bound(inst); err != nil || again.Cmp(low) != 0 {
				t.Errorf("%s: the prices prove %v, %v the second time, want %v", name, again, err, low)
			}
		}
		_, ends, _ := verify.ScheduleValue(inst, res.Schedule)
		for i, end := range ends {
			if want := x.Completions[inst.Jobs[i].ID].String(); hare.FormatMicros(end) != want {
				t.Errorf("%s: job %s ends at %s, want %s", name, inst.Jobs[i].ID, hare.FormatMicros(end), want)
			}
		}
		opt, plan, done := brute.OptimumOnNodes(inst, 2_000_000)
		if !done || plan == nil || hare.Product(1, opt).Cmp(*res.Value) != 0 {
			t.Errorf("%s: brute force finds %d, want %s", name, opt, res.Value)
		}
		if fixed := hare.Product(1, brute.Fixed(inst)); inst.Objective != hare.ObjectiveMakespan && res.Constant != nil &&
			fixed.Cmp(*res.Constant) != 0 {
			t.Errorf("%s: brute force finds the constant %s, want %s", name, fixed, res.Constant)
		}
	}
}

// Optimal schedules of random tiny instances with all rules, some with an entry moved in time or
// to another GPU, are judged as the text of the documentation judges them task by task.
func TestSchedulesOfRules(t *testing.T) {
	instances := 1200
	if testing.Short() {
		instances = 300
	}
	r := rand.New(rand.NewPCG(15, 3))
	kept, broken := 0, map[string]int{}
	for i := range instances {
		inst, _ := brute.RandomFields(r)
		if i%3 == 0 {
			inst = brute.RandomWith(r, []string{"shapes", "reshape_s", "switch_s", "within", "quota", "cpus"}[i/3%6])
		}
		_, plan, done := brute.OptimumOnNodes(inst, 5_000)
		if !done || plan == nil {
			continue
		}
		for range 12 {
			moved := moveEntries(r, inst, plan)
			value, _, faults := verify.ScheduleValue(inst, moved)
			why, want := plainCheck(inst, moved)
			if (why == "") != (len(faults) == 0) || why == "" && value.Cmp(want) != 0 {
				t.Fatalf("instance %d: faults %v, value %v; task by task %q, %v: %+v %+v", i, faults, value, why, want, inst,
					moved)
			}
			if why == "" {
				kept++
			} else {
				broken[faults[0].Constraint]++
			}
		}
	}
	t.Logf("%d kept, broken %v", kept, broken)
	for _, what := range []string{verify.CodeAfter, verify.CodeReserved, verify.CodeQuota, verify.CodeRelease,
		verify.CodeCPUs, verify.CodeShape, verify.CodeWithin} {
		if broken[what] == 0 {
			t.Errorf("no schedule breaks %q", what)
		}
	}
}

// moveEntries returns a copy of a schedule in which some entries start at another time or have
// another shape or other rounds, or a lane is another GPU's.
func moveEntries(r *rand.Rand, inst *hare.Instance, plan *hare.Schedule) *hare.Schedule {
	out := &hare.Schedule{Jobs: plan.Jobs}
	for _, l := range plan.Lanes {
		l.StartUs, l.Shape, l.Round = slices.Clone(l.StartUs), slices.Clone(l.Shape), slices.Clone(l.Round)
		out.Lanes = append(out.Lanes, l)
	}
	by := int64(r.IntN(9)-4) * 500_000
	switch job := r.IntN(len(inst.Jobs)); r.IntN(4) {
	case 0: // a job moves in time
		for x := range out.Lanes {
			for y, j := range out.Lanes[x].Job {
				if int(j) == job {
					out.Lanes[x].StartUs[y] = max(0, out.Lanes[x].StartUs[y]+by)
				}
			}
		}
	case 1: // all from a job on do
		for x := range out.Lanes {
			for y, j := range out.Lanes[x].Job {
				if int(j) >= job {
					out.Lanes[x].StartUs[y] = max(0, out.Lanes[x].StartUs[y]+by)
				}
			}
		}
	case 2: // all of a job have the last shape, or one of its entries has other rounds
		for x := range out.Lanes {
			l := &out.Lanes[x]
			for y, j := range l.Job {
				spec := &inst.Jobs[slices.IndexFunc(inst.Jobs, func(o hare.Job) bool { return o.ID == out.Jobs[j] })]
				switch {
				case int(j) != job:
				case l.Shape != nil && len(spec.Shapes) > 0 && by > 0:
					l.Shape[y] = int64(len(spec.Shapes) - 1)
				case l.Round != nil:
					l.Round[y] = max(0, l.Round[y]+r.Int64N(3)-1)
				}
			}
		}
	case 3:
		if len(out.Lanes) > 0 {
			n := &inst.Cluster.Nodes[r.IntN(len(inst.Cluster.Nodes))]
			gpu := fmt.Sprintf("%s/%d", n.Name, r.Int64N(n.GPUCount()))
			at := r.IntN(len(out.Lanes))
			if x := slices.IndexFunc(out.Lanes, func(l hare.Lane) bool { return l.GPU == gpu }); x >= 0 {
				out.Lanes[x].GPU = out.Lanes[at].GPU
			}
			out.Lanes[at].GPU = gpu
		}
	}
	return out
}
