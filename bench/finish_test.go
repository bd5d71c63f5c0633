package bench

import (
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

// BenchmarkVerify checks a result of 500 relaxed jobs.
func BenchmarkVerify(b *testing.B) {
	inst := generated(b, 500, "relaxed")
	res, err := solver.Solve(b.Context(), inst, hare.Options{TimeLimit: 500 * time.Millisecond}, solver.Config{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if rep := verify.Check(inst, res); !rep.OK {
			b.Fatal(rep)
		}
	}
}
