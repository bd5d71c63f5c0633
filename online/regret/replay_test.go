package regret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/regret"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

// played is a session that the simulator plays: its log, and what happened.
type played struct {
	h       *regret.Hindsight
	report  *regret.Report
	outcome *sim.Outcome
}

func play(t *testing.T, inst *hare.Instance, name string, cfg sim.Config) *played {
	t.Helper()
	p, err := registry.OpenSession(name, sim.Cluster(inst), nil)
	if err != nil {
		t.Fatal(err)
	}
	out := &played{h: regret.NewHindsight(sim.Cluster(inst))}
	cfg.Log = func(r wire.Record) error {
		if r.Event.Arrived != nil {
			spec := *r.Event.Arrived
			r.Event.Arrived = &spec
		}
		return out.h.Add(r)
	}
	if out.outcome, err = sim.Run(t.Context(), inst, p, cfg); err != nil {
		t.Fatal(name, err)
	}
	if out.report, err = regret.Of(t.Context(), out.h, bound); err != nil {
		t.Fatal(err)
	}
	return out
}

// alike are policies whose decisions depend on nothing but the events of a session.
var alike = []string{"fifo", "hlas", "hgittins", "gavel_fifo", "kueue", "tiresias", "srtf", "easy_backfill",
	"gandiva"}

// A replay under the session's own policy gives what happened, also where tasks take
// other times than their profiles say and where tasks fail and GPUs leave. A replay under
// another policy is not better than the bound.
func TestReplayUnderTheSamePolicy(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 8
	}
	failed, left := int64(0), 0.0
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 0x72))
		inst := replayInstance(rng)
		cfg := sim.Config{Seed: seed, Stretch: twice{}}
		if seed%3 == 2 {
			cfg.Failures = sim.FailureRate{Probability: 0.05}
		}
		if seed%3 == 1 {
			cfg.FaultRate = sim.FaultRate{GPUMeanUs: 60e6, GPURepairUs: 5e6}
		}
		name := alike[rng.IntN(len(alike))]
		s := play(t, inst, name, cfg)
		failed, left = failed+s.outcome.Failures, left+s.outcome.DownUs
		for _, other := range []string{name, alike[rng.IntN(len(alike))]} {
			r := *s.report
			if err := r.Against(t.Context(), s.h, other, nil, registry.OpenSession); err != nil {
				t.Fatalf("seed %d, %s against %s: %v", seed, name, other, err)
			}
			rp := r.Replay
			if rp.Session.WeightedJCT.Cmp(r.Achieved) != 0 {
				t.Errorf("seed %d: the session has %s and %s", seed, rp.Session.WeightedJCT, r.Achieved)
			}
			if other == name && rp.Figures != rp.Session {
				t.Errorf("seed %d, %s: %+v happened, the replay gives %+v (%+v)", seed, name, rp.Session, rp.Figures, rp.Notes)
			}
			if !rp.Beyond && rp.Stalled == 0 && rp.Figures.WeightedJCT.Cmp(r.Bound) < 0 {
				t.Errorf("seed %d, %s against %s: %s is below the bound %s", seed, name, other, rp.Figures.WeightedJCT, r.Bound)
			}
		}
	}
	if failed == 0 || left == 0 {
		t.Errorf("%d tasks failed and GPUs were away for %v µs", failed, left)
	}
}

// A replay sends the ticks for which its policy asks. The virtual machine of asrpt completes j1, of which it
// expects more rounds than one, while nothing happens: j0 computes for a day in one round.
func TestReplaySendsTicks(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{v100("a", 2)}}}
	for i, us := range []int64{86_400e6, 8e6} {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 1e6, Tasks: 1, Rounds: 1,
			Sync: hare.Rigid, On: []hare.Profile{{Type: "V100", ComputeUs: us}}})
	}
	s := play(t, inst, "asrpt", sim.Config{})
	if start := s.outcome.Jobs[1].StartUs; start == 0 || start >= 86_400e6 {
		t.Fatalf("j1 starts at %d", start)
	}
	r := *s.report
	if err := r.Against(t.Context(), s.h, "asrpt", nil, registry.OpenSession); err != nil {
		t.Fatal(err)
	}
	if r.Replay.Figures != r.Replay.Session {
		t.Errorf("%+v happened, the replay gives %+v", r.Replay.Session, r.Replay.Figures)
	}
}

