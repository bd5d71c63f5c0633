package verify_test

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/bench/brute"
	"github.com/hare-sched/hare/verify"
)

// The examples of docs/running.md and docs/dependencies.md have optima, completions and bounds
// that were found by other programs.
func TestExamplesOfRules(t *testing.T) {
	for _, name := range []string{"placement", "running", "quota", "after", "deadlines", "makespan"} {
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
		if low.FloatString(6) != x.Price {
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
