package solver

import (
	"fmt"
	"math"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/verify"
)

// The cost of a job on one type equals what the verifier proves of the instance with
// only this job and this type, and the end that is returned has this cost.
func TestEndOnOneTypeIsTheVerifiers(t *testing.T) {
	seeds := uint64(2)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		for _, sync := range []hare.Sync{hare.Relaxed, hare.Gang, hare.Rigid} {
			inst, err := trace.Generate(trace.GenerateConfig{Jobs: 12, Seed: seed,
				GPUs: []hare.TypeCount{{Type: "V100", Count: 18}, {Type: "K80", Count: 21}}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range inst.Jobs {
				inst.Jobs[i].Sync = sync
			}
			rel, err := Bound(t.Context(), inst, hare.MethodPrice, Config{})
			if err != nil {
				t.Fatal(err)
			}
			c := *rel.Certificate
			c.StepUs = 0 // prices as a fluid
			m := model.New(inst)
			p := NewPrices(m, &c)
			bound := func(jobs ...hare.Job) float64 {
				one := *inst
				one.Jobs = jobs
				x, err := verify.Bound(&one, &c)
				if err != nil {
					t.Fatal(err)
				}
				f, _ := x.Float64()
				return f
			}
			none := bound()
			for i := range m.Jobs {
				j := &m.Jobs[i]
				for _, md := range j.Modes {
					name := fmt.Sprintf("seed %d, %s, %s on %s", seed, sync, inst.Jobs[i].ID, m.Types[md.Type])
					peak := m.Capacity(md.Type)[0].Count
					end, ok := p.End(i, md.Type, peak)
					if !ok {
						if sync == hare.Relaxed || peak >= j.Tasks {
							t.Errorf("%s: no end", name)
						}
						continue
					}
					earliest := j.ReleaseUs + j.Rounds*md.DurationUs()
					if sync == hare.Relaxed {
						earliest = j.ReleaseUs + j.Rounds*((j.Tasks+peak-1)/peak*md.ComputeUs+md.SyncUs)
					}
					if end < earliest {
						t.Errorf("%s: ends at %d, before %d", name, end, earliest)
					}
					tariff, cost := p.tariffs.ofJob(md.Type, j), 0.0
					if sync == hare.Rigid {
						_, cost = tariff.block(j, j.Rounds*md.DurationUs(), earliest)
						length := j.Rounds * md.DurationUs()
						if paid := float64(j.Tasks) * p.tariffs.ofJob(md.Type, j).ofRuns(end-length, length, 1,
							length); math.Abs(float64(j.WeightMicro)*1e-12*float64(end)+paid-cost) > 1e-6*cost {
							t.Errorf("%s: the block to %d does not cost %g", name, end, cost)
						}
					} else {
						_, cost = tariff.fluid(j, md, earliest)
					}
					alone := inst.Jobs[i]
					alone.On = nil
					for _, on := range inst.Jobs[i].On {
						if on.Type == m.Types[md.Type] {
							alone.On = []hare.Profile{on}
						}
					}
					want := bound(alone) - none
					if got := cost - float64(j.WeightMicro)*1e-12*float64(j.ReleaseUs); math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
						t.Errorf("%s costs %g, the verifier says %g", name, got, want)
					}
				}
			}
		}
	}
}
