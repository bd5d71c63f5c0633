package rolling_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/verify"
)

// FuzzTake gives a session any bytes as a plan: they are refused and change nothing, or
// the session goes on and can be restored.
func FuzzTake(f *testing.F) {
	cluster := &hare.Cluster{Nodes: []hare.Node{{Name: "n", GPUs: []hare.TypeCount{v100, t4}}}}
	p, err := registry.OpenSession("rolling", cluster, []byte(aside))
	if err != nil {
		f.Fatal(err)
	}
	for i, id := range []string{"a", "b", "c"} {
		j := &hare.Job{ID: id, WeightMicro: 1e6, Tasks: int64(1 + i%2), Sync: hare.Sync(i), On: []hare.Profile{onV, onT}}
		if _, err := p.Step(3e6, []hare.Event{{Type: hare.EventJobArrived, Job: id, Arrived: j}}); err != nil {
			f.Fatal(err)
		}
	}
	plan, err := p.(online.Planned).Ask().Answer(context.Background())
	if err != nil {
		f.Fatal(err)
	}
	snapshot := p.AppendSnapshot(nil)
	f.Add(plan)
	for _, c := range []struct{ old, new string }{
		{`"number":3`, `"number":9`}, {`"V100":2`, `"V100":-1`}, {`"round":1`, `"round":9e18`}, {`"b"`, `"a"`},
		{`"start_s"`, `"start_s":1,"start_s"`}, {`"rows":[`, `"rows":[[`}, {`"value":`, `"value":1e40`},
		{`"grid_us":[0`, `"grid_us":[`}, {"}", ""},
	} {
		f.Add([]byte(strings.Replace(string(plan), c.old, c.new, 1)))
	}
	f.Fuzz(func(t *testing.T, plan []byte) {
		p, err := registry.RestoreSession("rolling", snapshot)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.(online.Planned).Take(plan); err != nil {
			if invalid, ok := errors.AsType[*hare.InvalidError](err); !ok || invalid.Code == "" || invalid.Detail == "" {
				t.Fatalf("%v", err)
			}
			if !bytes.Equal(p.AppendSnapshot(nil), snapshot) {
				t.Fatal("refused, and the state has changed")
			}
			return
		}
		p.(online.Planned).Plan()
		for _, e := range []hare.Event{{Type: hare.EventTick}, {Type: hare.EventGPULeft, GPU: "n/0"},
			{Type: hare.EventJobArrived, Job: "d", Arrived: &hare.Job{ID: "d", Tasks: 2, On: []hare.Profile{onT}}}} {
			again, err := registry.RestoreSession("rolling", p.AppendSnapshot(nil))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Step(4e6, []hare.Event{e}); err != nil {
				t.Fatal(err)
			}
			if _, err := again.Step(4e6, []hare.Event{e}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again.AppendSnapshot(nil), p.AppendSnapshot(nil)) {
				t.Fatal("restored, the policy decides otherwise")
			}
		}
		p.(online.Planned).Plan()
	})
}

// liar is a policy whose planner lies: some figures of each plan are wrong.
type liar struct {
	*rolling.Policy
	rng            *rand.Rand
	taken, refused int
}

var startS = regexp.MustCompile(`"start_s":[0-9.]+`)

func (li *liar) Take(plan []byte) error {
	text := startS.ReplaceAllFunc(plan, func(b []byte) []byte {
		if li.rng.IntN(3) > 0 {
			return b
		}
		return strconv.AppendInt([]byte(`"start_s":`), 200+li.rng.Int64N(50), 10)
	})
	for range li.rng.IntN(3) {
		if names := [][2]string{{`{"V100"`, `{"T4"`}, {`{"T4"`, `{"K80"`}, {`{"K80"`, `{"V100"`}}; li.rng.IntN(2) == 0 {
			name := names[li.rng.IntN(len(names))]
			head, tail, _ := strings.Cut(string(text), `"jobs"`)
			text = []byte(head + `"jobs"` + strings.Replace(tail, name[0], name[1], 1+li.rng.IntN(3)))
		}
	}
	err := li.Policy.Take(text)
	if err == nil {
		li.taken++
		return nil
	}
	li.refused++
	if _, ok := errors.AsType[*hare.InvalidError](err); ok {
		return nil
	}
	return err
}

// Whatever plans say, and however late they are, every decision keeps the constraints of
// the model, which the simulator and the verifier check, and every job ends.
func TestLyingPlanners(t *testing.T) {
	taken, refused := 0, 0
	for seed := range uint64(40) {
		inst := stream(seed, 10)
		li := &liar{Policy: rolling.New(sim.Cluster(inst), rolling.Config{Aside: true, MaxAgeUs: 20e6}),
			rng: rand.New(rand.NewPCG(seed, 10))}
		out, err := sim.Run(t.Context(), inst, li, sim.Config{PlanLatencyUs: 1 + int64(seed%4)*1e6})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if res, err := out.Result(inst, nil); err == nil { // otherwise a rigid job has moved
			if rep := verify.Check(inst, res); !rep.OK {
				t.Fatalf("seed %d: %s", seed, rep)
			}
		}
		taken, refused = taken+li.taken, refused+li.refused
	}
	if taken < 200 || refused < 50 {
		t.Errorf("%d plans were taken and %d refused: the lies show little", taken, refused)
	}
}
