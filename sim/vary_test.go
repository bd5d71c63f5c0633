package sim_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// halves is a Stretch between one half and one and a half.
type halves struct{}

func (halves) Draw(r *rand.Rand) float64 { return 0.5 + r.Float64() }

// randomConfig draws the faults, failures, switches and network of a simulation; varied allows
// that tasks take other times than their profiles say.
func randomConfig(r *rand.Rand, inst *hare.Instance, varied bool) sim.Config {
	cfg := sim.Config{Seed: r.Uint64()}
	if r.IntN(2) == 0 {
		cfg.Failures = sim.FailureRate{Probability: 0.3 * r.Float64(), PerGPUHour: float64(r.IntN(2)) * 200}
	}
	if r.IntN(2) == 0 {
		cfg.SwitchUs = int64(r.IntN(5)) * 300_000
	}
	if r.IntN(3) == 0 {
		cfg.FaultRate = sim.FaultRate{GPUMeanUs: 20e6, GPURepairUs: 2e6}
	}
	if r.IntN(3) == 0 {
		cfg.FaultRate.NodeMeanUs, cfg.FaultRate.NodeRepairUs = 30e6, 3e6
	}
	for _, n := range inst.Cluster.Nodes {
		if n.Windows != nil || len(n.Busy) > 0 || r.IntN(2) == 0 {
			continue
		}
		at := int64(0)
		for range 1 + r.IntN(3) {
			at += int64(r.IntN(8)) * 250_000
			until := at + int64(1+r.IntN(8))*250_000
			f := sim.Fault{FromUs: at, UntilUs: until}
			if f.Node = n.Name; r.IntN(2) == 0 {
				f.Node, f.GPU = "", n.Name+"/0"
			}
			cfg.Faults = append(cfg.Faults, f)
			at = until
		}
	}
	if varied {
		if r.IntN(2) == 0 {
			cfg.Stretch = halves{}
		}
		if cfg.Stretch == nil || r.IntN(2) == 0 {
			cfg.Network = sim.Network{IntraBytesPerS: 1e9, InterBytesPerS: 1e8,
				Bytes: func(j *hare.Job) int64 { return 1e6 * j.Tasks }}
		}
	}
	return cfg
}

// For random instances and configurations under every policy of tasks, the totals of a replay
// of the log agree with the engine's, a second run gives the same log, and the verifier
// accepts the schedule without lost work, if tasks take the times of their profiles.
func TestVariedRuns(t *testing.T) {
	for _, info := range policies.All() {
		t.Run(info.Name, func(t *testing.T) {
			var verified, varied, failures, lost, stalled, switches int
			n := seeds(100)
			for seed := range n {
				r := rand.New(rand.NewPCG(seed, 9))
				inst := random(r, seed%4 == 3 && info.Knows() != policies.Future)
				cfg := randomConfig(r, inst, seed%2 == 1)
				cfg.Name = info.Name
				run := func() (*sim.Outcome, string, *replay, error) {
					p, err := info.New(t.Context(), inst, policies.Config{ThresholdUs: 3e6, Moves: -1})
					if err != nil {
						t.Fatal(err)
					}
					var text []byte
					totals := newReplay(inst, cfg)
					cfg.Log = func(rec wire.Record) error {
						text = append(wire.AppendRecord(text, rec), '\n')
						return totals.record(rec)
					}
					out, err := sim.Run(t.Context(), inst, p, cfg)
					return out, string(text), totals, err
				}
				out, log, totals, err := run()
				if errors.Is(err, sim.ErrStalled) && seed%4 == 3 {
					stalled++ // the windows of the GPUs are over before the jobs can end
					continue
				}
				if err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, log)
				}
				if _, other, _, _ := run(); other != log {
					t.Fatalf("seed %d: another log", seed)
				}
				totals.check(t, out)
				failures, lost, switches = failures+int(out.Failures), lost+int(out.Lost), switches+int(out.SwitchUs)
				if out.Varied > 0 {
					varied++
					if _, err := out.Result(inst, nil); err == nil || out.Schedule != nil {
						t.Fatalf("seed %d: a schedule of varied times", seed)
					}
				}
				if out.Schedule == nil {
					continue
				}
				res, err := out.Result(inst, nil)
				if err != nil {
					t.Fatal(err)
				}
				if rep := verify.Check(inst, res); !rep.OK {
					t.Fatalf("seed %d: %v\n%+v\n%s", seed, rep, cfg, log)
				}
				verified++
			}
			if n > 50 && (verified < 20 || varied < 20 || failures == 0 || lost == 0 || switches == 0) ||
				stalled > int(n)/8 {
				t.Errorf("%d verified, %d varied, %d failures, %d lost, %d µs switched, %d stalled", verified, varied,
					failures, lost, switches, stalled)
			}
		})
	}
}