// twice lets compute take up to twice as long.
type twice struct{}

func (twice) Draw(r *rand.Rand) float64 { return 1 + r.Float64() }

// replayInstance is a small instance whose events seldom have the same time.
func replayInstance(rng *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{
		{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 2}}},
		{Name: "b", GPUs: []hare.TypeCount{{Type: "B", Count: 3}}},
	}}}
	for i := range 4 + rng.IntN(8) {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 1e6 * (1 + rng.Int64N(3)),
			Rounds: 1 + rng.Int64N(4), Tasks: 1 + rng.Int64N(2), Sync: hare.Sync(rng.IntN(3)), ReleaseUs: rng.Int64N(20e6),
			On: []hare.Profile{{Type: "A", ComputeUs: 1e6 + rng.Int64N(2e6), SyncUs: 1 + rng.Int64N(1e5)},
				{Type: "B", ComputeUs: 1e6 + rng.Int64N(4e6), SyncUs: 1 + rng.Int64N(1e5)}}})
	}
	return inst
}

// The figures of a replay that is computed by hand: one GPU, a long job before a short
// one. fifo finishes the long one first; under srtf the short one is as good, since nobody
// knows sizes yet, and gandiva switches after a slice.
func TestReplayByHand(t *testing.T) {
	b := newBook(t, v100("a", 1))
	b.add(`{"at_s":0,"type":"job_arrived","job":{"id":"long","on":{"V100":{}}}}`, "long 0 0 a/0 0")
	b.add(`{"at_s":1,"type":"job_arrived","job":{"id":"short","weight":3,"on":{"V100":{}}}}`)
	for i := range 3 {
		at := 40 * (i + 1)
		b.add(fmt.Sprintf(`{"at_s":%d,"type":"task_ended","job":"long","round":%d,"task":0,"gpu":"a/0","compute_s":40}`,
			at, i), fmt.Sprintf("long %d 0 a/0 %d", i+1, at))
	}
	b.add(`{"at_s":120,"type":"job_ended","job":"long"}`, "short 0 0 a/0 120")
	b.add(`{"at_s":130,"type":"task_ended","job":"short","round":0,"task":0,"gpu":"a/0","compute_s":10}`,
		"short 1 0 a/0 130")
	b.add(`{"at_s":130,"type":"job_ended","job":"short"}`)
	r, err := regret.Of(t.Context(), b.h, bound)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]regret.Figures{
		"gavel_fifo": {WeightedJCT: hare.Product(1e6, (120+3*129)*1e6), MeanJCTS: (120 + 129) / 2.0, P99Slowdown: 12.9},
		"gandiva":    {WeightedJCT: hare.Product(1e6, (130+3*89)*1e6), MeanJCTS: (130 + 89) / 2.0, P99Slowdown: 8.9},
	} {
		if err := r.Against(t.Context(), b.h, name, nil, registry.OpenSession); err != nil {
			t.Fatal(err)
		}
		got := r.Replay.Figures
		if got.WeightedJCT.Cmp(want.WeightedJCT) != 0 || got.MeanJCTS != want.MeanJCTS ||
			math.Abs(got.P99Slowdown-want.P99Slowdown) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if want := hare.Product(1e6, (120+3*129)*1e6); r.Replay.Session.WeightedJCT.Cmp(want) != 0 {
			t.Errorf("the session has %s, want %s", r.Replay.Session.WeightedJCT, want)
		}
	}
	var text bytes.Buffer
	if err := r.EncodeJSON(&text, false); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Against struct {
			Policy      string
			WeightedJCT float64 `json:"weighted_jct"`
			Regret      float64
			Session     struct {
				WeightedJCT float64 `json:"weighted_jct"`
			}
			Holds string
		}
	}
	if err := json.Unmarshal(text.Bytes(), &doc); err != nil || doc.Against.Session.WeightedJCT != 507 ||
		doc.Against.Regret < 1 || doc.Against.Holds == "" {
		t.Errorf("%v: %s", err, &text)
	}
}

