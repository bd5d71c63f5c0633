package policies_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hare-sched/hare/internal/testing/transcript"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/verify"
)

// must returns a function that fails the test if a policy could not be made.
func must(t *testing.T) func(*list.Scheduler, error) online.Policy {
	return func(p *list.Scheduler, err error) online.Policy {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

func TestLeasesThatCannotBe(t *testing.T) {
	inst := transcript.Instance("nodes a=1A")
	if _, err := policies.NewGandiva(&inst.Cluster, policies.GandivaConfig{SliceUs: -1}); err == nil {
		t.Error("a slice below 0 is taken")
	}
	for _, bad := range []policies.ThemisConfig{{Fairness: 1.5}, {LeaseUs: -1}} {
		if _, err := policies.NewThemis(&inst.Cluster, policies.SizesOf(inst), bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// If slices are no shorter than a round, each of n jobs starts within n slices, whatever their
// numbers of GPUs.
func TestGandivaLetsNobodyWait(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 11))
		n := 2 + r.IntN(6)
		inst := transcript.Instance("nodes a=4A")
		for i := range n {
			transcript.Add(inst, strings.Fields(fmt.Sprintf("jobs %c gang %dx%d A:1", 'a'+i, 20+r.IntN(20), 1+r.IntN(4))))
		}
		p := must(t)(policies.NewGandiva(&inst.Cluster, policies.GandivaConfig{SliceUs: 2e6}))
		out, err := sim.Run(t.Context(), inst, p, sim.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range out.Jobs {
			if j.StartUs > int64(n)*2e6 {
				t.Errorf("seed %d: of %d jobs %s starts at %d µs", seed, n, j.ID, j.StartUs)
			}
		}
		res, err := out.Result(inst, nil)
		if err != nil {
			t.Fatal(err)
		}
		if rep := verify.Check(inst, res); !rep.OK {
			t.Fatalf("seed %d: %v", seed, rep)
		}
	}
}
