package verify_test

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// FuzzCheck feeds documents to the decoder and the verifier. Neither panics, and no accepted
// result has a bound above its value.
func FuzzCheck(f *testing.F) {
	for _, name := range []string{"three-jobs", "windows", "traps"} {
		inst, err := os.ReadFile("../testdata/examples/" + name + ".instance.json")
		if err != nil {
			f.Fatal(err)
		}
		res, err := os.ReadFile("../testdata/examples/" + name + ".result.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(inst, res)
		f.Add(inst, bytes.ReplaceAll(res, []byte("[\n     0,"), []byte("[\n     9007199254740992,")))
		f.Add(bytes.ReplaceAll(inst, []byte("\"tasks\": "), []byte("\"tasks\": 2")), res)
		f.Add(inst, bytes.ReplaceAll(res, []byte("\"path\": true"), []byte("\"path\": false")))
		f.Add(inst, withSizes(f, name))
	}
	f.Fuzz(func(t *testing.T, instance, result []byte) {
		limits := wire.Limits{MaxBytes: 1 << 16}
		inst, err := wire.DecodeInstance(bytes.NewReader(instance), limits)
		if err != nil {
			return
		}
		res, err := wire.DecodeResult(bytes.NewReader(result), limits)
		if err != nil {
			return
		}
		rep := verify.Check(inst, res)
		if rep.OK != (len(rep.Faults) == 0) || rep.String() == "" {
			t.Fatalf("%+v", rep)
		}
		if rep.OK && rep.Bound != nil && rep.Bound.Cmp(*rep.Value) > 0 {
			t.Fatalf("accepted with bound %v above value %v", rep.Bound, rep.Value)
		}
	})
}

// withSizes returns the result of an example with prices for sizes and a step.
func withSizes(f *testing.F, name string) []byte {
	_, res := example(f, name)
	c := res.Certificate
	for _, p := range c.Prices {
		double := slices.Clone(p.Nanos)
		for g := range double {
			double[g] *= 2
		}
		c.Sizes = append(c.Sizes, hare.SizePrices{Type: p.Type, Tasks: 2, Nanos: double})
	}
	c.StepUs = 1
	for c.StepUs *= 10; !slices.ContainsFunc(c.GridUs, func(t int64) bool { return t%c.StepUs != 0 }); {
		c.StepUs *= 10
	}
	c.StepUs /= 10
	var b bytes.Buffer
	if err := wire.EncodeResult(&b, res); err != nil {
		f.Fatal(err)
	}
	return b.Bytes()
}