// GPUs that joined later are there in a replay from that time on, and jobs whose GPUs had
// left for ever before the other policy ran them are counted.
func TestReplayOfGPUsThatComeAndGo(t *testing.T) {
	b := newBook(t, v100("a", 1))
	b.add(`{"at_s":0,"type":"job_arrived","job":{"id":"y","on":{"V100":{"compute_s":8},"T4":{"compute_s":10}}}}`)
	b.add(`{"at_s":0,"type":"gpu_joined","gpu":"b/7","gpu_type":"T4"}`, "y 0 0 b/7 0")
	b.add(`{"at_s":1,"type":"job_arrived","job":{"id":"x","on":{"V100":{"compute_s":5}}}}`, "x 0 0 a/0 1")
	b.add(`{"at_s":6,"type":"task_ended","job":"x","round":0,"task":0,"gpu":"a/0","compute_s":5}`, "x 1 0 a/0 6")
	b.add(`{"at_s":6,"type":"job_ended","job":"x"}`)
	b.add(`{"at_s":6,"type":"gpu_left","gpu":"a/0"}`)
	b.add(`{"at_s":10,"type":"task_ended","job":"y","round":0,"task":0,"gpu":"b/7","compute_s":10}`, "y 1 0 b/7 10")
	b.add(`{"at_s":10,"type":"job_ended","job":"y"}`)
	b.add(`{"at_s":11,"type":"gpu_joined","gpu":"c/0","gpu_type":"V100"}`)
	b.add(`{"at_s":12,"type":"job_arrived","job":{"id":"x","on":{"V100":{}}}}`, "x 0 0 c/0 12")
	b.add(`{"at_s":14,"type":"task_ended","job":"x","round":0,"task":0,"gpu":"c/0","compute_s":2}`, "x 1 0 c/0 14")
	b.add(`{"at_s":14,"type":"job_ended","job":"x"}`)
	r, err := regret.Of(t.Context(), b.h, bound)
	if err != nil {
		t.Fatal(err)
	}
	// T4 comes before V100 by name, and y is the first: what happened. By speed y takes the
	// V100 until it leaves, begins again on the T4 at 6, and x waits until 11.
	for name, want := range map[string]int64{"kueue": 10 + 5 + 2, "gavel_fifo": 16 + (16 - 1) + 6} {
		if err := r.Against(t.Context(), b.h, name, nil, registry.OpenSession); err != nil {
			t.Fatal(err)
		}
		if got := r.Replay.Figures.WeightedJCT; got.Cmp(hare.Product(1e6, want*1e6)) != 0 || r.Replay.Stalled != 0 {
			t.Errorf("%s: %s, want %d (%v)", name, got, want, r.Replay.Notes)
		}
	}
	b.add(`{"at_s":15,"type":"gpu_left","gpu":"c/0"}`)
	if r, err = regret.Of(t.Context(), b.h, bound); err != nil {
		t.Fatal(err)
	}
	if err := r.Against(t.Context(), b.h, "gavel_fifo", nil, registry.OpenSession); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.EncodeJSON(&text, false); err != nil || r.Replay.Stalled != 2 ||
		!bytes.Contains(text.Bytes(), []byte(`"weighted_jct":null,"mean_jct_s":null,"p99_slowdown":null,"regret":null,`)) {
		t.Errorf("%v %+v\n%s", err, r.Replay, &text)
	}
}
