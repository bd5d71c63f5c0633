package online

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
)

var small = transcript.Cluster("a=1T4,2V100")

func onBoth() []hare.Profile {
	return []hare.Profile{{Type: "T4", ComputeUs: 2e6}, {Type: "V100", ComputeUs: 1e6}}
}

func TestRefusals(t *testing.T) {
	arrive := func(j hare.Job) hare.Event { return hare.Event{Type: hare.EventJobArrived, Arrived: &j} }
	many := hare.Job{ID: "x", Tasks: 1}
	for i := range 64 {
		many.On = append(many.On, hare.Profile{Type: string(rune('a' + i))})
	}
	end := hare.Event{Type: hare.EventTaskEnded, Job: "j", GPU: "a/1"}
	with := func(change func(e *hare.Event)) hare.Event { e := end; change(&e); return e }
	for _, c := range []struct {
		name, pointer, code string
		e                   hare.Event
	}{
		{"type", "/type", "unknown_type", hare.Event{Type: 99}},
		{"no job", "/job", "missing_field", hare.Event{Type: hare.EventJobArrived}},
		{"no id", "/job/id", "missing_field", arrive(hare.Job{Tasks: 1, On: onBoth()})},
		{"two ids", "/job/id", "bad_id", hare.Event{Type: hare.EventJobArrived, Job: "y",
			Arrived: &hare.Job{ID: "x", Tasks: 1, On: onBoth()}}},
		{"id twice", "/job/id", "duplicate_id", arrive(hare.Job{ID: "j", Tasks: 1, On: onBoth()})},
		{"no tasks", "/job/tasks", "out_of_range", arrive(hare.Job{ID: "x", On: onBoth()})},
		{"too wide", "/job/tasks", "out_of_range",
			arrive(hare.Job{ID: "x", Tasks: 1 << 30, Sync: hare.Gang, On: onBoth()})},
		{"sync", "/job/sync", "bad_value", arrive(hare.Job{ID: "x", Tasks: 1, Sync: 7, On: onBoth()})},
		{"mix", "/job/mix", "not_allowed", arrive(hare.Job{ID: "x", Tasks: 1, Mix: true, On: onBoth()})},
		{"no profile", "/job/on", "missing_field", arrive(hare.Job{ID: "x", Tasks: 1})},
		{"profile twice", "/job/on", "duplicate_name",
			arrive(hare.Job{ID: "x", Tasks: 1, On: append(onBoth(), onBoth()...)})},
		{"negative time", "/job/on", "out_of_range",
			arrive(hare.Job{ID: "x", Tasks: 1, On: []hare.Profile{{Type: "T4", ComputeUs: -1}}})},
		{"types", "/job/on", "too_many_types", arrive(many)},
		{"unknown job", "/job", "unknown_job", with(func(e *hare.Event) { e.Job = "x" })},
		{"round", "/round", "wrong_round", with(func(e *hare.Event) { e.Round = 7 })},
		{"task", "/gpu", "not_running", with(func(e *hare.Event) { e.Task = 1 })},
		{"gpu", "/gpu", "not_running", with(func(e *hare.Event) { e.GPU = "a/2" })},
		{"no such gpu", "/gpu", "not_running", with(func(e *hare.Event) { e.GPU = "z/9" })},
		{"measured", "/compute_s", "out_of_range", with(func(e *hare.Event) { e.ComputeUs = -1 })},
		{"failed elsewhere", "/gpu", "not_running",
			with(func(e *hare.Event) { e.Type, e.GPU = hare.EventTaskFailed, "a/0" })},
		{"end unknown", "/job", "unknown_job", hare.Event{Type: hare.EventJobEnded, Job: "x"}},
		{"join without name", "/gpu", "missing_field", hare.Event{Type: hare.EventGPUJoined, GPUType: "T4"}},
		{"join without type", "/gpu_type", "missing_field", hare.Event{Type: hare.EventGPUJoined, GPU: "b/0"}},
		{"join twice", "/gpu", "duplicate_id", hare.Event{Type: hare.EventGPUJoined, GPU: "a/0", GPUType: "T4"}},
		{"leave unknown", "/gpu", "unknown_gpu", hare.Event{Type: hare.EventGPULeft, GPU: "b/0"}},
	} {
		h, err := NewHLAS(small, HLASConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Step(1e6, []hare.Event{arrive(hare.Job{ID: "j", Tasks: 1, On: onBoth()})}); err != nil {
			t.Fatal(err)
		}
		before := h.AppendSnapshot(nil)
		_, err = h.Step(2e6, []hare.Event{c.e})
		var r *RefusedError
		if !errors.As(err, &r) || r.Err.Pointer != c.pointer || r.Err.Code != c.code || r.Err.Detail == "" {
			t.Errorf("%s: %v", c.name, err)
		}
		if !bytes.Equal(before, h.AppendSnapshot(nil)) {
			t.Errorf("%s: a refused event changes the state", c.name)
		}
		ds, err := h.Step(2e6, []hare.Event{{Type: hare.EventTick}, end, c.e, {Type: hare.EventJobEnded, Job: "j"}})
		if !errors.As(err, &r) || r.Index != 2 || len(ds) != 1 {
			t.Errorf("%s: third of four: %v, %v", c.name, ds, err)
		}
		for _, now := range []int64{-1, 1e6 - 1, math.MaxInt64} {
			if _, err := h.Step(now, []hare.Event{{Type: hare.EventTick}}); refused(err) != "time_out_of_order" {
				t.Errorf("time %d: %v", now, err)
			}
		}
	}
}

func TestConfigFaults(t *testing.T) {
	for _, c := range []struct{ raw, pointer string }{
		{`{"queues": 17}`, "/queues"},
		{`{"queues": -1}`, "/queues"},
		{`{"queues": 3, "thresholds_s": [1]}`, "/thresholds_s"},
		{`{"thresholds_s": []}`, "/thresholds_s"},
		{`{"queues": 3, "thresholds_s": [2, 2]}`, "/thresholds_s/1"},
		{`{"thresholds_s": [0]}`, "/thresholds_s/0"},
		{`{"thresholds_s": [1.0000001]}`, "/thresholds_s/0"},
		{`{"kappa": -1}`, "/kappa"},
		{`{"kappa": 1e7}`, "/kappa"},
		{`{"kapa": 1}`, "/kapa"},
		{`{"kappa": "1"}`, "/kappa"},
		{`{} {}`, ""},
		{`[`, ""},
	} {
		_, err := ParseHLASConfig([]byte(c.raw))
		var inv *hare.InvalidError
		if !errors.As(err, &inv) || inv.Pointer != c.pointer {
			t.Errorf("%s: %v", c.raw, err)
		}
	}
	cfg, err := ParseHLASConfig([]byte(`{"queues": 3, "thresholds_s": [1.5, 20], "kappa": 0.5, "reference": "V100"}`))
	if err != nil || cfg.ThresholdsUs[0] != 1_500_000 || cfg.Kappa != 0.5 || cfg.Reference != "V100" {
		t.Errorf("%+v, %v", cfg, err)
	}
	for _, n := range []int{0, 1, 16} {
		if _, err := (HLASConfig{Queues: n}).params(); err != nil {
			t.Errorf("%d queues: %v", n, err)
		}
	}
	for _, kappa := range []float64{math.NaN(), math.Inf(1), 1e-9} {
		if _, err := NewHLAS(small, HLASConfig{Kappa: kappa}); err == nil {
			t.Errorf("kappa %g is taken", kappa)
		}
	}
	for name, cl := range map[string]*hare.Cluster{
		"node twice": {Nodes: []hare.Node{small.Nodes[0], small.Nodes[0]}},
		"no name":    {Nodes: []hare.Node{{GPUs: small.Nodes[0].GPUs}}},
		"windows": {Nodes: []hare.Node{{Name: "a", GPUs: small.Nodes[0].GPUs,
			Windows: []hare.Window{{StartUs: 0, EndUs: 1}}}}},
		"huge": {Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "T4", Count: math.MaxInt}}}}},
	} {
		if _, err := NewFIFO(cl); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// Truncated and altered snapshots are errors. So are snapshots with a right checksum that
// contradict themselves.
func TestBadSnapshots(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for seed := range uint64(40) {
		w, cl := newWorld(rand.New(rand.NewPCG(seed, 5)))
		h, _ := NewHLAS(cl, randomConfig(r))
		for range 60 {
			e := w.event()
			ds, err := h.Step(w.now, []hare.Event{e})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.follow(&e, ds); err != nil {
				t.Fatal(err)
			}
		}
		good := h.AppendSnapshot(nil)
		for range 50 {
			bad := bytes.Clone(good)
			bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
			if _, err := RestoreHLAS(bad); err == nil {
				t.Fatal("an altered snapshot is restored")
			}
			if _, err := RestoreHLAS(good[:r.IntN(len(good))]); err == nil {
				t.Fatal("a torn snapshot is restored")
			}
			reseal(bad)
			useAnyway(w, bad)
		}
	}
}

// reseal gives an altered snapshot the right checksum.
func reseal(b []byte) {
	n := len(b) - 32
	if n < 0 {
		return
	}
	sum := checksum(b[:n])
	copy(b[n:], sum[:])
}

// useAnyway runs a policy from a snapshot that may be false. The policy may decide anything
// but must not panic.
func useAnyway(w *world, snapshot []byte) {
	h, err := RestoreHLAS(snapshot)
	if err != nil {
		return
	}
	_, _ = h.Step(h.c.nowUs, []hare.Event{{Type: hare.EventTick}})
	for _, e := range h.c.someRunning(8) {
		_, _ = h.Step(h.c.nowUs, []hare.Event{e})
	}
	for _, g := range w.names {
		_, _ = h.Step(h.c.nowUs+5, []hare.Event{{Type: hare.EventGPULeft, GPU: g}})
	}
	for _, id := range w.ids {
		h.Explain(id)
		_, _ = h.Step(h.c.nowUs+5, []hare.Event{{Type: hare.EventJobEnded, Job: id}})
	}
	_, _ = RestoreHLAS(h.AppendSnapshot(nil))
}

// The adoption of decisions that cannot belong to the state is an error, never a panic.
func TestAdoptGarbage(t *testing.T) {
	taken, failed := 0, 0
	for seed := range uint64(streams(t, 600)) {
		r := rand.New(rand.NewPCG(seed, 6))
		w, cl := newWorld(r)
		cfg := randomConfig(r)
		h, _ := NewHLAS(cl, cfg)
		for range 60 {
			e := w.event()
			before := h.AppendSnapshot(nil)
			ds, err := h.Step(w.now, []hare.Event{e})
			if err != nil {
				t.Fatal(err)
			}
			if len(ds) > 0 {
				bad := append([]hare.Decision(nil), ds...)
				d := &bad[r.IntN(len(bad))]
				switch r.IntN(8) {
				case 0:
					d.GPU = pick(r, w.names)
				case 1:
					d.Task += int64(r.IntN(3)) - 1
				case 2:
					d.Round++
				case 3:
					d.AtUs++
				case 4:
					d.Type ^= 1
				case 5:
					bad = bad[:len(bad)-1]
				case 6:
					bad = append(bad, *d)
				case 7:
					d.Job = pick(r, w.ids)
				}
				other, err := RestoreHLAS(before)
				if err != nil {
					t.Fatal(err)
				}
				if err := other.Adopt(w.now, e, bad); err != nil {
					failed++
				} else {
					taken++
					if _, err := RestoreHLAS(other.AppendSnapshot(nil)); err != nil {
						t.Fatalf("seed %d: adopting %v on %+v gives a state that contradicts itself: %v", seed, bad,
							e, err)
					}
					if _, err := other.Step(w.now, []hare.Event{{Type: hare.EventTick}}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := w.follow(&e, ds); err != nil {
				t.Fatal(err)
			}
		}
	}
	if taken == 0 || failed == 0 {
		t.Errorf("%d taken, %d failed", taken, failed)
	}
}

func pick(r *rand.Rand, from []string) string {
	if len(from) == 0 {
		return ""
	}
	return from[r.IntN(len(from))]
}
