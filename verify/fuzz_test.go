package verify_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
)

// FuzzCheck feeds documents to decoder and verifier: no panic, and what is
// accepted has its bound at most its value.
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
	}
	f.Fuzz(func(t *testing.T, instance, result []byte) {
		limits := hare.Limits{MaxBytes: 1 << 16}
		inst, err := hare.DecodeInstance(bytes.NewReader(instance), limits)
		if err != nil {
			return
		}
		res, err := hare.DecodeResult(bytes.NewReader(result), limits)
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
